/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Plan of an update of a workload in place: decides on the next write
 *
 * Once a workload is taken over, each pod gets the images, and so does the template that its pods come from: that
 * of a ReplicaSet when the first pod runs them, any other before. In the end the controller finds all as it
 * should be and may act again. What comes next follows from the record and from what is there now, and from
 * nothing else: so any program that plans again goes on where another stopped, forward or, if the record says
 * so, back. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/kubectl/rollout-census.h"
#include "agent/kubectl/takeover-plan.h"

typedef struct RolloutLimits {
        const char *
                max_unavailable; /* "1", "25%"; NULL: as the workload's own strategy has it, or 1 */
        int64_t grace_sec;       /* between the gate and the update */
        int64_t settled_sec;     /* until then a run that was replaced may still write */
        bool keeps_no_history;   /* the template before cannot be kept for kubectl rollout undo */
        bool leaves_hold;        /* the controller of declared updates ends the hold of admission */
        int64_t progress_sec;    /* most of progressDeadlineSeconds that counts; 0: all */
} RolloutLimits;

typedef enum RolloutAction {
        ROLLOUT_WAIT,               /* for `message` */
        ROLLOUT_PATCH_WORKLOAD,     /* the template of the workload */
        ROLLOUT_PATCH_REPLICA_SET,  /* the template its pods come from */
        ROLLOUT_CREATE_REPLICA_SET, /* the template before, for kubectl rollout undo */
        ROLLOUT_CLOSE_GATE,         /* the pod's gate, by its status */
        ROLLOUT_RETURN_POD,         /* the same for the images that it has: its agent opens it */
        ROLLOUT_PATCH_POD,
        ROLLOUT_PAUSE, /* the first pods are updated, but for those in `message`; the others wait */
        ROLLOUT_HAND_BACK, /* to the controller: all is done, but for the pods in `message` */
        ROLLOUT_ABANDON,   /* the same, but it is not, because of `message` */
        ROLLOUT_RETARGET,  /* goes on to the images that the template has by now */
        ROLLOUT_STOP,      /* nothing is written any more, because of `message` */
        ROLLOUT_DONE,      /* but for the pods in `message` */
        _ROLLOUT_ACTION_MAX,
} RolloutAction;

typedef struct RolloutStep {
        RolloutAction action;
        const char *
                name; /* name of the pod or ReplicaSet that it is about; of the view or the patch */
        json_object *patch; /* a strategic merge patch, or what is created; owned */
        char *message;      /* owned */
} RolloutStep;

#define ROLLOUT_STEP_INIT ((RolloutStep){ .action = ROLLOUT_WAIT })

/* How many pods may be unavailable: as asked, as its own strategy has it, or 1. */
int view_max_unavailable(const RolloutView *view, const char *asked, int64_t *ret, Error *reterr);

/* How long a run waits while nothing changes. */
int64_t rollout_patience_sec(const RolloutView *view, const RolloutLimits *limits);
/* Refuses an update that a PodDisruptionBudget never allows, as far as that is known beforehand. */
int rollout_check_budgets(const RolloutView *view, const Census *census, Error *reterr);
/* Refuses an update of a container that its restart policy or rules might not start again: if its image could not be pulled
 * at once, or that of a volume, the pod would be lost. has_preloaded: the nodes have the images. */
int rollout_check_returns(const Census *census, json_object *record, bool has_preloaded,
                          Error *reterr);
/* The census is of this view and record. */
int rollout_plan(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                 const Census *census, RolloutStep *ret, Error *reterr);
/* The same when another client has removed the record, which is known from before: what it holds is given back,
 * since nothing else would any more. */
int rollout_plan_lost(const RolloutView *view, json_object *record, RolloutStep *ret);
/* Hands the workload back in the middle of an update, as it is: of a Deployment no pod is replaced. */
int rollout_plan_release(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                         RolloutStep *ret);
/* Makes *step return this pod if it is out of service for images that it has not got: 1. Otherwise 0: the step stays. */
int rollout_plan_return_pod(const RolloutView *view, json_object *record, json_object *pod,
                            RolloutStep *step);
/* Makes *step return a pod that is out of service for images that it will not get: before the workload is abandoned, since
 * another run has abandoned it, or since the partition was raised. */
int rollout_plan_return(const RolloutView *view, json_object *record, RolloutStep *step);
/* Names the pods that have got other images after the update has ended: a run that had hung writes even then. NULL: there are
 * none, or a controller replaces them. The caller owns *ret. */
int rollout_name_late(const RolloutView *view, json_object *record, const Census *census,
                      char **ret);
/* Names the pods that do not run the images, for a run that has not ended the update itself. NULL: there are none, or another
 * update follows. The caller owns *ret. */
int rollout_name_unfinished(const RolloutView *view, json_object *record, const Census *census,
                            char **ret);
/* Removes a copy of an open record from a ReplicaSet once the record itself is closed; ROLLOUT_WAIT: there is none. */
int rollout_plan_clean(const RolloutView *view, RolloutStep *ret);
/* The first write of this action that an update with this record will need, to be checked by the server beforehand;
 * ROLLOUT_WAIT: it needs none. */
int rollout_rehearse(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                     const Census *census, RolloutAction action, RolloutStep *ret);

/* Refuses, as ERROR_UNSUPPORTED, an answer to a patch whose images are not those of the patch: admission has changed
 * them. */
int rollout_check_answer(json_object *patch, json_object *answer, Error *reterr);
/* Names the write, whatever else its patch says: wanted again, it would change nothing. The caller owns *ret. */
int rollout_step_key(const RolloutStep *step, json_object *record, char **ret);

/* The action, which is for or because of this message. */
int rollout_step_set(RolloutStep *step, RolloutAction action, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
/* The same for or because of a pod. */
int rollout_step_set_pod(RolloutStep *step, RolloutAction action, const PodState *state);
void rollout_step_done(RolloutStep *step);
