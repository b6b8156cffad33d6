/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the memory of the last write about each request
 */

#include "agent/recreate/recreate-repeats.h"
#include "tests/unit/unit.h"

/* Writes in a row: the request, the time, and the time when the write was allowed. */
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

TEST(test_writes) {
        RecreateRepeats repeats = { .n_items = 0 };

        for (size_t i = 0; i < N_ELEMENTS(writes); i++) {
                assert_int_equal(recreate_repeats_when_usec(&repeats, writes[i].uid,
                                                            writes[i].field, writes[i].digest),
                                 writes[i].when_usec);
                recreate_repeats_note(&repeats, writes[i].uid, writes[i].field, writes[i].digest,
                                      writes[i].now_usec);
        }
}

/* If there are too many entries, the oldest writes are forgotten. */
TEST(test_many) {
        RecreateRepeats repeats = { .n_items = 0 };
        char uid[16];

        for (unsigned i = 0; i < RECREATE_REPEATS_MAX + 3; i++) {
                (void) snprintf(uid, sizeof(uid), "u%u", i);
                recreate_repeats_note(&repeats, uid, RECREATE_FIELD_LABELS, 1, (i + 1) * SEC);
        }
        assert_int_equal(repeats.n_items, RECREATE_REPEATS_MAX);
        for (unsigned i = 0; i < RECREATE_REPEATS_MAX + 3; i++) {
                (void) snprintf(uid, sizeof(uid), "u%u", i);
                assert_int_equal(recreate_repeats_when_usec(&repeats, uid, RECREATE_FIELD_LABELS,
                                                            1) > 0,
                                 i >= 3);
        }
}
