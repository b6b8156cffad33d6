/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What was written last about each request
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/recreate/recreate-repeats.h"

#define SEC ((uint64_t) 1000000)

/* One after the other: what is written, when, and when it may have been. */
static const struct {
        const char *uid;
        RecreateField field;
        uint64_t digest, now_usec, when_usec;
} writes[] = {
        { "a", RECREATE_FIELD_LABELS, 1, 10 * SEC, 0 },
        { "a", RECREATE_FIELD_LABELS, 1, 11 * SEC, 10 * SEC + REPEAT_MIN_USEC },
        { "a", RECREATE_FIELD_LABELS, 1, 12 * SEC, 11 * SEC + 2 * REPEAT_MIN_USEC },
        { "b", RECREATE_FIELD_LABELS, 1, 12 * SEC, 0 },
        { "a", RECREATE_FIELD_ACTIVE, 1, 12 * SEC, 0 },
        { "a", RECREATE_FIELD_STATUS, 7, 12 * SEC, 0 },
        { "a", RECREATE_FIELD_STATUS, 8, 13 * SEC, 0 },
        { "a", RECREATE_FIELD_STATUS, 8, 14 * SEC, 13 * SEC + REPEAT_MIN_USEC },
        { "a", RECREATE_FIELD_LABELS, 1, 15 * SEC, 12 * SEC + 4 * REPEAT_MIN_USEC },
};

static void test_writes(void **state) {
        RecreateRepeats repeats = { .n_items = 0 };

        for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
                assert_int_equal(recreate_repeats_when_usec(&repeats, writes[i].uid,
                                                            writes[i].field, writes[i].digest),
                                 writes[i].when_usec);
                recreate_repeats_note(&repeats, writes[i].uid, writes[i].field, writes[i].digest,
                                      writes[i].now_usec);
        }
}

/* Where there are too many, those are forgotten that were written the longest time ago. */
static void test_many(void **state) {
        RecreateRepeats repeats = { .n_items = 0 };
        char uid[16];

        for (unsigned i = 0; i < RECREATE_REPEATS_MAX + 2; i++) {
                (void) snprintf(uid, sizeof(uid), "u%u", i);
                recreate_repeats_note(&repeats, uid, RECREATE_FIELD_LABELS, 1, (i + 1) * SEC);
        }
        assert_int_equal(repeats.n_items, RECREATE_REPEATS_MAX);
        for (unsigned i = 0; i < RECREATE_REPEATS_MAX + 2; i++) {
                (void) snprintf(uid, sizeof(uid), "u%u", i);
                assert_int_equal(recreate_repeats_when_usec(&repeats, uid, RECREATE_FIELD_LABELS,
                                                            1) > 0,
                                 i >= 2);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_writes),
                cmocka_unit_test(test_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
