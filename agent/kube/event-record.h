/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One event, with texts of its own
 */

#include "agent/kube/event-plan.h"
#include "agent/kube/event.h"

#define EVENT_MESSAGE_MAX 1024 /* bytes */

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
