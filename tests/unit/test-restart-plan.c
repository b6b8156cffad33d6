/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether a container is restarted: each row differs in one thing from one that is
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/meta/restart-plan.h"

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

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plan),
                cmocka_unit_test(test_restarting),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
