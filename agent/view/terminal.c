/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/terminal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/base/utf8.h"

#define ELLIPSIS "..."

/* Zero-width and bidirectional controls: valid, printable, and able to make a text lie. */
static bool is_deceptive(uint32_t c) {
        return c == 0xAD || c == 0x61C || c == 0x180E || c == 0xFEFF ||
               (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
               (c >= 0x2060 && c <= 0x206F) || c >= 0xE0000;
}

bool terminal_shows(uint32_t c) {
        if (c < 0x80)
                return c >= 0x20 && c < 0x7F;

        return c >= 0xA0 && !is_deceptive(c) && iswprint((wint_t) c);
}

static char *escape_byte(char *end, char byte) {
        switch (byte) {
        case '\n': return stpcpy(end, "\\n");
        case '\r': return stpcpy(end, "\\r");
        case '\t': return stpcpy(end, "\\t");
        default: return end + sprintf(end, "\\x%02x", (unsigned char) byte);
        }
}

char *terminal_text_escape(const char *text) {
        char *copy, *end;

        copy = end = malloc(strlen(text) * strlen("\\xNN") + 1);
        if (!copy)
                return NULL;

        while (*text) {
                uint32_t c;
                size_t n = utf8_decode(text, &c);
                bool is_shown = n > 0 && terminal_shows(c);

                for (const char *after = text + (n ?: 1); text < after; text++)
                        if (is_shown)
                                *end++ = *text;
                        else
                                end = escape_byte(end, *text);
        }

        *end = '\0';
        return copy;
}

/* The next character: its bytes and its columns. */
static size_t next_character(const char *text, size_t *ret_width) {
        uint32_t c = 0;
        size_t n = utf8_decode(text, &c);
        int width = n > 0 ? wcwidth((wchar_t) c) : 1;

        *ret_width = width < 0 ? 1 : (size_t) width;
        return n ?: 1;
}

size_t terminal_text_width(const char *text) {
        size_t width = 0, w;

        while (*text) {
                text += next_character(text, &w);
                width += w;
        }

        return width;
}

/* Returns the bytes of the longest prefix within that many columns. */
static size_t head_size(const char *text, size_t width) {
        const char *p = text;

        while (*p) {
                size_t w, n = next_character(p, &w);

                if (w > width)
                        break;
                width -= w;
                p += n;
        }

        return (size_t) (p - text);
}

/* Skips at least that many columns, and returns the rest of the text. */
static const char *tail_after(const char *text, size_t skip) {
        while (*text && skip > 0) {
                size_t w, n = next_character(text, &w);

                skip -= w < skip ? w : skip;
                text += n;
        }

        return text;
}

static char *fit(const char *text, size_t width, size_t tail_width) {
        size_t ellipsis = strlen(ELLIPSIS), whole = terminal_text_width(text);
        size_t head_width;
        char *shorter;

        if (whole <= width)
                return strdup(text);
        if (width <= ellipsis)
                return strndup(text, head_size(text, width));

        head_width = width - ellipsis - tail_width;
        (void) text_format(&shorter, "%.*s" ELLIPSIS "%s", (int) head_size(text, head_width), text,
                           tail_width > 0 ? tail_after(text, whole - tail_width) : "");
        return shorter;
}

char *terminal_text_fit_start(const char *text, size_t width) {
        return fit(text, width, width > strlen(ELLIPSIS) ? width - strlen(ELLIPSIS) : 0);
}

char *terminal_text_fit_middle(const char *text, size_t width) {
        /* The end of a reference, its tag, matters more than its beginning, the registry. */
        return fit(text, width, width > strlen(ELLIPSIS) ? (width - strlen(ELLIPSIS) + 1) / 2 : 0);
}

char *terminal_text_fit_end(const char *text, size_t width) {
        return fit(text, width, 0);
}

/* NULL if there is no memory. */
__attribute__((format(printf, 1, 0))) static char *format_safe(const char *format, va_list args) {
        cleanup(free_p) char *text = NULL;

        (void) text_vformat(&text, format, args);
        return text ? terminal_text_escape(text) : NULL;
}

static int print_text(FILE *file, char *text) {
        cleanup(free_p) char *owned = text;

        if (!owned)
                return -ENOMEM;

        fprintf(file, "%s\n", owned);
        return 0;
}

int print_safe_to(FILE *file, const char *format, ...) {
        va_list args;
        char *text;

        va_start(args, format);
        text = format_safe(format, args);
        va_end(args);
        return print_text(file, text);
}

void complain(const char *format, ...) {
        cleanup(free_p) char *text = NULL;
        va_list args;

        va_start(args, format);
        text = format_safe(format, args);
        va_end(args);

        (void) fflush(stdout); /* keeps the order of stdout and stderr */
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, text ?: "out of memory");
}

bool terminal_is_capable(void) {
        const char *type = getenv("TERM");

        return isatty(STDOUT_FILENO) && type && type[0] && strcmp(type, "dumb") != 0;
}

static size_t number_from_environment(const char *name, size_t otherwise) {
        const char *text = getenv(name);
        int number = text ? atoi(text) : 0;

        return number > 0 ? (size_t) number : otherwise;
}

void terminal_get_size(size_t *ret_rows, size_t *ret_columns) {
        struct winsize size = { 0 };

        (void) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        *ret_rows = size.ws_row ?: number_from_environment("LINES", 24);
        *ret_columns = size.ws_col ?: number_from_environment("COLUMNS", 80);
}

int print_cut_to(FILE *file, const char *text) {
        cleanup(free_p) char *safe = terminal_text_escape(text);
        size_t rows, columns;

        terminal_get_size(&rows, &columns);
        return print_text(file, safe ? terminal_text_fit_end(safe, columns) : NULL);
}
