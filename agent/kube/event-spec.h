/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events: which ones are worth sending, and how the API expects them (core/v1 Event)
 *
 * A repeated event only raises a count. Many events of one kind about one object, which differ in their
 * message alone, become a combined one. Each object has a bucket of events, which fills up slowly. The plan
 * compares events by hashes, and is given the time. It remembers a bounded number of each, and forgets
 * first the ones that it has not seen for the longest time. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* core/v1 ObjectReference; texts may be NULL. */
typedef struct KubeReference {
        const char *api_version;
        const char *kind;
        const char *namespace;
        const char *name;
        const char *uid;
        const char *resource_version;
        const char *field_path;
} KubeReference;

#define EVENT_BUCKET_SIZE 25
#define EVENT_REFILL_USEC ((uint64_t) 300 * 1000000)
#define EVENT_MESSAGES_MAX 10 /* messages of one kind; from then on others are combined */
#define EVENT_WINDOW_USEC ((uint64_t) 600 * 1000000)

#define EVENT_OBJECTS_MAX 256
#define EVENT_KINDS_MAX 512
#define EVENT_RECORDS_MAX 1024

typedef struct EventPlan EventPlan;

/* Hashes that decide whether two events have the same object, kind, or text. */
typedef struct EventKeys {
        uint64_t object;
        uint64_t kind;     /* object, type and reason */
        uint64_t event;    /* all of it */
        uint64_t combined; /* combined event of this kind; differs from all keys above */
} EventKeys;

typedef enum EventAction {
        EVENT_DROP,   /* over the limit */
        EVENT_CREATE, /* the event is new */
        EVENT_REPEAT, /* the event exists: its count has changed */
        _EVENT_ACTION_MAX,
} EventAction;

typedef struct EventDecision {
        EventAction action;
        bool is_combined;
        uint64_t key;     /* key of the event to be sent */
        uint64_t stamp;   /* unique number, which all repetitions share */
        uint64_t count;   /* how often it happened, this time included */
        int64_t first_at; /* seconds since the epoch */
} EventDecision;

int event_plan_new(EventPlan **ret);
EventPlan *event_plan_free(EventPlan *plan);

/* Decides on an event that happens now, by the monotonic clock and by the wall clock. */
EventDecision event_plan_decide(EventPlan *plan, const EventKeys *keys, uint64_t now_usec,
                                uint64_t wall_nsec);

/* Forgets an event that could not be created, so that it is new when it happens again. */
void event_plan_forget(EventPlan *plan, uint64_t key);

#define EVENT_NAME_SIZE 254
#define EVENT_MESSAGE_MAX 1024 /* bytes */

/* An event with its own texts. */
typedef struct EventRecord {
        KubeReference object; /* the texts, type and reason are in the block */
        const char *type;
        const char *reason;
        char *block;
        char *message; /* UTF-8 without control characters, at most EVENT_MESSAGE_MAX bytes */

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

/* Notes that the event happened, for the first time or again. */
int event_record_happen(EventRecord *record, const EventDecision *decision, const char *message,
                        int64_t now);

/* Hashes the parts that make two events alike. A secret seed prevents chosen collisions. */
EventKeys event_keys(uint64_t seed, const KubeReference *object, const char *type,
                     const char *reason, const char *message);

typedef struct EventSource {
        const char *component;
        const char *node_name;
} EventSource;

/* "node-1.18a4c5b2f01e3d77": valid whatever the object is called. */
const char *event_spec_name(const EventRecord *record, char buffer[static EVENT_NAME_SIZE]);

/* Returns the namespace of the event: that of its object, or "default". */
const char *event_spec_namespace(const EventRecord *record);

/* Format the whole event, and the members that change. The caller owns *ret. */
int event_spec_create(const EventRecord *record, const EventSource *source, char **ret);
int event_spec_patch(const EventRecord *record, char **ret);

/* Whether the refusal (a Status) says that the namespace is being deleted. */
bool event_spec_is_terminating(const char *text, size_t size);
