/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/stop-journal-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"

#define NAME_SIZE_MAX 256
#define HEAD "{\"version\":1,\"stops\":[\n"
#define SEPARATOR ",\n"
#define TAIL "\n]}\n"

static const char *const phases[_STOP_PHASE_MAX] = {
        [STOP_PHASE_HOOK] = "hook",
        [STOP_PHASE_STOPPING] = "stopping",
        [STOP_PHASE_STOPPED] = "stopped",
};

bool stop_journal_can_name(const char *text) {
        size_t size = 0;

        for (; text[size]; size++)
                if (size == NAME_SIZE_MAX || (unsigned char) text[size] <= ' ' ||
                    (unsigned char) text[size] >= 0x7f || text[size] == '"' || text[size] == '\\')
                        return false;

        return size > 0;
}

bool stop_record_is_open(const StopRecord *record) {
        return record->phase == STOP_PHASE_HOOK || record->phase == STOP_PHASE_STOPPING;
}

int64_t stop_record_left_sec(const StopRecord *record, const StopClock *now) {
        int64_t left_sec = record->deadline_sec - record->changed_sec;
        int64_t passed_sec = now->wall_sec - record->changed_sec;

        if (record->boot_id && *record->boot_id && *now->boot_id) {
                if (strcmp(record->boot_id, now->boot_id) != 0)
                        return 0;

                passed_sec = now->uptime_sec - record->uptime_sec;
        }
        if (passed_sec > 0)
                left_sec -= passed_sec;

        return left_sec > 0 ? left_sec : 0;
}

static void entry_done(StopEntry *entry) {
        free(entry->record.owner);
        free(entry->record.container_id);
        free(entry->record.runtime);
        free(entry->record.boot_id);
        free(entry->json);
}

static int format_record(const StopRecord *record, char **ret) {
        /* Names that stop_journal_can_name() accepts need no escapes. */
        return text_format(ret,
                           "{\"owner\":\"%s\",\"containerID\":\"%s\",\"runtime\":\"%s\","
                           "\"phase\":\"%s\",\"began\":%lld,\"deadline\":%lld,\"changed\":%lld,"
                           "\"boot\":\"%s\",\"uptime\":%lld}",
                           record->owner, record->container_id, record->runtime,
                           phases[record->phase], (long long) record->began_sec,
                           (long long) record->deadline_sec, (long long) record->changed_sec,
                           record->boot_id, (long long) record->uptime_sec);
}

/* A text that the file cannot hold counts as unknown. */
static char *copy_optional(const char *text) {
        return strdup(text && stop_journal_can_name(text) ? text : "");
}

static int copy_record(const StopRecord *record, StopEntry *ret) {
        StopEntry entry = { .record = *record };

        entry.record.owner = strdup(record->owner);
        entry.record.container_id = strdup(record->container_id);
        entry.record.runtime = copy_optional(record->runtime);
        entry.record.boot_id = copy_optional(record->boot_id);
        if (!entry.record.owner || !entry.record.container_id || !entry.record.runtime ||
            !entry.record.boot_id || format_record(&entry.record, &entry.json) < 0) {
                entry.json = NULL;
                entry_done(&entry);
                return -ENOMEM;
        }

        *ret = entry;
        return 0;
}

size_t stop_entries_find(const StopEntries *entries, const char *owner, const char *container_id) {
        size_t i = 0;

        while (i < entries->n_items &&
               (strcmp(entries->items[i].record.container_id, container_id) != 0 ||
                strcmp(entries->items[i].record.owner, owner) != 0))
                i++;
        return i;
}

int stop_entries_add(StopEntries *entries, const StopRecord *record) {
        size_t n = entries->n_allocated ? 2 * entries->n_allocated : 16;
        StopEntry *items;
        int r;

        if (entries->n_items == entries->n_allocated) {
                items = reallocarray(entries->items, n, sizeof(*items));
                if (!items)
                        return -ENOMEM;

                entries->items = items;
                entries->n_allocated = n;
        }

        r = copy_record(record, &entries->items[entries->n_items]);
        if (r < 0)
                return r;

        entries->n_items++;
        return 0;
}

void stop_entries_remove(StopEntries *entries, size_t i) {
        entry_done(&entries->items[i]);
        entries->n_items--;
        memmove(entries->items + i, entries->items + i + 1,
                (entries->n_items - i) * sizeof(entries->items[0]));
}

void stop_entries_done(StopEntries *entries) {
        for (size_t i = 0; i < entries->n_items; i++)
                entry_done(&entries->items[i]);
        free(entries->items);
        *entries = (StopEntries){ .items = NULL };
}

static int read_name(struct json_object *item, const JsonPath *path, const char *key, bool may_lack,
                     char **ret, Error *reterr) {
        const char *text;
        int r;

        r = json_read_string(item, path, key, &text, reterr);
        if (r < 0)
                return r;
        if (may_lack && (!text || !*text))
                return 0;

        if (!text || !stop_journal_can_name(text))
                return json_refuse(path, reterr, "no %s can be %s", key,
                                   quote(text ?: "", (char[QUOTE_SIZE]){ 0 }));

        *ret = (char *) text;
        return 0;
}

