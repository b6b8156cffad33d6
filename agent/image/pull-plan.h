/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pull plan
 *
 * Two tables decide the next step of a pull: the events that end a state, and the resources that a state
 * owns. No I/O, no clock, no memory. pull.c feeds the plan with events, carries out the actions that it
 * returns, and releases the resources that the next state does not own. The question whether an image is
 * there has a queue of its own, so that it does not wait behind slow pulls.
 */

#include <stdbool.h>

#include "agent/image/desired-image.h"
#include "agent/image/image-status.h"

typedef enum PullState {
        PULL_QUEUED,         /* waiting for its turn to ask whether the image is there */
        PULL_INSPECTING,     /* asking the runtime whether the image is there */
        PULL_WAITING,        /* waiting for its turn to pull */
        PULL_PAUSED,         /* the same, and waiting until no pod waits for its image */
        PULL_CHECKING,       /* has its turn, and asks again whether the image is there */
        PULL_AUTHENTICATING, /* asking for credentials */
        PULL_PULLING,
        PULL_COUNTING,         /* asking the runtime how much was fetched */
        PULL_IDENTIFYING,      /* asking the runtime for the ID of its image */
        PULL_ASSESSING,        /* asking the runtime how it keeps the layers */
        PULL_HELD,             /* waiting until the gate lets it pull */
        PULL_COMPLETING,       /* waiting until the runtime has fetched all layers */
        PULL_WAITING_FOR_DISK, /* waiting until the disk has room */
        PULL_BACKING_OFF,
        PULL_WAITING_FOR_RUNTIME, /* waiting until the runtime is back */
        PULL_SUCCEEDED,
        PULL_FAILED,
        _PULL_STATE_MAX,
} PullState;

typedef enum PullEvent {
        PULL_ON_NOTHING,
        PULL_ON_SLOT,
        PULL_ON_LATE_SLOT, /* a slot, so late that the image may be there by now */
        PULL_ON_PRESENT,
        PULL_ON_ABSENT,
        PULL_ON_CREDENTIALS,
        PULL_ON_PULLED,
        PULL_ON_COUNTED,
        PULL_ON_IDENTIFIED,
        PULL_ON_ENOUGH,        /* enough layers are there */
        PULL_ON_INCOMPLETE,    /* the runtime goes on fetching */
        PULL_ON_DENIED,        /* the registry refuses these credentials, and there are others */
        PULL_ON_REFUSED,       /* the attempt failed, with attempts left */
        PULL_ON_EXHAUSTED,     /* the last attempt failed */
        PULL_ON_DISK_LOW,      /* no pull may begin */
        PULL_ON_DISK_CRITICAL, /* the disk is about to be full */
        PULL_ON_TOO_LARGE,     /* the manifest needs more than is free on the disk */
        PULL_ON_ROOM,
        PULL_ON_GATE_SHUT,
        PULL_ON_GATE_OPEN,
        PULL_ON_PAUSE,  /* a pod's image is pulled first */
        PULL_ON_RESUME, /* no pod waits any more */
        PULL_ON_TIMER,
        PULL_ON_RUNTIME_AWAY,
        PULL_ON_RUNTIME_BACK,
        PULL_ON_RUNTIME_FLAPPING, /* the runtime is back, but this image makes it fail again and again */
        PULL_ON_DEADLINE,
        _PULL_EVENT_MAX,
} PullEvent;

typedef enum PullAction {
        PULL_DO_NOTHING,
        PULL_DO_QUEUE,
        PULL_DO_INSPECT,
        PULL_DO_WAIT,
        PULL_DO_PAUSE,
        PULL_DO_AUTHENTICATE,
        PULL_DO_PULL,
        PULL_DO_COUNT,
        PULL_DO_IDENTIFY,
        PULL_DO_ASSESS,
        PULL_DO_WAIT_FOR_LAYERS,
        PULL_DO_WAIT_FOR_ROOM,
        PULL_DO_HOLD,
        PULL_DO_BACK_OFF,
        PULL_DO_WAIT_FOR_RUNTIME,
        PULL_DO_REPORT,
} PullAction;

