/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/frames.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define LENGTH_SIZE ((size_t) 4)

/* Objects of usual size share one buffer. A larger buffer is freed after its object. */
#define BUFFER_KEPT ((size_t) 64 << 10)

static int refuse_size(const Frames *frames, Error *reterr) {
        return error_set(reterr, ERROR_INVALID, "an object is larger than %zu bytes",
                         frames->frame_max);
}

static int buffer_reserve(Frames *frames, size_t needed) {
        size_t allocated = frames->allocated ?: 1024;
        char *buffer;

        if (needed <= frames->allocated)
                return 0;

        while (allocated < needed)
                allocated *= 2;
        buffer = realloc(frames->buffer, allocated);
        if (!buffer)
                return -ENOMEM;

        frames->buffer = buffer;
        frames->allocated = allocated;
        return 0;
}

static int buffer_take(Frames *frames, Slice *piece, size_t n) {
        int r;

        r = buffer_reserve(frames, frames->size + n);
        if (r < 0)
                return r;

        memcpy(frames->buffer + frames->size, piece->data, n);
        frames->size += n;
        *piece = slice_skip(*piece, n);
        return 0;
}

/* Does not copy a line that is whole in one piece. */
static int next_line(Frames *frames, Slice *piece, Slice *ret, Error *reterr) {
        const char *end = slice_find(*piece, '\n');
        size_t n = end ? (size_t) (end - piece->data) : piece->size;
        int r;

        if (n > frames->frame_max - frames->size)
                return refuse_size(frames, reterr);

        if (end && frames->size == 0) {
                *ret = (Slice){ .data = piece->data, .size = n };
                *piece = slice_skip(*piece, n + 1);
                return 1;
        }

        r = buffer_take(frames, piece, n);
        if (r < 0 || !end)
                return r;

        *piece = slice_skip(*piece, 1);
        *ret = (Slice){ .data = frames->buffer, .size = frames->size };
        frames->size = 0;
        return 1;
}

static size_t length_of(const char *data) {
        const unsigned char *bytes = (const unsigned char *) data;

        return (size_t) bytes[0] << 24 | (size_t) bytes[1] << 16 | (size_t) bytes[2] << 8 |
               (size_t) bytes[3];
}

/* Fills the buffer to this size, which includes the length. 1: done. */
static int take_until(Frames *frames, Slice *piece, size_t wanted) {
        size_t missing = wanted - frames->size;
        int r;

        r = buffer_take(frames, piece, missing < piece->size ? missing : piece->size);
        return r < 0 ? r : frames->size == wanted;
}

static int next_counted(Frames *frames, Slice *piece, Slice *ret, Error *reterr) {
        size_t size;
        int r;

        if (frames->size < LENGTH_SIZE) {
                r = take_until(frames, piece, LENGTH_SIZE);
                if (r <= 0)
                        return r;
        }

        /* Refuses a length before taking any byte of the frame: a sender can claim any length. */
        size = length_of(frames->buffer);
        if (size > frames->frame_max)
                return refuse_size(frames, reterr);

        r = take_until(frames, piece, LENGTH_SIZE + size);
        if (r <= 0)
                return r;

        *ret = (Slice){ .data = frames->buffer + LENGTH_SIZE, .size = size };
        frames->size = 0;
        return 1;
}

/* Frees a large buffer once the previous frame is not needed any more. */
static void shrink(Frames *frames) {
        if (frames->size == 0 && frames->allocated > BUFFER_KEPT)
                frames_done(frames);
}

int frames_next(Frames *frames, Slice *piece, Slice *ret, Error *reterr) {
        assert(frames->kind >= 0 && frames->kind < _FRAME_KIND_MAX);

        shrink(frames);
        while (piece->size > 0) {
                int r = frames->kind == FRAME_LINE ? next_line(frames, piece, ret, reterr)
                                                   : next_counted(frames, piece, ret, reterr);

                if (r < 0 || (r > 0 && ret->size > 0))
                        return r;
        }

        return 0;
}

void frames_done(Frames *frames) {
        free(frames->buffer);
        frames->buffer = NULL;
        frames->size = 0;
        frames->allocated = 0;
}
