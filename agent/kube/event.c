/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/random.h"
#include "agent/kube/path.h"
#include "agent/kube/retry.h"

#define REPLY_MAX ((size_t) 64 << 10)
#define WAITING_MAX 1000
#define CALLS_MAX 4
#define TRIES_MAX 12
#define DENIALS_MAX 3
#define CODE_CONFLICT 409

/* An event on its way to the API server. */
typedef struct EventItem {
        LIST_LINKS(struct EventItem);
        KubeEvents *events;
        KubeCall *call; /* NULL: it waits */
        uint64_t key;
        EventRecord record;
        bool is_repeat; /* the server has it, with a lower count */
        unsigned n_tries;
} EventItem;

struct KubeEvents {
        KubeClient *client;
        Log *log;
        char *component;
        char *node_name;
        EventPlan *plan;
        uint64_t seed;

        /* For each key, at most one item waits and one is being sent. */
        EventItem *waiting; /* items in the order in which they are sent */
        EventItem *last;
        EventItem *sending;
        size_t n_waiting; /* waiting and sending */
        size_t n_calls;

        Retry retry; /* runs while the server does not answer */
        uint64_t n_dropped;
        bool is_logged[_ERROR_KIND_MAX]; /* why some were dropped */
};

/* The item must not be on a list. Ends its call. */
static EventItem *event_item_free(EventItem *item) {
        if (!item)
                return NULL;

        item->call = kube_call_unref(item->call);
        event_record_done(&item->record);
        free(item);
        return NULL;
}

DEFINE_CLEANUP(EventItem *, event_item_free)

static int event_item_new(KubeEvents *events, const EventDecision *decision,
                          const KubeReference *object, const char *type, const char *reason,
                          EventItem **ret) {
        cleanup(event_item_free_p) EventItem *item = NULL;
        int r;

        item = malloc(sizeof(*item));
        if (!item)
                return -ENOMEM;

        *item = (EventItem){
                .events = events,
                .key = decision->key,
                .is_repeat = decision->action == EVENT_REPEAT,
        };
        r = event_record_init(&item->record, object, type, reason);
        if (r < 0)
                return r;

        *ret = take_ptr(item);
        return 0;
}

static int item_path(const EventItem *item, char **ret) {
        char name[EVENT_NAME_SIZE];
        const KubePath path = {
                .version = "v1",
                .namespace = event_spec_namespace(&item->record),
                .resource = "events",
                .name = item->is_repeat ? event_spec_name(&item->record, name) : NULL,
        };

        return kube_path_format(&path, ret);
}

/* The callback's userdata is the item. */
static int event_item_send(EventItem *item, KubeClient *client, const EventSource *source,
                           KubeReplied on_sent) {
        cleanup(free_p) char *path = NULL;
        cleanup(free_p) char *body = NULL;
        int r;

        r = item_path(item, &path);
        if (r < 0)
                return r;

        r = item->is_repeat ? event_spec_patch(&item->record, &body)
                            : event_spec_create(&item->record, source, &body);
        if (r < 0)
                return r;

        return kube_call(client,
                         &(KubeRequest){
                                 .verb = item->is_repeat ? "patch" : "create",
                                 .method = item->is_repeat ? "PATCH" : "POST",
                                 .path = path,
                                 .content_type = item->is_repeat ? KUBE_MERGE_PATCH : KUBE_JSON,
                                 .body = body,
                                 .reply_max = REPLY_MAX,
                                 .on_replied = on_sent,
                                 .userdata = item,
                         },
                         &item->call);
}

static EventItem *event_items_find(EventItem *items, uint64_t key) {
        for (EventItem *item = items; item; item = item->next)
                if (item->key == key)
                        return item;

        return NULL;
}

static EventItem *event_items_free(EventItem *items) {
        while (items) {
                EventItem *item = items;

                items = item->next;
                event_item_free(item);
        }

        return NULL;
}

DEFINE_CLEANUP(KubeEvents *, kube_events_free)

static int events_pump(KubeEvents *events);

