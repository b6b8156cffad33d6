/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kinds of workloads, as far as updates in place differ between them
 *
 * One table has all differences: how a kind's controller is kept from acting, what stands between the workload and its
 * pods, and where its status has the numbers. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/kubectl/workload.h"

/* Annotation of a workload that admission holds because its template declares other images. Its text is the part of the
 * strategy to restore: the partition of a StatefulSet, "RollingUpdate" of a DaemonSet, "paused" of a Deployment. */
#define HELD_ANNOTATION "inplaced.io/held"

#define REVISION_LABEL \
        "controller-revision-hash" /* label of pods, and of a DaemonSet's ControllerRevisions */

/* Objects are borrowed. `owned` has the ReplicaSets of a Deployment, the ControllerRevisions of a StatefulSet
 * or DaemonSet, by name; pods are those that the selector selects, by name. */
typedef struct RolloutView {
        WorkloadKind kind;
        json_object *workload;
        json_object *owned;
        json_object *pods;
        json_object *budgets;            /* PodDisruptionBudgets */
        json_object *replica_set_owners; /* see restart_plan_is_of(); NULL: not known */
        /* Notes of this run: {pod: {"phase", "since", "silent", "seen", "first", "restarts", "generation"}}. "first" and
         * "restarts" are restarts of containers, before it got the images and when it counted as updated, in that generation;
         * "seen" is the last generation with which its kubelet has shown the old containers. May be NULL. */
        json_object *noted;
        int64_t now_sec;
} RolloutView;

typedef struct RolloutKind {
        bool is_pod;           /* the workload is its own pod, and has no controller */
        bool has_ordinals;     /* pods below a partition stay as they are */
        bool has_replica_sets; /* a ReplicaSet owns the pods, and its template follows them */
        bool has_revisions;    /* the template makes a revision at once, which its pods name */
        bool names_revisions;  /* pods do it by the label of the ControllerRevision, not its name */
        const char *owned;     /* resource of ReplicaSets or ControllerRevisions; NULL: none */
        /* Paths in the workload */
        const char *revision;        /* the template's; NULL: the newest ControllerRevision's */
        const char *desired;         /* the number of pods that it should have; NULL: 1 */
        const char *max_unavailable; /* the strategy's; NULL: it has none */
        ShareRounding rounding;      /* the controller's, for a percentage there */

        /* The controller leaves the pods alone while the template changes; NULL: it always does. */
        bool (*is_held)(json_object *workload);
        /* The part of the spec that holds the controller, and the one that lets it go on as before. */
        int (*hold)(json_object *workload, json_object **ret_hold, json_object **ret_former);
        /* HELD_ANNOTATION as admission writes it; NULL: the partition before. */
        const char *held;
        /* The part of the spec that lets the controller of a declared update go on: text is that of HELD_ANNOTATION. */
        json_object *(*give_back)(const char *text);
        /* Refuses a workload that cannot be taken over for a reason of this kind; NULL: there is none. */
        int (*check)(json_object *workload, Error *reterr);
        /* The controller's status has counted the pods that name the template's revision; NULL: it counts none. base: the
         * object with the template of the pods; NULL: it is gone. */
        bool (*has_counted)(json_object *workload, json_object *base, json_object *target,
                            int64_t n_revised);
} RolloutKind;

const RolloutKind *view_kind(const RolloutView *view);

/* A StatefulSet's or DaemonSet's strategy is RollingUpdate. */
bool workload_is_rolling(json_object *workload);
/* The controller leaves the pods alone while the template changes. */
bool view_is_held(const RolloutView *view);
/* Annotation of a workload whose template declares the images of its pods: they are updated in place when it changes. */
#define UPDATE_ANNOTATION "inplaced.io/update"
#define UPDATE_IF_POSSIBLE "InPlaceIfPossible"
#define UPDATE_ONLY "InPlaceOnly"

bool workload_is_declared(json_object *workload);
/* Where its pods cannot get in place what it declares, it stays held. */
bool workload_is_in_place_only(json_object *workload);
/* The text of its HELD_ANNOTATION; NULL: there is none, or it is empty: the workload has been let go. */
const char *workload_held(json_object *workload);
/* Makes the part of the spec that lets its controller go on after a hold by admission; NULL: no memory. */
json_object *workload_give_back(WorkloadKind kind, json_object *workload);
bool workload_is_held(WorkloadKind kind, json_object *workload);
/* The controller, if there is one, has seen the workload as it is. */
bool view_is_observed(const RolloutView *view);
/* The template gets the images after the first pod, and not with the record. */
bool view_template_follows(const RolloutView *view);
/* The template is still this one. A pod is its own template, which its status changes and which leads to no images. */
bool view_has_template(const RolloutView *view, json_object *template);

/* The images in the template of the containers that the other object names. NULL: no memory. */
json_object *template_images(json_object *template, json_object *containers);

/* The revision that pods name as theirs; NULL: none. */
const char *object_revision(json_object *object);
/* The name by which records and pods know a ReplicaSet or ControllerRevision; NULL: none. */
const char *view_name_revision(const RolloutView *view, json_object *owned);
/* Finds the ReplicaSet or ControllerRevision of that name, with the template of those pods. NULL: it is gone. */
json_object *view_find_revision(const RolloutView *view, const char *revision);
json_object *view_newest_revision(const RolloutView *view);
/* Finds the object with the template of the pods at the beginning; NULL: it is gone. */
json_object *view_base(const RolloutView *view, json_object *record);
/* The same if it is a ReplicaSet, which the update writes; NULL: it is none, or gone. */
json_object *view_replica_set(const RolloutView *view, json_object *record);
/* The revision of the template, and the one that the pods should say; NULL: none. */
const char *view_revision(const RolloutView *view);
const char *view_target_revision(const RolloutView *view, json_object *record);

/* The number of pods that it should have. */
int64_t view_desired_pods(const RolloutView *view);
/* The partition of a StatefulSet's own strategy, also while admission holds it. */
int64_t workload_partition(json_object *workload);
/* The first ordinal whose pod the StatefulSet's own strategy would bring to the template; 0: all. */
int64_t view_kept_below(const RolloutView *view);
/* The partition of this update. */
int64_t view_record_partition(const RolloutView *view, json_object *record);
/* Pods of a StatefulSet with lower ordinals stay as they are. */
int64_t view_partition(const RolloutView *view, json_object *record);
bool view_has_pod(const RolloutView *view, json_object *record, json_object *pod);
/* The workload's own, whichever revision it is of: its selector may choose pods of others as well. */
bool view_owns_pod(const RolloutView *view, json_object *pod);
/* A StatefulSet that was scaled down, or has other ordinals, has the pod still, and its controller deletes it. */
bool view_pod_is_surplus(const RolloutView *view, json_object *pod);
int64_t pod_ordinal(json_object *pod);
