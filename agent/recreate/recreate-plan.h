/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What to do next for a request that has its turn
 *
 * Pure: given what is asked for, what the runtime and the pod say of each container, and what has
 * been done for the request already. It decides nothing but the next step; after that step, or
 * whatever else happens, everything is looked at again.
 */

#include "agent/recreate/recreate-spec.h"

#define RECREATE_SCHEME_SIZE 64

/* Of one container of the spec. */
typedef struct RecreateFact {
        /* The newest container of that name in the runtime. */
        bool is_here;
        bool is_running;
        bool is_exited;  /* or told to, and it did */
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

/* Which runtime is meant, such as "containerd"; "" if no container tells. Where that cannot be
 * found out, *ret_problem says why, as it is told everywhere, and is owned by the caller; else it
 * is not touched. Of the facts only those of the pod count. */
int recreate_plan_runtime(const RecreateSpec *spec, const RecreateFact *facts,
                          char scheme[static RECREATE_SCHEME_SIZE], char **ret_problem);

/* How much of the time that the pod has to be unready is over already when that is seen for the
 * first time: as much as the clocks of the server and of whoever wrote the time say together, but
 * neither more than the time since it was not so yet (UINT64_MAX: that was never seen), nor than
 * all. */
uint64_t recreate_plan_drained_usec(const RecreateSpec *spec, int64_t now_usec,
                                    uint64_t since_undrained_usec);
