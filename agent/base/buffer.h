/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bytes that arrive piece by piece and may be a secret
 *
 * A buffer grows by copying and wipes its former place, which realloc() might leave behind. All zero: empty.
 */

#include <stddef.h>

typedef struct Buffer {
        char *data; /* ends with a NUL that the size does not count; NULL: nothing was added */
        size_t size;
        size_t room;
} Buffer;

/* Makes room for so many more bytes and the NUL, which the caller adds. 0 or -ENOMEM. */
int buffer_reserve(Buffer *buffer, size_t size);

/* Copies the bytes. 0 or -ENOMEM. */
int buffer_add(Buffer *buffer, const char *data, size_t size);

/* Wipes and frees the bytes; the buffer is empty then. For cleanup(), too. */
void buffer_done(Buffer *buffer);
