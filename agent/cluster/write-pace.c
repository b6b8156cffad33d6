/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/write-pace.h"

#define MSEC ((uint64_t) 1000)
#define SEC ((uint64_t) 1000000)

#define QUIET_USEC (2 * SEC) /* quiet time without a write */
#define SETTLE_USEC (10 * MSEC)
#define COLLECT_USEC (820 * MSEC)
#define PERIOD_USEC (850 * MSEC) /* between two writes, each of which takes some time */
#define HASTE_USEC (80 * MSEC)   /* earlier by this, while the bucket has enough */
#define PROGRESS_USEC (10 * SEC)

/* An image takes two writes: its begin and its end. */
#define REFILL_USEC (1100 * MSEC) /* time to refill one write, slower than a crowd writes */
#define BUCKET_USEC (24 * REFILL_USEC)
#define KEPT_BY_MANY_USEC (22 * REFILL_USEC)
#define KEPT_BY_HASTE_USEC (20 * REFILL_USEC)
#define KEPT_BY_A_FEW_USEC (10 * REFILL_USEC)

void write_pace_init(WritePace *pace) {
        *pace = (WritePace){ .bucket_usec = BUCKET_USEC };
}

void write_pace_on_change(WritePace *pace, WriteChange change, uint64_t now_usec) {
        uint64_t *since_usec = change.is_progress ? &pace->progress_usec : &pace->pending_usec;

        pace->n_in_work = change.n_in_work;
        if (*since_usec == 0)
                *since_usec = pace->possible_usec > 0 ? pace->possible_usec : now_usec;
        pace->possible_usec = 0;
}

void write_pace_on_possible_change(WritePace *pace, uint64_t now_usec) {
        if (pace->possible_usec == 0)
                pace->possible_usec = now_usec;
}

void write_pace_on_same(WritePace *pace) {
        pace->pending_usec = 0;
        pace->progress_usec = 0;
        pace->possible_usec = 0;
}

static uint64_t earlier(uint64_t a, uint64_t b) {
        return a < b ? a : b;
}

static uint64_t later(uint64_t a, uint64_t b) {
        return a > b ? a : b;
}

void write_pace_on_write(WritePace *pace, uint64_t now_usec) {
        uint64_t bucket = earlier(pace->bucket_usec + (now_usec - pace->written_usec), BUCKET_USEC);

        pace->bucket_usec = bucket - earlier(bucket, REFILL_USEC);
        pace->was_in_work = pace->n_in_work > 0;
        pace->written_usec = now_usec;
        pace->is_owed = false;
        write_pace_on_same(pace);
}

void write_pace_on_conflict(WritePace *pace) {
        pace->is_owed = true;
}

static bool has_many_in_work(const WritePace *pace) {
        return pace->n_in_work > WRITE_PACE_FEW;
}

/* Returns when the bucket has a write more than must stay in it. */
static uint64_t bucket_ready_usec(const WritePace *pace) {
        uint64_t kept = has_many_in_work(pace) ? KEPT_BY_MANY_USEC
                        : pace->n_in_work > 0  ? KEPT_BY_A_FEW_USEC
                                               : 0;
        uint64_t needed = kept + REFILL_USEC;

        return pace->written_usec + (needed - earlier(needed, pace->bucket_usec));
}

/* The first write after a time without work or changes. */
static bool is_first(const WritePace *pace) {
        return !pace->was_in_work || pace->pending_usec >= pace->written_usec + QUIET_USEC;
}

/* Writes earlier, so that readers see a slow write within a second as well. If that means more than
 * one write a second for a crowd, the bucket bounds it. */
static uint64_t haste_usec(const WritePace *pace) {
        return pace->bucket_usec > KEPT_BY_HASTE_USEC ? HASTE_USEC : 0;
}

static uint64_t pending_next_usec(const WritePace *pace) {
        uint64_t collected, next;

        if (pace->is_owed)
                return pace->pending_usec;

        collected = later(pace->pending_usec + COLLECT_USEC, pace->written_usec + PERIOD_USEC) -
                    haste_usec(pace);
        next = earlier(bucket_ready_usec(pace), collected);
        if (has_many_in_work(pace))
                next = earlier(next, pace->written_usec + QUIET_USEC);
        return is_first(pace) ? later(next, pace->pending_usec + SETTLE_USEC) : next;
}

uint64_t write_pace_next_usec(const WritePace *pace, uint64_t now_usec) {
        uint64_t next = UINT64_MAX;

        if (pace->pending_usec > 0)
                next = pending_next_usec(pace);
        if (pace->progress_usec > 0)
                next = earlier(next, pace->progress_usec + PROGRESS_USEC);

        return later(next, now_usec);
}

bool write_pace_is_collecting(const WritePace *pace, uint64_t now_usec) {
        return pace->pending_usec > 0 && has_many_in_work(pace) &&
               write_pace_next_usec(pace, now_usec) > now_usec;
}
