/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether a container is restarted: each row differs in one thing from one that is
 */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/inplace/restart-plan.h"

#define STALE                                                                         \
        .is_asked = true, .is_running = true, .comes_back = true, .expected_hash = 1, \
        .running_hash = 2

static void test_plan(void **state) {
        static const struct {
                RestartState state;
                RestartPlan plan;
        } cases[] = {
                { { STALE }, RESTART_PLAN_STOP },
                { { .is_running = true, .comes_back = true, .expected_hash = 1, .running_hash = 2 },
                  RESTART_PLAN_NOTHING },
                { { .is_asked = true, .comes_back = true, .expected_hash = 1, .running_hash = 2 },
                  RESTART_PLAN_NOTHING },
                { { .is_asked = true, .is_running = true, .comes_back = true, .expected_hash = 1 },
                  RESTART_PLAN_NOTHING },
                { { .is_asked = true,
                    .is_running = true,
                    .comes_back = true,
                    .expected_hash = 2,
                    .running_hash = 2 },
                  RESTART_PLAN_NOTHING },
                { { .is_asked = true, .is_running = true, .expected_hash = 1, .running_hash = 2 },
                  RESTART_PLAN_SKIP },
                { { STALE, .is_over = true }, RESTART_PLAN_NOTHING },
                { { STALE, .is_over = true, .has_stop = true }, RESTART_PLAN_NOTHING },
                { { STALE, .has_stop = true }, RESTART_PLAN_AWAIT },
                { { .has_stop = true }, RESTART_PLAN_AWAIT },
                { { STALE, .has_failed = true }, RESTART_PLAN_GIVE_UP },
                { { STALE, .has_failed = true, .is_kubelets = true }, RESTART_PLAN_GIVE_UP },
                { { STALE, .is_kubelets = true }, RESTART_PLAN_FOR_KUBELET },
                { { STALE, .is_kubelets = true, .is_behind = true }, RESTART_PLAN_FOR_KUBELET },
                { { STALE, .is_kubelets = true, .has_waited_for_kubelet = true },
                  RESTART_PLAN_STOP },
                { { STALE, .is_behind = true }, RESTART_PLAN_FOR_SYNC },
                { { STALE, .must_wait = true }, RESTART_PLAN_FOR_RETRY },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(restart_plan(&cases[i].state), cases[i].plan);
}

static void test_restarting(void **state) {
        assert_true(restart_plan_is_restarting(RESTART_PLAN_STOP));
        assert_true(restart_plan_is_restarting(RESTART_PLAN_AWAIT));
        assert_true(restart_plan_is_restarting(RESTART_PLAN_FOR_KUBELET));
        assert_false(restart_plan_is_restarting(RESTART_PLAN_NOTHING));
        assert_false(restart_plan_is_restarting(RESTART_PLAN_SKIP));
        assert_false(restart_plan_is_restarting(RESTART_PLAN_GIVE_UP));
}

static void test_again(void **state) {
        static const struct {
                RestartOutcome outcome;
                unsigned pause_sec;
        } cases[] = {
                { { .number = 1, .before_hash = 1, .running_hash = 1 }, 5 },
                { { .number = 2, .before_hash = 1, .running_hash = 1 }, 15 },
                { { .number = 3, .before_hash = 1, .running_hash = 1 }, 45 },
                { { .number = 4, .before_hash = 1, .running_hash = 1 }, 0 },
                { { .number = UINT_MAX, .before_hash = 1, .running_hash = 1 }, 0 },
                { { .number = 0, .before_hash = 1, .running_hash = 1 }, 0 },
                { { .number = 1, .before_hash = 2, .running_hash = 1 }, 0 },
                { { .number = 1, .before_hash = 0, .running_hash = 0 }, 0 },
                { { .number = 1, .before_hash = 1, .running_hash = 1, .is_overridden = true }, 0 },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(restart_again_usec(&cases[i].outcome),
                                 (uint64_t) cases[i].pause_sec * 1000000);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plan),
                cmocka_unit_test(test_restarting),
                cmocka_unit_test(test_again),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
