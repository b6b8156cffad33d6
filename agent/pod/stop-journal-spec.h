/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The records of the journal, and the text of its file
 *
 * Each record keeps its own JSON, since the file is written anew whenever one of them changes.
 */

#include "agent/pod/stop-journal.h"

#define STOP_RECORDS_MAX 1024

typedef struct StopEntry {
        StopRecord record;
        char *json;
} StopEntry;

typedef struct StopEntries {
        StopEntry *items;
        size_t n_items;
        size_t n_allocated;
} StopEntries;

/* The index, or n_items: there is none. */
size_t stop_entries_find(const StopEntries *entries, const char *owner, const char *container_id);

/* Copies the record, behind the others. */
int stop_entries_add(StopEntries *entries, const StopRecord *record);
void stop_entries_remove(StopEntries *entries, size_t i);
void stop_entries_done(StopEntries *entries);

/* *ret becomes what is in the text, or stays as it is. */
int stop_journal_spec_parse(const char *text, size_t size, StopEntries *ret, Error *reterr);

/* The caller owns *ret. */
int stop_journal_spec_format(const StopEntries *entries, char **ret, size_t *ret_size);
