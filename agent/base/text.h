/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Strings that may be NULL
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "agent/base/cleanup.h"

/* The copy of NULL is NULL. 0 or -ENOMEM. The caller owns *ret. */
int text_copy(const char *text, char **ret);

/* Replaces *field, which is owned, by a copy. The text may be a part of *field. 0 or -ENOMEM. */
int text_set(char **field, const char *text);

/* Makes a text as printf() does; *ret, which is not freed before, is NULL on failure. 0 or -ENOMEM.
 * The caller owns *ret. */
int text_format(char **ret, const char *format, ...) __attribute__((format(printf, 2, 3)));
int text_vformat(char **ret, const char *format, va_list arguments)
        __attribute__((format(printf, 2, 0)));

/* Appends the name, after a comma if there is one before it: "a, b". *list is owned; NULL and "" are empty. 0 or
 * -ENOMEM, which leaves it as it is. */
int text_list_add(char **list, const char *name);

/* Opens a stream that makes *text, as open_memstream() does: both are valid after fflush(), and *text is freed by the caller
 * once the stream is closed. But a write that has no memory is an error of the stream: glibc's own goes on without that
 * part, and tells the caller of that write alone. NULL: no memory; then both are untouched. */
FILE *text_open(char **text, size_t *size);

/* Closes it. Returns 0, or -ENOMEM if a write has failed; then *text is NULL. */
int text_close(FILE *stream, char **text);

/* Overwrites the text, which may be a secret, frees it and sets it to NULL. For cleanup(), too. */
void text_wipe(char **text);

/* Whether the text has no control characters: it fits into a line of HTTP, for example. */
bool text_is_line(const char *text);

/* Checks for printable ASCII. */
bool text_is_plain(const char *text);

/* Puts "?" in place of each byte that is not printable ASCII. */
void text_make_plain(char *text);

/* NULL equals NULL alone. */
bool text_equal(const char *a, const char *b);

/* A list of texts, which NULL ends. The copy of NULL is NULL. 0 or -ENOMEM. The caller owns *ret. */
int texts_copy(char *const *texts, char ***ret);
/* Takes NULL. Returns NULL. */
char **texts_free(char **texts);

DEFINE_CLEANUP(char **, texts_free)
