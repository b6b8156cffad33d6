/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * UTF-8
 *
 * What people and runtimes say may hold any bytes. These functions read them without trusting
 * them, and do not depend on the locale.
 */

#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* Reads one character. Returns how many bytes it has, or 0 if the bytes are not UTF-8 or text is at
 * its end. */
size_t utf8_decode(const char *text, uint32_t *ret);

/* Returns the size of the longest beginning that is UTF-8. The text may have NULs and need not end
 * with one. */
size_t utf8_valid_size(const char *text, size_t size);

/* Returns where to cut a longer text: at this size, or before the character that is there. */
size_t utf8_cut(const char *text, size_t size);

/* Copies the text with a replacement for each byte that is not UTF-8. NULL if there is no
 * memory. */
char *utf8_repair(const char *text);

/* Puts "?" in place of each control character that steers a terminal; tabulators and line ends
 * stay. */
void utf8_hide_controls(char *text);
