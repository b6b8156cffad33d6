/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/watch-plan.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* After a restart of the API server, or of its store, all nodes have to list again: not in the same
 * instant. */
#define LIST_JITTER_USEC ((uint64_t) 250 * 1000)

/* A server that has just started refuses all requests for a moment, until it has read its access
 * rules. */
#define N_DENIALS_PASSING 4

/* Pause until a kind is installed, or a right is granted. */
#define HOPELESS_MIN_USEC ((uint64_t) 15 * 1000000)
#define HOPELESS_JITTER_USEC ((uint64_t) 15 * 1000000)

/* clang-format off */
static const struct Rule {
        WatchStep from;
        WatchPlanEvent event;
        WatchAction action;
        WatchStep to;
} rules[] = {
        /* in this step      when this happens      do this                  and go there     */
        { WATCH_RELISTING,  WATCH_ON_TIMER,        WATCH_DO_STREAM,         WATCH_STREAMING  },

        { WATCH_STREAMING,  WATCH_ON_LISTED,       WATCH_DO_SYNC,           WATCH_WATCHING   },
        { WATCH_STREAMING,  WATCH_ON_UNSTREAMABLE, WATCH_DO_PAGE,           WATCH_PAGING     },
        /* A server that ends the watch before the list does not know streamed lists. */
        { WATCH_STREAMING,  WATCH_ON_ENDED,        WATCH_DO_PAGE,           WATCH_PAGING     },
        { WATCH_STREAMING,  WATCH_ON_ENDED_EARLY,  WATCH_DO_PAGE,           WATCH_PAGING     },
        { WATCH_STREAMING,  WATCH_ON_SILENCE,      WATCH_DO_PAGE,           WATCH_PAGING     },
        { WATCH_STREAMING,  WATCH_ON_GONE,         WATCH_DO_WAIT,           WATCH_RELISTING  },
        { WATCH_STREAMING,  WATCH_ON_REFUSED,      WATCH_DO_WAIT,           WATCH_RELISTING  },
        { WATCH_STREAMING,  WATCH_ON_DENIED,       WATCH_DO_WAIT,           WATCH_RELISTING  },
        { WATCH_STREAMING,  WATCH_ON_GARBAGE,      WATCH_DO_WAIT,           WATCH_RELISTING  },
        /* A list that has begun before may show an older state. */
        { WATCH_STREAMING,  WATCH_ON_STALE,        WATCH_DO_WAIT,           WATCH_RELISTING  },

        { WATCH_PAGING,     WATCH_ON_PAGE,         WATCH_DO_PAGE,           WATCH_PAGING     },
        { WATCH_PAGING,     WATCH_ON_LISTED,       WATCH_DO_SYNC_AND_WATCH, WATCH_WATCHING   },
        { WATCH_PAGING,     WATCH_ON_GONE,         WATCH_DO_WAIT,           WATCH_RELISTING  },
        { WATCH_PAGING,     WATCH_ON_REFUSED,      WATCH_DO_WAIT,           WATCH_RELISTING  },
        { WATCH_PAGING,     WATCH_ON_DENIED,       WATCH_DO_WAIT,           WATCH_RELISTING  },
        { WATCH_PAGING,     WATCH_ON_GARBAGE,      WATCH_DO_WAIT,           WATCH_RELISTING  },
        { WATCH_PAGING,     WATCH_ON_STALE,        WATCH_DO_WAIT,           WATCH_RELISTING  },

        { WATCH_WATCHING,   WATCH_ON_ENDED,        WATCH_DO_WATCH,          WATCH_WATCHING   },
        { WATCH_WATCHING,   WATCH_ON_ENDED_EARLY,  WATCH_DO_WAIT,           WATCH_REWATCHING },
        { WATCH_WATCHING,   WATCH_ON_REFUSED,      WATCH_DO_WAIT,           WATCH_REWATCHING },
        /* The server may refuse the version. */
        { WATCH_WATCHING,   WATCH_ON_DENIED,       WATCH_DO_WAIT,           WATCH_RELISTING  },
        { WATCH_WATCHING,   WATCH_ON_GONE,         WATCH_DO_WAIT,           WATCH_RELISTING  },
        { WATCH_WATCHING,   WATCH_ON_GARBAGE,      WATCH_DO_WAIT,           WATCH_RELISTING  },
        /* The version may be from a future that was lost when the store was restored: a healthy
         * server may be silent about it for any time. */
        { WATCH_WATCHING,   WATCH_ON_SILENCE,      WATCH_DO_WAIT,           WATCH_RELISTING  },
        { WATCH_WATCHING,   WATCH_ON_STALE,        WATCH_DO_WAIT,           WATCH_RELISTING  },

        { WATCH_REWATCHING, WATCH_ON_TIMER,        WATCH_DO_WATCH,          WATCH_WATCHING   },
        { WATCH_REWATCHING, WATCH_ON_STALE,        WATCH_DO_WAIT,           WATCH_RELISTING  },
};
/* clang-format on */

