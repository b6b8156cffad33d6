/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Back-off
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/base/backoff.h"

#define SEC ((uint64_t) 1000000)

static const struct Step {
        const char *name;
        unsigned n_failures;
        uint64_t middle_usec;
} steps[] = {
        { "the first failure waits one second", 1, 1 * SEC },
        { "the second one twice as long", 2, 2 * SEC },
        { "the third one four times as long", 3, 4 * SEC },
        { "the fifth one 16 seconds", 5, 16 * SEC },
        { "from the sixth on it is half a minute", 6, 30 * SEC },
        { "and stays there", 7, 30 * SEC },
        { "beyond the bits of a number", 65, 30 * SEC },
        { "for ever", UINT32_MAX, 30 * SEC },
};

#define N_STEPS (sizeof(steps) / sizeof(steps[0]))

/* A fifth shorter at the least, a fifth longer at the most. */
static void test_step(void **state) {
        const struct Step *step = *state;

        assert_int_equal(backoff_usec(step->n_failures, 0), step->middle_usec / 5 * 4);
        assert_int_equal(backoff_usec(step->n_failures, UINT32_MAX), step->middle_usec / 5 * 6);
}

/* The random number decides how long, and over the whole range. */
static void test_jitter_is_spread(void **state) {
        uint64_t last = 0;

        for (unsigned i = 0; i <= 1000; i++) {
                uint64_t usec = backoff_usec(1, (uint32_t) ((uint64_t) UINT32_MAX * i / 1000));

                if (usec < last || usec - last > SEC / 1000 + 800000 * (i == 0))
                        fail_msg("step %u: %lu after %lu usec", i, usec, last);
                last = usec;
        }
}

int main(void) {
        struct CMUnitTest tests[N_STEPS + 1];

        for (size_t i = 0; i < N_STEPS; i++)
                tests[i] = (struct CMUnitTest){
                        .name = steps[i].name,
                        .test_func = test_step,
                        .initial_state = (void *) &steps[i],
                };
        tests[N_STEPS] = (struct CMUnitTest) cmocka_unit_test(test_jitter_is_spread);

        return _cmocka_run_group_tests("back-off", tests, N_STEPS + 1, NULL, NULL);
}
