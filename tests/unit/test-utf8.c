/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where a text is cut, so that no part of a character is left at its end
 */

#include "agent/base/utf8.h"
#include "tests/unit/unit.h"

#define EURO "\xe2\x82\xac"

static const struct Row {
        const char *name;
        const char *text;
        size_t size, expected;
} rows[] = {
        { "between two letters", "abc", 2, 2 },
        { "nothing is kept", "abc", 0, 0 },
        { "in the second character", "a" EURO "b", 3, 1 },
        { "behind it", "a" EURO "b", 4, 4 },
        { "in the first byte of the first", EURO "b", 1, 0 },
        { "in the last byte of the first", EURO "b", 2, 0 },
        { "between two of many bytes", EURO EURO, 3, 3 },
        { "in the last one", EURO EURO, 5, 3 },
};

TEST_ROWS(test_cut, rows, name, const struct Row *row) {
        assert_int_equal(utf8_cut(row->text, row->size), row->expected);
}
