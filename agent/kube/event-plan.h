/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which events are worth sending
 *
 * The same event again only raises a count. Many of one kind about one object, which differ in their
 * message alone, become one that is combined. Each object has a bucket of events, which fills up
 * slowly. Pure: knows events by the hashes of what makes them alike, and is told the time.
 *
 * It remembers a bounded number of each, and forgets first what was not seen for the longest time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENT_BUCKET_SIZE 25
#define EVENT_REFILL_USEC ((uint64_t) 300 * 1000000)
#define EVENT_MESSAGES_MAX 10 /* of one kind; from then on others are combined */
#define EVENT_WINDOW_USEC ((uint64_t) 600 * 1000000)

#define EVENT_OBJECTS_MAX 256
#define EVENT_KINDS_MAX 512
#define EVENT_RECORDS_MAX 1024

typedef struct EventPlan EventPlan;

/* Two events are about the same object, of the same kind, the same if these numbers are. */
typedef struct EventKeys {
        uint64_t object;
        uint64_t kind;     /* object, type and reason */
        uint64_t event;    /* all of it */
        uint64_t combined; /* of all of this kind, but another one than those above */
} EventKeys;

typedef enum EventVerdict {
        EVENT_DROP,   /* over the limit */
        EVENT_CREATE, /* it is new */
        EVENT_REPEAT, /* it was created already: its count has changed */
        _EVENT_VERDICT_MAX,
} EventVerdict;

typedef struct EventDecision {
        EventVerdict verdict;
        bool is_combined;
        uint64_t key;     /* of the event to be sent */
        uint64_t stamp;   /* unique; the same for all repetitions */
        uint64_t count;   /* how often it happened, this time included */
        int64_t first_at; /* seconds since the epoch */
} EventDecision;

int event_plan_new(EventPlan **ret);
EventPlan *event_plan_free(EventPlan *plan);

/* It happens now, which is given by a clock that never goes back and by the one on the wall. */
EventDecision event_plan_decide(EventPlan *plan, const EventKeys *keys, uint64_t now_usec,
                                uint64_t wall_nsec);

/* What was to be created was not, so when it happens again it is new. */
void event_plan_forget(EventPlan *plan, uint64_t key);
