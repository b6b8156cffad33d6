/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides when to write a status
 *
 * Writes at once for single images, also for some in sequence, so that each is acknowledged and reported
 * without delay (except in the moment of its begin, since most images that are Waiting then are Pulling a
 * moment later). Collects changes for less than a second while many images are in work, so that 200 images
 * do not cause 400 writes and yet readers see no status older than a second. Progress alone causes a write
 * every 10 s.
 *
 * Immediate writes take from a token bucket, which refills with time. The more images are still in work,
 * the more tokens must stay in it: a crowd may take a few, so that it never causes more than one write a
 * second for long; the begin of an image may take half of the rest; the end of all images takes the last
 * one. Pure: the caller gives the time.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct WritePace {
        uint64_t pending_usec;  /* begin of the oldest urgent change; 0: none */
        uint64_t progress_usec; /* begin of the oldest progress; 0: none */
        uint64_t possible_usec; /* begin of a possible change; 0: none */
        uint64_t written_usec;  /* begin of the last write */
        uint64_t bucket_usec;   /* bucket's content then, in time of refilling */
        unsigned n_in_work;     /* images in work, in the pending change */
        bool was_in_work;       /* any images were in work at the last write */
        bool is_owed;           /* the last write met a conflict: write again at once */
} WritePace;

/* The kind of a difference between status and object. */
typedef struct WriteChange {
        bool is_progress;   /* only progress differs */
        unsigned n_in_work; /* images that are not finished; more than a few need not be counted */
} WriteChange;

#define WRITE_PACE_FEW 2 /* images in work; more are a crowd */

void write_pace_init(WritePace *pace);

void write_pace_on_change(WritePace *pace, WriteChange change, uint64_t now_usec);

/* Notes a possible change during a write. If the next write_pace_on_change() confirms it, it counts
 * from now. */
void write_pace_on_possible_change(WritePace *pace, uint64_t now_usec);

/* Notes that a write with all changes begins now. */
void write_pace_on_write(WritePace *pace, uint64_t now_usec);

/* Notes that the write met a conflict; its changes are late already. */
void write_pace_on_conflict(WritePace *pace);

/* Notes that nothing is left to write. Earlier writes still count. */
void write_pace_on_same(WritePace *pace);

/* Returns when to write, at the earliest now; UINT64_MAX: nothing to write. */
uint64_t write_pace_next_usec(const WritePace *pace, uint64_t now_usec);

/* A crowd's changes are being collected, so further changes need no comparison. */
bool write_pace_is_collecting(const WritePace *pace, uint64_t now_usec);
