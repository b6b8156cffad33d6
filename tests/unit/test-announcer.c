/* SPDX-License-Identifier: Apache-2.0 */

/* Tests when a command shows the reason of its waiting. */

#include "tests/unit/unit.h"
#include <time.h>

#include "agent/kubectl/announcer.h"

static time_t monotonic_sec = 1000;

/* The wall clock goes back by an hour at each look. */
int clock_gettime(clockid_t clock, struct timespec *ret) {
        static time_t wall_sec = 1800000000;

        *ret = (struct timespec){ .tv_sec = clock == CLOCK_MONOTONIC ? monotonic_sec
                                                                     : (wall_sec -= 3600) };
        return 0;
}

TEST(test_times) {
        static const int64_t said[] = { 5, 35, 65 };
        Announcer announcer;
        size_t n = 0;
        announcer_begin(&announcer);
        for (int64_t sec = 0; sec <= 65; sec++, monotonic_sec++) {
                assert_int_equal(announcer_still_sec(&announcer), sec);
                if (announcer_is_due(&announcer))
                        assert_int_equal(sec, said[n++]);
                assert_false(announcer_is_due(&announcer));
        }
        assert_int_equal(n, 3);
}

TEST(test_begins_anew) {
        Announcer announcer;
        announcer_begin(&announcer);
        monotonic_sec += 5;
        assert_true(announcer_is_due(&announcer));
        announcer_begin(&announcer);
        monotonic_sec += 4;
        assert_false(announcer_is_due(&announcer));
        monotonic_sec += 1;
        assert_true(announcer_is_due(&announcer));
        assert_int_equal(announcer_still_sec(&announcer), 5);
}
