/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/kruise-plan.h"

#include <errno.h>
#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

/* Paths of the fields in which a kind says what its controller does. */
typedef struct Fields {
        const char *policy, *paused, *partition;
        const char *updated, *updated_ready;
} Fields;

static const Fields fields[_WORKLOAD_KIND_MAX] = {
        [WORKLOAD_CLONE_SET] = { "spec.updateStrategy.rollingUpdate.podUpdatePolicy",
                                 "spec.updateStrategy.rollingUpdate.paused",
                                 "spec.updateStrategy.rollingUpdate.partition",
                                 "status.updatedReplicas", "status.updatedReadyReplicas" },
        [WORKLOAD_ADVANCED_STATEFUL_SET] = { "spec.updateStrategy.rollingUpdate.podUpdatePolicy",
                                             "spec.updateStrategy.rollingUpdate.paused",
                                             "spec.updateStrategy.rollingUpdate.partition",
                                             "status.updatedReplicas",
                                             "status.updatedReadyReplicas" },
        [WORKLOAD_ADVANCED_DAEMON_SET] = { "spec.updateStrategy.rollingUpdate.rollingUpdateType",
                                           "spec.updateStrategy.rollingUpdate.paused",
                                           "spec.updateStrategy.rollingUpdate.partition",
                                           "status.updatedNumberScheduled", NULL },
};

/* Fields before OpenKruise 1.9. */
static const Fields older_clone_set = { "spec.updateStrategy.type", "spec.updateStrategy.paused",
                                        "spec.updateStrategy.partition", "status.updatedReplicas",
                                        "status.updatedReadyReplicas" };

static const Fields *fields_of(const RolloutView *view) {
        const char *version = object_text(view->workload, "apiVersion");

        return view->kind == WORKLOAD_CLONE_SET && text_equal(version, "apps.kruise.io/v1alpha1")
                       ? &older_clone_set
                       : &fields[view->kind];
}

static bool is_paused(const RolloutView *view) {
        return json_object_get_boolean(object_at(view->workload, fields_of(view)->paused));
}

static int check_strategy(const RolloutView *view, Error *reterr) {
        const char *path = fields_of(view)->policy, *policy = object_text(view->workload, path);

        if (fields_of(view) != &older_clone_set &&
            text_equal(object_text(view->workload, "spec.updateStrategy.type"), "OnDelete"))
                return error_set(reterr, ERROR_INVALID,
                                 "with OnDelete its controller updates no pod by itself: make "
                                 "spec.updateStrategy.type RollingUpdate");
        if (!text_equal(policy, "InPlaceIfPossible") && !text_equal(policy, "InPlaceOnly"))
                return error_set(reterr, ERROR_INVALID,
                                 "its controller would replace the pods, since %s is %s: make it "
                                 "InPlaceIfPossible",
                                 path, policy ? policy : "not set");
        if (is_paused(view))
                return error_set(
                        reterr, ERROR_INVALID,
                        "%s is true, and so its controller updates no pod: resume it first",
                        fields_of(view)->paused);
        return 0;
}

static int check_images(json_object *template, json_object *images, Error *reterr) {
        json_object *containers = object_at(template, "spec.containers");

        json_object_object_foreach(images, container, image) {
                (void) image;
                if (json_find(containers, "name", container))
                        continue;
                if (json_find(object_at(template, "spec.initContainers"), "name", container))
                        return error_set(
                                reterr, ERROR_INVALID,
                                "container \"%s\" is an init container: OpenKruise does not "
                                "update its image in place; leave it out",
                                container);
                return template_refuse_container(template, container, reterr);
        }
        return 0;
}

/* All containers, as a merge patch replaces lists. */
static json_object *make_containers(json_object *template, json_object *images) {
        json_object *containers = json_copy(object_at(template, "spec.containers"));

        if (!containers)
                return NULL;
        json_object_object_foreach(images, container, image) {
                json_object *found = json_find(containers, "name", container);

                if (patch_add(found, "image", json_object_get(image)) < 0) {
                        json_object_put(containers);
                        return NULL;
                }
        }
        return containers;
}

/* Names the version that was read, so that no other client's change is lost. */
static int make_patch(const RolloutView *view, json_object *images, json_object **ret) {
        const char *version = object_text(view->workload, "metadata.resourceVersion");
        json_object *containers = make_containers(object_template(view->workload), images);
        cleanup(json_object_put_p) json_object *patch =
                patch_wrap("metadata", patch_wrap("resourceVersion",
                                                  json_object_new_string(version ? version : "")));

        if (!patch) {
                json_object_put(containers);
                return -ENOMEM;
        }
        if (patch_add(patch, "spec",
                      patch_wrap("template",
                                 patch_wrap("spec", patch_wrap("containers", containers)))) < 0)
                return -ENOMEM;

        *ret = take_ptr(patch);
        return 0;
}

