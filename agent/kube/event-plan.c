/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/event-plan.h"

#include <errno.h>
#include <stdlib.h>

#define NSEC_PER_SEC ((uint64_t) 1000000000)

/* What each thing that is remembered begins with. */
typedef struct Memory {
        uint64_t key;
        uint64_t used_at; /* in turns of the plan; 0: nothing is remembered here */
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

/* Finds the key, or the place that can best be spared. */
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
                        break; /* those behind it never were used either */
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

        /* A full bucket fills from when something is taken. */
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

/* There were too many others of this kind. */
static bool is_one_too_many(Kind *kind, uint64_t message) {
        for (size_t i = 0; i < kind->n_messages; i++)
                if (kind->messages[i] == message)
                        return false;

        if (kind->n_messages == EVENT_MESSAGES_MAX)
                return true;

        kind->messages[kind->n_messages++] = message;
        return false;
}

static EventDecision plan_repeat(EventPlan *plan, Record *record, EventVerdict verdict) {
        record->memory.used_at = plan->turn;
        record->count++;
        return (EventDecision){
                .verdict = verdict,
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
                .first_at = (int64_t) (wall_nsec / NSEC_PER_SEC),
        };
        return plan_repeat(plan, record, EVENT_CREATE);
}

EventDecision event_plan_decide(EventPlan *plan, const EventKeys *keys, uint64_t now_usec,
                                uint64_t wall_nsec) {
        EventDecision decision = { .verdict = EVENT_DROP };
        bool is_combined, is_allowed, is_known;
        Record *record;
        uint64_t key;

        plan->turn++;
        is_combined = is_one_too_many(plan_kind(plan, keys->kind, now_usec), keys->event);
        is_allowed = take_token(plan_object(plan, keys->object, now_usec), now_usec);

        key = is_combined ? keys->combined : keys->event;
        record = (Record *) find(plan->records, EVENT_RECORDS_MAX, sizeof(*record), key, &is_known);
        if (is_known) /* counted in any case, so that the next one that may be sent tells */
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

        /* No gap: the last one takes its place. */
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
