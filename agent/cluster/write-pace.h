/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When a status may be written
 *
 * At once for single images, also for some that follow each other, so that each is acknowledged and
 * reported without delay (but for the moment in which it begins: most of what is Waiting then is
 * Pulling a moment later); and collected for less than a second when many are in work, so that 200
 * images do not make 400 writes and yet no status is older than a second when it can be read. Progress
 * alone is worth a write every 10 s.
 *
 * What is written at once takes from a bucket of writes, which time refills. The more images are still
 * in work, the more has to be left in it: a crowd may take a few, so that it never has more than one
 * write a second for long; that an image begins may take half of the rest; that all have ended takes
 * the last one. Pure: the time is given.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct WritePace {
        uint64_t pending_usec;  /* since when something urgent waits; 0: nothing does */
        uint64_t progress_usec; /* the same for progress */
        uint64_t doubt_usec;    /* since when something may; 0: nothing does */
        uint64_t written_usec;  /* when the last write began */
        uint64_t bucket_usec;   /* what was in it then; a write takes as long as it refills */
        unsigned n_in_work;     /* images, in what waits */
        bool was_in_work;       /* in what was written last, any were */
        bool is_owed;           /* a write that met a conflict is made up for */
} WritePace;

/* What the status says differs from what is written. */
typedef struct WriteChange {
        bool is_progress;   /* in progress alone */
        unsigned n_in_work; /* images that are not finished; more than a few need not be counted */
} WriteChange;

#define WRITE_PACE_FEW 2 /* images in work; more are a crowd */

void write_pace_init(WritePace *pace);

void write_pace_on_change(WritePace *pace, WriteChange change, uint64_t now_usec);

/* Something may have changed while a write is under way. If it has, as the next call of
 * write_pace_on_change() says, it waits since now. */
void write_pace_on_doubt(WritePace *pace, uint64_t now_usec);

/* A write begins now, and has all changes in it. */
void write_pace_on_write(WritePace *pace, uint64_t now_usec);

/* That write was refused; what was in it is late already. */
void write_pace_on_conflict(WritePace *pace);

/* What is written is true: nothing waits any more. What was written before counts on. */
void write_pace_on_same(WritePace *pace);

/* When to write, at the earliest now; UINT64_MAX: there is nothing to write. */
uint64_t write_pace_next_usec(const WritePace *pace, uint64_t now_usec);

/* What a crowd waits with has its time, whatever else changes. */
bool write_pace_is_collecting(const WritePace *pace, uint64_t now_usec);
