/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is sent again
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/base/repeat.h"

#define MSEC ((uint64_t) 1000)
#define SEC (1000 * MSEC)
#define NOW (1000 * SEC)

static const struct Step {
        const char *name;
        unsigned n_times;
        uint64_t pause_usec;
} steps[] = {
        { "once sent, it waits a quarter of a second", 1, 250 * MSEC },
        { "the second time half a second", 2, 500 * MSEC },
        { "the third time a second", 3, 1 * SEC },
        { "the eleventh time 256 seconds", 11, 256 * SEC },
        { "from the twelfth on five minutes", 12, 300 * SEC },
        { "and so on", 100, 300 * SEC },
};

#define N_STEPS (sizeof(steps) / sizeof(steps[0]))

static void test_step(void **state) {
        const struct Step *step = *state;
        Repeat repeat = { .n_times = 0 };

        for (unsigned i = 0; i < step->n_times; i++)
                repeat_note(&repeat, 7, NOW + i);

        assert_int_equal(repeat_when_usec(&repeat, 7), NOW + step->n_times - 1 + step->pause_usec);
        assert_int_equal(repeat_when_usec(&repeat, 8), 0);
}

static void test_nothing_was_sent(void **state) {
        Repeat repeat = { .n_times = 0 };

        assert_int_equal(repeat_when_usec(&repeat, 0), 0);
        assert_int_equal(repeat_when_usec(&repeat, 7), 0);
}

static void test_something_else_begins_anew(void **state) {
        Repeat repeat = { .n_times = 0 };

        for (unsigned i = 0; i < 5; i++)
                repeat_note(&repeat, 7, NOW);
        repeat_note(&repeat, 8, NOW);
        assert_int_equal(repeat_when_usec(&repeat, 7), 0);
        assert_int_equal(repeat_when_usec(&repeat, 8), NOW + 250 * MSEC);
}

static void test_is_forgotten(void **state) {
        Repeat repeat = { .n_times = 0 };

        for (unsigned i = 0; i < 5; i++)
                repeat_note(&repeat, 7, NOW);
        repeat_note(&repeat, 7, NOW + 599 * SEC);
        assert_int_equal(repeat.n_times, 6);
        repeat_note(&repeat, 7, NOW + (599 + 600) * SEC);
        assert_int_equal(repeat.n_times, 1);
}

static void test_digest(void **state) {
        uint64_t one = repeat_digest(0, "one");

        assert_int_equal(repeat_digest(0, "one"), one);
        assert_int_not_equal(repeat_digest(0, "two"), one);
        assert_int_not_equal(repeat_digest(0, ""), repeat_digest(0, NULL));
        assert_int_not_equal(repeat_digest(one, "two"), repeat_digest(0, "onetwo"));
        assert_int_not_equal(repeat_digest(repeat_digest(0, "on"), "e"), one);
        assert_int_not_equal(repeat_digest(1, "2-uid"),
                             repeat_digest(2, "1-uid")); /* '1' ^ 2 == '2' ^ 1 */
}

int main(void) {
        struct CMUnitTest tests[N_STEPS + 4];

        for (size_t i = 0; i < N_STEPS; i++)
                tests[i] = (struct CMUnitTest){
                        .name = steps[i].name,
                        .test_func = test_step,
                        .initial_state = (void *) &steps[i],
                };
        tests[N_STEPS] = (struct CMUnitTest) cmocka_unit_test(test_nothing_was_sent);
        tests[N_STEPS + 1] = (struct CMUnitTest) cmocka_unit_test(test_something_else_begins_anew);
        tests[N_STEPS + 2] = (struct CMUnitTest) cmocka_unit_test(test_is_forgotten);
        tests[N_STEPS + 3] = (struct CMUnitTest) cmocka_unit_test(test_digest);

        return _cmocka_run_group_tests("repeat", tests, N_STEPS + 4, NULL, NULL);
}
