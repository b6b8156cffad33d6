/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pull plan
 *
 * What to do next about one image, as two tables: what ends a state, and what a state owns. No I/O,
 * no clock, no memory. pull.c feeds it the events that really happen, carries out the actions that
 * it answers, and releases what the next state does not own.
 */

#include <stdbool.h>

#include "agent/image/desired-image.h"
#include "agent/image/image-status.h"

typedef enum PullState {
        PULL_QUEUED,         /* for its turn to ask whether the image is there */
        PULL_INSPECTING,     /* asking the runtime whether the image is there */
        PULL_WAITING,        /* for its turn to pull */
        PULL_AUTHENTICATING, /* asking for credentials */
        PULL_PULLING,
        PULL_COUNTING,    /* asking the runtime what was fetched */
        PULL_IDENTIFYING, /* asking the runtime for the ID of what it has */
        PULL_ASSESSING,   /* asking the runtime how it keeps the layers */
        PULL_COMPLETING,  /* until the runtime has fetched them all */
        PULL_CRAMPED,     /* until the disk has room */
        PULL_BACKING_OFF,
        PULL_PARKED, /* until the runtime is back */
        PULL_SUCCEEDED,
        PULL_FAILED,
        _PULL_STATE_MAX,
} PullState;

typedef enum PullEvent {
        PULL_ON_NOTHING,
        PULL_ON_SLOT,
        PULL_ON_PRESENT,
        PULL_ON_ABSENT,
        PULL_ON_KEYS,
        PULL_ON_PULLED,
        PULL_ON_COUNTED,
        PULL_ON_IDENTIFIED,
        PULL_ON_ENOUGH,        /* as much is there as was asked for */
        PULL_ON_INCOMPLETE,    /* the runtime goes on fetching */
        PULL_ON_DENIED,        /* these credentials do not do, and there are others */
        PULL_ON_REFUSED,       /* with attempts left */
        PULL_ON_EXHAUSTED,     /* and that was the last attempt */
        PULL_ON_DISK_LOW,      /* no pull may begin */
        PULL_ON_DISK_CRITICAL, /* it is about to be full */
        PULL_ON_TOO_LARGE,     /* for what is free on it, as the manifest says */
        PULL_ON_ROOM,
        PULL_ON_TIMER,
        PULL_ON_RUNTIME_AWAY,
        PULL_ON_RUNTIME_BACK,
        PULL_ON_RUNTIME_SICK, /* it is back, but goes away again and again over this image */
        PULL_ON_DEADLINE,
        _PULL_EVENT_MAX,
} PullEvent;

typedef enum PullAction {
        PULL_DO_NOTHING,
        PULL_DO_QUEUE,
        PULL_DO_INSPECT,
        PULL_DO_WAIT,
        PULL_DO_AUTHENTICATE,
        PULL_DO_PULL,
        PULL_DO_COUNT,
        PULL_DO_IDENTIFY,
        PULL_DO_ASSESS,
        PULL_DO_WAIT_FOR_LAYERS,
        PULL_DO_WAIT_FOR_ROOM,
        PULL_DO_BACK_OFF,
        PULL_DO_PARK,
        PULL_DO_REPORT,
} PullAction;

/* What a state may hold. */
typedef enum PullHolding {
        PULL_HOLDS_INSPECTION = 1 << 0, /* a place among those that ask, or that wait to ask */
        PULL_HOLDS_SLOT = 1 << 1,       /* a place among those that pull, or that wait to pull */
        PULL_HOLDS_KEYS = 1 << 2,       /* a question for credentials */
        PULL_HOLDS_CALL = 1 << 3,       /* a call to the runtime */
        PULL_HOLDS_REQUEST = 1 << 4,    /* with its credentials */
        PULL_HOLDS_PROGRESS = 1 << 5,
        PULL_HOLDS_RETRY = 1 << 6,    /* a timer */
        PULL_HOLDS_DEADLINE = 1 << 7, /* the timer of all attempts together */
        PULL_HOLDS_DISK = 1 << 8,     /* a place among those that the disk's state concerns */
        PULL_HOLDS_LAYERS = 1 << 9,   /* a question for how the layers are kept */
} PullHolding;

/* Moves *state by one event and returns what has to be done now. An event that the state does not
 * expect changes nothing. */
PullAction pull_plan_step(PullState *state, PullEvent event);

/* Of PullHolding: what has to be released on the way from one state to another. */
unsigned pull_plan_release(PullState from, PullState to);

/* How a state is shown to people when it begins. */
ImageStep pull_plan_step_shown(PullState state);

/* How many attempts have failed, and how many of them by a plain no of the registry, see
 * pull_reason_is_refusal(). */
typedef struct PullFailures {
        unsigned n;
        unsigned n_refusals;
} PullFailures;

/* The last of these failures is the last one at all for a desired image with such limits, or is not:
 * PULL_ON_EXHAUSTED or PULL_ON_REFUSED. */
PullEvent pull_plan_judge(PullReason reason, PullFailures failures, const DesiredImage *limits);

/* How many attempts there are at most, if all others end like the last one; 0: there is no limit. */
uint64_t pull_plan_n_attempts(PullReason reason, bool is_refusal, PullFailures failures,
                              const DesiredImage *limits);

/* How long the first pause between two attempts is, and how long they get. What has a limit keeps
 * OpenKruise's pauses; what is tried for ever has those of the kubelet's ImagePullBackOff, or a shorter
 * first one. */
typedef struct PullPauses {
        uint64_t min_usec;
        uint64_t max_usec;
} PullPauses;

PullPauses pull_plan_pauses(int64_t backoff_limit);

bool pull_state_is_final(PullState state);
const char *pull_state_to_string(PullState state);
