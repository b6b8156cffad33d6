/* SPDX-License-Identifier: Apache-2.0 */

#include <locale.h>

#include "agent/base/utf8.h"
#include "agent/view/terminal.h"
#include "tests/unit/unit.h"

#define WIDE "\xE6\xBC\xA2" /* a character of two columns */
#define E_ACUTE "\xC3\xA9"

static const struct WhatATerminalObeysIsEscapedRow {
        const char *text;
        const char *escaped;
} what_a_terminal_obeys_is_escaped_rows[] = {
        { "nginx:1.25", "nginx:1.25" },
        { "", "" },
        { "a\nb\tc\rd", "a\\nb\\tc\\rd" },
        { "\x1b[2J", "\\x1b[2J" },
        { "\x7f", "\\x7f" },
        { "\xC2\x9B"
          "31m",
          "\\xc2\\x9b31m" }, /* CSI in one character */
        { "a\xE2\x80\xAE"
          "b",
          "a\\xe2\\x80\\xaeb" }, /* right-to-left override */
        { "a\xE2\x80\x8B"
          "b",
          "a\\xe2\\x80\\x8bb" },                        /* zero width */
        { "\xF3\xA0\x81\x81", "\\xf3\\xa0\\x81\\x81" }, /* a tag character */
        { "caf" E_ACUTE " " WIDE, "caf" E_ACUTE " " WIDE },
        { "\xFF\xC3", "\\xff\\xc3" },
        { "\xC0\xAF", "\\xc0\\xaf" },          /* overlong */
        { "\xED\xA0\x80", "\\xed\\xa0\\x80" }, /* surrogate */
        { "\xE6\xBC", "\\xe6\\xbc" },          /* cut off */
};

TEST_ROWS(test_what_a_terminal_obeys_is_escaped, what_a_terminal_obeys_is_escaped_rows, text,
          const struct WhatATerminalObeysIsEscapedRow *row) {
        cleanup(free_p) char *escaped = terminal_text_escape(row->text);

        assert_string_equal(escaped, row->escaped);
}

static const struct Utf8IsRepairedRow {
        const char *text;
        const char *repaired;
} utf8_is_repaired_rows[] = {
        { "plain", "plain" },
        { "caf" E_ACUTE, "caf" E_ACUTE },
        { "a\xFF"
          "b",
          "a" UTF8_REPLACEMENT "b" },
        { "\xE6\xBC", UTF8_REPLACEMENT UTF8_REPLACEMENT },
        { "\xE0\x80\xAF", UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT },
        { "\xED\xA0\x80", UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT },
        { "\xF4\x90\x80\x80", UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT },
};

TEST_ROWS(test_utf8_is_repaired, utf8_is_repaired_rows, text, const struct Utf8IsRepairedRow *row) {
        cleanup(free_p) char *repaired = utf8_repair(row->text);

        assert_string_equal(repaired, row->repaired);
}

TEST(test_width_is_counted_in_columns) {
        assert_ok(terminal_text_width(""));
        assert_int_equal(terminal_text_width("abc"), 3);
        assert_int_equal(terminal_text_width("caf" E_ACUTE), 4);
        assert_int_equal(terminal_text_width(WIDE WIDE), 4);
}

static const struct LongTextsAreCutRow {
        const char *text;
        size_t width;
        const char *start;
        const char *middle;
        const char *end;
} long_texts_are_cut_rows[] = {
        { "registry.example/app:1.2", 24, "registry.example/app:1.2", "registry.example/app:1.2",
          "registry.example/app:1.2" },
        { "registry.example/app:1.2", 16, "...ample/app:1.2", "regist...app:1.2",
          "registry.exam..." },
        { "registry.example/app:1.2", 4, "...2", "...2", "r..." },
        { "registry.example/app:1.2", 3, "reg", "reg", "reg" },
        { "registry.example/app:1.2", 0, "", "", "" },
        { WIDE WIDE WIDE WIDE WIDE, 8, "..." WIDE WIDE, WIDE "..." WIDE, WIDE WIDE "..." },
};

TEST_ROWS(test_long_texts_are_cut, long_texts_are_cut_rows, text,
          const struct LongTextsAreCutRow *row) {
        cleanup(free_p) char *start = terminal_text_fit_start(row->text, row->width);
        cleanup(free_p) char *middle = terminal_text_fit_middle(row->text, row->width);
        cleanup(free_p) char *end = terminal_text_fit_end(row->text, row->width);

        assert_string_equal(start, row->start);
        assert_string_equal(middle, row->middle);
        assert_string_equal(end, row->end);
}

/* Any bytes: the escaped text is shown as it is, and a cut one fits. */
TEST(test_noise) {
        for (unsigned seed = 0; seed < 2000; seed++) {
                char noise[40];
                size_t size = seed % sizeof(noise), width = seed % 50;

                srand(seed);
                for (size_t i = 0; i < size; i++)
                        noise[i] = (char) (rand() % 3 ? 0x80 + rand() % 0x80 : 1 + rand() % 0x7F);
                noise[size ? size - 1 : 0] = '\0';

                cleanup(free_p) char *escaped = terminal_text_escape(noise);
                cleanup(free_p) char *again = terminal_text_escape(escaped);
                cleanup(free_p) char *start = terminal_text_fit_start(escaped, width);
                cleanup(free_p) char *middle = terminal_text_fit_middle(escaped, width);
                cleanup(free_p) char *end = terminal_text_fit_end(escaped, width);

                if (strcmp(escaped, again) != 0 || terminal_text_width(start) > width ||
                    terminal_text_width(middle) > width || terminal_text_width(end) > width)
                        fail_msg("seed %u", seed);
        }
}

/* Last, since it changes the locale. */
TEST(test_only_ascii_is_shown_in_the_c_locale) {
        cleanup(free_p) char *escaped = NULL;

        assert_non_null(setlocale(LC_CTYPE, "C"));
        escaped = terminal_text_escape("caf" E_ACUTE);
        assert_string_equal(escaped, "caf\\xc3\\xa9");
}

int main(void) {
        if (!setlocale(LC_CTYPE, "C.UTF-8"))
                return EXIT_FAILURE;
        return unit_run();
}
