/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The API server's clock, as its answers give it
 */

#include <errno.h>

#include "agent/kube/server-clock.h"
#include "tests/unit/unit.h"

static const struct DatesRow {
        const char *text;
        int64_t sec; /* -1: refused */
} dates[] = {
        { "Tue, 15 Nov 1994 08:12:31 GMT", 784887151 },
        { "Tue, 15 Nov 1994 08:12:31 GMT\r\n", 784887151 },
        { "Thu, 01 Jan 1970 00:00:00 GMT", 0 },
        { "Sat, 31 Jan 2026 12:00:00 GMT", 1769860800 },
        { "Thu, 29 Feb 2024 23:59:59 GMT", 1709251199 },
        { "Tue, 15 Nov 1994 08:12:31 UTC", -1 },
        { "Tue, 15 Nov 1994 08:12:31 GMT+1", -1 },
        { "Tue, 15 Nov 1994 08:12:31", -1 },
        { "Tue, 15 Nov 1994 24:12:31 GMT", -1 },
        { "Tue, 15 Nov 1994 :::::::: GMT", -1 },
        { "Tue, 32 Nov 1994 08:12:31 GMT", -1 },
        { "Tue, 00 Nov 1994 08:12:31 GMT", -1 },
        { "Tue, 15 nov 1994 08:12:31 GMT", -1 },
        { "Tue, 15 anF 1994 08:12:31 GMT", -1 },
        { "Tue, 15 Nov 0994 08:12:31 GMT", -1 },
        { "Tue, 15 Nov -199 08:12:31 GMT", -1 },
        { "Tuesday, 15-Nov-94 08:12:31 GMT", -1 },
        { "1994-11-15T08:12:31Z", -1 },
        { "0", -1 },
        { "", -1 },
};

TEST_ROWS(test_dates, dates, text, const struct DatesRow *row) {
        int64_t sec = -1;

        assert_int_equal(server_clock_parse(row->text, &sec), row->sec < 0 ? -EINVAL : 0);
        assert_int_equal(sec, row->sec);
}

/* Times of the monotonic clock in ms; the server's time that is known then, in ms. */
static const struct {
        int64_t server_sec;
        uint64_t now_msec;
        int64_t known_msec;
} answers[] = {
        { 1000, 500, 1000000 },  /* the first one */
        { 1000, 900, 1000400 },  /* the second is not over yet */
        { 1001, 1000, 1001000 }, /* it was later than it seemed */
        { 1001, 1999, 1001999 }, /* or has taken long */
        { 1003, 5000, 1005000 }, /* even very long */
        { 1006, 5100, 1006000 }, /* the best of all */
        { 990, 5200, 990000 },   /* set back */
        { 2000, 5300, 2000000 }, /* and forth */
        { 2000, 10299, 2004999 }, { 2000, 10300, 2000000 },
};

TEST(test_answers) {
        ServerClock clock = { .is_known = false };

        for (size_t i = 0; i < N_ELEMENTS(answers); i++) {
                const uint64_t now_usec = answers[i].now_msec * 1000;

                server_clock_note(&clock, answers[i].server_sec, now_usec);
                assert_true(clock.is_known);
                assert_int_equal(server_clock_usec(&clock, now_usec), answers[i].known_msec * 1000);
        }
}
