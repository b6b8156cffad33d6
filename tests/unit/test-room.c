/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests who has room for more of the entries that callers share
 */

#include "agent/rpc/room.h"
#include "tests/unit/unit.h"

static const RoomLimits limits = {
        .what = "seats",
        .for_user = 4,
        .for_others = 8,
        .for_all = 10,
};

/* clang-format off */
static const struct Row {
        const char *name;
        RoomUse use; /* by the user, by all but root, by all */
        bool is_root;
        size_t more;
        const char *words; /* NULL: it fits */
} rows[] = {
        { "the first",                       { 0, 0, 0 },   false, 1, NULL },
        { "the last of the user",            { 3, 3, 3 },   false, 1, NULL },
        { "one too many of the user",        { 4, 4, 4 },   false, 1, "user 7 has too many seats: 4 and 1 more" },
        { "several at once",                 { 1, 1, 1 },   false, 3, NULL },
        { "several at once, one too many",   { 2, 2, 2 },   false, 3, "user 7 has too many seats: 2 and 3 more" },
        { "more than there are",             { 0, 0, 0 },   false, SIZE_MAX, "user 7" },
        { "the last of the others",          { 0, 7, 7 },   false, 1, NULL },
        { "one too many of the others",      { 0, 8, 8 },   false, 1, "all users but root have 8" },
        { "root's last seats stay empty",    { 3, 8, 8 },   false, 1, "all users but root" },
        { "root, when the others have all",  { 0, 8, 8 },   true,  2, NULL },
        { "root has no limit of a user",     { 9, 0, 9 },   true,  1, NULL },
        { "root, when there is none",        { 2, 8, 10 },  true,  1, "there are 10, where there may be 10" },
        { "others, when root has all",       { 0, 0, 10 },  false, 1, "there are 10" },
        { "nothing more",                    { 4, 8, 10 },  false, 0, NULL },
};
/* clang-format on */

TEST_ROWS(test_row, rows, name, const struct Row *row) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = room_check(&limits, &row->use, row->is_root, 7, row->more, &error);
        if (!row->words) {
                assert_int_equal(r, 0);
                return;
        }

        assert_true(r < 0);
        assert_int_equal(error.kind, ERROR_UNAVAILABLE);
        assert_contains(error_message(&error), row->words);
}

TEST(test_count) {
        RoomUse use = { 0 };

        room_count(&use, false, true, 1);
        room_count(&use, false, false, 2);
        room_count(&use, true, false, 4);
        room_count(&use, true, true, 8);
        assert_int_equal(use.by_user, 9);
        assert_int_equal(use.by_others, 3);
        assert_int_equal(use.by_all, 15);
}
