/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Problems that last are logged once
 */

#include "agent/base/log-once.h"
#include "tests/unit/unit.h"

TEST(test_one_thing) {
        static const struct {
                const char *problem;
                bool is_logged;
        } rows[] = {
                { NULL, false }, { "a", true },   { "a", false }, { "b", true },
                { "a", true },   { NULL, false }, { "a", true },  { "", true },
        };
        LogOnce once = { 0 };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                if (log_once(&once, rows[i].problem) != rows[i].is_logged)
                        fail_msg("row %zu", i);
}

/* The subject and the problem are two texts, not one. */
TEST(test_many_things) {
        LogOnceMany many = { .n_items = 0 };

        assert_true(log_once_of(&many, "a", "bc"));
        assert_true(log_once_of(&many, "ab", "c"));
        assert_true(log_once_of(&many, "a", "c"));
        assert_false(log_once_of(&many, "a", "bc"));
        assert_false(log_once_of(&many, "ab", "c"));
}

TEST(test_the_oldest_is_forgotten) {
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