static void waiting_append(KubeEvents *events, EventItem *item) {
        item->next = NULL;
        item->previous = events->last;
        if (events->last)
                events->last->next = item;
        else
                events->waiting = item;
        events->last = item;
}

static void waiting_prepend(KubeEvents *events, EventItem *item) {
        list_prepend(&events->waiting, item);
        if (!events->last)
                events->last = item;
}

static void waiting_remove(KubeEvents *events, EventItem *item) {
        if (events->last == item)
                events->last = item->previous;
        list_remove(&events->waiting, item);
}

/* Logs a line for each kind of reason; events are too many for a line each. */
static void events_drop(KubeEvents *events, const EventRecord *record, const Error *error) {
        events->n_dropped++;
        if (events->is_logged[error->kind])
                return;

        events->is_logged[error->kind] = true;
        log_warning(events->log, NULL,
                    "Dropped the event \"%s\" about %s \"%s\": %s. Further events that are "
                    "dropped for \"%s\" are only counted.",
                    record->reason, record->object.kind ?: "object", record->object.name ?: "",
                    error_message(error), error_kind_to_string(error->kind));
}

/* Ends the item's call. */
static void item_settle(EventItem *item) {
        KubeEvents *events = item->events;

        item->call = kube_call_unref(item->call);
        list_remove(&events->sending, item);
        events->n_calls--;
}

static void item_finish(EventItem *item) {
        item->events->n_waiting--;
        event_item_free(item);
}

/* Queues the item again, before all others. Merges it with a newer occurrence. */
static void item_requeue(EventItem *item) {
        KubeEvents *events = item->events;
        EventItem *newer = event_items_find(events->waiting, item->key);

        if (newer) {
                EventRecord older = item->record;

                item->record = newer->record;
                newer->record = older;
                waiting_remove(events, newer);
                item_finish(newer);
        }

        waiting_prepend(events, item);
}

static void item_give_up(EventItem *item, const KubeReply *reply, const Error *error) {
        KubeEvents *events = item->events;

        if (!item->is_repeat)
                event_plan_forget(events->plan, item->key);

        if (event_spec_is_terminating(reply->body, reply->size))
                events->n_dropped++; /* the namespace is being deleted with its events */
        else
                events_drop(events, &item->record, error);
        item_finish(item);
}

static int events_back_off(KubeEvents *events, const KubeReply *reply) {
        return retry_is_waiting(&events->retry)
                       ? 0
                       : retry_later(&events->retry, kube_requested_usec(reply));
}

/* Whether the server has the event: from this try, or from an earlier one whose answer was lost. */
static bool is_written(const EventItem *item, const KubeReply *reply, const Error *error) {
        return !error || (reply->code == CODE_CONFLICT && !item->is_repeat && item->n_tries > 0);
}

/* A server that has just started denies everything for a moment. */
static bool may_be_passing(const EventItem *item, const KubeReply *reply, const Error *error) {
        return error->kind == ERROR_DENIED && item->n_tries < DENIALS_MAX &&
               !event_spec_is_terminating(reply->body, reply->size);
}

static int on_sent(const KubeReply *reply, const Error *error, void *userdata) {
        EventItem *item = userdata;
        KubeEvents *events = item->events;
        bool is_retriable =
                error && (kube_is_retriable(reply, error) || may_be_passing(item, reply, error));
        int r = 0;

        item_settle(item);
        if (!is_retriable)
                events->retry.n_failures = 0;

        if (is_written(item, reply, error)) {
                item_finish(item);
        } else if (is_retriable && ++item->n_tries < TRIES_MAX) {
                item_requeue(item);
                r = events_back_off(events, reply);
                /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is written where there is no error */
        } else if (item->is_repeat && error->kind == ERROR_NOT_FOUND) {
                item->is_repeat = false; /* the server has deleted it, as it does after an hour */
                item_requeue(item);
        } else {
                item_give_up(item, reply, error);
                r = is_retriable ? events_back_off(events, reply) : 0;
        }
        if (r < 0)
                return r;

        return events_pump(events);
}

