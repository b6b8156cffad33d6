/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arrays that grow, and sorted arrays of pointers
 */

#include "agent/base/array.h"
#include "tests/unit/unit.h"

static int compare(const void *item, const void *key) {
        return strcmp(item, key);
}

static const struct FindRow {
        const char *key;
        size_t n_items;
        size_t at;
        bool is_there;
} find_rows[] = {
        { "a", 3, 0, false }, { "b", 3, 0, true }, { "c", 3, 1, false }, { "d", 3, 1, true },
        { "e", 3, 2, false }, { "f", 3, 2, true }, { "g", 3, 3, false }, { "c", 2, 1, false },
        { "d", 2, 1, true },  { "b", 1, 0, true }, { "a", 0, 0, false },
};

TEST_ROWS(test_find, find_rows, key, const struct FindRow *row) {
        const char *items[] = { "b", "d", "f" };
        size_t at;

        if (sorted_find(items, row->n_items, compare, row->key, &at) != row->is_there ||
            at != row->at)
                fail_msg("%s among %zu: at %zu", row->key, row->n_items, at);
}

static void assert_items(char *const *items, size_t n_items, const char *expected) {
        char text[16] = "";

        for (size_t i = 0; i < n_items; i++)
                strcat(text, items[i]);
        assert_string_equal(text, expected);
}

TEST(test_insert_and_remove) {
        cleanup(free_p) char **items = NULL;
        size_t n_items = 0, at;

        for (const char *const *key = (const char *const[]){ "c", "a", "d", "b", NULL }; *key;
             key++) {
                assert_false(sorted_find(items, n_items, compare, *key, &at));
                assert_ok(sorted_insert(&items, &n_items, at, (char *) *key));
        }
        assert_items(items, n_items, "abcd");
        sorted_remove(items, &n_items, 1);
        assert_items(items, n_items, "acd");
        sorted_remove(items, &n_items, 2);
        sorted_remove(items, &n_items, 0);
        assert_items(items, n_items, "c");
}

/* Items that are taken out meanwhile leave their room behind. */
TEST(test_grow) {
        cleanup(free_p) unsigned *items = NULL;
        size_t n_items = 0;

        for (unsigned i = 0; i < 100; i++) {
                assert_ok(array_grow(&items, n_items, sizeof(items[0])));
                items[n_items++] = i;
                if (i % 10 == 9)
                        n_items -= 5;
        }
        assert_int_equal(n_items, 50);
        for (size_t i = 0; i < n_items; i++)
                assert_int_equal(items[i], i / 5 * 10 + i % 5);
}
