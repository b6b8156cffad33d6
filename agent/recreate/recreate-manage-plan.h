/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a controller would do next for a request that the agent manages itself
 *
 * Pure. Where OpenKruise's controller is, it does all of this, and the agent none.
 */

#include "agent/recreate/recreate-spec.h"

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

typedef enum RecreateChore {
        RECREATE_CHORE_NONE,
        RECREATE_CHORE_COMPLETE,   /* with the message */
        RECREATE_CHORE_CLOSE_GATE, /* make the pod unready */
        RECREATE_CHORE_DRAIN,      /* say in the request that it is */
        RECREATE_CHORE_OPEN_GATE,  /* make it ready again */
        RECREATE_CHORE_UNLABEL,    /* nobody needs to look at the request any more */
        RECREATE_CHORE_DELETE,
        _RECREATE_CHORE_MAX,
} RecreateChore;

typedef struct RecreateChorePlan {
        RecreateChore chore;
        const char *message; /* borrowed from the spec, or static */
        uint64_t wait_sec;   /* then there may be one; UINT64_MAX: never */
} RecreateChorePlan;

RecreateChorePlan recreate_manage_plan(const RecreateSpec *spec, const RecreateView *view);
