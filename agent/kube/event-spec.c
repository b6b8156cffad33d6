/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/event-spec.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json_object.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/hash.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/base/utf8.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

#define SUFFIX_SIZE sizeof(".0123456789abcdef")
#define COMBINED "(combined from similar events): "

/* The plan */

/* Common first member of all remembered items. */
typedef struct Memory {
        uint64_t key;
        uint64_t used_at; /* turn of the plan; 0: nothing is remembered here */
} Memory;

typedef struct Object {
        Memory memory;
        unsigned n_tokens;
        uint64_t refilled_usec;
} Object;

typedef struct Kind {
        Memory memory;
        uint64_t seen_usec;
        uint64_t messages[EVENT_MESSAGES_MAX]; /* keys of events */
        size_t n_messages;
} Kind;

typedef struct Record {
        Memory memory;
        uint64_t stamp;
        uint64_t count;
        int64_t first_at;
} Record;

/* Arrays are searched from end to end: events are rare. */
struct EventPlan {
        uint64_t turn;
        uint64_t last_stamp;
        Object objects[EVENT_OBJECTS_MAX];
        Kind kinds[EVENT_KINDS_MAX];
        Record records[EVENT_RECORDS_MAX];
};

/* Finds the key, or else the best place for a new item. */
static Memory *find(void *items, size_t n_items, size_t item_size, uint64_t key, bool *ret_found) {
        Memory *oldest = items;

        *ret_found = false;
        for (size_t i = 0; i < n_items; i++) {
                Memory *item = (Memory *) ((char *) items + i * item_size);

                if (item->used_at > 0 && item->key == key) {
                        *ret_found = true;
                        return item;
                }
                if (item->used_at < oldest->used_at)
                        oldest = item;
                if (item->used_at == 0)
                        break; /* all further places are unused */
        }

        return oldest;
}

static Object *plan_object(EventPlan *plan, uint64_t key, uint64_t now_usec) {
        bool is_known;
        Object *object =
                (Object *) find(plan->objects, EVENT_OBJECTS_MAX, sizeof(*object), key, &is_known);

        if (!is_known)
                *object = (Object){
                        .memory.key = key,
                        .n_tokens = EVENT_BUCKET_SIZE,
                        .refilled_usec = now_usec,
                };
        object->memory.used_at = plan->turn;
        return object;
}

static bool take_token(Object *object, uint64_t now_usec) {
        uint64_t n = (now_usec - object->refilled_usec) / EVENT_REFILL_USEC;

        object->refilled_usec += n * EVENT_REFILL_USEC;
        object->n_tokens = n < EVENT_BUCKET_SIZE - object->n_tokens
                                   ? object->n_tokens + (unsigned) n
                                   : EVENT_BUCKET_SIZE;
        if (object->n_tokens == 0)
                return false;

        /* A full bucket starts to fill when a token is taken. */
        if (object->n_tokens == EVENT_BUCKET_SIZE)
                object->refilled_usec = now_usec;
        object->n_tokens--;
        return true;
}

static Kind *plan_kind(EventPlan *plan, uint64_t key, uint64_t now_usec) {
        bool is_known;
        Kind *kind = (Kind *) find(plan->kinds, EVENT_KINDS_MAX, sizeof(*kind), key, &is_known);

        if (!is_known || now_usec - kind->seen_usec > EVENT_WINDOW_USEC)
                *kind = (Kind){ .memory.key = key };
        kind->memory.used_at = plan->turn;
        kind->seen_usec = now_usec;
        return kind;
}

/* Whether there were too many other events of this kind. */
static bool is_one_too_many(Kind *kind, uint64_t message) {
        for (size_t i = 0; i < kind->n_messages; i++)
                if (kind->messages[i] == message)
                        return false;

        if (kind->n_messages == EVENT_MESSAGES_MAX)
                return true;

        kind->messages[kind->n_messages++] = message;
        return false;
}

static EventDecision plan_repeat(EventPlan *plan, Record *record, EventAction action) {
        record->memory.used_at = plan->turn;
        record->count++;
        return (EventDecision){
                .action = action,
                .key = record->memory.key,
                .stamp = record->stamp,
                .count = record->count,
                .first_at = record->first_at,
        };
}

static EventDecision plan_create(EventPlan *plan, Record *record, uint64_t key,
                                 uint64_t wall_nsec) {
        plan->last_stamp = wall_nsec > plan->last_stamp ? wall_nsec : plan->last_stamp + 1;
        *record = (Record){
                .memory = { .key = key },
                .stamp = plan->last_stamp,
                .first_at = (int64_t) wall_nsec / NSEC_PER_SEC,
        };
        return plan_repeat(plan, record, EVENT_CREATE);
}

