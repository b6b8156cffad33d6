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
#include "agent/kubectl/rollout-kinds.h"
#include "agent/kubectl/rollout-record.h"

typedef enum RolloutMode {
        ROLLOUT_SET_IMAGE, /* the template gets the images as well */
        ROLLOUT_FOLLOW, /* the template has them already, its strategy keeps the pods as they are */
} RolloutMode;

typedef struct RolloutRequest {
        RolloutMode mode;
        bool takes_over;     /* an update that another user has begun */
        bool goes_back;      /* with the update that is open */
        json_object *images; /* {container: image}; only for ROLLOUT_SET_IMAGE; NULL: none */
        json_object *
                before; /* {container: image}, in place of what the template says of the images before, whose tags have
                              * moved; NULL: none */
        int64_t partition;   /* partition of a StatefulSet, from now on; negative: as it is */
        int64_t first;       /* number of pods that are updated before it waits; 0: all */
        json_object *undone; /* record of the ended update that is undone; NULL: none */
        const char *by;
        int64_t now_sec;
} RolloutRequest;

typedef enum RolloutUndo {
        ROLLOUT_UNDO_NOTHING, /* no update has ended well, or the template is another one by now */
        ROLLOUT_UNDO_SET_IMAGE, /* by setting the images before */
        ROLLOUT_UNDO_FOLLOW,    /* the template has them again: the pods have to follow */
        ROLLOUT_UNDO_TEMPLATE,  /* where the template comes from, they have to be put back first */
        _ROLLOUT_UNDO_MAX,
} RolloutUndo;

/* How an update that has ended is undone; record: NULL if there is none. */
RolloutUndo rollout_record_undo(const RolloutView *view, json_object *record);

/* The first ordinal whose pod an update that begins with this request is about. */
int64_t takeover_partition(const RolloutView *view, const RolloutRequest *request);
/* Refuses images of containers that the template does not have. */
int takeover_check_containers(json_object *template, json_object *images, Error *reterr);
/* Checks that the update is possible, and makes the patch that takes the workload over, which the caller
 * owns; NULL: it is as requested already. */
int rollout_begin(const RolloutView *view, const RolloutRequest *request, json_object **ret,
                  Error *reterr);

/* Makes the patch with which the user of the request goes on with the open update, also to other images, or
 * back, which the caller owns; NULL: nothing changes. A Deployment that was resumed is held again. Refused if
 * no update is open, and to other images where its controller replaces pods. Where another client has changed the
 * template, nothing but the user changes, and the plan leaves it to its controller; but a declared update goes on
 * to the images that its template has by now. */
int rollout_resume(const RolloutView *view, const RolloutRequest *request, json_object **ret,
                   Error *reterr);

typedef enum TemplateChange {
        TEMPLATE_UNCHANGED,
        TEMPLATE_CHANGED, /* by another client */
        TEMPLATE_RETARGETED, /* a declared update has other images by now, which rollout_resume() goes on to */
} TemplateChange;

/* Finds whether another client has changed the template of an open update; *ret_difference: the first difference besides images,
 * owned by the caller, which has set it to NULL; NULL: none is known. */
int view_find_change(const RolloutView *view, json_object *record, TemplateChange *ret,
                     char **ret_difference);
/* A ReplicaSet of the Deployment that should have pods beside the base, to which its controller has begun to move them; NULL:
 * none. */
json_object *view_find_rival(const RolloutView *view, const json_object *base);
/* Whether the Deployment had no replicas when its controller scaled this ReplicaSet last, which a rollout would not have done. */
bool replica_set_is_scaled_to_zero(json_object *replica_set);
/* Another client has resumed the Deployment of an open update, and its controller has nothing to do: each pod stays as
 * it is, whatever its images. */
int view_is_resumed(const RolloutView *view, json_object *record, bool *ret);
/* Finds another ReplicaSet with the same template: a Deployment's controller would take the older of the two
 * for the new one, and move all pods there. NULL: there is none. */
int view_find_twin(const RolloutView *view, json_object *replica_set, json_object **ret);
