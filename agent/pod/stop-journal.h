/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which stops have begun, and how far they are, in a file
 *
 * Only so much that a crash of the agent leads to neither a second hook nor a second stop. Replaced
 * by rename, without fsync: what a machine loses with its power it loses with its containers.
 */

#include "agent/pod/stop-journal-spec.h"

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
