/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sorted arrays of pointers
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/sorted.h"

static int compare(const void *item, const void *key) {
        return strcmp(item, key);
}

static void test_find(void **state) {
        const char *items[] = { "b", "d", "f" };
        static const struct {
                const char *key;
                size_t n_items;
                size_t at;
                bool is_there;
        } rows[] = {
                { "a", 3, 0, false }, { "b", 3, 0, true },  { "c", 3, 1, false },
                { "d", 3, 1, true },  { "e", 3, 2, false }, { "f", 3, 2, true },
                { "g", 3, 3, false }, { "c", 2, 1, false }, { "d", 2, 1, true },
                { "b", 1, 0, true },  { "a", 0, 0, false },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                size_t at;

                if (sorted_find(items, rows[i].n_items, compare, rows[i].key, &at) !=
                            rows[i].is_there ||
                    at != rows[i].at)
                        fail_msg("%s among %zu: at %zu", rows[i].key, rows[i].n_items, at);
        }
}

static void assert_items(char *const *items, size_t n_items, const char *expected) {
        char text[16] = "";

        for (size_t i = 0; i < n_items; i++)
                strcat(text, items[i]);
        assert_string_equal(text, expected);
}

static void test_insert_and_remove(void **state) {
        char *items[4] = { NULL };
        size_t n_items = 0, at;

        for (const char *const *key = (const char *const[]){ "c", "a", "d", "b", NULL }; *key;
             key++) {
                assert_false(sorted_find(items, n_items, compare, *key, &at));
                sorted_insert(items, &n_items, at, (char *) *key);
        }
        assert_items(items, n_items, "abcd");
        sorted_remove(items, &n_items, 1);
        assert_items(items, n_items, "acd");
        sorted_remove(items, &n_items, 2);
        sorted_remove(items, &n_items, 0);
        assert_items(items, n_items, "c");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_find),
                cmocka_unit_test(test_insert_and_remove),
        };

        return cmocka_run_group_tests_name("sorted", tests, NULL, NULL);
}
