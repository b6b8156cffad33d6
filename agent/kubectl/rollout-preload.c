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
#include "agent/kubectl/rights.h"
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

static bool texts_has(const Texts *texts, const char *text) {
        for (size_t i = 0; i < texts->n; i++)
                if (strcmp(texts->items[i], text) == 0)
                        return true;

        return false;
}

static int texts_add(Texts *texts, const char *text) {
        char **items;

        if (texts_has(texts, text))
                return 0;
        items = reallocarray(texts->items, texts->n + 1, sizeof(*items));
        if (!items)
                return -ENOMEM;
        texts->items = items;
        items[texts->n] = strdup(text);
        return items[texts->n] ? (texts->n++, 0) : -ENOMEM;
}

/* Nodes of pods that will be updated. */
static int find_nodes(const RolloutWatch *watch, json_object *record, Texts *ret) {
        json_object_object_foreach(watch->view.pods, name, pod) {
                const char *node = object_text(pod, "spec.nodeName");

                (void) name;
                if (node && rollout_phase(&watch->view, record, pod) == ROLLOUT_OLD &&
                    texts_add(ret, node) < 0)
                        return -ENOMEM;
        }
        return 0;
}

typedef struct Places {
        Texts nodes;      /* nodes of pods */
        Texts registered; /* nodes among them that have a NodeImage */
} Places;

static void places_done(Places *places) {
        texts_done(&places->nodes);
        texts_done(&places->registered);
}

static int on_node_image(json_object *node_image, void *userdata) {
        const char *name = object_name(node_image);
        Places *places = userdata;

        return texts_has(&places->nodes, name) ? texts_add(&places->registered, name) : 0;
}

/* The right to update one workload need not include the right to make nodes pull. */
static int check_rights(Session *session, Error *reterr) {
        static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };
        cleanup(rights_missing_done) RightsMissing missing = { .text = NULL };
        cleanup(rights_done) Rights rights = { .answers = NULL };
        const char *jobs;
        int r = session_find_version(session, PRELOAD_GROUP, versions, "imagepulljobs", &jobs,
                                     reterr);

        if (r >= 0)
                r = rights_init(session, &rights);
        if (r >= 0)
                r = rights_check(&rights, jobs ? RIGHTS_PRELOAD_BY_JOBS : RIGHTS_PRELOAD, NULL,
                                 &missing, reterr);
        return r < 0 || missing.n == 0
                       ? r
                       : error_set(reterr, ERROR_DENIED, "this user lacks %s", missing.text);
}

static int find_places(const RolloutWatch *watch, json_object *record, bool is_required,
                       Places *ret, Error *reterr) {
        KubePath path = { .group = PRELOAD_GROUP, .resource = "nodeimages" };
        int r = agents_find_version(watch->session, &path.version, reterr);

        if (r >= 0)
                r = find_nodes(watch, record, &ret->nodes);
        if (r >= 0 && path.version && ret->nodes.n > 0)
                r = check_rights(watch->session, reterr);
        if (r >= 0 && path.version && ret->nodes.n > 0)
                r = session_list_metadata(watch->session, &path, on_node_image, ret, reterr);
        if (r < 0 || !is_required)
                return r;

        for (size_t i = 0; i < ret->nodes.n; i++)
                if (!texts_has(&ret->registered, ret->nodes.items[i]))
                        return error_set(reterr, ERROR_NOT_FOUND,
                                         "no agent pulls images on node %s: it has no NodeImage",
                                         ret->nodes.items[i]);
        return 0;
}

static int judge(const PreloadResult *result, bool is_required, Error *reterr) {
        const char *reasons = result->reasons ?: "";
        int size = (int) strcspn(reasons, "\n"); /* length of the first reason */

        if (result->n_failed == 0)
                return 0;
        if (result->n_failed > result->n_silent)
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "the images cannot be pulled on %zu of %zu nodes: %.*s%s; "
                                 "--no-preload updates without that",
                                 result->n_failed, result->n_nodes, size, reasons,
                                 reasons[size] && reasons[size + 1] ? ", and other reasons" : "");
        if (is_required)
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "%.*s; nothing has changed, and without --require-preload the "
                                 "update begins nevertheless",
                                 size, reasons);

        complain("%.*s; %s images are not pulled before", size, reasons,
                 result->n_silent == 1 ? "its" : "their");
        return 0;
}

/* Has the images pulled before the first container ends. */
static int preload_on(const RolloutWatch *watch, json_object *record, const Texts *nodes,
                      bool is_required, bool is_shown, Error *reterr) {
        json_object *secrets =
                object_at(object_template(watch->view.workload), "spec.imagePullSecrets");
        cleanup(texts_done) Texts images = { .n = 0 };
        cleanup(texts_done) Texts names = { .n = 0 };
        cleanup(preload_result_done) PreloadResult result = { .n_nodes = 0 };
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
                                           .is_shown = is_shown },
                        &result, reterr);
        if (session_is_ended(watch->session))
                complain("nothing has changed; nodes that have begun to pull go on");
        return r < 0 ? r : judge(&result, is_required, reterr);
}

int rollout_preload(const RolloutWatch *watch, json_object *record, bool is_required, bool is_shown,
                    bool *ret_is_done, Error *reterr) {
        cleanup(places_done) Places places = { .nodes = { .n = 0 } };
        cleanup(error_done) Error error = ERROR_INIT;
        int r = find_places(watch, record, is_required, &places, &error);

        *ret_is_done = r >= 0 && places.registered.n > 0;
        if (*ret_is_done)
                r = preload_on(watch, record, &places.registered, is_required, is_shown, &error);
        if (r >= 0 || error.kind == ERROR_NONE)
                return r;
        if (error.kind != ERROR_DENIED || is_required)
                return error_copy(reterr, &error);

        complain("the images are not pulled before the update: %s", error_message(&error));
        *ret_is_done = false;
        return 0;
}
