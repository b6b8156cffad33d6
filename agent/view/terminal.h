/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The terminal, and text that is safe on it
 *
 * Names and messages come from outside. A terminal obeys control characters, so these functions escape
 * them; and a line that is redrawn in place must fit, so they count its width in columns, not in bytes.
 * The locale decides which characters are shown: in the "C" locale all but ASCII becomes \xNN.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns whether a terminal shows the character as it is. Characters that reorder or hide their
 * neighbours are not shown. */
bool terminal_shows(uint32_t character);

/* Copies the text with hidden characters as \n, \t or \xNN. NULL if there is no memory. */
char *terminal_text_escape(const char *text);

/* Returns the columns of a text from terminal_text_escape(). */
size_t terminal_text_width(const char *text);

/* Copies such a text into at most width columns: replaces the beginning, the middle or the end by
 * "...". NULL if there is no memory. */
char *terminal_text_fit_start(const char *text, size_t width);
char *terminal_text_fit_middle(const char *text, size_t width);
char *terminal_text_fit_end(const char *text, size_t width);

/* fprintf() to stdout, or to a stream whose text will be there, with everything made safe for a terminal;
 * ends the line. */
int print_safe_to(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define print_safe(...) print_safe_to(stdout, __VA_ARGS__)

/* Prints a safe line there, and cuts its end if the terminal is too narrow. */
int print_cut_to(FILE *file, const char *text);

/* Prints "PROGRAM: REASON" to stderr, safe for a terminal and in one line. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns whether lines of stdout can be redrawn in place. */
bool terminal_is_capable(void);

/* The size is the terminal's, else that of COLUMNS and LINES, else 80 by 24. */
void terminal_get_size(size_t *ret_rows, size_t *ret_columns);
