/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/refresh.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/preload.h"
#include "agent/kubectl/refresh-plan.h"
#include "agent/kubectl/rollout-advice.h"

/* The request to the nodes; all are {name: null}. */
typedef struct Question {
        json_object *images, *nodes, *secrets;
} Question;

static void question_done(Question *question) {
        json_object_put(question->images);
        json_object_put(question->nodes);
        json_object_put(question->secrets);
}

/* The secrets are those of the template, and those that admission has added to pods. */
static int question_make(const RolloutView *view, json_object *tags, Question *ret) {
        json_object *spec = object_at(object_template(view->workload), "spec");
        int r;

        *ret = (Question){ .images = json_object_new_object(),
                           .nodes = json_object_new_object(),
                           .secrets = json_object_new_object() };
        r = ret->images && ret->nodes && ret->secrets ? pod_spec_add_secrets(spec, ret->secrets)
                                                      : -ENOMEM;
        json_object_object_foreach(tags, container, image) {
                (void) container;
                r = r < 0 ? r : patch_add_null(ret->images, json_object_get_string(image));
        }
        json_object_object_foreach(view->pods, name, pod) {
                const char *node = object_text(pod, "spec.nodeName");

                (void) name;
                if (r < 0 || !node || object_is_deleted(pod) || pod_has_ended(pod) ||
                    !view_owns_pod(view, pod))
                        continue;
                r = patch_add_null(ret->nodes, node)
                            ?: pod_spec_add_secrets(object_at(pod, "spec"), ret->secrets);
        }
        return r;
}

static int judge(const PreloadResult *result, Error *reterr) {
        const char *reasons = result->reasons ?: "";
        int size = (int) strcspn(reasons, "\n"); /* length of the first reason */

        return result->n_failed == 0
                       ? 0
                       : error_set(reterr, ERROR_UNAVAILABLE,
                                   "the tags cannot be resolved on %zu of %zu nodes: %.*s%s; "
                                   "nothing has changed",
                                   result->n_failed, result->n_nodes, size, reasons,
                                   reasons[size] && reasons[size + 1] ? ", and other reasons" : "");
}

/* *ret: {image: [digest]} */
static int ask_nodes(const RolloutWatch *watch, json_object *tags, bool is_shown, json_object **ret,
                     Error *reterr) {
        cleanup(preload_result_done) PreloadResult result = { .n_nodes = 0 };
        cleanup(question_done) Question question = { .images = NULL };
        int r = question_make(&watch->view, tags, &question);

        if (r < 0)
                return r;
        if (json_object_object_length(question.nodes) == 0)
                return error_set(reterr, ERROR_NOT_FOUND,
                                 "no pod of it is on a node, so that no node can resolve its tags");
        r = preload_run_first(watch->session, question.images,
                              &(PreloadRequest){ .nodes = question.nodes,
                                                 .secrets = question.secrets,
                                                 .resolves = true,
                                                 .is_shown = is_shown },
                              &result, reterr);
        if (r >= 0)
                r = judge(&result, reterr);
        return r < 0 ? r : refresh_read_digests(question.images, result.nodes, ret, reterr);
}

int refresh_resolve(const RolloutWatch *watch, int64_t partition, bool is_shown, json_object **ret,
                    json_object **ret_before, Error *reterr) {
        cleanup(json_object_put_p) json_object *tags = NULL;
        cleanup(json_object_put_p) json_object *tags_now = NULL;
        cleanup(json_object_put_p) json_object *digests = NULL;
        cleanup(free_p) char *fixed = NULL;
        cleanup(free_p) char *fixed_now = NULL;
        cleanup(free_p) char *volumes = NULL;
        json_object *template = object_template(watch->view.workload);
        int r = refresh_find_tags(template, &tags, &fixed, reterr);

        if (r >= 0)
                r = refresh_name_volumes(template, &volumes);
        if (r < 0)
                return r;
        if (volumes[0])
                rollout_explain(
                        watch,
                        "the images of volumes stay, since the volumes of a pod cannot change: %s",
                        volumes);
        if (fixed[0])
                rollout_explain(watch, "written with a digest alone, without a tag to resolve: %s",
                                fixed);
        if (json_object_object_length(tags) > 0)
                r = ask_nodes(watch, tags, is_shown, &digests, reterr);
        if (r < 0)
                return r;
        /* The pulls may have taken long. */
        if (!watch->view.workload)
                return error_set(reterr, ERROR_NOT_FOUND, "it is gone");
        r = refresh_find_tags(object_template(watch->view.workload), &tags_now, &fixed_now, reterr);
        if (r >= 0 && !json_object_equal(tags, tags_now))
                return error_set(reterr, ERROR_CONFLICT,
                                 "its images have changed meanwhile: repeat the command");
        return r < 0 ? r : refresh_plan(&watch->view, partition, tags, digests, ret, ret_before);
}
