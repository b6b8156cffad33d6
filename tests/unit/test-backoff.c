/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Back-off
 */

#include "agent/base/backoff.h"
#include "tests/unit/unit.h"

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

/* A fifth shorter at the least, a fifth longer at the most. */
TEST_ROWS(test_step, steps, name, const struct Step *step) {
        assert_int_equal(backoff_usec(step->n_failures, 0), step->middle_usec / 5 * 4);
        assert_int_equal(backoff_usec(step->n_failures, UINT32_MAX), step->middle_usec / 5 * 6);
}

/* The random number decides how long, and over the whole range. */
TEST(test_jitter_is_spread) {
        uint64_t last = 0;

        for (unsigned i = 0; i <= 1000; i++) {
                uint64_t usec = backoff_usec(1, (uint32_t) ((uint64_t) UINT32_MAX * i / 1000));

                if (usec < last || usec - last > SEC / 1000 + 800000 * (i == 0))
                        fail_msg("step %u: %lu after %lu usec", i, usec, last);
                last = usec;
        }
}
