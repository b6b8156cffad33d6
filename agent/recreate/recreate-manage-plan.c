/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-manage-plan.h"

static RecreateChorePlan plan_complete(const char *message) {
        return (RecreateChorePlan){ .chore = RECREATE_CHORE_COMPLETE,
                                    .message = message,
                                    .wait_sec = UINT64_MAX };
}

static RecreateChorePlan plan_chore(RecreateChore chore, uint64_t wait_sec) {
        return (RecreateChorePlan){ .chore = chore, .wait_sec = wait_sec };
}

/* Until so many seconds after that time are over. */
static uint64_t rest_sec(int64_t since, int64_t seconds, int64_t now) {
        if (now >= since + seconds)
                return 0;

        return (uint64_t) (since + seconds - now);
}

/* Nor whether there is a gate: that is looked at again when they are known. */
static bool is_pod_unknown(const RecreateView *view) {
        return !view->are_pods_known && !view->has_pod;
}

static RecreateChorePlan plan_after(const RecreateSpec *spec, const RecreateView *view) {
        uint64_t rest;

        if (spec->unready_sec >= 0 && is_pod_unknown(view) && !view->is_gate_opened)
                return plan_chore(RECREATE_CHORE_NONE, UINT64_MAX);
        if (spec->unready_sec >= 0 && view->has_pod && view->has_pod_gate && !view->is_gate_opened)
                return plan_chore(RECREATE_CHORE_OPEN_GATE, UINT64_MAX);
        if (view->is_stopping)
                return plan_chore(RECREATE_CHORE_NONE, UINT64_MAX);
        if (spec->ttl_sec < 0)
                return plan_chore(RECREATE_CHORE_UNLABEL, UINT64_MAX);

        rest = rest_sec(spec->status.completed_at, spec->ttl_sec, view->now_sec);
        return rest > 0 ? plan_chore(RECREATE_CHORE_NONE, rest)
                        : plan_chore(RECREATE_CHORE_DELETE, UINT64_MAX);
}

/* By the server's clock, or because it has been known for so long, whatever that clock says. */
static uint64_t deadline_rest(const RecreateSpec *spec, const RecreateView *view) {
        uint64_t rest;

        if (spec->deadline_sec < 0)
                return UINT64_MAX;

        rest = rest_sec(spec->created_at, spec->deadline_sec, view->now_sec);
        if (view->known_sec >= (uint64_t) spec->deadline_sec)
                return 0;
        if ((uint64_t) spec->deadline_sec - view->known_sec < rest)
                rest = (uint64_t) spec->deadline_sec - view->known_sec;

        return rest;
}

RecreateChorePlan recreate_manage_plan(const RecreateSpec *spec, const RecreateView *view) {
        uint64_t rest = deadline_rest(spec, view);
        bool has_begun = spec->status.phase == RECREATE_RECREATING;

        if (spec->is_deleted)
                return plan_chore(RECREATE_CHORE_NONE, UINT64_MAX);
        if (spec->status.is_completed)
                return plan_after(spec, view);
        if (spec->problem)
                return plan_complete(spec->problem);
        if (rest == 0)
                return plan_complete("recreating has exceeded the activeDeadlineSeconds");
        if (view->are_pods_known && (!view->has_pod || view->is_pod_deleted))
                return plan_complete("pod has gone");
        if (view->has_pod && view->is_pod_finished && !has_begun)
                return plan_complete("pod has finished");
        if (!view->has_turn || !has_begun || spec->unready_sec < 0 || spec->is_drained ||
            is_pod_unknown(view))
                return plan_chore(RECREATE_CHORE_NONE, rest);
        if (view->has_pod && view->has_pod_gate && !view->is_gate_closed)
                return plan_chore(RECREATE_CHORE_CLOSE_GATE, rest);

        return plan_chore(RECREATE_CHORE_DRAIN, rest);
}
