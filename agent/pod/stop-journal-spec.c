/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/stop-journal-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-fields.h"

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
        if (left_sec <= 0 || passed_sec >= left_sec)
                return 0;

        return passed_sec > 0 ? left_sec - passed_sec : left_sec;
}

static int read_name(const char *text, const JsonPath *path, void *ret, const void *context,
                     Error *reterr) {
        if (!text || !stop_journal_can_name(text))
                return json_refuse(path->parent, reterr, "%s cannot be %s", path->key,
                                   quote(text ?: "", (char[QUOTE_SIZE]){ 0 }));
        return text_copy(text, ret);
}

static int read_optional_name(const char *text, const JsonPath *path, void *ret,
                              const void *context, Error *reterr) {
        return text ? read_name(text, path, ret, context, reterr) : 0;
}

static int read_phase(const char *text, const JsonPath *path, void *ret, const void *context,
                      Error *reterr) {
        for (StopPhase phase = STOP_PHASE_HOOK; text && phase < _STOP_PHASE_MAX; phase++)
                if (strcmp(phases[phase], text) == 0) {
                        *(StopPhase *) ret = phase;
                        return 0;
                }

        return json_refuse(path->parent, reterr, "there is no phase %s",
                           quote(text ?: "", (char[QUOTE_SIZE]){ 0 }));
}

/* clang-format off */
static const JsonField record_fields[] = {
        { "owner", JSON_STRING, .offset = offsetof(StopRecord, owner), .on_text = read_name },
        { "containerID", JSON_STRING, .offset = offsetof(StopRecord, container_id), .on_text = read_name },
        /* Older versions had none of these. */
        { "container", JSON_STRING, .offset = offsetof(StopRecord, container), .on_text = read_optional_name },
        { "runtime", JSON_STRING, .offset = offsetof(StopRecord, runtime), .on_text = read_optional_name },
        { "boot", JSON_STRING, .offset = offsetof(StopRecord, boot_id), .on_text = read_optional_name },
        { "phase", JSON_WORD, .offset = offsetof(StopRecord, phase), .on_text = read_phase },
        { "deadline", JSON_INTEGER, .offset = offsetof(StopRecord, deadline_sec) },
        { "changed", JSON_INTEGER, .offset = offsetof(StopRecord, changed_sec) },
        { "began", JSON_INTEGER, .offset = offsetof(StopRecord, began_sec) },
        { "uptime", JSON_INTEGER, .offset = offsetof(StopRecord, uptime_sec), .max = INT64_MAX },
        { .key = NULL },
};
/* clang-format on */

static void record_done(StopRecord *record) {
        json_fields_done(record_fields, record);
}

static void entry_done(StopEntry *entry) {
        record_done(&entry->record);
        free(entry->json);
}

static int format_record(const StopRecord *record, char **ret) {
        /* Names that stop_journal_can_name() accepts need no escapes. */
        return text_format(ret,
                           "{\"owner\":\"%s\",\"containerID\":\"%s\",\"container\":\"%s\","
                           "\"runtime\":\"%s\",\"phase\":\"%s\","
                           "\"began\":%lld,\"deadline\":%lld,\"changed\":%lld,"
                           "\"boot\":\"%s\",\"uptime\":%lld}",
                           record->owner, record->container_id, record->container, record->runtime,
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
        entry.record.container = copy_optional(record->container);
        entry.record.runtime = copy_optional(record->runtime);
        entry.record.boot_id = copy_optional(record->boot_id);
        if (!entry.record.owner || !entry.record.container_id || !entry.record.container ||
            !entry.record.runtime || !entry.record.boot_id ||
            format_record(&entry.record, &entry.json) < 0) {
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
        int r;

        r = array_grow(&entries->items, entries->n_items, sizeof(entries->items[0]))
                    ?: copy_record(record, &entries->items[entries->n_items]);
        if (r >= 0)
                entries->n_items++;
        return r;
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

static int read_record(struct json_object *item, const JsonPath *path, StopEntries *entries,
                       Error *reterr) {
        cleanup(record_done)
                StopRecord record = { .began_sec = -1, .deadline_sec = -1, .changed_sec = -1 };
        int r;

        r = json_check_type(item, path, json_type_object, reterr)
                    ?: json_fields_read(record_fields, item, path, &record, NULL, reterr);
        if (r < 0)
                return r;

        if (record.deadline_sec < 0 || record.changed_sec < 0)
                return json_refuse(path, reterr, "a time is missing, or before 1970");
        if (record.began_sec < 0)
                record.began_sec = record.changed_sec;
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
