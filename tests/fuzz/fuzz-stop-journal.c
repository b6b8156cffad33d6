/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The journal of stops, after a crash of the machine or a careless hand
 *
 * Records that are read can be found by their names, have a grace period that is never longer than it was, and are the same
 * after they were written and read again. A refusal leaves nothing.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/pod/stop-journal-spec.h"
#include "tests/fuzz/fuzz.h"

static const StopClock now = { .wall_sec = 1769904000, .uptime_sec = 1000, .boot_id = "boot" };

static bool is_same_text(const char *a, const char *b) {
        return strcmp(a ?: "", b ?: "") == 0;
}

static void check_same(const StopRecord *a, const StopRecord *b) {
        check(is_same_text(a->owner, b->owner) && is_same_text(a->container_id, b->container_id));
        check(is_same_text(a->container, b->container));
        check(is_same_text(a->runtime, b->runtime) && is_same_text(a->boot_id, b->boot_id));
        check(a->phase == b->phase && a->began_sec == b->began_sec);
        check(a->deadline_sec == b->deadline_sec && a->changed_sec == b->changed_sec);
        check(a->uptime_sec == b->uptime_sec);
}

static void check_record(const StopEntries *entries, size_t i) {
        const StopRecord *record = &entries->items[i].record;
        int64_t left_sec = stop_record_left_sec(record, &now);

        check(stop_journal_can_name(record->owner) && stop_journal_can_name(record->container_id));
        check(stop_entries_find(entries, record->owner, record->container_id) <= i);
        check(record->phase < _STOP_PHASE_MAX);
        check(left_sec >= 0);
        check(left_sec == 0 || left_sec <= record->deadline_sec - record->changed_sec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        StopEntries entries = { .items = NULL }, again = { .items = NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *text = NULL;
        size_t n;

        if (stop_journal_spec_parse((const char *) data, size, &entries, &error) < 0) {
                check(error.kind != ERROR_NONE && entries.n_items == 0);
                return 0;
        }

        check(entries.n_items <= STOP_RECORDS_MAX);
        check(stop_journal_spec_format(&entries, &text, &n) == 0);
        check(stop_journal_spec_parse(text, n, &again, NULL) == 0);
        check(again.n_items == entries.n_items);
        for (size_t i = 0; i < entries.n_items; i++) {
                check_record(&entries, i);
                check_same(&entries.items[i].record, &again.items[i].record);
        }
        stop_entries_done(&entries);
        stop_entries_done(&again);
        return 0;
}