/* Returns the next item whose key is not being sent, so that the newest state comes last. */
static EventItem *events_next(const KubeEvents *events) {
        for (EventItem *item = events->waiting; item; item = item->next)
                if (!event_items_find(events->sending, item->key))
                        return item;

        return NULL;
}

static int events_pump(KubeEvents *events) {
        const EventSource source = { events->component, events->node_name };

        while (!retry_is_waiting(&events->retry) && events->n_calls < CALLS_MAX) {
                EventItem *item = events_next(events);
                int r;

                if (!item)
                        break;

                waiting_remove(events, item);
                list_prepend(&events->sending, item);
                events->n_calls++;
                r = event_item_send(item, events->client, &source, on_sent);
                if (r < 0)
                        return r;
        }

        return 0;
}

static void events_refuse(KubeEvents *events, const EventDecision *decision,
                          const KubeReference *object, const char *reason) {
        cleanup(error_done) Error error = ERROR_INIT;
        const EventRecord record = { .object = *object, .reason = reason };

        if (decision->action == EVENT_CREATE)
                event_plan_forget(events->plan, decision->key);

        (void) error_set(&error, ERROR_UNAVAILABLE, "%d others are waiting to be sent",
                         WAITING_MAX);
        events_drop(events, &record, &error);
}

int kube_event_send(KubeEvents *events, const KubeReference *object, const char *type,
                    const char *reason, const char *message) {
        EventDecision decision;
        int64_t wall_nsec = clock_nsec(CLOCK_REALTIME);
        EventKeys keys;
        EventItem *item;
        int r;

        keys = event_keys(events->seed, object, type, reason, message);
        decision = event_plan_decide(events->plan, &keys, kube_client_now_usec(events->client),
                                     (uint64_t) wall_nsec);
        if (decision.action == EVENT_DROP) {
                events->n_dropped++;
                return 0;
        }

        item = event_items_find(events->waiting, decision.key);
        if (!item && events->n_waiting >= WAITING_MAX) {
                events_refuse(events, &decision, object, reason);
                return 0;
        }
        if (!item) {
                r = event_item_new(events, &decision, object, type, reason, &item);
                if (r < 0)
                        return r;

                waiting_append(events, item);
                events->n_waiting++;
        }

        r = event_record_happen(&item->record, &decision, message, wall_nsec / NSEC_PER_SEC);
        if (r < 0)
                return r;

        return events_pump(events);
}

size_t kube_events_n_waiting(const KubeEvents *events) {
        return events->n_waiting;
}

uint64_t kube_events_n_dropped(const KubeEvents *events) {
        return events->n_dropped;
}

int kube_events_kick(KubeEvents *events) {
        timer_stop(&events->retry.timer);
        return events_pump(events);
}

static int on_retry(void *userdata) {
        return events_pump(userdata);
}

int kube_events_new(const KubeEventsOptions *options, KubeEvents **ret) {
        cleanup(kube_events_free_p) KubeEvents *events = NULL;
        int r;

        events = calloc(1, sizeof(*events));
        if (!events)
                return -ENOMEM;

        events->client = options->client;
        events->log = options->log;
        retry_init(&events->retry, kube_client_event(options->client), KUBE_RETRY_MIN_USEC,
                   KUBE_RETRY_MAX_USEC, on_retry, events);
        events->seed = random_id();
        events->component = strdup(options->component);
        events->node_name = strdup(options->node_name);
        if (!events->component || !events->node_name)
                return -ENOMEM;

        r = event_plan_new(&events->plan);
        if (r < 0)
                return r;

        *ret = take_ptr(events);
        return 0;
}

KubeEvents *kube_events_free(KubeEvents *events) {
        if (!events)
                return NULL;

        retry_done(&events->retry);
        events->waiting = event_items_free(events->waiting);
        events->sending = event_items_free(events->sending);
        events->plan = event_plan_free(events->plan);
        free(events->component);
        free(events->node_name);
        free(events);
        return NULL;
}
