/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When a status may be written
 *
 * At once when it is quiet, so that a single image is acknowledged and reported without delay (but
 * for the moment in which it begins: most of what is Waiting then is Pulling a moment later); and
 * collected for a little less than a second when much is going on, so that 200 images do not make
 * 400 writes and yet no status is older than a second. Progress alone is worth a write every 10 s.
 * Pure: the time is given.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct WritePace {
        uint64_t pending_usec;  /* since when something urgent waits; 0: nothing does */
        uint64_t progress_usec; /* the same for progress */
        uint64_t written_usec;  /* when the last write began */
        unsigned n_at_once;     /* writes without delay that are left until it is quiet again */
} WritePace;

void write_pace_init(WritePace *pace);

/* The status differs from what is written, in more than progress or in progress alone. */
void write_pace_on_change(WritePace *pace, bool is_progress, uint64_t now_usec);
/* A write begins now, and has all changes in it. */
void write_pace_on_write(WritePace *pace, uint64_t now_usec);

/* That write was in vain; what was in it is late already. */
void write_pace_on_conflict(WritePace *pace);

/* What is written is true: nothing waits any more. What was written before counts on. */
void write_pace_on_same(WritePace *pace);

/* When to write, at the earliest now; UINT64_MAX: there is nothing to write. */
uint64_t write_pace_next_usec(const WritePace *pace, uint64_t now_usec);
