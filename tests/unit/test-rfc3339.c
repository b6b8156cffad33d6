/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Times as the Kubernetes API writes them
 */

#include <time.h>

#include "agent/base/rfc3339.h"
#include "tests/unit/unit.h"

#define NONE INT64_MIN /* it is no time */

/* clang-format off */
static const struct Text {
        const char *text;
        int64_t time;
} texts[] = {
        { "1970-01-01T00:00:00Z",           0            },
        { "2026-01-31T23:59:59Z",           1769903999   },
        { "2024-02-29T12:00:00Z",           1709208000   },
        { "1969-12-31T23:59:59Z",           -1           },
        { "0001-01-01T00:00:00Z",           -62135596800 },
        { "9999-12-31T23:59:59Z",           253402300799 },
        { "2038-01-19T03:14:08Z",           2147483648   },

        { "2026-01-31T23:59:59.5Z",         1769903999   },
        { "2026-01-31T23:59:59.999999999Z", 1769903999   },
        { "2026-02-01T01:59:59+02:00",      1769903999   },
        { "2026-01-31T18:29:59-05:30",      1769903999   },
        { "2026-01-31T23:59:59.123-00:00",  1769903999   },
        { "2026-01-31T23:59:59+23:59",      1769817659   },

        { "",                               NONE         },
        { "now",                            NONE         },
        { "2026-01-31",                     NONE         },
        { "2026-01-31T23:59Z",              NONE         },
        { "2026-01-31T23:59:59",            NONE         },
        { "2026-01-31 23:59:59Z",           NONE         },
        { "2026-01-31T23:59:59ZZ",          NONE         },
        { "2026-01-31T23:59:59Z ",          NONE         },
        { " 2026-01-31T23:59:59Z",          NONE         },
        { "2026-01-31T23:59:59.Z",          NONE         },
        { "2026-01-31T23:59:59,5Z",         NONE         },
        { "2026-01-31T23:59:59UTC",         NONE         },
        { "2026-01-31T23:59:59+02",         NONE         },
        { "2026-01-31T23:59:59+0200",       NONE         },
        { "2026-01-31T23:59:59+02:00Z",     NONE         },
        { "2026-01-31T23:59:59+24:00",      NONE         },
        { "2026-01-31T23:59:59+00:60",      NONE         },
        { "2026-01-31T23:59:59+-1:00",      NONE         },
        { "2026-01-31T23:59:59++1:00",      NONE         },
        { "2026-01-31T23:59:59+ 1:00",      NONE         },
        { "2026-13-01T00:00:00Z",           NONE         },
        { "2026-00-01T00:00:00Z",           NONE         },
        { "2026-02-30T00:00:00Z",           NONE         },
        { "2025-02-29T00:00:00Z",           NONE         },
        { "2026-01-32T00:00:00Z",           NONE         },
        { "2026-01-01T24:00:00Z",           NONE         },
        { "2026-01-01T00:60:00Z",           NONE         },
        { "2026-1-1T0:0:0Z",                NONE         },
        { "26-01-01T00:00:00Z",             NONE         },
        { "12026-01-01T00:00:00Z",          NONE         },
        { "-2026-01-01T00:00:00Z",          NONE         },
};
/* clang-format on */

TEST_ROWS(test_parse, texts, text, const struct Text *text) {
        int64_t time = 42;
        int r;

        r = rfc3339_parse(text->text, &time);
        if (text->time == NONE) {
                assert_true(r < 0);
                assert_int_equal(time, 42);
                return;
        }

        assert_int_equal(r, 0);
        assert_int_equal(time, text->time);
}

static void assert_there_and_back(int64_t time, unsigned seed) {
        char text[RFC3339_SIZE];
        int64_t again = 0;

        rfc3339_format(time, text);
        if (strlen(text) != RFC3339_SIZE - 1 || rfc3339_parse(text, &again) < 0 || again != time)
                fail_msg("seed %u: %ld became \"%s\" and then %ld", seed, time, text, again);
}

/* Every second from the year 1 to the year 9999 is written so that it can be read. */
TEST(test_there_and_back) {
        assert_there_and_back(-62135596800, 0);
        assert_there_and_back(0, 0);
        assert_there_and_back(253402300799, 0);

        for (unsigned seed = 1; seed <= 10000; seed++) {
                srandom(seed);
                assert_there_and_back((random() << 31 | random()) % 315537897600 - 62135596800,
                                      seed);
        }
}

TEST(test_format) {
        char text[RFC3339_SIZE];

        assert_string_equal(rfc3339_format(0, text), "1970-01-01T00:00:00Z");
        assert_ptr_equal(rfc3339_format(1769903999, text), text);
        assert_string_equal(text, "2026-01-31T23:59:59Z");
}

/* A time that has no such form does not overflow the buffer. */
TEST(test_out_of_range) {
        static const int64_t times[] = { 253402300800, INT64_MAX, INT64_MIN };
        char text[RFC3339_SIZE];

        for (size_t i = 0; i < N_ELEMENTS(times); i++) {
                memset(text, 'x', sizeof(text));
                rfc3339_format(times[i], text);
                assert_true(strnlen(text, sizeof(text)) < sizeof(text));
        }
}

int main(void) {
        setenv("TZ", "Asia/Kathmandu", 1); /* the time zone of the node does not matter */
        tzset();
        return unit_run();
}
