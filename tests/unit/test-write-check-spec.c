/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the conclusions from the answers to forbidden writes
 */

#include "agent/pod/write-check-spec.h"
#include "tests/unit/unit.h"

#define UNKNOWN WRITE_VERDICT_UNKNOWN
#define REFUSED WRITE_VERDICT_REFUSED
#define ALLOWED WRITE_VERDICT_ALLOWED

TEST(test_judge) {
        static const struct {
                int code;
                WriteVerdict expected;
        } rows[] = {
                { 0, UNKNOWN },   { 199, UNKNOWN }, { 200, ALLOWED }, { 201, ALLOWED },
                { 299, ALLOWED }, { 307, UNKNOWN }, { 400, UNKNOWN }, { 401, UNKNOWN },
                { 403, REFUSED }, { 404, UNKNOWN }, { 409, UNKNOWN }, { 422, UNKNOWN },
                { 429, UNKNOWN }, { 500, UNKNOWN }, { 503, UNKNOWN },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                assert_int_equal(write_check_judge(rows[i].code), rows[i].expected);
}

TEST(test_verdicts) {
        static const struct {
                WriteVerdict verdicts[_WRITE_TARGET_MAX];
                const char *sentence;
                uint64_t pause_usec;
        } rows[] = {
                { { REFUSED, REFUSED, REFUSED, REFUSED }, NULL, WRITE_CHECK_LATER_USEC },
                { { UNKNOWN, REFUSED, REFUSED, REFUSED }, NULL, WRITE_CHECK_SOON_USEC },
                { { REFUSED, UNKNOWN, REFUSED, REFUSED }, NULL, WRITE_CHECK_SOON_USEC },
                { { REFUSED, REFUSED, UNKNOWN, REFUSED }, NULL, WRITE_CHECK_SOON_USEC },
                { { REFUSED, REFUSED, REFUSED, UNKNOWN }, NULL, WRITE_CHECK_SOON_USEC },
                { { UNKNOWN }, NULL, WRITE_CHECK_SOON_USEC },
                { { ALLOWED, REFUSED, REFUSED, REFUSED },
                  "change labels of pods",
                  WRITE_CHECK_SOON_USEC },
                { { ALLOWED }, "change labels of pods", WRITE_CHECK_SOON_USEC },
                { { REFUSED, ALLOWED }, "change NodeImages of other nodes", WRITE_CHECK_SOON_USEC },
                { { REFUSED, REFUSED, ALLOWED },
                  "change labels of its Node",
                  WRITE_CHECK_SOON_USEC },
                { { REFUSED, REFUSED, REFUSED, ALLOWED },
                  "change Leases of any name",
                  WRITE_CHECK_SOON_USEC },
                { { ALLOWED, ALLOWED },
                  "change labels of pods, and NodeImages of other nodes",
                  WRITE_CHECK_SOON_USEC },
                { { REFUSED, ALLOWED, ALLOWED, ALLOWED },
                  "change NodeImages of other nodes, and labels of its Node, and Leases of any name",
                  WRITE_CHECK_SOON_USEC },
        };
        static const uint32_t randoms[] = { 0, 1, UINT32_MAX / 2, UINT32_MAX };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(free_p) char *sentence = NULL;

                assert_ok(write_check_describe(rows[i].verdicts, &sentence));
                if (rows[i].sentence)
                        assert_string_equal(sentence, rows[i].sentence);
                else
                        assert_null(sentence);
                for (size_t j = 0; j < N_ELEMENTS(randoms); j++)
                        assert_in_range(write_check_pause_usec(rows[i].verdicts, randoms[j]),
                                        rows[i].pause_usec / 10 * 9, rows[i].pause_usec / 10 * 11);
        }
}

/* Not all agents at once. */
TEST(test_pauses_differ) {
        static const WriteVerdict well[_WRITE_TARGET_MAX] = { REFUSED, REFUSED, REFUSED, REFUSED };

        assert_int_equal(write_check_pause_usec(well, 0), WRITE_CHECK_LATER_USEC / 10 * 9);
        assert_true(write_check_pause_usec(well, UINT32_MAX) - write_check_pause_usec(well, 0) >
                    (uint64_t) 3600 * 1000000);
}

TEST(test_find_other) {
        static const struct {
                const char *list, *expected;
        } rows[] = {
                { "{\"items\":[{\"metadata\":{\"name\":\"node-1\"}},"
                  "{\"metadata\":{\"name\":\"node-2\"}}]}",
                  "node-2" },
                { "{\"items\":[{\"metadata\":{\"name\":\"a\"}},{\"metadata\":{\"name\":\"b\"}}]}",
                  "a" },
                { "{\"items\":[{\"metadata\":{\"name\":\"node-1\"}}]}", NULL },
                { "{\"items\":[]}", NULL },
                { "{\"items\":[1,null,{},{\"metadata\":7},{\"metadata\":{\"name\":8}},"
                  "{\"metadata\":{\"name\":\"z\"}}]}",
                  "z" },
                { "{\"items\":{\"metadata\":{\"name\":\"z\"}}}", NULL },
                { "{}", NULL },
                { "[]", NULL },
                { "null", NULL },
                { "7", NULL },
                { "", NULL },
                { "{\"items\":[{", NULL },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(free_p) char *found = NULL;

                assert_int_equal(write_check_find_other(rows[i].list, strlen(rows[i].list),
                                                        "node-1", &found),
                                 0);
                if (rows[i].expected)
                        assert_string_equal(found, rows[i].expected);
                else
                        assert_null(found);
        }
}