EventDecision event_plan_decide(EventPlan *plan, const EventKeys *keys, uint64_t now_usec,
                                uint64_t wall_nsec) {
        EventDecision decision = { .action = EVENT_DROP };
        bool is_combined, is_allowed, is_known;
        Record *record;
        uint64_t key;

        plan->turn++;
        is_combined = is_one_too_many(plan_kind(plan, keys->kind, now_usec), keys->event);
        is_allowed = take_token(plan_object(plan, keys->object, now_usec), now_usec);

        key = is_combined ? keys->combined : keys->event;
        record = (Record *) find(plan->records, EVENT_RECORDS_MAX, sizeof(*record), key, &is_known);
        if (is_known) /* counts also dropped events, for the next one that is sent */
                decision = plan_repeat(plan, record, is_allowed ? EVENT_REPEAT : EVENT_DROP);
        else if (is_allowed)
                decision = plan_create(plan, record, key, wall_nsec);

        decision.is_combined = is_combined;
        return decision;
}

void event_plan_forget(EventPlan *plan, uint64_t key) {
        bool is_known;
        Record *record =
                (Record *) find(plan->records, EVENT_RECORDS_MAX, sizeof(*record), key, &is_known);
        Record *last = record;

        if (!is_known)
                return;

        /* The last record fills the gap. */
        while (last + 1 < plan->records + EVENT_RECORDS_MAX && (last + 1)->memory.used_at > 0)
                last++;
        *record = *last;
        last->memory.used_at = 0;
}

int event_plan_new(EventPlan **ret) {
        EventPlan *plan;

        plan = calloc(1, sizeof(*plan));
        if (!plan)
                return -ENOMEM;

        *ret = plan;
        return 0;
}

EventPlan *event_plan_free(EventPlan *plan) {
        free(plan);
        return NULL;
}

/* The record of one event */

static size_t text_size(const char *text) {
        return text ? strlen(text) + 1 : 0;
}

static const char *copy_text(char **to, const char *text) {
        char *copy = *to;

        if (!text)
                return NULL;

        *to = stpcpy(copy, text) + 1;
        return copy;
}

int event_record_init(EventRecord *record, const KubeReference *object, const char *type,
                      const char *reason) {
        char *to;

        to = malloc(text_size(object->api_version) + text_size(object->kind) +
                    text_size(object->namespace) + text_size(object->name) +
                    text_size(object->uid) + text_size(object->resource_version) +
                    text_size(object->field_path) + text_size(type) + text_size(reason));
        if (!to)
                return -ENOMEM;

        *record = (EventRecord){ .block = to };
        record->object.api_version = copy_text(&to, object->api_version);
        record->object.kind = copy_text(&to, object->kind);
        record->object.namespace = copy_text(&to, object->namespace);
        record->object.name = copy_text(&to, object->name);
        record->object.uid = copy_text(&to, object->uid);
        record->object.resource_version = copy_text(&to, object->resource_version);
        record->object.field_path = copy_text(&to, object->field_path);
        record->type = copy_text(&to, type);
        record->reason = copy_text(&to, reason);
        return 0;
}

void event_record_done(EventRecord *record) {
        free(record->block);
        free(record->message);
        *record = EVENT_RECORD_INIT;
}

/* Appends as much of the text as fits. */
static void append_message(const char *text, char *to, const char *end) {
        while (*text) {
                uint32_t ignored;
                size_t size = utf8_decode(text, &ignored);
                const char *from = size > 0 ? text : UTF8_REPLACEMENT;
                size_t n = size > 0 ? size : strlen(UTF8_REPLACEMENT);

                if (n > (size_t) (end - to))
                        break;
                to = mempcpy(to, from, n);
                text += size > 0 ? size : 1;
        }

        *to = '\0';
}

int event_record_happen(EventRecord *record, const EventDecision *decision, const char *message,
                        int64_t now) {
        char text[EVENT_MESSAGE_MAX + 1];

        append_message(message, decision->is_combined ? stpcpy(text, COMBINED) : text,
                       text + EVENT_MESSAGE_MAX);
        utf8_hide_controls(text); /* the text may be from a container */
        if (text_set(&record->message, text) < 0)
                return -ENOMEM;

        record->stamp = decision->stamp;
        record->count = decision->count;
        record->first_at = decision->first_at;
        record->last_at = now;
        return 0;
}

static uint64_t hash(uint64_t so_far, const char *text) {
        return hash64_text(so_far, text ?: "");
}

EventKeys event_keys(uint64_t seed, const KubeReference *object, const char *type,
                     const char *reason, const char *message) {
        EventKeys keys;

        keys.object = hash(seed ^ HASH64_START, object->api_version);
        keys.object = hash(keys.object, object->kind);
        keys.object = hash(keys.object, object->namespace);
        keys.object = hash(keys.object, object->name);
        keys.object = hash(keys.object, object->uid);
        keys.kind = hash(hash(keys.object, type), reason);
        keys.event = hash(hash(hash(keys.kind, "one"), object->field_path), message);
        keys.combined = hash(keys.kind, "combined");
        return keys;
}

