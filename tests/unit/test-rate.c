/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rate of a download
 */

#include "agent/base/rate.h"
#include "tests/unit/unit.h"

#define BEGIN (1000 * SEC)

static const struct Row {
        const char *name;
        uint64_t bytes[4]; /* a second apart, the first one at BEGIN; 0: no more */
        uint64_t rate;
} rows[] = {
        { "one sample", { 5000 }, 0 },
        { "two samples", { 5000, 8000 }, 3000 },
        { "a third, of which a third counts", { 5000, 8000, 14000 }, 4000 },
        { "nothing arrives", { 5000, 8000, 8000 }, 2000 },
        { "the download begins anew", { 5000, 8000, 1000 }, 0 },
        { "and goes on", { 5000, 8000, 1000, 2000 }, 1000 },
};

TEST_ROWS(test_row, rows, name, const struct Row *row) {
        Rate rate = RATE_INIT;

        for (size_t i = 0; i < N_ELEMENTS(row->bytes) && row->bytes[i]; i++)
                rate_update(&rate, BEGIN + i * SEC, row->bytes[i]);
        assert_int_equal(rate_get(&rate), row->rate);
}

TEST(test_begin_with) {
        Rate rate = rate_begin_with(BEGIN, 8000, 4 * SEC);

        assert_int_equal(rate_get(&rate), 2000);
        rate = rate_begin_with(BEGIN, 8000, 1 * SEC);
        assert_int_equal(rate_get(&rate), 0);
}

TEST(test_clock_goes_back) {
        Rate rate = rate_begin_with(BEGIN, 8000, 4 * SEC);

        rate_update(&rate, BEGIN - SEC, 9000);
        assert_int_equal(rate_get(&rate), 0);
}
