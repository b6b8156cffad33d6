/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last line about each thing
 *
 * For output that is appended rather than drawn again: a line is only worth printing if it says more than the
 * last one about the same thing. Pure.
 */

#include <stdbool.h>
#include <stddef.h>

typedef struct Changes {
        struct ChangesLine **lines; /* sorted by key */
        size_t n_lines;
} Changes;

/* Notes the text and the progress in percent. Returns 1 if the text is another one than the last, or there are
 * 10 percent more; 0 if not; else a local failure. */
int changes_note(Changes *changes, const char *key, const char *text, int progress);

/* The key of a line, by its number; borrowed. */
const char *changes_key(const Changes *changes, size_t i);

/* Returns whether there was a line. */
bool changes_forget(Changes *changes, const char *key);

/* Forgets all lines that were not noted since the last call. */
void changes_forget_others(Changes *changes);

void changes_done(Changes *changes);
