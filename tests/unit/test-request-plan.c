/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which requests of the local API make room for a new one
 */

#include "agent/api/request-plan.h"
#include "tests/unit/unit.h"

#define LIMIT 16 /* limit of requests; a removal frees at least two */
#define N_ENTRIES_MAX 8

/* clang-format off */
static const struct Row {
        const char *name;
        RequestEntry entries[N_ENTRIES_MAX];
        size_t n_more;
        bool fits;
        const char *gone; /* names of the removed entries, one letter each */
} rows[] = {
        { "nothing there",            { { 0 } }, 16, true, "" },
        { "more than there may be",   { { 0 } }, 17, false, "" },
        { "all fit",                  { { "a", 8, true, 1, false } }, 8, true, "" },
        { "the oldest goes",          { { "a", 8, true, 2, false }, { "b", 4, true, 1, false } }, 5, true, "b" },
        { "and the next",             { { "a", 8, true, 2, false }, { "b", 4, true, 1, false } }, 14, true, "ab" },
        { "some spare places",        { { "a", 4, true, 1, false }, { "b", 4, true, 2, false }, { "c", 8, true, 3, false } }, 4, true, "ab" },
        { "unfinished ones stay",     { { "a", 4, false, 1, false }, { "b", 12, true, 9, false } }, 1, true, "b" },
        { "without spare places",     { { "a", 15, false, 0, false }, { "b", 1, true, 9, false } }, 1, true, "b" },
        { "what cannot be made room for", { { "a", 15, false, 0, false }, { "b", 1, true, 9, false } }, 2, false, "b" },
        { "no finished ones",         { { "a", 9, false, 0, false }, { "b", 7, false, 0, false } }, 1, false, "" },
};
/* clang-format on */

TEST_ROWS(test_row, rows, name, const struct Row *row) {
        RequestEntry entries[N_ENTRIES_MAX];
        char gone[N_ENTRIES_MAX + 1] = "";
        size_t n = 0;

        memcpy(entries, row->entries, sizeof(entries));
        while (n < N_ENTRIES_MAX && entries[n].owner)
                n++;

        assert_int_equal(request_plan(entries, n, row->n_more, LIMIT), row->fits);
        for (char letter = 'a'; letter < 'a' + N_ENTRIES_MAX; letter++)
                for (size_t i = 0; i < n; i++)
                        if (entries[i].owner[0] == letter && entries[i].must_go)
                                gone[strlen(gone)] = letter;
        assert_string_equal(gone, row->gone);
}

TEST(test_entries_of_one_request_are_merged) {
        RequestEntry entries[] = {
                { "b", 1, true, 7, false },  { "a", 1, true, 1, false }, { "c", 1, true, 4, false },
                { "a", 1, false, 0, false }, { "c", 2, true, 5, false }, { "a", 1, true, 2, false },
                { "c", 1, true, 3, false },
        };

        assert_int_equal(request_merge(entries, 7), 3);
        assert_string_equal(entries[0].owner, "a");
        assert_int_equal(entries[0].n_images, 3);
        assert_false(entries[0].is_finished);
        assert_string_equal(entries[1].owner, "b");
        assert_int_equal(entries[1].n_images, 1);
        assert_true(entries[1].is_finished);
        assert_string_equal(entries[2].owner, "c");
        assert_int_equal(entries[2].n_images, 4);
        assert_true(entries[2].is_finished);
        assert_int_equal(entries[2].ended_at, 5);
        assert_int_equal(request_merge(entries, 0), 0);
}
