/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the quoting of a peer's text
 */

#include "agent/base/quote.h"
#include "tests/unit/unit.h"

#define X_72 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct QuoteRow {
        const char *text;
        const char *quoted;
} rows[] = {
        { "", "\"\"" },
        { "plain", "\"plain\"" },
        { "a \"b\" \\ c", "\"a \\\"b\\\" \\\\ c\"" },
        { "two\nlines\t\x01\x7f", "\"two?lines???\"" },
        { "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"" },
        { X_72 "y", "\"" X_72 "y\"" },
        { X_72 "yz", "\"" X_72 "y\"..." },
        { X_72 "\"", "\"" X_72 "\\\"\"" },
        { X_72 "y\"", "\"" X_72 "y\"..." },
        { X_72 "\xc3\xa4", "\"" X_72 "\"..." },
};

TEST_ROWS(test_quote, rows, text, const struct QuoteRow *row) {
        char buffer[QUOTE_SIZE];

        assert_ptr_equal(quote(row->text, buffer), buffer);
        assert_string_equal(buffer, row->quoted);
}
