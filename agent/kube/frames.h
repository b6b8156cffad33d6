/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames
 *
 * Cuts the body of a watch into its messages, in whatever pieces it arrives: lines of JSON, or
 * protobuf behind its length, which is four bytes, the highest first. Drops an incomplete message at
 * the end of the body. Pure: pieces in, frames out.
 */

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
        char *buffer;     /* first part of an incomplete frame; owned */
        size_t size;
        size_t allocated;
} Frames;

#define FRAMES_INIT(kind_, frame_max_) ((Frames){ .kind = (kind_), .frame_max = (frame_max_) })

/* Takes the bytes of the next frame from the front of *piece. 1: *ret is a whole frame, borrowed
 * until the next call and as long as the piece is there. 0: the piece is used up. Refuses a frame
 * that is too large, and then nothing after it can be understood. Empty lines are skipped. */
int frames_next(Frames *frames, Slice *piece, Slice *ret, Error *reterr);

/* Drops an incomplete frame, before another body, and frees the buffer. */
void frames_done(Frames *frames);