static bool is_alphanumeric(char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static char name_character(char c) {
        if (c >= 'A' && c <= 'Z')
                return (char) (c - 'A' + 'a');

        return is_alphanumeric(c) || c == '.' ? c : '-';
}

const char *event_spec_name(const EventRecord *record, char buffer[static EVENT_NAME_SIZE]) {
        const char *name = record->object.name ?: "";
        const char *end = buffer + EVENT_NAME_SIZE - SUFFIX_SIZE;
        char *to = buffer;

        for (; *name && to < end; name++) {
                const char c = name_character(*name);

                /* Each part between dots begins and ends with a letter or a digit. */
                if (!is_alphanumeric(c) &&
                    (to == buffer || (!is_alphanumeric(to[-1]) && (c == '.' || to[-1] == '.'))))
                        continue;
                *to++ = c;
        }
        while (to > buffer && !is_alphanumeric(to[-1]))
                to--;
        if (to == buffer)
                to = stpcpy(to, "event");

        (void) snprintf(to, SUFFIX_SIZE, ".%" PRIx64, record->stamp);
        return buffer;
}

const char *event_spec_namespace(const EventRecord *record) {
        return record->object.namespace && record->object.namespace[0] ? record->object.namespace
                                                                       : "default";
}

/* Adds the members that change with each occurrence. */
static int add_latest(json_object *json, const EventRecord *record) {
        char last_at[RFC3339_SIZE];

        /* The API has 32 bits for the count. */
        return patch_add(json, "count",
                         json_object_new_int(record->count > INT_MAX ? INT_MAX : (int) record->count))
               ?: patch_add_text(json, "lastTimestamp", rfc3339_format(record->last_at, last_at))
               ?: patch_add_filled(json, "message", record->message);
}

static int add_reference(json_object *json, const KubeReference *object) {
        cleanup(json_object_put_p) json_object *reference = json_object_new_object();

        return patch_add_filled(reference, "apiVersion", object->api_version)
               ?: patch_add_filled(reference, "kind", object->kind)
               ?: patch_add_filled(reference, "namespace", object->namespace)
               ?: patch_add_filled(reference, "name", object->name)
               ?: patch_add_filled(reference, "uid", object->uid)
               ?: patch_add_filled(reference, "resourceVersion", object->resource_version)
               ?: patch_add_filled(reference, "fieldPath", object->field_path)
               ?: patch_add(json, "involvedObject", take_ptr(reference));
}

int event_spec_create(const EventRecord *record, const EventSource *source, char **ret) {
        cleanup(json_object_put_p) json_object *json = json_object_new_object();
        json_object *metadata = json_object_new_object(), *from = json_object_new_object();
        char name[EVENT_NAME_SIZE], first_at[RFC3339_SIZE];
        int r;

        r = patch_add(json, "source", from);
        r = patch_add(json, "metadata", metadata) ?: r;
        if (r < 0)
                return r;

        r = patch_add_text(json, "apiVersion", "v1")
                    ?: patch_add_text(json, "kind", "Event")
                    ?: patch_add_filled(json, "type", record->type)
                    ?: patch_add_filled(json, "reason", record->reason)
                    ?: patch_add_text(json, "firstTimestamp", rfc3339_format(record->first_at, first_at))
                    ?: patch_add_filled(json, "reportingComponent", source->component)
                    ?: patch_add_filled(json, "reportingInstance", source->node_name)
                    ?: patch_add_text(metadata, "namespace", event_spec_namespace(record))
                    ?: patch_add_text(metadata, "name", event_spec_name(record, name))
                    ?: patch_add_filled(from, "component", source->component)
                    ?: patch_add_filled(from, "host", source->node_name)
                    ?: add_latest(json, record)
                    ?: add_reference(json, &record->object);
        return r < 0 ? r : json_copy_text(json, ret);
}

int event_spec_patch(const EventRecord *record, char **ret) {
        cleanup(json_object_put_p) json_object *json = json_object_new_object();
        int r;

        r = add_latest(json, record);
        return r < 0 ? r : json_copy_text(json, ret);
}

bool event_spec_is_terminating(const char *text, size_t size) {
        static const char reason[] = "NamespaceTerminating";
        cleanup(json_object_put_p) json_object *status = NULL;
        json_object *details;

        if (size == 0 || json_parse(text, size, &status, NULL) < 0)
                return false;

        details = json_get(status, "details", json_type_object);
        return json_is(status, "reason", reason) ||
               json_find(json_get(details, "causes", json_type_array), "reason", reason);
}
