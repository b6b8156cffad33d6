/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/event-record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

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
