/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps in a file which stops have begun, and how far they are
 *
 * It keeps just enough that after a crash the agent repeats neither a hook nor a stop. It replaces the
 * file by rename, without fsync: a machine that loses power loses its containers as well.
 */

#include "agent/pod/stop-journal-spec.h"

typedef struct StopJournal StopJournal;

void stop_clock_read(StopClock *ret);

/* Drops records of ended containers that have not changed for a week, and the oldest beyond 1,024,
 * those of open stops last. If the file cannot be used, or others may have written it, *reterr says so
 * and the journal begins empty; this is no failure. */
int stop_journal_new(const char *state_dir, StopJournal **ret, Error *reterr);
StopJournal *stop_journal_free(StopJournal *journal);

/* Borrowed until the journal changes; NULL: none. */
const StopRecord *stop_journal_find(const StopJournal *journal, const char *owner,
                                    const char *container_id);

/* In the order in which they have changed; i is less than the count. Borrowed as above. */
size_t stop_journal_count(const StopJournal *journal);
const StopRecord *stop_journal_get(const StopJournal *journal, size_t i);

/* Writes the file and copies the record. STOP_PHASE_NONE removes it. If the file cannot be written,
 * that is an error, but the journal in memory has changed. */
int stop_journal_set(StopJournal *journal, const StopRecord *record, Error *reterr);
