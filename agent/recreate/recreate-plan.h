/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides which request comes first, the next step of one that has its turn, and a controller's actions
 *
 * Pure. It decides by the spec, by the state of each container in the runtime and the pod, and by what
 * the agent has done for the request already. It plans a single step; after that step, and after any
 * other event, the agent plans anew. If OpenKruise's controller runs, that does all that
 * recreate_controller_plan() decides, and the agent none of it.
 */

#include "agent/recreate/recreate-spec.h"

#define RECREATE_SCHEME_SIZE 64

/* Both requests name the same pod. Compares UIDs, so that a request for an earlier pod of the same
 * name does not block. */
bool recreate_queue_is_same_pod(const RecreateSpec *a, const RecreateSpec *b);

/* For qsort(): groups requests by pod. In a pod, requests that have begun come first, then those
 * with a status, then the others; older before newer, and by name within a second. */
int recreate_queue_compare(const RecreateSpec *a, const RecreateSpec *b);

/* The state of a container in the spec. */
typedef struct RecreateFact {
        /* The newest container of that name in the runtime. */
        bool is_here;
        bool is_running;
        bool is_exited;  /* the container has exited, or a stop has ended it */
        const char *id;  /* ID without scheme; borrowed */
        bool was_killed; /* the request has stopped it, or an older one of that name */
        int64_t restart_count;
        int64_t created_at_sec; /* seconds since 1970, by the server's clock */
        uint64_t age_usec;      /* time that it has run, at least */

        /* The pod. */
        bool is_pod_known;
        bool is_in_pod;    /* the pod has such a container */
        bool runs_once;    /* an init or ephemeral container, which nothing starts again */
        bool rules_decide; /* restart rules decide by its exit status */
        bool stays_ended;  /* the pod's status shows that this very container has ended for good */
        bool is_ready;     /* the pod's status shows this very container as running and ready */

        /* The agent's stop. */
        bool is_stopping;
        uint64_t rest_usec; /* pause before the next attempt */
} RecreateFact;

typedef enum RecreateStepKind {
        RECREATE_STEP_WAIT,
        RECREATE_STEP_STOP,     /* stop the container at the index */
        RECREATE_STEP_COMPLETE, /* nothing is left to do */
        _RECREATE_STEP_KIND_MAX,
} RecreateStepKind;

typedef struct RecreateStep {
        RecreateStepKind kind;
        size_t index;
        uint64_t wait_usec; /* time until the same facts lead to another step; UINT64_MAX: never */
} RecreateStep;

/* Updates the states and decides the next step. */
int recreate_plan_step(const RecreateSpec *spec, const RecreateFact *facts, RecreateStatus *status,
                       RecreateStep *ret);

/* Finds the runtime's name, such as "containerd"; "" if no container names one. If it cannot be
 * found, *ret_problem is the reason, in OpenKruise's words, and owned by the caller; else it is not
 * touched. Uses only the facts about the pod. */
int recreate_plan_runtime(const RecreateSpec *spec, const RecreateFact *facts,
                          char scheme[static RECREATE_SCHEME_SIZE], char **ret_problem);

/* Returns how much of the pod's unready period is over when the agent first sees it unready: the
 * server's time minus the time in the request, but no more than the time since the pod was last
 * seen ready (UINT64_MAX: never), and no more than all. */
uint64_t recreate_plan_drained_usec(const RecreateSpec *spec, int64_t now_usec,
                                    uint64_t since_undrained_usec);

/* The input of a controller's decision. */
typedef struct RecreateView {
        int64_t now_sec;     /* seconds since 1970, by the server's clock */
        uint64_t known_sec;  /* time since the request was first shown */
        bool has_turn;       /* no other request of the pod comes first */
        bool is_stopping;    /* a stop of the request has begun and not ended */
        bool are_pods_known; /* all pods of this node are known */
        bool has_pod; /* the pod with the request's UID exists; the next fields describe it */
        bool is_pod_deleted;
        bool is_pod_finished;
        bool has_pod_gate;   /* the pod has the readiness gate */
        bool is_gate_closed; /* the agent has made it unready */
        bool is_gate_opened; /* the agent has made it ready again */
} RecreateView;

typedef enum RecreateAction {
        RECREATE_ACTION_NONE,
        RECREATE_ACTION_COMPLETE,   /* end the request with the message */
        RECREATE_ACTION_CLOSE_GATE, /* make the pod unready */
        RECREATE_ACTION_DRAIN,      /* record in the request that the pod is unready */
        RECREATE_ACTION_OPEN_GATE,  /* make it ready again */
        RECREATE_ACTION_UNLABEL,    /* remove the label, so that the node's watch drops it */
        RECREATE_ACTION_DELETE,
        _RECREATE_ACTION_MAX,
} RecreateAction;

typedef struct RecreateActionPlan {
        RecreateAction action;
        const char *message; /* borrowed from the spec, or static */
        uint64_t wait_sec;   /* time until the next action; UINT64_MAX: none */
} RecreateActionPlan;

RecreateActionPlan recreate_controller_plan(const RecreateSpec *spec, const RecreateView *view);
