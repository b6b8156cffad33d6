/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Updates that workloads declare: decides what the controller does about a workload
 *
 * A Deployment, StatefulSet or DaemonSet with the annotation inplaced.io/update gets its images in place when any client
 * writes them into its template. Admission holds its controller in the write that changes them (HELD_ANNOTATION), or its manifest
 * does; then a run of "kubectl inplace rollout" brings the pods to the template, and the controller is let go. The
 * next action follows from the workload and from how the last run for its template has ended. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/kubectl/rollout-kinds.h"

/* Annotation with the reason why a declared update does not go on. */
#define UPDATE_STATUS_ANNOTATION "inplaced.io/update-status"
/* Name of the controller in records, wherever and as whom it runs. */
#define UPDATE_CONTROLLER "inplaced-controller"

typedef enum UpdateMode {
        UPDATE_ORDINARY, /* left to its controller: there is no annotation, or one with another value */
        UPDATE_IN_PLACE_IF_POSSIBLE,
        UPDATE_IN_PLACE_ONLY,
        _UPDATE_MODE_MAX,
} UpdateMode;

typedef struct UpdateFacts {
        UpdateMode mode;
        bool is_deleted;
        bool is_held;            /* the pods stay as they are while the template changes */
        bool is_ours;            /* admission holds it: it has to be given back */
        bool is_let_go;          /* the first of the two writes that end the hold is done */
        bool has_open_record;    /* an update in place is under way */
        bool has_others_record;  /* the same, by another user */
        bool has_status;         /* it has UPDATE_STATUS_ANNOTATION */
        bool has_late_condition; /* the status says that the progress deadline is exceeded */
        uint64_t
                template_hash; /* hash of the template and the partition, which an outcome is for */
} UpdateFacts;

/* Whether update_give_back_patch() has to remove the hold's annotation, which is empty. */
bool update_is_let_go(json_object *workload);

/* -ENOMEM is the only failure. */
int update_facts(WorkloadKind kind, json_object *workload, UpdateFacts *ret);
/* The same where all is to be left as if there had been no controller: no workload declares anything, and each annotation
 * that a declared update has left has to be given back. */
int update_facts_at_removal(WorkloadKind kind, json_object *workload, UpdateFacts *ret);

/* Whether the controller has to follow the workload, which the update of another user alone does not make it do.
 * was_concerned: it has followed it until now. */
bool update_is_concerned(const UpdateFacts *facts, bool was_concerned);

typedef enum UpdateOutcome {
        UPDATE_NOT_TRIED,
        UPDATE_DONE,
        UPDATE_ABANDONED,  /* taken back, or left where it was: the pods are not at the template */
        UPDATE_IMPOSSIBLE, /* only its own controller can bring the pods to the template */
        UPDATE_FAILED,     /* not now: it is tried again */
        _UPDATE_OUTCOME_MAX,
} UpdateOutcome;

/* How the last run has ended. */
typedef struct UpdateRun {
        UpdateOutcome outcome;
        uint64_t template_hash; /* hash of its template; 0: that changed meanwhile */
        uint64_t begun_hash;    /* the same of the run that is under way; 0 without one as well */
        unsigned n_failures;    /* runs in a row with this outcome, for that template; 0: done */
        int64_t ended_sec;
} UpdateRun;

typedef enum UpdateAction {
        UPDATE_DO_NOTHING,
        UPDATE_DO_RUN,       /* brings the pods to the template, or goes on with that */
        UPDATE_DO_UNDO,      /* brings the pods back, since one of them does not start */
        UPDATE_DO_RELEASE,   /* ends the open update where it is */
        UPDATE_DO_GIVE_BACK, /* lets the controller go on */
        _UPDATE_ACTION_MAX,
} UpdateAction;

UpdateAction update_plan(const UpdateFacts *facts, const UpdateRun *last, int64_t now_sec);
/* Whether an update is open, or the next run begins one: nothing else restarts the containers before its end. */
bool update_comes_first(const UpdateFacts *facts, const UpdateRun *last, int64_t now_sec);

/* Takes the facts of now. Forgets how the last run has ended when the template is another one than before: should that
 * run's template come back, the pods may have been updated in between. A run that is under way may have followed either
 * template: its outcome will be for none. */
void update_follow(UpdateFacts *facts, UpdateRun *last, const UpdateFacts *now);

/* Note the begin and the end of a run. */
void update_run_begin(UpdateRun *run, const UpdateFacts *facts);
void update_run_end(UpdateRun *run, UpdateOutcome outcome, int64_t now_sec);

/* Where not all workloads may have a run at a time: the workload of this last run is next before the workload of the
 * other one, since it has waited for longer. Else those that go on failing would keep the others from their first run. */
bool update_run_is_before(const UpdateRun *run, const UpdateRun *other);

/* Whether one more run may be under way, of at most `max` at a time. is_shared: all namespaces share the places; then one of
 * them takes three quarters at most, so that updates of one user that make no progress leave the others their places. */
bool update_has_place(size_t n_running, size_t n_of_namespace, size_t max, bool is_shared);

/* Memory of a run that is under way. */
typedef struct UpdateLoad {
        const char *namespace;
        size_t size; /* bytes */
} UpdateLoad;

/* Returns the run that has to end where all of them take more than that: the largest of the namespace that takes most, so that
 * large pods and templates of one user do not end the updates of others. n: none has to. */
size_t update_over_memory(const UpdateLoad *loads, size_t n, size_t max);

/* Adds the end of admission's hold, which lets the workload's controller go on, to a merge patch that has annotations. */
int update_add_end_of_hold(WorkloadKind kind, json_object *workload, json_object *patch);
/* A merge patch that lets the workload's controller go on, and removes what was written for the hold. Its
 * resourceVersion is the one that was seen, so that no newer template is let go. For the policy, a write that removes the hold
 * and leaves no record is one of "kubectl replace". So where there is no record the hold's annotation is emptied, and a second
 * patch removes it. forgets: removes the record of its last update as well, once it is not held. The caller owns *ret. */
int update_give_back_patch(WorkloadKind kind, json_object *workload, bool forgets,
                           json_object **ret);
/* A merge patch that shows the reason on the workload with this uid; NULL: removes it. The caller owns *ret. */
int update_status_patch(const char *uid, const char *reason, json_object **ret);
/* A strategic merge patch of a Deployment's status, whose controller leaves this condition alone while it is paused: so
 * "kubectl rollout status" ends with a failure. reason: NULL: the update goes on. The caller owns *ret. */
int update_condition_patch(const char *uid, const char *reason, int64_t now_sec, json_object **ret);
