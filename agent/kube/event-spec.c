/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/event-spec.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json_object.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/reply-spec.h"

#define SUFFIX_SIZE sizeof(".0123456789abcdef")
#define COMBINED "(combined from similar events): "
#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD, for a byte that is not UTF-8 */

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

static bool is_tail(const char *text) {
        return ((unsigned char) *text & 0xc0) == 0x80;
}

/* How many bytes the character has with which the text begins; 0: it is none. */
static size_t character_size(const char *text) {
        const unsigned char first = (unsigned char) text[0], second = (unsigned char) text[1];

        if (first < 0x80)
                return 1;
        if (first < 0xc2 || first > 0xf4 || !is_tail(text + 1))
                return 0;
        if (first < 0xe0)
                return 2;
        if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
            !is_tail(text + 2))
                return 0;
        if (first < 0xf0)
                return 3;
        if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f) ||
            !is_tail(text + 3))
                return 0;
        return 4;
}

/* Appends as much of the text as there is room for. */
static void append_message(const char *text, char *to, const char *end) {
        while (*text) {
                size_t size = character_size(text);
                const char *from = size > 0 ? text : REPLACEMENT;
                size_t n = size > 0 ? size : strlen(REPLACEMENT);

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
        char *copy;

        append_message(message, decision->is_combined ? stpcpy(text, COMBINED) : text,
                       text + EVENT_MESSAGE_MAX);
        copy = strdup(text);
        if (!copy)
                return -ENOMEM;

        free(record->message);
        record->message = copy;
        record->stamp = decision->stamp;
        record->count = decision->count;
        record->first_at = decision->first_at;
        record->last_at = now;
        return 0;
}

/* FNV-1a; the NUL counts, so that texts cannot run into each other. */
static uint64_t hash(uint64_t so_far, const char *text) {
        const char *byte = text ?: "";

        do {
                so_far ^= (unsigned char) *byte;
                so_far *= UINT64_C(0x100000001b3);
        } while (*byte++);

        return so_far;
}

EventKeys event_keys(uint64_t seed, const KubeReference *object, const char *type,
                     const char *reason, const char *message) {
        EventKeys keys;

        keys.object = hash(seed ^ UINT64_C(0xcbf29ce484222325), object->api_version);
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

/* Takes the value over, which may be NULL for want of memory, also if it fails. */
static int add(json_object *object, const char *key, json_object *value) {
        if (!value)
                return -ENOMEM;

        if (json_object_object_add(object, key, value) < 0) {
                json_object_put(value);
                return -ENOMEM;
        }

        return 0;
}

typedef struct Member {
        const char *key;
        const char *text; /* left out if it is NULL or empty */
} Member;

static int add_members(json_object *object, const Member *members, size_t n_members) {
        for (size_t i = 0; i < n_members; i++) {
                int r;

                if (!members[i].text || !members[i].text[0])
                        continue;

                r = add(object, members[i].key, json_object_new_string(members[i].text));
                if (r < 0)
                        return r;
        }

        return 0;
}

#define ADD_MEMBERS(object, ...)                             \
        add_members(object, (const Member[]){ __VA_ARGS__ }, \
                    sizeof((const Member[]){ __VA_ARGS__ }) / sizeof(Member))

/* Adds an object with these members. */
static int add_object(json_object *object, const char *key, const Member *members,
                      size_t n_members) {
        cleanup(json_object_put_p) json_object *value = json_object_new_object();
        int r;

        if (!value)
                return -ENOMEM;

        r = add_members(value, members, n_members);
        if (r < 0)
                return r;

        return add(object, key, take_ptr(value));
}

#define ADD_OBJECT(object, key, ...)                             \
        add_object(object, key, (const Member[]){ __VA_ARGS__ }, \
                   sizeof((const Member[]){ __VA_ARGS__ }) / sizeof(Member))

/* What differs each time that it happens. */
static int add_latest(json_object *json, const EventRecord *record) {
        char last_at[RFC3339_SIZE];
        int r;

        /* The API has 32 bits for it. */
        r = add(json, "count",
                json_object_new_int(record->count > INT_MAX ? INT_MAX : (int) record->count));
        if (r < 0)
                return r;

        return ADD_MEMBERS(json, { "lastTimestamp", rfc3339_format(record->last_at, last_at) },
                           { "message", record->message });
}

static int add_reference(json_object *json, const KubeReference *object) {
        return ADD_OBJECT(json, "involvedObject", { "apiVersion", object->api_version },
                          { "kind", object->kind }, { "namespace", object->namespace },
                          { "name", object->name }, { "uid", object->uid },
                          { "resourceVersion", object->resource_version },
                          { "fieldPath", object->field_path });
}

static int write_text(json_object *json, char **ret) {
        const char *text;

        text = json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE);
        if (!text)
                return -ENOMEM;

        text = strdup(text);
        if (!text)
                return -ENOMEM;

        *ret = (char *) text;
        return 0;
}

int event_spec_create(const EventRecord *record, const EventSource *source, char **ret) {
        cleanup(json_object_put_p) json_object *json = json_object_new_object();
        char name[EVENT_NAME_SIZE], first_at[RFC3339_SIZE];
        int r;

        if (!json)
                return -ENOMEM;

        r = ADD_MEMBERS(json, { "apiVersion", "v1" }, { "kind", "Event" }, { "type", record->type },
                        { "reason", record->reason },
                        { "firstTimestamp", rfc3339_format(record->first_at, first_at) },
                        { "reportingComponent", source->component },
                        { "reportingInstance", source->node_name });
        if (r < 0)
                return r;

        r = add_latest(json, record);
        if (r < 0)
                return r;

        r = ADD_OBJECT(json, "metadata", { "namespace", event_spec_namespace(record) },
                       { "name", event_spec_name(record, name) });
        if (r < 0)
                return r;

        r = add_reference(json, &record->object);
        if (r < 0)
                return r;

        r = ADD_OBJECT(json, "source", { "component", source->component },
                       { "host", source->node_name });
        if (r < 0)
                return r;

        return write_text(json, ret);
}

int event_spec_patch(const EventRecord *record, char **ret) {
        cleanup(json_object_put_p) json_object *json = json_object_new_object();
        int r;

        if (!json)
                return -ENOMEM;

        r = add_latest(json, record);
        if (r < 0)
                return r;

        return write_text(json, ret);
}

static bool has_reason(json_object *object, const char *reason) {
        json_object *value;

        return json_object_is_type(object, json_type_object) &&
               json_object_object_get_ex(object, "reason", &value) &&
               json_object_is_type(value, json_type_string) &&
               strcmp(json_object_get_string(value), reason) == 0;
}

bool event_spec_is_terminating(const char *text, size_t size) {
        cleanup(json_object_put_p) json_object *status = NULL;
        json_object *details, *causes;

        if (size == 0 || reply_spec_parse(text, size, &status, NULL) < 0)
                return false;
        if (has_reason(status, "NamespaceTerminating"))
                return true;

        if (!json_object_is_type(status, json_type_object) ||
            !json_object_object_get_ex(status, "details", &details) ||
            !json_object_is_type(details, json_type_object) ||
            !json_object_object_get_ex(details, "causes", &causes) ||
            !json_object_is_type(causes, json_type_array))
                return false;

        for (size_t i = 0; i < json_object_array_length(causes); i++)
                if (has_reason(json_object_array_get_idx(causes, i), "NamespaceTerminating"))
                        return true;

        return false;
}
