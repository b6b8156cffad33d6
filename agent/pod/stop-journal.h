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

typedef struct StopRecord {
        char *owner;
        char *container_id;
        StopPhase phase;
        int64_t deadline_sec; /* when its grace period is over; seconds since 1970 */
        int64_t changed_sec;  /* when the phase changed */
} StopRecord;

typedef struct StopJournal StopJournal;

/* Records of containers that ended more than a week ago are dropped, and the oldest of more than
 * 1,024. A file that cannot be used is *reterr, and no failure: the journal is empty then. */
int stop_journal_new(const char *state_dir, StopJournal **ret, Error *reterr);
StopJournal *stop_journal_free(StopJournal *journal);

/* Borrowed until the journal changes; NULL: none. */
const StopRecord *stop_journal_find(const StopJournal *journal, const char *owner,
                                    const char *container_id);

/* Writes the file. STOP_PHASE_NONE takes the record out. That it cannot be written is refused; the
 * journal in memory is right all the same. */
int stop_journal_set(StopJournal *journal, const char *owner, const char *container_id,
                     StopPhase phase, int64_t deadline_sec, int64_t now_sec, Error *reterr);

/* Owners and IDs have 1 to 256 visible characters of ASCII, without quotes and backslashes. */
bool stop_journal_can_name(const char *text);
