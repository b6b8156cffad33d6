/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames
 *
 * Cuts the body of a watch into its messages, in whatever pieces it arrives: lines of JSON, or
 * protobuf behind its length, which is four bytes, the highest first. What is not whole at the end
 * of the body is no message. Pure: pieces in, frames out.
 */

#include <stdint.h>

#include "agent/base/error.h"
#include "agent/base/slice.h"

typedef enum FrameKind {
        FRAME_LINE,   /* ends with a newline, which is not part of it */
        FRAME_LENGTH, /* begins with its length, which is not part of it */
        _FRAME_KIND_MAX,
} FrameKind;

typedef struct Frames {
        FrameKind kind;
        size_t frame_max; /* bytes of one frame, without newline or length */
        char *buffer;     /* the part of a frame that has come; owned */
        size_t size;
        size_t allocated;
} Frames;

#define FRAMES_INIT(kind_, frame_max_) ((Frames){ .kind = (kind_), .frame_max = (frame_max_) })

/* Takes from the front of *piece what the next frame needs. 1: *ret is a whole frame, borrowed until
 * the next call and as long as the piece is there. 0: the piece is used up. A larger frame than
 * allowed is refused, and then nothing that follows can be understood. Empty lines are no frames. */
int frames_next(Frames *frames, Slice *piece, Slice *ret, Error *reterr);

/* Drops an incomplete frame, before another body, and frees the buffer. */
void frames_done(Frames *frames);
