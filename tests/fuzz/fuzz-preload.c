/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A NodeImage into which a request is to be written, from an attacker
 *
 * Whatever it says, the request has a version that is about nothing else, and what is written or taken back is about
 * its images alone.
 */

#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/preload-plan.h"
#include "tests/fuzz/fuzz.h"

static void check_patch(PreloadNode *node) {
        cleanup(json_object_put_p) json_object *patch = NULL;

        check(preload_node_patch(node, &patch) == 0);
        if (!patch)
                return;

        json_object_object_foreach(json_get(json_get(patch, "spec", json_type_object), "images",
                                            json_type_object),
                                   name, image) {
                (void) image;
                check(strcmp(name, "nginx") == 0 || strcmp(name, "quay.io/a~b/c") == 0);
        }
}

static void check_reasons(const PreloadPull *pull) {
        cleanup(preload_reasons_done) PreloadReasons reasons = PRELOAD_REASONS_INIT;
        cleanup(free_p) char *text = NULL;

        for (size_t i = 0; pull->message && i < 8; i++)
                check(preload_reasons_add(&reasons, "node", pull->message) == 0);
        check(preload_reasons_format(&reasons, &text) == 0);
        check(!pull->message == !*text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(json_object_put_p) json_object *secrets =
                json_tokener_parse("{\"pull\":null,\"other\":null}");
        const PreloadImage images[] = { { (char *) "nginx", (char *) "1" },
                                        { (char *) "nginx", (char *) "2" },
                                        { (char *) "quay.io/a~b/c", (char *) "sha256:1" } };
        PreloadTask task = { .images = images,
                             .n_images = sizeof(images) / sizeof(images[0]),
                             .namespace = "team",
                             .secrets = secrets,
                             .ttl_sec = 3600,
                             .now_sec = 1769904000 };
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(preload_node_done) PreloadNode node = { .task = &task };

        if (json_parse((const char *) data, size, &object, NULL) < 0)
                return 0;

        check(preload_node_init(&node, &task, "node-1") == 0);
        check(preload_node_read(&node, object) == 0);
        for (size_t i = 0; i < task.n_images; i++) {
                const PreloadPull *pull = &node.pulls[i];

                check(pull->phase < _PRELOAD_PHASE_MAX);
                check(pull->next_version != pull->version || pull->phase == PRELOAD_ABSENT);
                check_reasons(pull);
        }
        check_patch(&node);
        task.mode = PRELOAD_WITHDRAW;
        check_patch(&node);
        return 0;
}
