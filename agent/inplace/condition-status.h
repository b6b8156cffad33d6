/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The condition inplaced.io/InPlaceVerified: whether what a pod asks for is what runs
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
        CONDITION_CANNOT_RESTART, /* nothing would start it again, or not as it should be */
        CONDITION_RESTARTING,     /* its end, or its successor, is awaited */
        _CONDITION_REASON_MAX,
} ConditionReason;

/* A main container or a native sidecar. Texts are "" where nothing is known. */
typedef struct ConditionContainer {
        const char *name;
        const char *reference;
        const char *reference_id;
        const char *running_id;
        bool is_running;
        bool is_known; /* what follows is about the one that runs now */
        bool is_restarting;
        bool has_environment; /* something in it is made from labels or annotations */
        bool knows_environment;
        bool is_environment_stale;
        bool comes_back; /* as what its metadata asks for */
        bool is_static;  /* a file of the node, not its metadata, decides on its environment */
        bool has_failed; /* a restart did not heal it */
} ConditionContainer;

typedef struct Condition {
        ConditionReason reason;
        char *message; /* owned */
} Condition;

#define CONDITION_INIT ((Condition){ .message = NULL })

/* The reason is the one of the container that is worst off; the message describes all that are
 * not as they should be, or, if there is none, all. */
int condition_of(const ConditionContainer *containers, size_t n_containers, Condition *ret);
void condition_done(Condition *condition);

/* "True", "False", "Unknown" */
const char *condition_status_of(ConditionReason reason);
/* "Verified", "Restarting" … */
const char *condition_reason_to_string(ConditionReason reason);
