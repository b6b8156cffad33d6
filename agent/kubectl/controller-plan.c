/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/controller-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/hash.h"
#include "agent/base/rfc3339.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-record.h"

#define RETRY_SEC 10
#define RETRY_MAX_SEC 300
#define LATE_REASON "ProgressDeadlineExceeded"

static UpdateMode read_mode(json_object *annotations) {
        if (json_is(annotations, UPDATE_ANNOTATION, UPDATE_IF_POSSIBLE))
                return UPDATE_IN_PLACE_IF_POSSIBLE;
        return json_is(annotations, UPDATE_ANNOTATION, UPDATE_ONLY) ? UPDATE_IN_PLACE_ONLY
                                                                    : UPDATE_ORDINARY;
}

bool update_is_let_go(json_object *workload) {
        return object_annotation(workload, HELD_ANNOTATION) && !workload_held(workload);
}

int update_facts(WorkloadKind kind, json_object *workload, UpdateFacts *ret) {
        json_object *annotations = object_at(workload, "metadata.annotations");
        json_object *condition =
                json_find(object_list(workload, "status.conditions"), "type", "Progressing");
        cleanup(json_object_put_p) json_object *record = NULL;
        const char *template = json_to_text(object_template(workload));

        if (!template)
                return -ENOMEM;
        /* The run names a record that cannot be read, and leaves the workload alone. */
        (void) rollout_record_read(workload, &record, NULL);
        *ret = (UpdateFacts){
                .mode = read_mode(annotations),
                .is_deleted = object_is_deleted(workload),
                .is_held = workload_is_held(kind, workload),
                .is_ours = workload_held(workload) != NULL,
                .is_let_go = update_is_let_go(workload),
                .has_open_record = rollout_record_is_open(record),
                .has_others_record =
                        rollout_record_is_open(record) && !json_is(record, "by", UPDATE_CONTROLLER),
                .has_status = json_get_text(annotations, UPDATE_STATUS_ANNOTATION) != NULL,
                .has_late_condition = json_is(condition, "reason", LATE_REASON),
                /* A run leaves the pods below the partition as they are. */
                .template_hash = hash64_text(HASH64_START + (uint64_t) workload_partition(workload),
                                             template),
        };
        return 0;
}

int update_facts_at_removal(WorkloadKind kind, json_object *workload, UpdateFacts *ret) {
        bool has_record = object_annotation(workload, ROLLOUT_ANNOTATION) != NULL;
        cleanup(json_object_put_p) json_object *record = NULL;
        int r = update_facts(kind, workload, ret);

        if (r < 0)
                return r;
        (void) rollout_record_read(workload, &record, NULL);
        /* The removal ends the updates of the controller, and leaves those that a person has begun. Where the manifest holds
         * the workload, the reason why an update does not go on shows whose it is. */
        ret->has_others_record = ret->has_open_record && !ret->is_ours &&
                                 (!ret->has_status || record_sets_images(record));
        ret->is_ours = ret->is_ours || (ret->has_status && !ret->has_others_record) ||
                       (ret->mode != UPDATE_ORDINARY && has_record && !ret->has_open_record);
        ret->mode = UPDATE_ORDINARY;
        return 0;
}

/* A workload that is being deleted may stay for as long as a finalizer keeps it. */
bool update_is_concerned(const UpdateFacts *facts, bool was_concerned) {
        bool is_left =
                facts->has_status || facts->is_let_go || (was_concerned && facts->has_open_record);

        return !facts->is_deleted && (facts->mode != UPDATE_ORDINARY || facts->is_ours ||
                                      (is_left && !facts->has_others_record));
}

/* 10 s, 20 s, ... */
static int64_t pause_sec(const UpdateRun *last) {
        int64_t pause = RETRY_SEC;

        for (unsigned i = 1; i < last->n_failures && pause < RETRY_MAX_SEC; i++)
                pause *= 2;
        return pause < RETRY_MAX_SEC ? pause : RETRY_MAX_SEC;
}

static UpdateAction run_later(const UpdateRun *last, int64_t now_sec, UpdateAction action) {
        return now_sec < last->ended_sec + pause_sec(last) ? UPDATE_DO_NOTHING : action;
}

static UpdateAction retry(const UpdateRun *last, int64_t now_sec, UpdateAction action) {
        return last->outcome == UPDATE_FAILED ? run_later(last, now_sec, action) : action;
}

/* The obstacle may pass: pods of a rollout before it end, or a person deletes a pod. And the run
 * says the reason again where a user's write has removed it, as that of "kubectl replace" does. */
