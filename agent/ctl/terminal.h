/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The terminal, and text that is safe on it
 *
 * Names and messages come from outside and are shown to a person. A terminal obeys control
 * characters, so they are made visible first; and a line that is redrawn in place must fit, so its
 * width is counted in columns, not in bytes. What can be shown depends on the locale: in the "C"
 * locale everything but ASCII is made visible as \xNN.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a terminal shows the character as what it is. Characters that reorder or hide their
 * neighbours are not shown. */
bool terminal_shows(uint32_t character);

/* A copy in which whatever a terminal would not show is written as \n, \t or \xNN. NULL if there
 * is no memory. */
char *terminal_text_escape(const char *text);

/* Columns that a text takes which terminal_text_escape() made. */
size_t terminal_text_width(const char *text);

/* A copy of such a text that takes at most so many columns: the beginning, the middle or the end
 * gives way to "...". NULL if there is no memory. */
char *terminal_text_fit_start(const char *text, size_t width);
char *terminal_text_fit_middle(const char *text, size_t width);
char *terminal_text_fit_end(const char *text, size_t width);

/* printf() to stdout, with everything made safe for a terminal; ends the line. */
int print_safe(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints one line, made safe as well, of which the end gives way if the terminal is too narrow. */
int print_cut(const char *text);

/* Prints "PROGRAM: REASON" to stderr, safe for a terminal and in one line. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether lines can be drawn again in place. */
bool terminal_is_capable(int fd);

/* What the terminal says, else what COLUMNS and LINES say, else 80 by 24. */
void terminal_get_size(int fd, size_t *ret_rows, size_t *ret_columns);

/* So many lines up, and all below is cleared: what is printed next takes the place of what was there. */
void terminal_rewind(size_t n_lines);
