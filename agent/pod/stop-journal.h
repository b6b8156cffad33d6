/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which stops have begun, and how far they are, in a file
 *
 * Only so much that a crash of the agent leads to neither a second hook nor a second stop. Replaced
 * by rename, without fsync: what a machine loses with its power it loses with its containers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

typedef enum StopPhase {
        STOP_PHASE_NONE,
        STOP_PHASE_HOOK,     /* its hook has begun */
        STOP_PHASE_STOPPING, /* its hook has ended, and it is told to end */
        STOP_PHASE_STOPPED,  /* we have ended it */
        _STOP_PHASE_MAX,
} StopPhase;

/* Times are seconds since 1970, but for the uptime. */
typedef struct StopRecord {
        char *owner;
        char *container_id;
        char *runtime; /* its name; "" or NULL: the chosen one */
        StopPhase phase;
        int64_t began_sec;    /* when its hook began, or the stop if there is none */
        int64_t deadline_sec; /* when its grace period is over */
        int64_t changed_sec;  /* when the phase changed, */
        int64_t uptime_sec;   /* and by the clock that nobody can set, */
        char *boot_id;        /* of this boot; "" or NULL: not known */
} StopRecord;

typedef struct StopClock {
        int64_t wall_sec;
        int64_t uptime_sec; /* CLOCK_BOOTTIME */
        char boot_id[64];   /* "" if it cannot be read */
} StopClock;

typedef struct StopJournal StopJournal;

void stop_clock_read(StopClock *ret);

/* Records of containers that ended more than a week ago are dropped, and the oldest of more than
 * 1,024, those of stops that go on last. A file that cannot be used, or that others may have
 * written, is *reterr, and no failure: the journal is empty then. */
int stop_journal_new(const char *state_dir, StopJournal **ret, Error *reterr);
StopJournal *stop_journal_free(StopJournal *journal);

/* Borrowed until the journal changes; NULL: none. */
const StopRecord *stop_journal_find(const StopJournal *journal, const char *owner,
                                    const char *container_id);

/* In the order in which they have changed; i is less than the count. Borrowed as above. */
size_t stop_journal_count(const StopJournal *journal);
const StopRecord *stop_journal_get(const StopJournal *journal, size_t i);

/* Writes the file; the record is copied. STOP_PHASE_NONE takes it out. That it cannot be written is
 * refused; the journal in memory is right all the same. */
int stop_journal_set(StopJournal *journal, const StopRecord *record, Error *reterr);

/* The hook or the stop has begun, and the end is not known. */
bool stop_record_is_open(const StopRecord *record);

/* What is left of the grace period: never more than when the record was written, and nothing after
 * another boot. */
int64_t stop_record_left_sec(const StopRecord *record, const StopClock *now);

/* Owners and IDs have 1 to 256 visible characters of ASCII, without quotes and backslashes. */
bool stop_journal_can_name(const char *text);
