/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The local API on a node with images, and with a runtime that the test plays
 *
 * To be included once.
 */

#include "agent/node/owner.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/played-caller.h"

typedef struct Fixture {
        sd_event *event;
        CompletionQueue *completions;
        Api api;
        DiagnosisSubject subject;
        unsigned n_changes;
} Fixture;

/* In place of those of cri/runtimes.h. */
bool runtime_is_silent(const Runtime *runtime) {
        return false;
}

RuntimeState runtime_state(const Runtime *runtime) {
        return fake_runtime.is_away ? RUNTIME_ABSENT : RUNTIME_READY;
}

const char *runtime_path(const Runtime *runtime) {
        return "/c.sock";
}

const char *runtime_api_version(const Runtime *runtime) {
        return "v1";
}

static inline void on_changed(void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_changes++;
}

static inline void open_fixture(Fixture *fixture) {
        ImagesOptions options;

        fake_runtime_reset();
        assert_true(sd_event_new(&fixture->event) >= 0);
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &fixture->api.log));
        assert_ok(completion_queue_new(fixture->event, &fixture->completions));
        options = idle_images_options(fixture->completions, fixture->api.log, NULL);
        options.keys.ask = idle_images_ask_keys;
        assert_ok(images_new(&options, &fixture->api.images));
        fixture->subject.images = fixture->api.images;
        fixture->api.completions = fixture->completions;
        fixture->api.subject = &fixture->subject;
        fixture->api.node_name = (char *) "n1";
        fixture->api.on_changed = on_changed;
        fixture->api.userdata = fixture;
}

static inline void close_fixture(Fixture *fixture) {
        images_free(fixture->api.images);
        completion_queue_free(fixture->completions);
        log_free(fixture->api.log);
        fake_clock_done();
        sd_event_unref(fixture->event);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static inline void desire(Fixture *fixture, const char *owner, const char *name, const char *tag) {
        DesiredImage desired;

        assert_ok(desired_image_init(&desired, name, tag));
        desired.policy = PULL_POLICY_IF_NOT_PRESENT;
        assert_ok(images_set_desired(fixture->api.images, owner,
                                     &(DesiredImages){ .items = &desired, .n_items = 1 },
                                     REQUEST_DESIRED));
        desired_image_done(&desired);
        fake_clock_turn(fixture->event);
}