static UpdateAction plan_impossible(const UpdateFacts *facts, const UpdateRun *last,
                                    int64_t now_sec) {
        if (facts->is_ours && facts->mode == UPDATE_IN_PLACE_IF_POSSIBLE)
                return UPDATE_DO_GIVE_BACK;
        return run_later(last, now_sec, UPDATE_DO_RUN);
}

/* The pods are not at the template, as far as is known, and no update is under way. */
static UpdateAction plan_held(const UpdateFacts *facts, const UpdateRun *last, int64_t now_sec) {
        switch (last->outcome) {
        case UPDATE_NOT_TRIED:
        case UPDATE_ABANDONED: return UPDATE_DO_RUN;
        case UPDATE_FAILED: return run_later(last, now_sec, UPDATE_DO_RUN);
        case UPDATE_DONE:
                return facts->is_ours || facts->has_status ? UPDATE_DO_GIVE_BACK
                                                           : UPDATE_DO_NOTHING;
        case UPDATE_IMPOSSIBLE: return plan_impossible(facts, last, now_sec);
        case _UPDATE_OUTCOME_MAX: break;
        }
        return UPDATE_DO_NOTHING;
}

UpdateAction update_plan(const UpdateFacts *facts, const UpdateRun *last, int64_t now_sec) {
        static const UpdateRun none = { .outcome = UPDATE_NOT_TRIED };
        const UpdateRun *run = last->template_hash == facts->template_hash ? last : &none;

        if (facts->is_deleted || facts->has_others_record)
                return UPDATE_DO_NOTHING;
        if (facts->is_let_go)
                return UPDATE_DO_GIVE_BACK;
        /* A pod with an image that does not start would keep it, below the template of the older ReplicaSet. */
        if (facts->has_open_record)
                return retry(run, now_sec,
                             facts->mode != UPDATE_ORDINARY ? UPDATE_DO_RUN
                             : facts->has_status && run->outcome == UPDATE_NOT_TRIED
                                     ? UPDATE_DO_UNDO
                                     : UPDATE_DO_RELEASE);
        /* The owner has taken the annotation away, or has let the controller go on: why an update failed matters no more. */
        if (facts->mode == UPDATE_ORDINARY || !facts->is_held)
                return facts->is_ours || facts->has_status ? UPDATE_DO_GIVE_BACK
                                                           : UPDATE_DO_NOTHING;
        return plan_held(facts, run, now_sec);
}

bool update_comes_first(const UpdateFacts *facts, const UpdateRun *last, int64_t now_sec) {
        return facts->has_open_record || update_plan(facts, last, now_sec) == UPDATE_DO_RUN;
}

void update_follow(UpdateFacts *facts, UpdateRun *last, const UpdateFacts *now) {
        if (facts->template_hash != now->template_hash)
                *last = (UpdateRun){ .outcome = UPDATE_NOT_TRIED };
        *facts = *now;
}

void update_run_begin(UpdateRun *run, const UpdateFacts *facts) {
        run->begun_hash = facts->template_hash;
}

void update_run_end(UpdateRun *run, UpdateOutcome outcome, int64_t now_sec) {
        bool is_again = run->outcome == outcome && run->template_hash == run->begun_hash;

        *run = (UpdateRun){ .outcome = outcome,
                            .template_hash = run->begun_hash,
                            .n_failures = outcome == UPDATE_DONE ? 0
                                          : is_again             ? run->n_failures + 1
                                                                 : 1,
                            .ended_sec = now_sec };
}

bool update_run_is_before(const UpdateRun *run, const UpdateRun *other) {
        return run->ended_sec < other->ended_sec;
}

bool update_has_place(size_t n_running, size_t n_of_namespace, size_t max, bool is_shared) {
        return n_running < max && (!is_shared || n_of_namespace < max - max / 4);
}

/* namespace: NULL: all. */
static size_t sum_loads(const UpdateLoad *loads, size_t n, const char *namespace) {
        size_t sum = 0;

        for (size_t i = 0; i < n; i++)
                if (!namespace || strcmp(loads[i].namespace, namespace) == 0)
                        sum += loads[i].size;
        return sum;
}

size_t update_over_memory(const UpdateLoad *loads, size_t n, size_t max) {
        size_t most = 0, worst = n;

        if (sum_loads(loads, n, /* namespace= */ NULL) <= max)
                return n;
        for (size_t i = 0; i < n; i++) {
                size_t sum = sum_loads(loads, n, loads[i].namespace);

                if (worst == n || sum > most || (sum == most && loads[i].size > loads[worst].size))
                        worst = i;
                most = sum > most ? sum : most;
        }
        return worst;
}

