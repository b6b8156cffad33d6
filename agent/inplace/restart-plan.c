/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/restart-plan.h"

static bool is_needed(const RestartFacts *facts) {
        return facts->is_requested && facts->target == RESTART_TARGET_RUNNING &&
               facts->running_hash != 0 && facts->running_hash != facts->expected_hash;
}

RestartPlan restart_plan(const RestartFacts *facts) {
        if (facts->target == RESTART_TARGET_STOPPED)
                return RESTART_PLAN_AWAIT;
        if (!is_needed(facts))
                return RESTART_PLAN_NOTHING;
        if (facts->has_failed)
                return RESTART_PLAN_GIVE_UP;
        if (facts->hold == RESTART_HOLD_KUBELET)
                return RESTART_PLAN_FOR_KUBELET;
        if (!facts->may_restart)
                return RESTART_PLAN_SKIP;
        if (facts->hold == RESTART_HOLD_SYNC)
                return RESTART_PLAN_FOR_SYNC;

        return facts->hold == RESTART_HOLD_RETRY ? RESTART_PLAN_FOR_RETRY : RESTART_PLAN_STOP;
}

uint64_t restart_again_usec(unsigned n, bool is_overridden) {
        static const uint64_t pauses_usec[] = { 5000000, 15000000, 45000000 };

        if (is_overridden || n < 1 || n > sizeof(pauses_usec) / sizeof(pauses_usec[0]))
                return 0;

        return pauses_usec[n - 1];
}

bool restart_plan_is_restarting(RestartPlan plan) {
        switch (plan) {
        case RESTART_PLAN_AWAIT:
        case RESTART_PLAN_FOR_KUBELET:
        case RESTART_PLAN_FOR_SYNC:
        case RESTART_PLAN_FOR_RETRY:
        case RESTART_PLAN_STOP: return true;
        case RESTART_PLAN_NOTHING:
        case RESTART_PLAN_SKIP:
        case RESTART_PLAN_GIVE_UP:
        case _RESTART_PLAN_MAX: break;
        }

        return false;
}
