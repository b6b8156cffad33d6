/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a workload is taken over from its controller for an update in place, and handed back
 *
 * While its pods change, the controller is kept from acting: a Deployment is paused, a StatefulSet has a
 * partition above all its pods, a DaemonSet is OnDelete. In the same write a record goes into an annotation of
 * the workload: by whom, the images before and after, and the part of the spec that gives it back. So
 * the workload itself shows what is under way, and any program can go on with it. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/kubectl/workload.h"

#define ROLLOUT_ANNOTATION "inplaced.io/rollout"
#define REVISION_LABEL \
        "controller-revision-hash" /* label of pods, and of a DaemonSet's ControllerRevisions */

/* Objects are borrowed. `owned` has the ReplicaSets of a Deployment, the ControllerRevisions of a StatefulSet
 * or DaemonSet, by name; pods are those that the selector selects, by name. */
typedef struct RolloutView {
        WorkloadKind kind;
        json_object *workload;
        json_object *owned;
        json_object *pods;
        json_object *budgets; /* PodDisruptionBudgets */
        /* Notes of this run: {pod: {"phase", "since", "first", "restarts"}}, the last two of containers, at the
         * beginning and when it counted as updated. May be NULL. */
        json_object *noted;
        int64_t now_sec;
} RolloutView;

typedef enum RolloutMode {
        ROLLOUT_SET_IMAGE, /* the template gets the images as well */
        ROLLOUT_FOLLOW, /* the template has them already, its strategy keeps the pods as they are */
} RolloutMode;

typedef struct RolloutRequest {
        RolloutMode mode;
        bool takes_over;     /* an update that another user has begun */
        bool goes_back;      /* with the update that is open */
        json_object *images; /* {container: image}; only for ROLLOUT_SET_IMAGE */
        int64_t partition;   /* partition of a StatefulSet, from now on; negative: as it is */
        json_object *undone; /* record of the ended update that is undone; NULL: none */
        const char *by;
        int64_t now_sec;
} RolloutRequest;

/* The record of the workload, owned by the caller: NULL if there is none, or one that does not matter any
 * more. Refused if it cannot be read. */
int rollout_record_read(json_object *workload, json_object **ret, Error *reterr);
/* An update has begun and has not ended. */
bool rollout_record_is_open(json_object *record);

typedef enum RolloutUndo {
        ROLLOUT_UNDO_NOTHING, /* no update has ended well, or the template is another one by now */
        ROLLOUT_UNDO_SET_IMAGE, /* by setting the images before */
        ROLLOUT_UNDO_FOLLOW,    /* the template has them again: the pods have to follow */
        ROLLOUT_UNDO_TEMPLATE,  /* where the template comes from, they have to be put back first */
        _ROLLOUT_UNDO_MAX,
} RolloutUndo;

/* How an update that has ended is undone; record: NULL if there is none. */
RolloutUndo rollout_record_undo(const RolloutView *view, json_object *record);

/* Checks that the update is possible, and makes the patch that takes the workload over, which the caller
 * owns; NULL: it is as requested already. */
int rollout_begin(const RolloutView *view, const RolloutRequest *request, json_object **ret,
                  Error *reterr);

/* Makes the patch with which the user of the request goes on with the open update, or back, which the caller
 * owns; NULL: nothing changes. Refused if no update is open. */
int rollout_resume(const RolloutView *view, const RolloutRequest *request, json_object **ret,
                   Error *reterr);

/* Each reads a record, which is borrowed, and so are the results. */
bool record_is_undo(json_object *record);
bool record_sets_images(json_object *record); /* also those of the template */
json_object *record_images(json_object *record, bool is_before);
json_object *record_target(json_object *record); /* the images that the pods should have */

/* A patch of the workload with this record, and with the version that was seen. NULL: no memory. */
json_object *takeover_patch(json_object *workload, json_object *record);
/* The record in another state; gives_back: and the controller may act again. */
int takeover_patch_state(json_object *workload, json_object *record, const char *state,
                         bool gives_back, json_object **ret);

/* Notes in the record of an ended update that an attempt after it was refused at that time, so that --undo
 * does not take it for that attempt; NULL: not any more. */
int takeover_patch_refused(json_object *workload, json_object *record, const char *time,
                           json_object **ret);
/* Adds these images to the template that a patch of the workload writes. */
int takeover_add_images(json_object *patch, json_object *workload, json_object *images);

/* The controller leaves the pods alone while the template changes. */
bool workload_is_held(WorkloadKind kind, json_object *workload);

/* The images in the template of the containers that the other object names. NULL: no memory. */
json_object *template_images(json_object *template, json_object *containers);

/* The revision that pods name as theirs; NULL: none. */
const char *object_revision(json_object *object);
/* Finds the ReplicaSet or ControllerRevision of that name, with the template of those pods. NULL: it is gone. */
json_object *view_find_revision(const RolloutView *view, const char *revision);
json_object *view_newest_revision(const RolloutView *view);
/* Finds another ReplicaSet with the same template: a Deployment's controller would take the older of the two
 * for the new one, and move all pods there. NULL: there is none. */
int view_find_twin(const RolloutView *view, json_object *replica_set, json_object **ret);
/* The revision of the template, and the one that the pods should say; NULL: none. */
const char *view_revision(const RolloutView *view);
const char *view_target_revision(const RolloutView *view, json_object *record);

/* The first ordinal whose pod the StatefulSet's own strategy would bring to the template; 0: all. */
int64_t view_kept_below(const RolloutView *view);
bool view_has_pod(const RolloutView *view, json_object *record, json_object *pod);
int64_t pod_ordinal(json_object *pod);
/* The partition that a StatefulSet has after this update. */
int64_t record_partition(json_object *record);
/* Pods of a StatefulSet with lower ordinals stay as they are. */
int64_t view_partition(const RolloutView *view, json_object *record);
