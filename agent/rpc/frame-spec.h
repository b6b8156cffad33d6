/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits of what a caller may send
 *
 * gRPC's C core keeps what it has read of a header until the header is whole, however long that is, reads
 * it anew with each part, and answers or remembers each frame of a flood. A caller's bytes are counted
 * here before gRPC reads them: a header that is too long, or comes before the caller knows gRPC's limits,
 * ends the connection, and each frame has a price, which its user pays from a budget that fills with time.
 * Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Position in the bytes of a connection. {} at its beginning. */
typedef struct FrameReader {
        size_t n_greeting; /* bytes of the greeting that were read */
        unsigned char head[9];
        size_t n_head;
        size_t n_rest;  /* bytes of this frame's payload that are to come */
        size_t n_block; /* bytes and frames of this header */
        unsigned n_block_frames;
        size_t n_early;    /* bytes of headers before the caller agreed */
        bool has_agreed;   /* the caller has acknowledged gRPC's settings */
        bool was_greeted;  /* bytes were sent to the caller: the settings come first */
        bool was_answered; /* bytes were sent since the last ping */
} FrameReader;

/* Adds the price of the frames that begin in these bytes. False: no caller may send that. */
bool frame_reader_read(FrameReader *reader, const unsigned char *bytes, size_t size,
                       uint64_t *price);

/* Bytes were sent to the caller. */
void frame_reader_answer(FrameReader *reader);

typedef struct FrameBucket {
        int64_t left; /* below 0: spent */
        uint64_t at_usec;
} FrameBucket;

/* The budget of a user, for all of the user's connections. When all users together have spent what they share, each
 * still has a part of its own, so that some cannot keep the others waiting. */
typedef struct FrameBudget {
        FrameBucket own;      /* limit of the user, whatever others spend */
        FrameBucket reserved; /* is spent first */
        FrameBucket *shared;  /* borrowed */
} FrameBudget;

#define FRAME_PRICE_CONNECTION ((uint64_t) 1024)

void frame_budget_init_shared(FrameBucket *bucket, uint64_t now_usec);
void frame_budget_init(FrameBudget *budget, FrameBucket *of_all, uint64_t now_usec);
void frame_budget_pay(FrameBudget *budget, uint64_t price, uint64_t now_usec);

/* Pays back for what was sent to the user, whose client has to acknowledge that. */
void frame_budget_credit(FrameBudget *budget, size_t size);

/* Returns how long the user has to wait, or 0. */
uint64_t frame_budget_pause_usec(const FrameBudget *budget, uint64_t now_usec);

/* The user's part of the budget is as if it were new. */
bool frame_budget_is_full(const FrameBudget *budget, uint64_t now_usec);