int kruise_begin(const RolloutView *view, const RolloutRequest *request, json_object **ret,
                 Error *reterr) {
        json_object *template = object_template(view->workload), *images = request->images;
        int r;

        if (object_is_deleted(view->workload))
                return error_set(reterr, ERROR_CONFLICT, "it is being deleted");
        r = object_refuse_owned(view->workload, reterr);
        if (r >= 0)
                r = check_images(template, images, reterr);
        if (r < 0)
                return r;
        if (template_has_images(template, images)) {
                *ret = NULL;
                return 0;
        }
        r = check_strategy(view, reterr);
        return r < 0 ? r : make_patch(view, images, ret);
}

static json_object *all_images(json_object *template) {
        json_object *containers = object_list(template, "spec.containers");
        cleanup(json_object_put_p) json_object *images = json_object_new_object();

        for (size_t i = 0; containers && i < json_object_array_length(containers); i++) {
                json_object *container = json_object_array_get_idx(containers, i);
                const char *name = json_get_text(container, "name");
                const char *image = json_get_text(container, "image");

                if (name && image && patch_add_text(images, name, image) < 0)
                        return NULL;
        }
        return take_ptr(images);
}

json_object *kruise_record(const RolloutView *view, json_object *images) {
        json_object *template = object_template(view->workload);
        cleanup(json_object_put_p) json_object *record = json_object_new_object();
        json_object *after = images ? json_object_get(images) : all_images(template);

        if (patch_add(record, "after", after) < 0 ||
            patch_add(record, "before", template_images(template, after)) < 0 ||
            patch_add_text(record, "state", "forward") < 0 ||
            patch_add_text(record, "mode", "set-image") < 0)
                return NULL;
        return take_ptr(record);
}

/* How many pods the controller will have updated in the end: not those that the partition keeps. */
static int64_t expected_pods(const RolloutView *view) {
        json_object *replicas = object_at(view->workload, view_kind(view)->desired);
        json_object *partition = object_at(view->workload, fields_of(view)->partition);
        const char *share = partition ? json_object_get_string(partition) : NULL;
        int64_t desired = replicas ? json_object_get_int64(replicas) : 1, kept = 0;
        cleanup(error_done) Error error = ERROR_INIT;

        if (share)
                (void) share_parse(share, desired, SHARE_ROUNDED_UP, &kept, &error);
        return desired > kept ? desired - kept : 0;
}

static bool is_counted(const RolloutView *view, int64_t expected) {
        const char *ready = fields_of(view)->updated_ready;

        if (ready && object_at(view->workload, ready) &&
            object_integer(view->workload, ready) < expected)
                return false;
        return object_is_observed(view->workload) &&
               object_integer(view->workload, fields_of(view)->updated) >= expected;
}

int kruise_plan(const RolloutView *view, json_object *record, const Census *census,
                RolloutStep *ret) {
        const PodState *failed = census_find(census, ROLLOUT_FAILED);
        const PodState *awaited = census_find(census, ROLLOUT_UPDATING);
        int64_t n_updated = (int64_t) census->n_by_phase[ROLLOUT_UPDATED];
        int64_t expected = expected_pods(view);

        *ret = ROLLOUT_STEP_INIT;
        if (!template_has_images(object_template(view->workload), record_images(record, false)))
                return rollout_step_set(
                        ret, ROLLOUT_STOP,
                        "another client has changed its template: its controller brings the pods "
                        "there now");
        if (failed)
                return rollout_step_set_pod(ret, ROLLOUT_STOP, failed);
        if (awaited)
                return rollout_step_set_pod(ret, ROLLOUT_WAIT, awaited);
        if (n_updated < expected && is_paused(view))
                return rollout_step_set(ret, ROLLOUT_WAIT, "until it is resumed: %s is true",
                                        fields_of(view)->paused);
        if (n_updated < expected || !is_counted(view, expected))
                return rollout_step_set(ret, ROLLOUT_WAIT,
                                        "for its controller, which has updated %lld of %lld pods",
                                        (long long) object_integer(view->workload,
                                                                   fields_of(view)->updated),
                                        (long long) expected);
        ret->action = ROLLOUT_DONE;
        return 0;
}
