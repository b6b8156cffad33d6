/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The condition inplaced.io/InPlaceVerified: whether a pod's containers run what the pod asks for
 *
 * It is True when each container runs the image that its reference means on this node, with the
 * environment that its labels and annotations ask for now. Pure.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/inplace/image-ids.h"

#define CONDITION_MESSAGE_MAX 1024 /* bytes */

typedef enum ConditionReason {
        CONDITION_VERIFIED,
        CONDITION_UNKNOWN,
        CONDITION_NOT_RUNNING,
        CONDITION_IMAGE_STALE,
        CONDITION_ENVIRONMENT_STALE,
        CONDITION_CANNOT_RESTART, /* no kubelet would start it again as the pod asks for */
        CONDITION_RESTARTING,     /* the agent waits for its end or its successor */
        _CONDITION_REASON_MAX,
} ConditionReason;

/* A main container or a native sidecar. Unknown texts are "". */
typedef struct ConditionContainer {
        const char *name;
        const char *reference;
        const char *reference_id;
        const char *running_id;
        bool is_running;
        bool is_known; /* the next fields describe the container that runs now */
        bool is_restarting;
        bool has_environment; /* labels or annotations make part of it */
        bool knows_environment;
        bool is_environment_stale;
        bool may_restart; /* the kubelet starts it again, with the new environment */
        bool is_static;   /* a file of the node decides on its environment, not its metadata */
        bool is_environment_own; /* each restart changes it */
        bool has_failed;         /* a restart did not help */
} ConditionContainer;

typedef struct Condition {
        ConditionReason reason;
        char *message; /* owned */
} Condition;

#define CONDITION_INIT ((Condition){ .message = NULL })

/* Takes the reason of the container in the worst state. The message describes all containers with a
 * problem, or, if there is none, all. */
int condition_of(const ConditionContainer *containers, size_t n_containers, Condition *ret);
void condition_done(Condition *condition);

/* "True", "False", "Unknown" */
const char *condition_status_of(ConditionReason reason);
/* "Verified", "Restarting" … */
const char *condition_reason_to_string(ConditionReason reason);
