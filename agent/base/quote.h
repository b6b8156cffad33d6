/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Quote
 *
 * The text of a peer inside one of our lines: between double quotes, cut when it is long, and
 * with nothing in it that would end the line or the string.
 */

#define QUOTE_SIZE 80

/* Fills the buffer and returns it. A text that had to be cut ends in "..." behind the quotes. Bytes
 * that are UTF-8 stay so. */
const char *quote(const char *text, char buffer[static QUOTE_SIZE]);
