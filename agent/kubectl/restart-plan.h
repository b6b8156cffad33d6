/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How far a restart of containers is, and how many pods may restart
 *
 * A pod restarts because its images were spelled otherwise, see restart-image-plan.h, or by a ContainerRecreateRequest,
 * which is made and read here. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/kubectl/takeover-plan.h"

#define RESTART_LABEL "inplaced.io/restart" /* the requests of one command have one value of it */

/* An argument. Borrowed from the text that it was read from. */
typedef struct RestartTarget {
        char *pods;      /* for pod_choice_of_name(): "web-0", "deployment/web"; owned */
        char *container; /* NULL: all that --containers names, or all; owned */
} RestartTarget;

#define RESTART_TARGET_INIT ((RestartTarget){ .pods = NULL })

/* "web-0", "web-0/main", "deployment/web", "deployment/web/main". */
int restart_target_parse(const char *text, RestartTarget *ret, Error *reterr);
void restart_target_done(RestartTarget *target);

/* Which of its main containers and native sidecars: names are separated by commas, NULL is all of the main
 * ones. *ret is a list of texts, owned by the caller. Refused if the pod has none of that name. */
int restart_plan_containers(json_object *pod, const char *names, json_object **ret, Error *reterr);

typedef struct RestartRequest {
        const char *version; /* version of apps.kruise.io */
        const char *pod;
        const char *run;         /* the value of the label */
        json_object *containers; /* a list of texts */
        int64_t keep_sec;        /* after its end */
} RestartRequest;

/* The body of it; the caller owns *ret. */
int restart_plan_body(const RestartRequest *request, json_object **ret);

typedef enum RestartEnd {
        RESTART_RUNNING,
        RESTART_SUCCEEDED,
        RESTART_FAILED,
        RESTART_NOT_PULLED, /* the old container is gone, and the kubelet cannot get the image */
        RESTART_GONE,       /* the pod, which needs no restart any more */
} RestartEnd;

/* How far a request is. *ret_why: of a failure, owned by the caller; NULL: nothing is said. */
int restart_plan_read(json_object *request, RestartEnd *ret_end, char **ret_why);

/* How far these containers of a pod are, by what was there before. *ret_why: of a failure, or what is awaited; owned by the
 * caller. */
int restart_plan_observe(json_object *before, json_object *pod, json_object *containers,
                         int64_t now_sec, RestartEnd *ret_end, char **ret_why);

/* How many pods may become unavailable, by the PodDisruptionBudgets of this one and, if the view has a workload, by how many of
 * its pods are unavailable already. *ret_why: why none may; owned by the caller. */
int restart_plan_allowance(const RolloutView *view, int64_t max_unavailable, json_object *pod,
                           int64_t *ret, char **ret_why);

/* A workload's selector may choose pods of others as well, such as of a Job. owners: {UID of a ReplicaSet: UID of its
 * controller, or ""}; one that is not there, or made since, counts as the Deployment's. */
bool restart_plan_is_of(WorkloadKind kind, json_object *workload, json_object *owners,
                        json_object *pod);

/* The pod has ended, or is about to be removed: nothing restarts in it. */
bool restart_plan_is_over(json_object *pod);
