/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Strings that may be NULL
 */

#include <errno.h>

#include "agent/base/text.h"
#include "tests/unit/unit.h"

TEST(test_copies) {
        char *text = (char *) "before";

        assert_ok(text_copy(NULL, &text));
        assert_null(text);
        assert_ok(text_copy("a/b", &text));
        assert_string_equal(text, "a/b");

        /* The new text is a part of the one that it replaces. */
        assert_ok(text_set(&text, text + 2));
        assert_string_equal(text, "b");
        assert_ok(text_set(&text, NULL));
        assert_null(text);
}

TEST(test_equality) {
        assert_true(text_equal(NULL, NULL));
        assert_true(text_equal("a", "a"));
        assert_false(text_equal("a", "b"));
        assert_false(text_equal("", NULL));
        assert_false(text_equal(NULL, ""));
}

TEST(test_format) {
        char *text = (char *) "before";

        assert_ok(text_format(&text, "%s is %d", "a", 1));
        assert_string_equal(text, "a is 1");
        free(text);
}

/* A character that the C locale does not have: the one failure that needs no lack of memory. */
TEST(test_format_that_fails) {
        char *text = (char *) "before";

        assert_int_equal(text_format(&text, "%ls", L"\u00e9"), -ENOMEM);
        assert_null(text);
}

TEST(test_stream) {
        char *text = NULL;
        size_t size;
        FILE *stream = open_memstream(&text, &size);

        assert_non_null(stream);
        fputs("a", stream);
        assert_ok(text_close(stream, &text));
        assert_string_equal(text, "a");
        free(text);
}

TEST(test_stream_that_fails) {
        char *text = strdup("before");
        FILE *stream = fopen("/dev/full", "w");

        assert_non_null(stream);
        setbuf(stream, NULL);
        fputs("a", stream);
        assert_int_equal(text_close(stream, &text), -ENOMEM);
        assert_null(text);

        /* Closed well, but without a text. */
        stream = fopen("/dev/null", "w");
        assert_non_null(stream);
        assert_int_equal(text_close(stream, &text), -ENOMEM);
        assert_null(text);
}

TEST(test_plain) {
        static const struct {
                const char *text, *plain;
                bool is_line;
        } rows[] = {
                { "", "", true },         { "a ~", "a ~", true },   { "a\x1f", "a?", false },
                { "\x7f~", "?~", false }, { "a\nb", "a?b", false }, { "\xe2\x80\xa6", "???", true },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char text[8];

                strcpy(text, rows[i].text);
                assert_int_equal(text_is_line(text), rows[i].is_line);
                assert_int_equal(text_is_plain(text), strcmp(text, rows[i].plain) == 0);
                text_make_plain(text);
                assert_string_equal(text, rows[i].plain);
        }
}

TEST(test_lists) {
        char *const texts[] = { (char *) "a", (char *) "", NULL };
        char **copy = NULL;

        assert_ok(texts_copy(texts, &copy));
        assert_string_equal(copy[0], "a");
        assert_string_equal(copy[1], "");
        assert_null(copy[2]);
        assert_null(texts_free(copy));

        assert_ok(texts_copy(NULL, &copy));
        assert_null(copy);
        assert_null(texts_free(copy));
}
