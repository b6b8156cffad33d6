/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Quote
 *
 * The text of a peer inside one of our lines: between double quotes, cut when it is long, and
 * with nothing in it that would end the line or the string.
 */

#define QUOTE_SIZE 80

/* Fills the buffer and returns it. A text that was cut ends in "..." behind the quotes. UTF-8
 * stays. */
const char *quote(const char *text, char buffer[static QUOTE_SIZE]);
