/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides whether to restart a container because its metadata has changed
 *
 * The agent stops a container whose environment was made from labels or annotations with another value
 * now, once, if its pod asks for that and the kubelet would start it again. It does not repeat a restart
 * that did not help, unless the kubelet was late, and leaves containers alone that the kubelet is going
 * to restart itself. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

typedef enum RestartPlan {
        RESTART_PLAN_NOTHING,
        RESTART_PLAN_AWAIT, /* the container is being stopped, or was: wait for its successor */
        RESTART_PLAN_FOR_KUBELET, /* the kubelet will restart it */
        RESTART_PLAN_FOR_SYNC,    /* wait until the kubelet has the new metadata for sure */
        RESTART_PLAN_FOR_RETRY,   /* a stop failed a while ago */
        RESTART_PLAN_SKIP,        /* the kubelet would not start it again */
        RESTART_PLAN_GIVE_UP,     /* a restart did not help */
        RESTART_PLAN_STOP,
        _RESTART_PLAN_MAX,
} RestartPlan;

/* State of the container that the decision is about. */
typedef enum RestartTarget {
        RESTART_TARGET_NONE, /* the pod is over, or the container does not run or is not known */
        RESTART_TARGET_RUNNING,
        RESTART_TARGET_STOPPED, /* the container is being stopped, or was */
        _RESTART_TARGET_MAX,
} RestartTarget;

/* Reason to wait before a stop. Of several reasons, the first counts. */
typedef enum RestartHold {
        RESTART_HOLD_NONE,
        RESTART_HOLD_KUBELET, /* the kubelet will restart it soon, since its image has changed */
        RESTART_HOLD_SYNC,    /* the kubelet may act on an older state of the pod */
        RESTART_HOLD_RETRY,   /* a stop failed or was refused a while ago */
        _RESTART_HOLD_MAX,
} RestartHold;

typedef struct RestartFacts {
        RestartTarget target;
        RestartHold hold;
        bool is_requested; /* the pod asks for restarts, at this moment */
        bool may_restart;  /* the kubelet starts it again, and its environment is current then */
        bool has_failed;   /* a restart for this expected hash did not help */
        uint32_t expected_hash;
        uint32_t running_hash; /* 0: unknown */
} RestartFacts;

RestartPlan restart_plan(const RestartFacts *facts);

/* Returns the pause after a restart, the n-th one in a row (from 1) for the same values, that did not
 * bring them: the kubelet did not have them yet. 0: another restart would not help. is_overridden:
 * another variable of the same name always wins. */
uint64_t restart_again_usec(unsigned n, bool is_overridden);

/* A restart is under way that ends with another container. */
bool restart_plan_is_restarting(RestartPlan plan);
