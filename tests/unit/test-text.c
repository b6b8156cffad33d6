/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Strings that may be NULL
 */

#include <errno.h>

#include "agent/base/text.h"
#include "tests/unit/failing-memory.h"
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
        assert_ok(text_format(&text, "%s", ""));
        assert_string_equal(text, "");
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
        FILE *stream = text_open(&text, &size);

        assert_non_null(stream);
        assert_int_equal(ftell(stream), 0);
        fputs("a", stream);
        assert_int_equal(ftell(stream), 1);
        assert_string_equal(text, "");

        assert_ok(fflush(stream));
        assert_string_equal(text, "a");
        assert_int_equal(size, 1);
        fputs("bc", stream);
        assert_int_equal(ftell(stream), 3);
        assert_int_equal(fseek(stream, 0, SEEK_SET), -1);
        assert_ok(text_close(stream, &text));
        assert_string_equal(text, "abc");
        assert_int_equal(size, 3);
        free(text);
}

#define LINES 3000
#define LINE "%05d\n"
#define LINE_SIZE ((size_t) 6)

static void assert_lines(const char *text, size_t size) {
        assert_int_equal(size, LINES * LINE_SIZE);
        for (int i = 0; i < LINES; i++) {
                char line[LINE_SIZE + 1];

                snprintf(line, sizeof(line), LINE, i);
                assert_memory_equal(text + (size_t) i * LINE_SIZE, line, LINE_SIZE);
        }
}

/* The text is whole, or there is none: no part of it is missing. */
TEST(test_stream_without_memory) {
        bool has_failed;

        do {
                cleanup(free_p) char *text = NULL;
                int r = -ENOMEM;
                size_t size;
                FILE *stream;

                failing_memory_begin();
                stream = text_open(&text, &size);
                for (int i = 0; stream && i < LINES; i++)
                        fprintf(stream, LINE, i);
                if (stream)
                        r = text_close(stream, &text);
                has_failed = failing_memory_end();
                assert_true(r == 0 || (has_failed && r == -ENOMEM && !text));
                if (r == 0)
                        assert_lines(text, size);
        } while (has_failed);
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
