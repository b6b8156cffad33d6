/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One event, and how the API wants it (core/v1 Event)
 */

#include <stdbool.h>

#include "agent/kube/event-plan.h"
#include "agent/kube/event.h"

#define EVENT_NAME_SIZE 254
#define EVENT_MESSAGE_MAX 1024 /* bytes */

/* One event, with texts of its own. */
typedef struct EventRecord {
        KubeReference object; /* its texts, type and reason are in the block */
        const char *type;
        const char *reason;
        char *block;
        char *message; /* UTF-8, at most EVENT_MESSAGE_MAX bytes */

        uint64_t stamp; /* makes the name unique */
        uint64_t count;
        int64_t first_at; /* seconds since the epoch */
        int64_t last_at;
} EventRecord;

#define EVENT_RECORD_INIT ((EventRecord){ .block = NULL })

/* All texts are copied. Numbers and message are left for event_record_happen(). */
int event_record_init(EventRecord *record, const KubeReference *object, const char *type,
                      const char *reason);
void event_record_done(EventRecord *record);

/* It happened, for the first time or again. */
int event_record_happen(EventRecord *record, const EventDecision *decision, const char *message,
                        int64_t now);

/* What makes two events alike. The seed keeps others from choosing texts that seem alike. */
EventKeys event_keys(uint64_t seed, const KubeReference *object, const char *type,
                     const char *reason, const char *message);

typedef struct EventSource {
        const char *component;
        const char *node_name;
} EventSource;

/* "node-1.18a4c5b2f01e3d77": valid whatever the object is called. */
const char *event_spec_name(const EventRecord *record, char buffer[static EVENT_NAME_SIZE]);

/* Where it goes: the namespace of its object, or "default". */
const char *event_spec_namespace(const EventRecord *record);

/* The whole of it, and what changes when it happens again. The caller owns *ret. */
int event_spec_create(const EventRecord *record, const EventSource *source, char **ret);
int event_spec_patch(const EventRecord *record, char **ret);

/* The namespace is being deleted: what the server's refusal (a Status) says. */
bool event_spec_is_terminating(const char *text, size_t size);
