/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/write-pace.h"

#define MSEC ((uint64_t) 1000)
#define SEC ((uint64_t) 1000000)

#define QUIET_USEC (2 * SEC) /* without a write */
#define N_AT_ONCE 4          /* that it begins, and the ends of a few images */
#define SETTLE_USEC (10 * MSEC)
#define COLLECT_USEC (820 * MSEC)
#define PERIOD_USEC (850 * MSEC) /* between two writes; a write itself takes some time */
#define PROGRESS_USEC (10 * SEC)

void write_pace_init(WritePace *pace) {
        *pace = (WritePace){ .n_at_once = N_AT_ONCE };
}

void write_pace_on_change(WritePace *pace, bool is_progress, uint64_t now_usec) {
        uint64_t *since_usec = is_progress ? &pace->progress_usec : &pace->pending_usec;

        if (*since_usec == 0)
                *since_usec = now_usec;
}

void write_pace_on_same(WritePace *pace) {
        pace->pending_usec = 0;
        pace->progress_usec = 0;
}

void write_pace_on_write(WritePace *pace, uint64_t now_usec) {
        if (now_usec >= pace->written_usec + QUIET_USEC)
                pace->n_at_once = N_AT_ONCE;
        if (pace->n_at_once > 0)
                pace->n_at_once--;

        pace->written_usec = now_usec;
        write_pace_on_same(pace);
}

void write_pace_on_conflict(WritePace *pace) {
        if (pace->n_at_once == 0)
                pace->n_at_once = 1;
}

static uint64_t earlier(uint64_t a, uint64_t b) {
        return a < b ? a : b;
}

static uint64_t later(uint64_t a, uint64_t b) {
        return a > b ? a : b;
}

/* After a quiet time. */
static bool is_first(const WritePace *pace) {
        return pace->n_at_once == N_AT_ONCE ||
               pace->pending_usec >= pace->written_usec + QUIET_USEC;
}

uint64_t write_pace_next_usec(const WritePace *pace, uint64_t now_usec) {
        uint64_t next = UINT64_MAX;

        if (pace->pending_usec > 0 && is_first(pace))
                return later(pace->pending_usec + SETTLE_USEC, now_usec);
        if (pace->pending_usec > 0 && pace->n_at_once > 0)
                return now_usec;

        if (pace->pending_usec > 0) {
                next = later(pace->pending_usec + COLLECT_USEC, pace->written_usec + PERIOD_USEC);
                next = earlier(next, pace->written_usec + QUIET_USEC);
        }
        if (pace->progress_usec > 0)
                next = earlier(next, pace->progress_usec + PROGRESS_USEC);

        return later(next, now_usec);
}
