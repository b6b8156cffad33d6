/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-preload.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/preload.h"
#include "agent/kubectl/rights.h"
#include "agent/view/terminal.h"

/* Nodes of pods that will be updated. */
static int find_nodes(const Census *census, json_object *ret) {
        for (size_t i = 0; i < census->n_pods; i++) {
                const char *node = object_text(census->pods[i].pod, "spec.nodeName");

                if (node && census->pods[i].phase == ROLLOUT_OLD && patch_add_null(ret, node) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Copies, {name: null}: while requests are answered, the view is brought up to date. */
typedef struct Places {
        json_object *nodes;      /* nodes of pods */
        json_object *registered; /* nodes among them that have a NodeImage */
} Places;

static void places_done(Places *places) {
        json_object_put(places->nodes);
        json_object_put(places->registered);
}

static int on_node_image(json_object *node_image, void *userdata) {
        const char *name = object_name(node_image);
        const Places *places = userdata;

        return json_object_object_get_ex(places->nodes, name, NULL)
                       ? patch_add_null(places->registered, name)
                       : 0;
}

/* The right to update one workload need not include the right to make nodes pull. */
static int check_rights(Session *session, Error *reterr) {
        cleanup(rights_missing_done) RightsMissing missing = { .text = NULL };
        cleanup(rights_done) Rights rights = { .answers = NULL };
        const char *jobs;
        int r = session_find_kruise(session, "imagepulljobs", &jobs, reterr);

        if (r >= 0)
                r = rights_init(session, &rights);
        if (r >= 0)
                r = rights_check(&rights, jobs ? RIGHTS_PRELOAD_BY_JOBS : RIGHTS_PRELOAD, NULL,
                                 &missing, reterr);
        return r < 0 || missing.n == 0
                       ? r
                       : error_set(reterr, ERROR_DENIED, "this user lacks %s", missing.text);
}

static int find_places(const RolloutWatch *watch, const Census *census, bool is_required,
                       Places *ret, Error *reterr) {
        KubePath path = { .group = PRELOAD_GROUP, .resource = "nodeimages" };
        int r = session_find_kruise(watch->session, path.resource, &path.version, reterr);

        if (r >= 0)
                r = find_nodes(census, ret->nodes);
        if (r >= 0 && path.version && json_object_object_length(ret->nodes) > 0)
                r = check_rights(watch->session, reterr)
                            ?: session_list_metadata(watch->session, &path, on_node_image, ret,
                                                     reterr);
        if (r < 0 || !is_required)
                return r;

        json_object_object_foreach(ret->nodes, name, none) {
                (void) none;
                if (!json_object_object_get_ex(ret->registered, name, NULL))
                        return error_set(
                                reterr, ERROR_NOT_FOUND,
                                "no agent pulls images on node %s: it has no NodeImage; without "
                                "--require-preload the update begins nevertheless",
                                name);
        }
        return 0;
}

static int judge(const PreloadResult *result, const RolloutPreload *preload, Error *reterr) {
        const char *reasons = result->reasons ?: "";
        int size = (int) strcspn(reasons, "\n"); /* length of the first reason */

        if (result->n_failed == 0)
                return 0;
        if (result->n_failed > result->n_silent)
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "the images cannot be pulled on %zu of %zu nodes: %.*s%s; "
                                 "%s updates without that",
                                 result->n_failed, result->n_nodes, size, reasons,
                                 reasons[size] && reasons[size + 1] ? ", and other reasons" : "",
                                 preload->without);
        if (preload->is_required)
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "%.*s; nothing has changed, and without --require-preload the "
                                 "update begins nevertheless",
                                 size, reasons);

        complain("%.*s; %s images are not pulled before", size, reasons,
                 result->n_silent == 1 ? "its" : "their");
        return 0;
}

typedef struct Cause {
        const RolloutWatch *watch;
        json_object *template;
} Cause;

static bool is_outdated(const void *userdata) {
        const Cause *cause = userdata;

        return !view_has_template(&cause->watch->view, cause->template);
}

/* Has the images pulled before the first container ends. Where others may be due by now, it says nothing of these. */
static int preload_on(const RolloutWatch *watch, json_object *record, const Census *census,
                      json_object *nodes, const RolloutPreload *preload, RolloutPreloaded *ret,
                      Error *reterr) {
        json_object *spec = object_at(object_template(watch->view.workload), "spec");
        const Cause cause = { .watch = watch, .template = preload->template };
        cleanup(json_object_put_p) json_object *images = json_object_new_object();
        cleanup(json_object_put_p) json_object *names = json_object_new_object();
        cleanup(preload_result_done) PreloadResult result = { .n_nodes = 0 };
        int r;

        if (!images || !names || pod_spec_add_secrets(spec, names) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < census->n_pods; i++)
                if (census->pods[i].phase == ROLLOUT_OLD &&
                    pod_spec_add_secrets(object_at(census->pods[i].pod, "spec"), names) < 0)
                        return -ENOMEM;

        json_object_object_foreach(record_images(record, false), container, image) {
                (void) container;
                if (patch_add_null(images, json_object_get_string(image)) < 0)
                        return -ENOMEM;
        }
        /* A container that starts again mounts the images of its volumes anew. */
        if (pod_spec_add_volume_images(spec, images) < 0)
                return -ENOMEM;
        r = preload_run_first(watch->session, images,
                              &(PreloadRequest){ .nodes = nodes,
                                                 .secrets = names,
                                                 .keeps_apart = preload->keeps_apart,
                                                 .is_shown = preload->is_shown,
                                                 .is_outdated = is_outdated,
                                                 .userdata = &cause },
                              &result, reterr);
        ret->is_outdated = r >= 0 && is_outdated(&cause);
        ret->is_everywhere = r >= 0 && !ret->is_outdated && result.n_failed + result.n_apart == 0;
        return r < 0 || ret->is_outdated ? r : judge(&result, preload, reterr);
}

int rollout_preload(const RolloutWatch *watch, json_object *record, const Census *census,
                    const RolloutPreload *preload, RolloutPreloaded *ret, Error *reterr) {
        cleanup(places_done) Places places = { .nodes = json_object_new_object(),
                                               .registered = json_object_new_object() };
        cleanup(error_done) Error error = ERROR_INIT;
        int r = places.nodes && places.registered
                        ? find_places(watch, census, preload->is_required, &places, &error)
                        : -ENOMEM;

        *ret = (RolloutPreloaded){ .is_done = r >= 0 &&
                                              json_object_object_length(places.registered) > 0 };
        if (ret->is_done)
                r = preload_on(watch, record, census, places.registered, preload, ret, &error);
        ret->is_everywhere = ret->is_everywhere && json_object_object_length(places.registered) ==
                                                           json_object_object_length(places.nodes);
        if (r >= 0 || error.kind == ERROR_NONE)
                return r;
        /* The user may not request it, or a request does not hold so much. */
        if ((error.kind != ERROR_DENIED && error.kind != ERROR_UNSUPPORTED) || preload->is_required)
                return error_copy(reterr, &error);

        complain("the images are not pulled before the update: %s", error_message(&error));
        ret->is_done = false;
        return 0;
}
