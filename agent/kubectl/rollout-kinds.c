/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-kinds.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-record.h"

/* Above the ordinal of any pod: the controller replaces none, also if it is scaled meanwhile. */
#define PARTITION_ABOVE_ALL INT32_MAX
#define STRATEGY "spec.updateStrategy"
#define ROLLING_UPDATE STRATEGY ".rollingUpdate"
#define PARTITION ROLLING_UPDATE ".partition"
#define MAX_UNAVAILABLE ROLLING_UPDATE ".maxUnavailable"

bool workload_is_in_place_only(json_object *workload) {
        return json_is(object_at(workload, "metadata.annotations"), UPDATE_ANNOTATION, UPDATE_ONLY);
}

bool workload_is_declared(json_object *workload) {
        return workload_is_in_place_only(workload) ||
               json_is(object_at(workload, "metadata.annotations"), UPDATE_ANNOTATION,
                       UPDATE_IF_POSSIBLE);
}

const char *workload_held(json_object *workload) {
        json_object *annotations = object_at(workload, "metadata.annotations");

        return json_get_filled(annotations, HELD_ANNOTATION);
}

/* Deployments */

static bool is_paused(json_object *workload) {
        return json_object_get_boolean(object_at(workload, "spec.paused"));
}

static int pause_controller(json_object *workload, json_object **ret_hold,
                            json_object **ret_former) {
        *ret_hold = patch_wrap("paused", json_object_new_boolean(true));
        *ret_former = patch_wrap("paused", json_object_new_boolean(false));
        return *ret_hold && *ret_former ? 0 : -ENOMEM;
}

static json_object *resume_controller(const char *text) {
        return patch_wrap("paused", json_object_new_boolean(false));
}

/* The Deployment's controller counts the pods of the ReplicaSet whose template is its own. */
static bool has_counted_replica_set(json_object *workload, json_object *base, json_object *target,
                                    int64_t n_revised) {
        cleanup(json_object_put_p) json_object *now =
                template_images(object_template(workload), target);
        bool is_same = now && template_has_images(object_template(base), now);

        return object_integer(workload, "status.updatedReplicas") ==
               (is_same ? object_integer(base, "status.replicas") : 0);
}

/* StatefulSets and DaemonSets */

bool workload_is_rolling(json_object *workload) {
        const char *type = object_text(workload, "spec.updateStrategy.type");

        return !type || strcmp(type, "RollingUpdate") == 0;
}

/* Takes it over; NULL: no memory, since a strategy without it would let the controller act. */
static json_object *wrap_rolling(json_object *rolling) {
        cleanup(json_object_put_p) json_object *strategy =
                patch_wrap("type", json_object_new_string("RollingUpdate"));

        return patch_add(strategy, "rollingUpdate", rolling) < 0
                       ? NULL
                       : patch_wrap("updateStrategy", take_ptr(strategy));
}

static json_object *wrap_partition(int64_t partition) {
        return wrap_rolling(patch_wrap("partition", json_object_new_int64(partition)));
}

static bool is_above_all(json_object *workload) {
        return !workload_is_rolling(workload) ||
               object_integer(workload, PARTITION) == PARTITION_ABOVE_ALL;
}

static int raise_partition(json_object *workload, json_object **ret_hold,
                           json_object **ret_former) {
        *ret_hold = wrap_partition(PARTITION_ABOVE_ALL);
        *ret_former = wrap_partition(object_integer(workload, PARTITION));
        return *ret_hold && *ret_former ? 0 : -ENOMEM;
}

/* Any user who may write the workload may have written the text. */
static int64_t read_partition(const char *text) {
        int64_t partition = strtoll(text, NULL, 10);

        return partition > 0 && partition < PARTITION_ABOVE_ALL ? partition : 0;
}

static json_object *lower_partition(const char *text) {
        return wrap_partition(read_partition(text));
}

static int refuse_lost_partition(json_object *workload, Error *reterr) {
        return !workload_is_rolling(workload) || !is_above_all(workload) || workload_held(workload)
                       ? 0
                       : error_set(reterr, ERROR_CONFLICT,
                                   "its partition keeps all pods as they are, and the record of "
                                   "an update that says why is gone: set "
                                   "spec.updateStrategy.type to OnDelete to update it in place, "
                                   "or the partition to its value before the update, 0 for "
                                   "none, which lets its controller replace pods");
}

static bool has_counted_replicas(json_object *workload, json_object *base, json_object *target,
                                 int64_t n_revised) {
        return object_integer(workload, "status.updatedReplicas") == n_revised;
}

static bool is_on_delete(json_object *workload) {
        return !workload_is_rolling(workload);
}

static json_object *strategy_of_type(const char *type) {
        return patch_wrap("updateStrategy", patch_wrap("type", json_object_new_string(type)));
}

static json_object *roll_again(const char *text) {
        return strategy_of_type("RollingUpdate");
}