static const struct Rule *find_rule(WatchStep step, WatchPlanEvent event) {
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
                if (rules[i].from == step && rules[i].event == event)
                        return &rules[i];

        return NULL;
}

WatchAction watch_plan_step(WatchPlan *plan, WatchPlanEvent event) {
        const struct Rule *rule;

        assert(plan->step >= 0 && plan->step < _WATCH_STEP_MAX);
        assert(event >= 0 && event < _WATCH_PLAN_EVENT_MAX);

        rule = find_rule(plan->step, event);
        if (!rule)
                return WATCH_DO_NOTHING;

        plan->n_in_a_row[event]++;
        if (plan->step == WATCH_STREAMING && rule->to == WATCH_PAGING)
                plan->is_paged = true;

        if (rule->action == WATCH_DO_STREAM && plan->is_paged) {
                plan->step = WATCH_PAGING;
                return WATCH_DO_PAGE;
        }

        plan->step = rule->to;
        return rule->action;
}

WatchPlanEvent watch_plan_refusal(const WatchPlan *plan, int code, bool is_retriable) {
        if (code == 410)
                return WATCH_ON_GONE;
        if (plan->step == WATCH_STREAMING && (code == 400 || code == 422))
                return WATCH_ON_UNSTREAMABLE;
        /* A server answers 500 to a version that is not its own. */
        if (plan->step == WATCH_WATCHING && code == 500)
                return WATCH_ON_DENIED;

        return is_retriable ? WATCH_ON_REFUSED : WATCH_ON_DENIED;
}

/* The request was accepted before. An etcd that is too old for streamed lists causes a general
 * error (500) here. */
WatchPlanEvent watch_plan_error_event(const WatchPlan *plan, int code, bool is_retriable) {
        bool is_passing = code == 429 || code == 503 || code == 504;

        if (plan->step == WATCH_STREAMING && code != 410 && !is_passing)
                return WATCH_ON_UNSTREAMABLE;

        return watch_plan_refusal(plan, code, is_retriable);
}

void watch_plan_forget_failures(WatchPlan *plan) {
        memset(plan->n_in_a_row, 0, sizeof(plan->n_in_a_row));
}

bool watch_plan_is_harmless(const WatchPlan *plan, WatchPlanEvent event) {
        switch (event) {
        case WATCH_ON_ENDED_EARLY:
        case WATCH_ON_SILENCE:
        case WATCH_ON_GONE: return plan->n_in_a_row[event] <= 1;
        case WATCH_ON_REFUSED:
        case WATCH_ON_DENIED:
        case WATCH_ON_GARBAGE: return false;
        case WATCH_ON_TIMER:
        case WATCH_ON_PAGE:
        case WATCH_ON_LISTED:
        case WATCH_ON_UNSTREAMABLE:
        case WATCH_ON_ENDED:
        case WATCH_ON_STALE:
        case _WATCH_PLAN_EVENT_MAX: break;
        }

        return true;
}

static uint64_t share(uint64_t usec, uint32_t random) {
        return (uint64_t) ((double) random / UINT32_MAX * (double) usec);
}

static bool leads_to_list(WatchPlanEvent event) {
        return event == WATCH_ON_GONE || event == WATCH_ON_SILENCE || event == WATCH_ON_STALE;
}

uint64_t watch_plan_wait_usec(const WatchPlan *plan, WatchPlanEvent event, ErrorKind kind,
                              uint64_t retry_usec, uint32_t random) {
        if (watch_plan_is_harmless(plan, event))
                return leads_to_list(event) ? share(LIST_JITTER_USEC, random) : 0;

        if (kind == ERROR_NOT_FOUND ||
            (kind == ERROR_DENIED && plan->n_in_a_row[event] > N_DENIALS_PASSING))
                return HOPELESS_MIN_USEC + share(HOPELESS_JITTER_USEC, random);

        return retry_usec;
}
