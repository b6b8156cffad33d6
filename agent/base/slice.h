/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Slice
 *
 * A borrowed part of a text. It has no NUL at its end; one without data is a
 * part that is not there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct Slice {
        const char *data;
        size_t size;
} Slice;

static inline Slice slice(const char *text) {
        return (Slice){ .data = text, .size = strlen(text) };
}

static inline Slice slice_skip(Slice text, size_t n) {
        return (Slice){ .data = text.data + n, .size = text.size - n };
}

static inline const char *slice_find(Slice text, char c) {
        return text.size > 0 ? memchr(text.data, c, text.size) : NULL;
}

static inline const char *slice_find_last(Slice text, char c) {
        return text.size > 0 ? memrchr(text.data, c, text.size) : NULL;
}

static inline bool slice_equal(Slice text, const char *other) {
        return text.size == strlen(other) && strncmp(text.data, other, text.size) == 0;
}

static inline bool slice_starts_with(Slice text, const char *prefix) {
        return text.size >= strlen(prefix) && strncmp(text.data, prefix, strlen(prefix)) == 0;
}

/* Returns how many characters at the start of the text are in the set. */
static inline size_t slice_span(Slice text, const char *set) {
        size_t n = 0;

        while (n < text.size && text.data[n] != '\0' && strchr(set, text.data[n]))
                n++;
        return n;
}

static inline bool slice_has_only(Slice text, const char *set) {
        return slice_span(text, set) == text.size;
}

static inline bool slice_has_any(Slice text, const char *set) {
        for (size_t i = 0; i < text.size; i++)
                if (slice_span(slice_skip(text, i), set) > 0)
                        return true;

        return false;
}

/* Cuts the text at the given character, which both halves lose, and returns the second half. */
static inline Slice slice_cut(Slice *text, const char *at) {
        Slice rest = slice_skip(*text, (size_t) (at + 1 - text->data));

        text->size = (size_t) (at - text->data);
        return rest;
}
