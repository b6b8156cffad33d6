/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests which patches are sent again
 */

#include "agent/base/repeat.h"
#include "tests/unit/unit.h"

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

TEST_ROWS(test_step, steps, name, const struct Step *step) {
        Repeat repeat = { .n_times = 0 };

        for (unsigned i = 0; i < step->n_times; i++)
                repeat_note(&repeat, 7, NOW + i);

        assert_int_equal(repeat_when_usec(&repeat, 7), NOW + step->n_times - 1 + step->pause_usec);
        assert_int_equal(repeat_when_usec(&repeat, 8), 0);
}

TEST(test_nothing_was_sent) {
        Repeat repeat = { .n_times = 0 };

        assert_int_equal(repeat_when_usec(&repeat, 0), 0);
        assert_int_equal(repeat_when_usec(&repeat, 7), 0);
}

TEST(test_something_else_begins_anew) {
        Repeat repeat = { .n_times = 0 };

        for (unsigned i = 0; i < 5; i++)
                repeat_note(&repeat, 7, NOW);
        repeat_note(&repeat, 8, NOW);
        assert_int_equal(repeat_when_usec(&repeat, 7), 0);
        assert_int_equal(repeat_when_usec(&repeat, 8), NOW + 250 * MSEC);
}

TEST(test_is_forgotten) {
        Repeat repeat = { .n_times = 0 };

        for (unsigned i = 0; i < 5; i++)
                repeat_note(&repeat, 7, NOW);
        repeat_note(&repeat, 7, NOW + 599 * SEC);
        assert_int_equal(repeat.n_times, 6);
        repeat_note(&repeat, 7, NOW + (599 + 600) * SEC);
        assert_int_equal(repeat.n_times, 1);
}

TEST(test_digest) {
        uint64_t one = repeat_digest(0, "one");

        assert_int_equal(repeat_digest(0, "one"), one);
        assert_int_not_equal(repeat_digest(0, "two"), one);
        assert_int_not_equal(repeat_digest(0, ""), repeat_digest(0, NULL));
        assert_int_not_equal(repeat_digest(one, "two"), repeat_digest(0, "onetwo"));
        assert_int_not_equal(repeat_digest(repeat_digest(0, "on"), "e"), one);
        assert_int_not_equal(repeat_digest(1, "2-uid"),
                             repeat_digest(2, "1-uid")); /* '1' ^ 2 == '2' ^ 1 */
}