/* A StatefulSet is held by its partition: its users have chosen since that its pods wait until they are deleted. */
static bool must_give_back(WorkloadKind kind, json_object *workload) {
        bool is_theirs = kind == WORKLOAD_STATEFUL_SET && !workload_is_rolling(workload);

        return workload_held(workload) && workload_is_held(kind, workload) && !is_theirs;
}

int update_add_end_of_hold(WorkloadKind kind, json_object *workload, json_object *patch) {
        json_object *annotations = object_at(patch, "metadata.annotations");

        if (patch_add_null(annotations, HELD_ANNOTATION) < 0 ||
            patch_add_null(annotations, UPDATE_STATUS_ANNOTATION) < 0)
                return -ENOMEM;

        return must_give_back(kind, workload)
                       ? patch_add(patch, "spec", workload_give_back(kind, workload))
                       : 0;
}

int update_give_back_patch(WorkloadKind kind, json_object *workload, bool forgets,
                           json_object **ret) {
        const char *version = object_text(workload, "metadata.resourceVersion");
        cleanup(json_object_put_p) json_object *annotations = json_object_new_object();
        cleanup(json_object_put_p) json_object *metadata = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(json_object_put_p) json_object *record = NULL;
        bool has_record = object_annotation(workload, ROLLOUT_ANNOTATION);

        if (rollout_record_read(workload, &record, NULL) == -ENOMEM)
                return -ENOMEM;
        /* An open record holds the workload. */
        forgets = forgets && !workload_held(workload) && !rollout_record_is_open(record);
        if (!annotations || (forgets && patch_add_null(annotations, ROLLOUT_ANNOTATION) < 0))
                return -ENOMEM;
        metadata = patch_wrap("annotations", take_ptr(annotations));
        if (patch_add_text(metadata, "resourceVersion", version ?: "") < 0)
                return -ENOMEM;
        patch = patch_wrap("metadata", take_ptr(metadata));
        if (!patch || update_add_end_of_hold(kind, workload, patch) < 0 ||
            (workload_held(workload) && !has_record &&
             patch_add_text(object_at(patch, "metadata.annotations"), HELD_ANNOTATION, "") < 0))
                return -ENOMEM;

        *ret = take_ptr(patch);
        return 0;
}

int update_status_patch(const char *uid, const char *reason, json_object **ret) {
        cleanup(json_object_put_p) json_object *metadata =
                patch_wrap("uid", json_object_new_string(uid));
        cleanup(json_object_put_p) json_object *annotation = json_object_new_object();

        if ((reason ? patch_add_text(annotation, UPDATE_STATUS_ANNOTATION, reason)
                    : patch_add_null(annotation, UPDATE_STATUS_ANNOTATION)) < 0 ||
            patch_add(metadata, "annotations", take_ptr(annotation)) < 0)
                return -ENOMEM;
        *ret = patch_wrap("metadata", take_ptr(metadata));
        return *ret ? 0 : -ENOMEM;
}

int update_condition_patch(const char *uid, const char *reason, int64_t now_sec,
                           json_object **ret) {
        cleanup(json_object_put_p) json_object *condition = json_object_new_object();
        cleanup(json_object_put_p) json_object *conditions = json_object_new_array();
        cleanup(json_object_put_p) json_object *patch = NULL;
        char now[RFC3339_SIZE];

        (void) rfc3339_format(now_sec, now);
        if (patch_add_text(condition, "type", "Progressing") < 0 ||
            patch_add_text(condition, "status", reason ? "False" : "Unknown") < 0 ||
            patch_add_text(condition, "reason", reason ? LATE_REASON : "DeploymentPaused") < 0 ||
            patch_add_text(condition, "message", reason ?: "It is updated in place") < 0 ||
            patch_add_text(condition, "lastUpdateTime", now) < 0 ||
            patch_add_text(condition, "lastTransitionTime", now) < 0 ||
            patch_append(conditions, take_ptr(condition)) < 0)
                return -ENOMEM;
        patch = patch_wrap("status", patch_wrap("conditions", take_ptr(conditions)));
        if (patch_add(patch, "metadata", patch_wrap("uid", json_object_new_string(uid))) < 0)
                return -ENOMEM;
        *ret = take_ptr(patch);
        return 0;
}
