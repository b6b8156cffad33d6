/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An API server with NodeImages, that the test plays
 */

#include "agent/document/json-reader.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/quoted-json.h"

static inline void node_image_server_answer(const char *path, const char *body) {
        cleanup(json_object_put_p) json_object *json = parse("%s", body);

        assert_ok(fake_kube_answer_call(fake_kube_find("GET", path), 200, json_to_text(json)));
}

/* Answers the questions for the API of NodeImages. */
static inline void node_image_server_discover(void) {
        node_image_server_answer("/apis/apps.kruise.io", "{'versions':[{'version':'v1beta1'}]}");
        node_image_server_answer(
                "/apis/apps.kruise.io/v1beta1",
                "{'resources':[{'name':'nodeimages'},{'name':'nodeimages/status'}]}");
}

/* The watch whose path has this part shows the event. */
static inline void node_image_server_show(const char *watch, json_object *event) {
        cleanup(free_p) char *line = NULL;

        assert_true(asprintf(&line, "%s\n", json_to_text(event)) > 0);
        assert_ok(fake_kube_send(fake_kube_find("GET", watch), line, strlen(line)));
        fake_clock_turn(fake_kube.event);
}
