/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Problems that last are logged once
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/base/log-once.h"

static void test_one_thing(void **state) {
        static const struct {
                const char *problem;
                bool is_logged;
        } rows[] = {
                { NULL, false }, { "a", true },   { "a", false }, { "b", true },
                { "a", true },   { NULL, false }, { "a", true },  { "", true },
        };
        LogOnce once = { 0 };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (log_once(&once, rows[i].problem) != rows[i].is_logged)
                        fail_msg("row %zu", i);
}

/* The subject and the problem are two texts, not one. */
static void test_many_things(void **state) {
        LogOnceMany many = { .n_items = 0 };

        assert_true(log_once_of(&many, "a", "bc"));
        assert_true(log_once_of(&many, "ab", "c"));
        assert_true(log_once_of(&many, "a", "c"));
        assert_false(log_once_of(&many, "a", "bc"));
        assert_false(log_once_of(&many, "ab", "c"));
}

static void test_the_oldest_is_forgotten(void **state) {
        LogOnceMany many = { .n_items = 0 };
        char text[16];

        for (int i = 0; i <= LOG_ONCE_MANY_MAX; i++) {
                snprintf(text, sizeof(text), "%d", i);
                assert_true(log_once_of(&many, "", text));
                assert_false(log_once_of(&many, "", text));
        }
        assert_false(log_once_of(&many, "", "1"));
        assert_true(log_once_of(&many, "", "0"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_thing),
                cmocka_unit_test(test_many_things),
                cmocka_unit_test(test_the_oldest_is_forgotten),
        };

        return cmocka_run_group_tests_name("log-once", tests, NULL, NULL);
}
