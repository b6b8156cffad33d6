/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stop plan
 *
 * Decides by a table what to do next to stop one container: no I/O, no clock, no memory. stops.c
 * feeds it the events and carries out the actions that it returns.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"

typedef enum StopState {
        STOP_STATE_QUEUED,           /* waiting for a slot */
        STOP_STATE_INSPECTING,       /* asking the runtime for the container */
        STOP_STATE_INSPECTING_LATER, /* the runtime refused */
        STOP_STATE_PARKED,           /* waiting for the runtime; nothing was done yet */
        STOP_STATE_ASKING,           /* asking whether a kubelet runs */
        STOP_STATE_WAITING,          /* waiting for a kubelet */
        STOP_STATE_ASKING_AGAIN,     /* asking whether a kubelet runs now */
        STOP_STATE_ADDRESSING,       /* asking the runtime for the pod's address */
        STOP_STATE_CHECKING,         /* asking the owner whether the stop is still requested */
        STOP_STATE_HOOK,             /* the stop has begun from here on */
        STOP_STATE_STOPPING,
        STOP_STATE_CONFIRMING, /* asking the runtime what became of the container */
        STOP_STATE_RESTING,    /* the runtime would not stop it */
        STOP_STATE_LOST,       /* waiting for the runtime; the container may be ending */
        STOP_STATE_ENDED,
        _STOP_STATE_MAX,
} StopState;

typedef enum StopEvent {
        STOP_ON_NOTHING,
        STOP_ON_SLOT,
        STOP_ON_RUNNING, /* the container runs */
        STOP_ON_BEGUN, /* the container runs, and its stop had begun before this run of the agent */
        STOP_ON_SLEEPING, /* the same, and the sleep that is its hook is not over */
        STOP_ON_EXITED, /* the container has exited, maybe by a stop of a previous run, or by its hook */
        STOP_ON_OVER,    /* the stop has ended, with a known result */
        STOP_ON_REFUSED, /* a runtime that is there has refused */
        STOP_ON_RUNTIME_AWAY,
        STOP_ON_RUNTIME_BACK,
        STOP_ON_KUBELET_THERE,
        STOP_ON_KUBELET_AWAY,
        STOP_ON_ADDRESS,   /* the address is known, or not needed */
        STOP_ON_REQUESTED, /* the stop is still requested, and there is no hook to run */
        STOP_ON_REQUESTED_WITH_HOOK,
        STOP_ON_OUTDATED, /* still requested, but the container or the kubelet may have changed */
        STOP_ON_HOOKED,
        STOP_ON_ANSWERED, /* the runtime has answered the stop, whatever the answer is */
        STOP_ON_TIMER,
        _STOP_EVENT_MAX,
} StopEvent;

typedef enum StopAction {
        STOP_DO_NOTHING,
        STOP_DO_QUEUE,
        STOP_DO_INSPECT,
        STOP_DO_PAUSE,
        STOP_DO_PARK,
        STOP_DO_ASK, /* ask whether a kubelet runs */
        STOP_DO_WAIT,
        STOP_DO_FIND_ADDRESS,
        STOP_DO_CHECK,
        STOP_DO_RUN_HOOK,
        STOP_DO_LOOK, /* ask whether the container of the hook still runs */
        STOP_DO_STOP,
        STOP_DO_CONFIRM,
        STOP_DO_END,
} StopAction;

/* Moves *state by one event and returns what has to be done now. An event that the state does not
 * expect changes nothing. */
StopAction stop_plan_step(StopState *state, StopEvent event);

/* A stop fails after this many refusals in a row by a runtime that is there. */
#define STOP_REFUSALS_MAX 3

/* The error may be the runtime's fault rather than the container's. */
bool stop_plan_is_silence(ErrorKind kind);

#define STOP_GRACE_MIN_SEC ((int64_t) 2) /* minimum for StopContainer, as in the kubelet */

/* Returns the grace period in seconds: the requested one unless negative, else the one in the
 * container's annotations (NULL: none), else 30. */
int64_t stop_plan_grace_sec(int64_t asked_sec, const char *deletion, const char *termination);

/* Returns the part of a sleep that is left when this is left of the grace period, with which it
 * began; no more than that. */
int64_t stop_plan_sleep_sec(int64_t sleep_sec, int64_t grace_sec, uint64_t left_usec);

/* Returns the part of the grace period that is left for the runtime. */
int64_t stop_plan_left_sec(uint64_t deadline_usec, uint64_t now_usec);
