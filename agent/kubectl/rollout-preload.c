/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-preload.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/terminal.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/agents.h"
#include "agent/kubectl/preload.h"
#include "agent/kubectl/rollout-pod-plan.h"

/* Copies: while requests are answered, the view is brought up to date. */
typedef struct Texts {
        char **items;
        size_t n;
} Texts;

static void texts_done(Texts *texts) {
        for (size_t i = 0; i < texts->n; i++)
                free(texts->items[i]);
        free(texts->items);
}

static int texts_add(Texts *texts, const char *text) {
        char **items;

        for (size_t i = 0; i < texts->n; i++)
                if (strcmp(texts->items[i], text) == 0)
                        return 0;
        items = reallocarray(texts->items, texts->n + 1, sizeof(*items));
        if (!items)
                return -ENOMEM;
        texts->items = items;
        items[texts->n] = strdup(text);
        return items[texts->n] ? (texts->n++, 0) : -ENOMEM;
}

/* Nodes of pods that will be updated, and that have an agent which pulls images. */
static int find_nodes(const RolloutWatch *watch, json_object *record, Texts *ret, Error *reterr) {
        cleanup(texts_done) Texts nodes = { .n = 0 };
        const char *version;
        int r = agents_find_version(watch->session, &version, reterr);

        if (r < 0 || !version)
                return r;
        json_object_object_foreach(watch->view.pods, name, pod) {
                const char *node = object_text(pod, "spec.nodeName"), *reason;

                (void) name;
                if (node && rollout_phase(&watch->view, record, pod, &reason) == ROLLOUT_OLD &&
                    texts_add(&nodes, node) < 0)
                        return -ENOMEM;
        }
        for (size_t i = 0; i < nodes.n; i++) {
                const KubePath path = { .group = "apps.kruise.io",
                                        .version = version,
                                        .resource = "nodeimages",
                                        .name = nodes.items[i] };
                cleanup(error_done) Error error = ERROR_INIT;

                r = session_get(watch->session, &path, NULL, &error);
                if (r < 0 && error.kind != ERROR_NOT_FOUND)
                        return error_copy(reterr, &error);
                if (r >= 0 && texts_add(ret, nodes.items[i]) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* What an update pulls is there before the first container ends. */
static int preload_on(const RolloutWatch *watch, json_object *record, const Texts *nodes,
                      Error *reterr) {
        json_object *secrets =
                object_at(object_template(watch->view.workload), "spec.imagePullSecrets");
        cleanup(texts_done) Texts images = { .n = 0 };
        cleanup(texts_done) Texts names = { .n = 0 };
        cleanup(preload_result_done) PreloadResult result = { .n_nodes = 0 };
        const char *reasons;
        size_t size;
        int r = 0;

        json_object_object_foreach(record_images(record, false), container, image) {
                (void) container;
                if (texts_add(&images, json_object_get_string(image)) < 0)
                        return -ENOMEM;
        }
        for (size_t i = 0; secrets && i < json_object_array_length(secrets); i++) {
                const char *name = json_get_filled(json_object_array_get_idx(secrets, i), "name");

                if (name && texts_add(&names, name) < 0)
                        return -ENOMEM;
        }
        r = preload_run(watch->session,
                        &(PreloadRequest){ .images = (const char *const *) images.items,
                                           .n_images = images.n,
                                           .nodes = (const char *const *) nodes->items,
                                           .n_nodes = nodes->n,
                                           .secrets = (const char *const *) names.items,
                                           .n_secrets = names.n,
                                           .is_shown = true },
                        &result, reterr);
        if (r < 0 || result.n_failed == 0)
                return r;

        reasons = result.reasons ? result.reasons : "";
        size = strcspn(reasons, "\n"); /* of the first one */
        return error_set(
                reterr, ERROR_UNAVAILABLE,
                "the images cannot be pulled on %zu of %zu nodes: %.*s%s; --no-preload updates "
                "without that",
                result.n_failed, result.n_nodes, (int) size, reasons,
                reasons[size] && reasons[size + 1] ? ", and other reasons" : "");
}

int rollout_preload(const RolloutWatch *watch, json_object *record, bool *ret_is_done,
                    Error *reterr) {
        cleanup(texts_done) Texts nodes = { .n = 0 };
        cleanup(error_done) Error error = ERROR_INIT;
        int r = find_nodes(watch, record, &nodes, &error);

        *ret_is_done = r >= 0 && nodes.n > 0;
        if (*ret_is_done)
                r = preload_on(watch, record, &nodes, &error);
        if (r >= 0 || error.kind == ERROR_NONE)
                return r;
        if (error.kind != ERROR_DENIED)
                return error_copy(reterr, &error);

        /* The right to update one workload need not include the right to make nodes pull. */
        complain("the images are not pulled before the update: %s", error_message(&error));
        *ret_is_done = false;
        return 0;
}
