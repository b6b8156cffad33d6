/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Facts about the images of a node, with a runtime that has them as the test says
 */

#include "agent/api/diagnosis.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/unit.h"

#define ID "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"
#define PART "{\"digest\":\"sha256:layer\",\"size\":4000000,\"fetchedSize\":1000000}\n"

typedef struct Fixture {
        sd_event *event;
        Log *log;
        CompletionQueue *completions;
        Images *images;
        char fact[256]; /* text about layers that are fetched on demand */
} Fixture;

/* In place of those of cri/runtimes.h, like the ones of fake-runtime.h. */
bool runtime_is_silent(const Runtime *runtime) {
        return false;
}

RuntimeState runtime_state(const Runtime *runtime) {
        return RUNTIME_READY;
}

static void open_fixture(Fixture *fixture) {
        ImagesOptions options;

        fake_runtime_reset();
        fake_runtime.shows_layers = true;
        assert_true(sd_event_new(&fixture->event) >= 0);
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &fixture->log));
        assert_ok(completion_queue_new(fixture->event, &fixture->completions));
        options = idle_images_options(fixture->completions, fixture->log, NULL);
        assert_ok(images_new(&options, &fixture->images));
}

static void close_fixture(Fixture *fixture) {
        images_free(fixture->images);
        completion_queue_free(fixture->completions);
        log_free(fixture->log);
        sd_event_unref(fixture->event);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        fail_msg("%s: %s", subject, message);
        return 0;
}

static int on_fact(const char *subject, const char *value, void *userdata) {
        Fixture *fixture = userdata;

        assert_string_equal(subject, "fetched on demand");
        (void) snprintf(fixture->fact, sizeof(fixture->fact), "%s", value);
        return 0;
}

static const char *find_fact(Fixture *fixture) {
        const DiagnosisVisitor visitor = { .on_problem = on_problem,
                                           .on_fact = on_fact,
                                           .userdata = fixture };

        assert_ok(diagnosis_visit(&(DiagnosisSubject){ .images = fixture->images }, &visitor));
        return fixture->fact;
}

/* The layers of an image may be a single one. */
TEST_F(test_layers_on_demand, Fixture *fixture) {
        DesiredImage desired;

        assert_string_equal(find_fact(fixture), "");
        assert_ok(desired_image_init(&desired, "a", "1"));
        desired.policy = PULL_POLICY_IF_NOT_PRESENT;
        assert_ok(images_set_desired(fixture->images, "file/x",
                                     &(DesiredImages){ .items = &desired, .n_items = 1 },
                                     REQUEST_DESIRED));
        desired_image_done(&desired);
        while (!fake_runtime_find("ImageStatus"))
                assert_true(sd_event_run(fixture->event, WAIT_USEC) > 0);
        fake_runtime_answer_status(ID);
        fake_runtime_answer_layers(PART);
        assert_contains(find_fact(fixture),
                        "layers of 1 images: 1.0 of 4.0 MB are on the node, and for 0 images ");
}