/* Resources that a state may hold. */
typedef enum PullResource {
        PULL_RESOURCE_INSPECTION = 1 << 0,  /* a place in the queue of inspections */
        PULL_RESOURCE_SLOT = 1 << 1,        /* a place in the queue of pulls */
        PULL_RESOURCE_CREDENTIALS = 1 << 2, /* a question for credentials */
        PULL_RESOURCE_CALL = 1 << 3,        /* a call to the runtime */
        PULL_RESOURCE_REQUEST = 1 << 4,     /* the request with its credentials */
        PULL_RESOURCE_PROGRESS = 1 << 5,
        PULL_RESOURCE_RETRY = 1 << 6,    /* a timer */
        PULL_RESOURCE_DEADLINE = 1 << 7, /* the timer of all attempts together */
        PULL_RESOURCE_DISK = 1 << 8,     /* a place in the disk guard's list */
        PULL_RESOURCE_LAYERS = 1 << 9,   /* a question for how the layers are kept */
} PullResource;

/* Moves *state by one event and returns the action for it. An unexpected event changes nothing. */
PullAction pull_plan_step(PullState *state, PullEvent event);

/* Returns the flags of PullResource to release between two states. */
unsigned pull_plan_release(PullState from, PullState to);

/* Returns the step that people see when the state begins. */
ImageStep pull_plan_step_shown(PullState state);

/* Number of failed attempts, and of plain refusals of the registry among them, see
 * pull_reason_is_refusal(). */
typedef struct PullFailures {
        unsigned n;
        unsigned n_refusals;
} PullFailures;

/* Returns PULL_ON_EXHAUSTED if the last of these failures ends a desired image with such limits,
 * else PULL_ON_REFUSED. */
PullEvent pull_plan_judge(PullReason reason, PullFailures failures, const DesiredImage *limits);

/* How far a pull has come, for the requests that it serves. */
typedef struct PullResult {
        ImagePhase phase;
        PullReason reason; /* reason of the last failure */
        PullFailures failures;
        bool is_held;          /* the runtime has the image, though not yet all of its layers */
        bool is_timed;         /* the clock of activeDeadlineSeconds runs, */
        uint64_t elapsed_usec; /* for so long */
        const DesiredImage *desired; /* merged requests that the pull serves; borrowed */
} PullResult;

/* A request's part in a pull. */
typedef struct PullJoin {
        bool joined_running; /* the pull's time ran already, thus less of it is left for this request */
        uint64_t elapsed_before_join;
        PullFailures failures_before_join;
} PullJoin;

typedef enum RequestOutcome {
        REQUEST_PENDING,
        REQUEST_SUCCEEDED,
        REQUEST_FAILED,
} RequestOutcome;

/* Returns what the pull means for a request that has joined it. A request may have enough, or have used
 * up its attempts, while the pull goes on for others. After a failure it is pending if other secrets or
 * more time could have helped: then it needs another pull. */
RequestOutcome pull_plan_outcome(const PullResult *result, const PullJoin *join,
                                 const DesiredImage *desired);

/* Returns the rest of the request's own activeDeadlineSeconds, which the pull exceeds for more patient
 * ones; UINT64_MAX: there is no end, or the pull ends before. */
uint64_t pull_plan_left_usec(const PullResult *result, const PullJoin *join,
                             const DesiredImage *desired);

/* Returns the largest number of attempts, if all others end like the last one; 0: no limit. */
uint64_t pull_plan_n_attempts(PullReason reason, bool is_refusal, PullFailures failures,
                              const DesiredImage *limits);

/* First and longest pause between two attempts. Pulls with a limit have OpenKruise's pauses; pulls
 * without one have those of the kubelet's ImagePullBackOff, or a shorter first one. */
typedef struct PullPauses {
        uint64_t min_usec;
        uint64_t max_usec;
} PullPauses;

PullPauses pull_plan_pauses(int64_t backoff_limit);

bool pull_state_is_final(PullState state);
const char *pull_state_to_string(PullState state);