/* The limits stay where they are: they are the update's as well, and another client may change them meanwhile. */
static int wait_for_deletion(json_object *workload, json_object **ret_hold,
                             json_object **ret_former) {
        *ret_hold = strategy_of_type("OnDelete");
        *ret_former = roll_again(NULL);
        return *ret_hold && *ret_former ? 0 : -ENOMEM;
}

/* The status counts no revision of pods on nodes where none should be, such as tainted ones. */
static bool has_counted_scheduled(json_object *workload, json_object *base, json_object *target,
                                  int64_t n_revised) {
        return object_integer(workload, "status.updatedNumberScheduled") >=
               n_revised - object_integer(workload, "status.numberMisscheduled");
}

const char *object_revision(json_object *object) {
        json_object *labels = object_at(object, "metadata.labels");

        return labels ? json_get_text(labels, REVISION_LABEL) : NULL;
}

/* Pods */

static int refuse_ended(json_object *pod, Error *reterr) {
        return pod_has_ended(pod)
                       ? error_set(reterr, ERROR_CONFLICT,
                                   "it has ended, and its containers are not started again: "
                                   "create it again with the new images")
                       : 0;
}

static const RolloutKind kinds[_WORKLOAD_KIND_MAX] = {
        [WORKLOAD_DEPLOYMENT] = { .has_replica_sets = true,
                                  .owned = "replicasets",
                                  .desired = "spec.replicas",
                                  .max_unavailable = "spec.strategy.rollingUpdate.maxUnavailable",
                                  .rounding = SHARE_ROUNDED_DOWN,
                                  .is_held = is_paused,
                                  .hold = pause_controller,
                                  .held = "paused",
                                  .give_back = resume_controller,
                                  .has_counted = has_counted_replica_set },
        [WORKLOAD_REPLICA_SET] = { .desired = "spec.replicas" },
        [WORKLOAD_STATEFUL_SET] = { .has_ordinals = true,
                                    .has_revisions = true,
                                    .owned = "controllerrevisions",
                                    .revision = "status.updateRevision",
                                    .desired = "spec.replicas",
                                    .max_unavailable = MAX_UNAVAILABLE,
                                    .rounding = SHARE_ROUNDED_DOWN,
                                    .is_held = is_above_all,
                                    .hold = raise_partition,
                                    .give_back = lower_partition,
                                    .check = refuse_lost_partition,
                                    .has_counted = has_counted_replicas },
        [WORKLOAD_DAEMON_SET] = { .has_revisions = true,
                                  .names_revisions = true,
                                  .owned = "controllerrevisions",
                                  .desired = "status.desiredNumberScheduled",
                                  .max_unavailable = MAX_UNAVAILABLE,
                                  .is_held = is_on_delete,
                                  .hold = wait_for_deletion,
                                  .held = "RollingUpdate",
                                  .give_back = roll_again,
                                  .has_counted = has_counted_scheduled },
        [WORKLOAD_POD] = { .is_pod = true, .check = refuse_ended },
        [WORKLOAD_CLONE_SET] = { .desired = "spec.replicas" },
        [WORKLOAD_ADVANCED_STATEFUL_SET] = { .desired = "spec.replicas",
                                             .max_unavailable = MAX_UNAVAILABLE },
        [WORKLOAD_ADVANCED_DAEMON_SET] = { .desired = "status.desiredNumberScheduled",
                                           .max_unavailable = MAX_UNAVAILABLE },
};

const RolloutKind *view_kind(const RolloutView *view) {
        return &kinds[view->kind];
}

bool workload_is_held(WorkloadKind kind, json_object *workload) {
        return !kinds[kind].is_held || kinds[kind].is_held(workload);
}

json_object *workload_give_back(WorkloadKind kind, json_object *workload) {
        return kinds[kind].give_back(workload_held(workload) ?: "");
}

bool view_is_held(const RolloutView *view) {
        return workload_is_held(view->kind, view->workload);
}

bool view_is_observed(const RolloutView *view) {
        return view_kind(view)->is_pod || object_is_observed(view->workload);
}

bool view_template_follows(const RolloutView *view) {
        return !view_kind(view)->is_pod && !view_kind(view)->has_revisions;
}

bool view_has_template(const RolloutView *view, json_object *template) {
        return view->workload && (view_kind(view)->is_pod ||
                                  json_object_equal(object_template(view->workload), template));
}

json_object *template_images(json_object *template, json_object *containers) {
        cleanup(json_object_put_p) json_object *images = json_object_new_object();

        json_object_object_foreach(containers, container, image) {
                const char *now = template_image(template, container);

                (void) image;
                if (patch_add_text(images, container, now ? now : "") < 0)
                        return NULL;
        }
        return take_ptr(images);
}

const char *view_name_revision(const RolloutView *view, json_object *owned) {
        return view_kind(view)->names_revisions ? object_revision(owned) : object_name(owned);
}

json_object *view_find_revision(const RolloutView *view, const char *revision) {
        bool by_label = view_kind(view)->names_revisions;

        if (!revision)
                return NULL;
        json_object_object_foreach(view->owned, name, object) {
                if (text_equal(by_label ? object_revision(object) : name, revision))
                        return object;
        }
        return NULL;
}

