/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The records of the journal, and the text of its file
 *
 * Each record keeps its own JSON, since the file is written anew whenever one of them changes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

#define STOP_RECORDS_MAX 1024

typedef enum StopPhase {
        STOP_PHASE_NONE,
        STOP_PHASE_HOOK,     /* the hook has begun */
        STOP_PHASE_STOPPING, /* the hook has ended, and the runtime stops the container */
        STOP_PHASE_STOPPED,  /* the agent has ended it */
        _STOP_PHASE_MAX,
} StopPhase;

/* Times are seconds since 1970, but for the uptime. */
typedef struct StopRecord {
        char *owner;
        char *container_id;
        char *container; /* name of the container; "" or NULL: not known */
        char *runtime;   /* name of the runtime; "" or NULL: the chosen one */
        StopPhase phase;
        int64_t began_sec;    /* when the hook began, or the stop if there is no hook */
        int64_t deadline_sec; /* end of the grace period */
        int64_t changed_sec;  /* last change of the phase; later if it is still needed */
        int64_t uptime_sec;   /* time of the last change by CLOCK_BOOTTIME, which cannot be set */
        char *boot_id;        /* ID of that boot; "" or NULL: not known */
} StopRecord;

typedef struct StopClock {
        int64_t wall_sec;
        int64_t uptime_sec; /* CLOCK_BOOTTIME */
        char boot_id[64];   /* ID of this boot; "": it cannot be read */
} StopClock;

/* The hook or the stop has begun, and the end is not known. */
bool stop_record_is_open(const StopRecord *record);

/* Returns the rest of the grace period: never more than when the record was written, and 0 after
 * another boot. */
int64_t stop_record_left_sec(const StopRecord *record, const StopClock *now);

/* Owners and IDs have 1 to 256 visible characters of ASCII, without quotes and backslashes. */
bool stop_journal_can_name(const char *text);

typedef struct StopEntry {
        StopRecord record;
        char *json;
} StopEntry;

typedef struct StopEntries {
        StopEntry *items;
        size_t n_items;
} StopEntries;

/* The index, or n_items: there is none. */
size_t stop_entries_find(const StopEntries *entries, const char *owner, const char *container_id);

/* Copies the record, behind the others. */
int stop_entries_add(StopEntries *entries, const StopRecord *record);
void stop_entries_remove(StopEntries *entries, size_t i);
void stop_entries_done(StopEntries *entries);

/* Sets *ret to the records in the text; on an error it stays as it is. */
int stop_journal_spec_parse(const char *text, size_t size, StopEntries *ret, Error *reterr);

/* The caller owns *ret. */
int stop_journal_spec_format(const StopEntries *entries, char **ret, size_t *ret_size);
