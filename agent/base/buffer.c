/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 1024

int buffer_reserve(Buffer *buffer, size_t size) {
        Buffer larger = { .size = buffer->size, .room = buffer->room ?: ROOM_MIN };

        while (larger.room <= larger.size + size)
                larger.room *= 2;
        if (larger.room == buffer->room)
                return 0;

        larger.data = malloc(larger.room);
        if (!larger.data)
                return -ENOMEM;

        if (buffer->size > 0)
                memcpy(larger.data, buffer->data, buffer->size);
        buffer_done(buffer);
        *buffer = larger;
        return 0;
}

int buffer_add(Buffer *buffer, const char *data, size_t size) {
        int r;

        r = buffer_reserve(buffer, size);
        if (r < 0)
                return r;

        memcpy(buffer->data + buffer->size, data, size);
        buffer->size += size;
        buffer->data[buffer->size] = '\0';
        return 0;
}

void buffer_done(Buffer *buffer) {
        if (buffer->data)
                explicit_bzero(buffer->data, buffer->size);
        free(buffer->data);
        *buffer = (Buffer){ .data = NULL };
}
