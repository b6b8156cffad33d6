/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a container is restarted because its metadata has changed
 *
 * A container whose environment was made from labels or annotations that have another value now is
 * stopped, once, if its pod asks for that, and if the kubelet would start it again. What a restart
 * did not heal is not tried again, unless the kubelet was late; and what the kubelet is going to
 * restart by itself is left to it. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

typedef enum RestartPlan {
        RESTART_PLAN_NOTHING,
        RESTART_PLAN_AWAIT, /* it was stopped, or is being stopped: its successor is awaited */
        RESTART_PLAN_FOR_KUBELET, /* the kubelet will restart it */
        RESTART_PLAN_FOR_SYNC,    /* until the kubelet has the new metadata for sure */
        RESTART_PLAN_FOR_RETRY,   /* stopping it failed a while ago */
        RESTART_PLAN_SKIP,        /* nothing would start it again */
        RESTART_PLAN_GIVE_UP,     /* a restart did not heal it */
        RESTART_PLAN_STOP,
        _RESTART_PLAN_MAX,
} RestartPlan;

typedef struct RestartState {
        bool is_asked; /* by its pod, at this moment */
        bool is_over;  /* the pod is deleted or finished */
        bool is_running;
        bool comes_back; /* the kubelet starts it again, whatever its exit status */
        uint32_t expected_hash;
        uint32_t running_hash;       /* 0: unknown */
        bool has_stop;               /* is being stopped, or has been */
        bool is_kubelets;            /* the kubelet will restart it since its image has changed */
        bool has_waited_for_kubelet; /* for longer than that takes */
        bool is_behind;              /* the kubelet may have an older state of the pod in hand */
        bool must_wait;              /* a stop failed or was refused a while ago */
        bool has_failed;             /* a restart for this expected hash did not heal it */
} RestartState;

RestartPlan restart_plan(const RestartState *state);

/* One that has ended with an environment that is not the one that is asked for. */
typedef struct RestartOutcome {
        unsigned number;      /* of the restart, among those in a row for the same values; from 1 */
        uint32_t before_hash; /* of the environment before it; 0: unknown */
        uint32_t running_hash; /* and after it */
        bool is_overridden;    /* another variable of the same name wins, whatever is asked for */
} RestartOutcome;

/* How long to wait before it is restarted once more; 0: it is left alone. A successor that has
 * exactly its predecessor's environment was started by a kubelet that had not learned of the new
 * values yet. */
uint64_t restart_again_usec(const RestartOutcome *outcome);

/* Something is under way that will end with another container. */
bool restart_plan_is_restarting(RestartPlan plan);