json_object *view_newest_revision(const RolloutView *view) {
        json_object *newest = NULL;

        json_object_object_foreach(view->owned, name, revision) {
                (void) name;
                if (!newest ||
                    object_integer(revision, "revision") > object_integer(newest, "revision"))
                        newest = revision;
        }
        return newest;
}

json_object *view_base(const RolloutView *view, json_object *record) {
        return view_kind(view)->owned ? view_find_revision(view, json_get_text(record, "revision"))
                                      : view->workload;
}

json_object *view_replica_set(const RolloutView *view, json_object *record) {
        return view_kind(view)->has_replica_sets ? view_base(view, record) : NULL;
}

const char *view_revision(const RolloutView *view) {
        const RolloutKind *kind = view_kind(view);

        if (!kind->has_revisions)
                return NULL;
        return kind->revision ? object_text(view->workload, kind->revision)
               : view->owned  ? object_revision(view_newest_revision(view))
                              : NULL;
}

const char *view_target_revision(const RolloutView *view, json_object *record) {
        if (view_kind(view)->has_revisions && record_leads_back(record) &&
            !record_sets_images(record))
                return json_get_text(record, "revision");
        return view_revision(view);
}

int64_t view_desired_pods(const RolloutView *view) {
        const char *path = view_kind(view)->desired;

        return path ? object_integer(view->workload, path) : 1;
}

int64_t workload_partition(json_object *workload) {
        const char *held = workload_held(workload);

        return held && is_above_all(workload) ? read_partition(held)
                                              : object_integer(workload, PARTITION);
}

int64_t view_kept_below(const RolloutView *view) {
        if (!view_kind(view)->has_ordinals || !workload_is_rolling(view->workload))
                return 0;
        return workload_partition(view->workload) +
               object_integer(view->workload, "spec.ordinals.start");
}

/* While admission holds it, users may change the partition that it gets back; a person's request comes before that. */
int64_t view_record_partition(const RolloutView *view, json_object *record) {
        bool is_own = workload_held(view->workload) || !object_at(record, "former");

        if (!view_kind(view)->has_ordinals)
                return 0;
        return is_own && !json_get(record, "partition", json_type_int) &&
                               workload_is_rolling(view->workload)
                       ? workload_partition(view->workload)
                       : record_partition(record);
}

int64_t view_partition(const RolloutView *view, json_object *record) {
        if (!view_kind(view)->has_ordinals)
                return 0;
        return view_record_partition(view, record) +
               object_integer(view->workload, "spec.ordinals.start");
}

static bool is_owned_by(json_object *pod, json_object *owner) {
        return object_owner(pod) &&
               text_equal(object_owner(pod), object_text(owner, "metadata.uid"));
}

bool view_has_pod(const RolloutView *view, json_object *record, json_object *pod) {
        const RolloutKind *kind = view_kind(view);
        json_object *owner = kind->has_replica_sets ? view_base(view, record) : view->workload;

        return kind->is_pod || (!pod_has_ended(pod) && is_owned_by(pod, owner));
}

bool view_owns_pod(const RolloutView *view, json_object *pod) {
        const RolloutKind *kind = view_kind(view);
        const char *owner = json_get_text(object_controller(pod), "name");

        return kind->is_pod ||
               is_owned_by(pod, kind->has_replica_sets ? view_find_revision(view, owner)
                                                       : view->workload);
}

int64_t pod_ordinal(json_object *pod) {
        const char *dash = strrchr(object_name(pod), '-');

        return dash ? strtoll(dash + 1, NULL, 10) : 0;
}

/* Finds the next ordinals that OpenKruise's StatefulSet leaves out: a number, or a range such as "3-5". */
static bool find_reserved(const RolloutView *view, int64_t from, int64_t *ret_first,
                          int64_t *ret_last) {
        json_object *list = object_list(view->workload, "spec.reserveOrdinals");
        bool is_found = false;

        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                const char *text = json_object_get_string(json_object_array_get_idx(list, i)) ?: "";
                char *end;
                int64_t first = strtoll(text, &end, 10);
                int64_t last = *end == '-' ? strtoll(end + 1, NULL, 10) : first;

                if (end == text || last < first || last < from || last > INT32_MAX ||
                    (is_found && first >= *ret_first))
                        continue;
                *ret_first = first > from ? first : from;
                *ret_last = last;
                is_found = true;
        }
        return is_found;
}

bool view_pod_is_surplus(const RolloutView *view, json_object *pod) {
        int64_t at = object_integer(view->workload, "spec.ordinals.start"), first, last;
        int64_t n_left = view_desired_pods(view), ordinal = pod_ordinal(pod);

        if (!view_kind(view)->has_ordinals && view->kind != WORKLOAD_ADVANCED_STATEFUL_SET)
                return false;
        if (ordinal < at || (find_reserved(view, ordinal, &first, &last) && first == ordinal))
                return true;
        while (find_reserved(view, at, &first, &last) && first < at + n_left) {
                n_left -= first - at;
                at = last + 1;
        }
        return ordinal >= at + n_left;
}
