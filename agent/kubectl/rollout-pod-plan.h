/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How far a pod is in an update in place, by what the API server shows of it
 *
 * A container was replaced when it has another ID than when its image was patched, which an annotation of
 * the pod remembers; the pod is updated when it is ready then, and when the agent of its node, if there is one,
 * has verified what runs. Pure.
 *
 * Another ID alone does not tell whether the kubelet had seen the patch: a container that has just ended is started again
 * with the image before. Its content tells it, or that the kubelet has shown the old container after it had seen the patch;
 * without either the pod is awaited for as long as an old container may run. Not told is an old tag that has moved meanwhile,
 * and an image before this one whose pull had failed, and succeeds just then.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/kubectl/pod-gate.h"
#include "agent/kubectl/takeover-plan.h"

typedef enum RolloutPhase {
        ROLLOUT_LEFT,     /* it is deleted, another's, or below the partition */
        ROLLOUT_OLD,      /* waits for its turn */
        ROLLOUT_DRAINING, /* the gate is closed, or closing */
        ROLLOUT_UPDATING, /* the new containers are awaited */
        ROLLOUT_FAILED,   /* they do not start */
        ROLLOUT_UPDATED,
        _ROLLOUT_PHASE_MAX,
} RolloutPhase;

typedef struct PodState {
        json_object *pod;   /* owned: the view may have a newer one by now */
        json_object *noted; /* notes of it, see RolloutView; owned */
        RolloutPhase phase;
        char *reason; /* why it has failed, or what is awaited of it, for people; NULL: nothing */
        int64_t n_restarts; /* restarts of the containers that the update is about */
        bool is_member;     /* the workload has it, also below the partition */
        bool is_restarting; /* see restart_image_is_awaited() */
        bool is_available;  /* see view_pod_is_available(), and it is not restarting */
        /* The closed gate hides that the node is lost; but a kubelet would have ended the old container long ago. */
        bool is_silent;
        bool is_old_seen; /* the kubelet shows the old containers, and has seen the pod with the new images */
        /* It was out of service before, or its node is lost, and it has not run the images for so long that it
         * need not any more: the end does not wait for it. Nor does it for one that is deleted and does not end. */
        bool is_given_up;
        /* It was made of another template than the pods at the beginning, and no new image would bring it to that of its
         * workload: its controller replaces it in the end. */
        bool is_foreign;
} PodState;

/* Makes a text of everything that decides the states of pods besides pods and notes: while it stays
 * the same, so does the state of a pod that has not changed. The caller owns *ret. */
int rollout_aim(const RolloutView *view, json_object *record, char **ret);
int pod_state_read(const RolloutView *view, json_object *record, json_object *pod, PodState *ret);
void pod_state_done(PodState *state);
/* Whether its update may have begun: then it counts as unavailable, even if its status does not say
 * so yet. */
bool pod_state_is_in_flight(const PodState *state);
const char *rollout_phase_to_string(RolloutPhase phase);

bool pod_is_ready(json_object *pod);
/* It is to get other resources, for which its kubelet may yet restart containers. */
bool pod_is_resizing(json_object *pod);
/* Ready for the workload's minReadySeconds, since its last container was started. */
bool view_pod_is_available(const RolloutView *view, json_object *pod);

/* An update forward that is as old as this record has changed the pod, and gone back. */
bool pod_has_gone_back(json_object *pod, json_object *record);

/* The annotation for the next patch. NULL: no memory. */
json_object *pod_make_former(const RolloutView *view, json_object *pod, json_object *record);
