/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/format.h"
#include "tests/unit/unit.h"

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct SizeRow {
        uint64_t bytes;
        const char *text;
} size_rows[] = {
        { 0, "0 B" },
        { 999, "999 B" },
        { 1000, "1.0 kB" },
        { 999949, "999.9 kB" },
        { 999950, "1.0 MB" }, /* not 1000.0 kB */
        { 67123456, "67.1 MB" },
        { 1234567890, "1.2 GB" },
        { UINT64_MAX, "18.4 EB" },
};

TEST_ROWS(test_size, size_rows, text, const struct SizeRow *row) {
        assert_string_equal(format_size(row->bytes, FORMAT_BUFFER), row->text);
}

TEST(test_share) {
        assert_string_equal(format_share(12300000, 67100000, FORMAT_BUFFER), "12.3/67.1 MB");
        assert_string_equal(format_share(500000, 1200000000, FORMAT_BUFFER), "0.0/1.2 GB");
        assert_string_equal(format_share(7, 800, FORMAT_BUFFER), "7/800 B");
        assert_string_equal(format_share(9000, 2000, FORMAT_BUFFER), "2.0/2.0 kB");
}

TEST(test_durations) {
        static const struct {
                uint64_t seconds;
                const char *duration;
                const char *age;
        } rows[] = {
                { 0, "0s", "0s" },        { 59, "59s", "59s" },      { 60, "1m00s", "1m" },
                { 65, "1m05s", "1m" },    { 3599, "59m59s", "59m" }, { 7800, "2h10m", "2h" },
                { 86400, "1d00h", "1d" }, { 273600, "3d04h", "3d" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                assert_string_equal(format_duration(rows[i].seconds, FORMAT_BUFFER),
                                    rows[i].duration);
                assert_string_equal(format_age(rows[i].seconds, FORMAT_BUFFER), rows[i].age);
        }

        assert_string_equal(format_elapsed(0, FORMAT_BUFFER), "0.0s");
        assert_string_equal(format_elapsed(349999, FORMAT_BUFFER), "0.3s");
        assert_string_equal(format_elapsed(9999999, FORMAT_BUFFER), "9.9s");
        assert_string_equal(format_elapsed(10 * SEC, FORMAT_BUFFER), "10s");
        assert_string_equal(format_elapsed(65 * SEC, FORMAT_BUFFER), "1m05s");
}

TEST(test_short_id) {
        const char *long_text = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        cleanup(free_p) char *id = NULL, *named = NULL;

        assert_true(asprintf(&id, "sha256:%s", long_text) > 0);
        assert_true(asprintf(&named, "registry:5000/app@sha256:%s", long_text) > 0);

        assert_string_equal(format_short_id(id, FORMAT_BUFFER), "0123456789ab");
        assert_string_equal(format_short_id(named, FORMAT_BUFFER), "0123456789ab");
        assert_string_equal(format_short_id(long_text, FORMAT_BUFFER), "0123456789ab");
        assert_string_equal(format_short_id("ab", FORMAT_BUFFER), "ab");
        assert_string_equal(format_short_id("", FORMAT_BUFFER), "");
}

TEST(test_short_digest) {
        static const struct {
                const char *text;
                const char *shorter;
        } rows[] = {
                { "registry:5000/app@sha256:" DIGITS, "registry:5000/app@sha256:0123456789ab" },
                { "sha256:" DIGITS, "sha256:0123456789ab" },
                { "registry:5000/app:1.25", "registry:5000/app:1.25" },
                { "app:0123456789abcdef", "app:0123456789abcdef" },
                { "1.25", "1.25" },
                { "a@b", "a@b" },
                { "-", "-" },
                { "", "" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(free_p) char *shorter = format_short_digest(rows[i].text);

                assert_string_equal(shorter, rows[i].shorter);
        }
}

TEST(test_duration_is_read) {
        static const struct {
                const char *text;
                int64_t seconds; /* 0: it is refused */
        } rows[] = {
                { "30s", 30 },
                { "10m", 600 },
                { "1h30m", 5400 },
                { "600", 600 },
                { "1h5", 3605 },
                { "1000", 1000 },
                { "", 0 },
                { "0", 0 },
                { "0s", 0 },
                { "m", 0 },
                { "-5s", 0 },
                { "5 s", 0 },
                { "1.5h", 0 },
                { "10d", 0 },
                { "5ss", 0 },
                { "1001", 0 },
                { "16m40s", 1000 },
                { "16m41s", 0 },
                { "99999999999999999999999", 0 },
                { "+5", 0 },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                int64_t max = rows[i].seconds > 1000 ? 10000 : 1000;
                cleanup(error_done) Error error = ERROR_INIT;
                int64_t seconds = 0;

                if (duration_parse(rows[i].text, max, &seconds, &error) < 0)
                        assert_int_equal(error.kind, ERROR_INVALID);
                if (seconds != rows[i].seconds)
                        fail_msg("'%s' is %lld", rows[i].text, (long long) seconds);
        }
}

/* A duration that is too long is reported as such, not as a syntax error. */
TEST(test_duration_is_too_long) {
        static const char *const texts[] = { "99h",   "25h",   "24h1s",
                                             "1500m", "86401", "999999999999999999h" };
        int64_t seconds = 0;

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                cleanup(error_done) Error error = ERROR_INIT;

                assert_true(duration_parse(texts[i], 24 * 3600, &seconds, &error) < 0);
                assert_contains(error_message(&error), "is longer than 24h");
        }
        assert_ok(duration_parse("24h", 24 * 3600, &seconds, NULL));
}
