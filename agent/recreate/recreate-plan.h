/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which request comes first, what to do next for one that has its turn, and what a controller would
 *
 * Pure. What to do next is decided given what is asked for, what the runtime and the pod say of each
 * container, and what has been done for the request already. It is nothing but the next step; after
 * that step, or whatever else happens, everything is looked at again. Where OpenKruise's controller
 * is, it does all that recreate_controller_plan() decides, and the agent none.
 */

#include "agent/recreate/recreate-spec.h"

#define RECREATE_SCHEME_SIZE 64

/* Both are about the same pod. A pod is known by its UID, so that a request for an earlier pod of
 * the same name is no obstacle. */
bool recreate_queue_is_same_pod(const RecreateSpec *a, const RecreateSpec *b);

/* For qsort(): those of a pod stand together; of them, first the one that has begun, then those
 * that know that they wait, then the others; the older first, and those of one second by their
 * names. */
int recreate_queue_compare(const RecreateSpec *a, const RecreateSpec *b);

/* Of one container of the spec. */
typedef struct RecreateFact {
        /* The newest container of that name in the runtime. */
        bool is_here;
        bool is_running;
        bool is_exited;  /* or was stopped, and did */
        const char *id;  /* without scheme; borrowed */
        bool was_killed; /* it, or an older one of that name, has been stopped for the request */
        int64_t restart_count;
        int64_t created_at_sec; /* since 1970, by the server's clock */
        uint64_t age_usec;      /* for so long it has run at least */

        /* The pod. */
        bool is_pod_known;
        bool is_in_pod; /* it has such a container */
        bool is_ready;  /* says of exactly this container that it runs and is ready */

        /* Our stop. */
        bool is_stopping;
        uint64_t rest_usec; /* so long it must not be tried again */
} RecreateFact;

typedef enum RecreateStepKind {
        RECREATE_STEP_WAIT,
        RECREATE_STEP_STOP,     /* the container of that index */
        RECREATE_STEP_COMPLETE, /* there is nothing left to do */
        _RECREATE_STEP_KIND_MAX,
} RecreateStepKind;

typedef struct RecreateStep {
        RecreateStepKind kind;
        size_t index;
        uint64_t wait_usec; /* then the same facts mean something else; UINT64_MAX: never */
} RecreateStep;

/* Brings the states up to date, and says what is next. */
int recreate_plan_step(const RecreateSpec *spec, const RecreateFact *facts, RecreateStatus *status,
                       RecreateStep *ret);

/* Which runtime is meant, such as "containerd"; "" if no container says. Where that cannot be
 * found out, *ret_problem says why, in OpenKruise's words, and is owned by the caller; else it
 * is not touched. Of the facts only those of the pod count. */
int recreate_plan_runtime(const RecreateSpec *spec, const RecreateFact *facts,
                          char scheme[static RECREATE_SCHEME_SIZE], char **ret_problem);

/* The pod has to be unready for a while. How much of that is over when it is first seen unready: the
 * difference between the server's time and the time in the request. It is no more than the time since
 * the pod was last seen ready (UINT64_MAX: never), and no more than all. */
uint64_t recreate_plan_drained_usec(const RecreateSpec *spec, int64_t now_usec,
                                    uint64_t since_undrained_usec);

/* What a controller decides by. */
typedef struct RecreateView {
        int64_t now_sec;     /* since 1970, by the server's clock */
        uint64_t known_sec;  /* for so long the request has been known */
        bool has_turn;       /* and nothing of the pod stands in its way */
        bool is_stopping;    /* one of its stops has begun and not ended */
        bool are_pods_known; /* all of this node */
        bool has_pod;        /* the one with the request's UID; then these are about it: */
        bool is_pod_deleted;
        bool is_pod_finished;
        bool has_pod_gate;   /* a condition of ours decides whether it is ready */
        bool is_gate_closed; /* we have made it unready */
        bool is_gate_opened; /* and ready again */
} RecreateView;

typedef enum RecreateAction {
        RECREATE_ACTION_NONE,
        RECREATE_ACTION_COMPLETE,   /* with the message */
        RECREATE_ACTION_CLOSE_GATE, /* make the pod unready */
        RECREATE_ACTION_DRAIN,      /* say in the request that it is */
        RECREATE_ACTION_OPEN_GATE,  /* make it ready again */
        RECREATE_ACTION_UNLABEL,    /* no node has to watch the request any more */
        RECREATE_ACTION_DELETE,
        _RECREATE_ACTION_MAX,
} RecreateAction;

typedef struct RecreateActionPlan {
        RecreateAction action;
        const char *message; /* borrowed from the spec, or static */
        uint64_t wait_sec;   /* then there may be one; UINT64_MAX: never */
} RecreateActionPlan;

RecreateActionPlan recreate_controller_plan(const RecreateSpec *spec, const RecreateView *view);
