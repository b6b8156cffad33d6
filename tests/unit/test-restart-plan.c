/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests whether a container is restarted: each row differs in one thing from a row in which it is
 */

#include <limits.h>

#include "agent/inplace/restart-plan.h"
#include "tests/unit/unit.h"

#define STALE .expected_hash = 1, .running_hash = 2
#define REQUESTED STALE, .is_requested = true
#define RUNNING .target = RESTART_TARGET_RUNNING, .may_restart = true

TEST(test_plan) {
        static const struct {
                RestartFacts facts;
                RestartPlan plan;
        } cases[] = {
                { { RUNNING, REQUESTED }, RESTART_PLAN_STOP },
                { { RUNNING, STALE }, RESTART_PLAN_NOTHING },
                { { REQUESTED, .may_restart = true }, RESTART_PLAN_NOTHING },
                { { RUNNING, .is_requested = true, .expected_hash = 1 }, RESTART_PLAN_NOTHING },
                { { RUNNING, .is_requested = true, .expected_hash = 2, .running_hash = 2 },
                  RESTART_PLAN_NOTHING },
                { { REQUESTED, .target = RESTART_TARGET_RUNNING }, RESTART_PLAN_SKIP },
                { { REQUESTED, .target = RESTART_TARGET_STOPPED }, RESTART_PLAN_AWAIT },
                { { .target = RESTART_TARGET_STOPPED }, RESTART_PLAN_AWAIT },
                { { RUNNING, REQUESTED, .has_failed = true }, RESTART_PLAN_GIVE_UP },
                { { RUNNING, REQUESTED, .has_failed = true, .hold = RESTART_HOLD_KUBELET },
                  RESTART_PLAN_GIVE_UP },
                { { RUNNING, REQUESTED, .hold = RESTART_HOLD_KUBELET }, RESTART_PLAN_FOR_KUBELET },
                { { REQUESTED, .target = RESTART_TARGET_RUNNING, .hold = RESTART_HOLD_KUBELET },
                  RESTART_PLAN_FOR_KUBELET },
                { { REQUESTED, .target = RESTART_TARGET_RUNNING, .hold = RESTART_HOLD_SYNC },
                  RESTART_PLAN_SKIP },
                { { RUNNING, REQUESTED, .hold = RESTART_HOLD_SYNC }, RESTART_PLAN_FOR_SYNC },
                { { RUNNING, REQUESTED, .hold = RESTART_HOLD_RETRY }, RESTART_PLAN_FOR_RETRY },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++)
                assert_int_equal(restart_plan(&cases[i].facts), cases[i].plan);
}

TEST(test_restarting) {
        assert_true(restart_plan_is_restarting(RESTART_PLAN_STOP));
        assert_true(restart_plan_is_restarting(RESTART_PLAN_AWAIT));
        assert_true(restart_plan_is_restarting(RESTART_PLAN_FOR_KUBELET));
        assert_false(restart_plan_is_restarting(RESTART_PLAN_NOTHING));
        assert_false(restart_plan_is_restarting(RESTART_PLAN_SKIP));
        assert_false(restart_plan_is_restarting(RESTART_PLAN_GIVE_UP));
}

TEST(test_again) {
        static const struct {
                unsigned n;
                bool is_overridden;
                unsigned pause_sec;
        } cases[] = {
                { 1, false, 5 }, { 2, false, 15 },       { 3, false, 45 }, { 4, false, 0 },
                { 0, false, 0 }, { UINT_MAX, false, 0 }, { 1, true, 0 },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++)
                assert_int_equal(restart_again_usec(cases[i].n, cases[i].is_overridden),
                                 (uint64_t) cases[i].pause_sec * 1000000);
}