static int read_phase(struct json_object *item, const JsonPath *path, StopPhase *ret,
                      Error *reterr) {
        const char *text;
        int r;

        r = json_read_string(item, path, "phase", &text, reterr);
        if (r < 0)
                return r;

        for (StopPhase phase = STOP_PHASE_HOOK; text && phase < _STOP_PHASE_MAX; phase++)
                if (strcmp(phases[phase], text) == 0) {
                        *ret = phase;
                        return 0;
                }

        return json_refuse(path, reterr, "there is no phase %s",
                           quote(text ?: "", (char[QUOTE_SIZE]){ 0 }));
}

/* The members of newer versions may be missing. */
static int read_names(struct json_object *item, const JsonPath *path, StopRecord *record,
                      Error *reterr) {
        const struct {
                const char *key;
                char **text;
                bool may_lack;
        } names[] = {
                { "owner", &record->owner, false },
                { "containerID", &record->container_id, false },
                { "runtime", &record->runtime, true },
                { "boot", &record->boot_id, true },
        };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < sizeof(names) / sizeof(names[0]); i++)
                r = read_name(item, path, names[i].key, names[i].may_lack, names[i].text, reterr);
        return r;
}

static int read_times(struct json_object *item, const JsonPath *path, StopRecord *record,
                      Error *reterr) {
        const struct {
                const char *key;
                int64_t *time;
        } times[] = {
                { "deadline", &record->deadline_sec },
                { "changed", &record->changed_sec },
                { "began", &record->began_sec },
                { "uptime", &record->uptime_sec },
        };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < sizeof(times) / sizeof(times[0]); i++)
                r = json_read_integer(item, path, times[i].key, times[i].time, reterr);
        if (r < 0)
                return r;

        if (record->deadline_sec < 0 || record->changed_sec < 0)
                return json_refuse(path, reterr, "a time is missing, or before 1970");
        if (record->began_sec < 0)
                record->began_sec = record->changed_sec;
        return 0;
}

static int read_record(struct json_object *item, const JsonPath *path, StopEntries *entries,
                       Error *reterr) {
        StopRecord record = { .began_sec = -1, .deadline_sec = -1, .changed_sec = -1 };
        int r;

        if (!json_object_is_type(item, json_type_object))
                return json_refuse_type(path, item, "an object", reterr);

        r = read_names(item, path, &record, reterr);
        if (r < 0)
                return r;

        r = read_phase(item, path, &record.phase, reterr);
        if (r < 0)
                return r;

        r = read_times(item, path, &record, reterr);
        if (r < 0)
                return r;

        if (stop_entries_find(entries, record.owner, record.container_id) < entries->n_items)
                return json_refuse(path, reterr, "is there twice");

        return stop_entries_add(entries, &record);
}

static int read_records(struct json_object *object, StopEntries *entries, Error *reterr) {
        const JsonPath path = { .key = "stops" };
        struct json_object *list;
        int64_t version = 0;
        int r;

        r = json_read_integer(object, NULL, "version", &version, reterr);
        if (r < 0)
                return r;
        if (version != 1)
                return json_refuse(NULL, reterr, "its version is not 1");

        r = json_read_list(object, NULL, path.key, &list, reterr);
        if (r < 0)
                return r;

        if (!list || json_object_array_length(list) > STOP_RECORDS_MAX)
                return json_refuse(&path, reterr, "expected a list of at most %d items",
                                   STOP_RECORDS_MAX);
        for (size_t i = 0; r >= 0 && i < json_object_array_length(list); i++)
                r = read_record(json_object_array_get_idx(list, i),
                                &(JsonPath){ .parent = &path, .index = i }, entries, reterr);
        return r;
}

int stop_journal_spec_parse(const char *text, size_t size, StopEntries *ret, Error *reterr) {
        cleanup(json_object_put_p) struct json_object *object = NULL;
        cleanup(stop_entries_done) StopEntries entries = { .items = NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = json_parse(text, size, &object, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (r < 0 || !json_object_is_type(object, json_type_object))
                return error_set(reterr, ERROR_INVALID, "it is not a JSON object");

        r = read_records(object, &entries, reterr);
        if (r < 0)
                return r;

        stop_entries_done(ret);
        *ret = entries;
        entries = (StopEntries){ .items = NULL };
        return 0;
}

int stop_journal_spec_format(const StopEntries *entries, char **ret, size_t *ret_size) {
        size_t size = sizeof(HEAD TAIL);
        char *text, *to;

        for (size_t i = 0; i < entries->n_items; i++)
                size += strlen(entries->items[i].json) + strlen(SEPARATOR);

        text = malloc(size);
        if (!text)
                return -ENOMEM;

        to = stpcpy(text, HEAD);
        for (size_t i = 0; i < entries->n_items; i++)
                to = stpcpy(i > 0 ? stpcpy(to, SEPARATOR) : to, entries->items[i].json);
        to = stpcpy(to, TAIL);
        *ret = text;
        *ret_size = (size_t) (to - text);
        return 0;
}
