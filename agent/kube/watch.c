/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/watch.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>
#include <time.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/kube/frames.h"
#include "agent/kube/pages.h"
#include "agent/kube/retry.h"
#include "agent/kube/status-error-spec.h"
#include "agent/kube/watch-message.h"
#include "agent/kube/watch-plan.h"

#define STREAM_ACCEPT_PROTOBUF KUBE_PROTOBUF ";stream=watch"

#define PAGE_TIMEOUT_USEC (60 * USEC_PER_SEC)

/* An object in its event is a little longer than it is alone. */
#define FRAME_SLACK ((size_t) 4 << 10)

/* Servers that do not know of streamed lists begin to watch, and never say where the list ends. */
#define LIST_END_USEC (10 * USEC_PER_SEC)

/* The server says at once whether it takes the request, unless it is very busy. */
#define ACCEPT_USEC (60 * USEC_PER_SEC)

/*
 * How a stream that is dead differs from one on which nothing happens
 *
 * kube-apiserver sends a bookmark after a minute, and each minute again, if its store has a newer
 * version than the one that the watch began from; mostly it has. So two of them must have been lost
 * when nothing came for 150 s, and the watch can be a long one, of 5 to 10 minutes. From a server that
 * sends none, nothing can be expected but the end of the watch, which then is after 120 to 150 s,
 * so that it is as soon missed. Either is found out by trying: where a list was streamed there should
 * be bookmarks, and if then there is silence the agent assumes that there are none, until it sees one.
 *
 * After a silence the agent lists: a server whose store was restored from a backup takes a watch from
 * a version that is not there any more, and sends nothing. Without bookmarks that can only have
 * happened where a watch broke, so there the next ones have as much time to send anything. Where all is
 * well that costs one list per change of the store's silence, not one per silence.
 */
#define SILENCE_USEC (150 * USEC_PER_SEC)
#define LONG_MIN_SEC 300u
#define LONG_SPREAD_SEC 301u
#define SHORT_MIN_SEC 120u
#define SHORT_SPREAD_SEC 31u
#define END_SLACK_USEC (15 * USEC_PER_SEC)

#define EARLY_USEC ((uint64_t) 1000000)

/* After a watch broke, the next ones should show something within this time, which is no longer
 * than the shortest of them. */
#define STALE_USEC ((uint64_t) 120 * 1000000)

/* A watch that lasted this long was not refused. */
#define WORKING_USEC ((uint64_t) 10 * 1000000)

/* Limit of an object: the API server sends its store no more. */
#define OBJECT_MAX ((size_t) 2 << 20)
#define PAGE_SIZE 500

/* Objects and versions that a watch knows, so that a new list shows which are new, changed or gone
 * without keeping objects. Sorted by namespace and name. */
typedef struct WatchKey {
        char *namespace; /* "" if there is none; all are owned */
        char *name;
        char *uid;
        char *version;
        bool is_marked;
} WatchKey;

typedef struct WatchKeys {
        WatchKey **items;
        size_t n_items;
} WatchKeys;

#define WATCH_KEYS_INIT ((WatchKeys){ .items = NULL })

/* In any callback the watch may be freed: its caller holds a reference, and checks is_closed
 * afterwards. */
struct KubeWatch {
        unsigned n_refs;
        bool is_closed;
        KubeWatchOptions options; /* copies of the options' texts are below */
        char *group;
        char *version;
        char *namespace;
        char *resource;
        char *fields;
        char *labels;
        sd_event *event;

        KubeWatchState state;
        Error error;
        bool is_malformed;
        WatchPlan plan;
        WatchKeys keys;
        WatchReader reader;
        Frames frames;

        char *resource_version; /* version from which to watch; NULL before the first list */
        KubePages pages;
        bool has_bookmarks;   /* the server sends them from time to time */
        bool lacks_bookmarks; /* a silence has shown that it does not, for now */
        bool has_begun;

        KubeCall *call;
        Timer pause;
        Timer guard;          /* limit for the end of a streamed list */
        uint64_t began_usec;  /* start of the call */
        uint64_t asked_usec;  /* requested duration, if it is a watch */
        uint64_t broken_usec; /* time at which the watch broke; 0: something has come since */
        bool has_worked;      /* the watch has shown something */

        /* Decision on the end of a stream, kept until the stream has ended. */
        bool has_outcome;
        WatchPlanEvent outcome;
        KubeReply outcome_reply;
        Error outcome_error;
        int failure; /* negative: a local one */
};

DEFINE_CLEANUP(KubeWatch *, kube_watch_free)

static WatchKey *watch_key_free(WatchKey *key) {
        if (!key)
                return NULL;

        free(key->namespace);
        free(key->name);
        free(key->uid);
        free(key->version);
        free(key);
        return NULL;
}

DEFINE_CLEANUP(WatchKey *, watch_key_free)

static int compare(const void *item, const void *sought) {
        const WatchKey *key = item, *other = sought;
        int r = strcmp(key->namespace, other->namespace);

        return r != 0 ? r : strcmp(key->name, other->name);
}

/* Finds the key of that namespace and name; *ret_at is its place, or where to insert it. */
static bool find_place(const WatchKeys *keys, const char *namespace, const char *name,
                       size_t *ret_at) {
        const WatchKey sought = { .namespace = (char *) namespace, .name = (char *) name };

        return sorted_find(keys->items, keys->n_items, compare, &sought, ret_at);
}

/* Finds a key, borrowed until it is taken out; NULL if it is not known. */
static WatchKey *watch_keys_find(const WatchKeys *keys, const char *namespace, const char *name) {
        size_t at;

        return find_place(keys, namespace, name, &at) ? keys->items[at] : NULL;
}

static int key_new(const KubeObject *object, WatchKey **ret) {
        cleanup(watch_key_free_p) WatchKey *key = malloc(sizeof(*key));

        if (!key)
                return -ENOMEM;

        *key = (WatchKey){
                .namespace = strdup(object->namespace),
                .name = strdup(object->name),
                .uid = strdup(object->uid),
                .version = strdup(object->resource_version),
                .is_marked = true,
        };
        if (!key->namespace || !key->name || !key->uid || !key->version)
                return -ENOMEM;

        *ret = take_ptr(key);
        return 0;
}

/* Adds a new, marked key. */
static int watch_keys_add(WatchKeys *keys, const KubeObject *object) {
        WatchKey *key;
        size_t at;
        int r;

        r = key_new(object, &key);
        if (r < 0)
                return r;

        (void) find_place(keys, object->namespace, object->name, &at);
        r = sorted_insert(&keys->items, &keys->n_items, at, key);
        if (r < 0)
                watch_key_free(key);
        return r;
}

/* Removes the key from the list; the caller owns it. */
static WatchKey *watch_keys_take(WatchKeys *keys, WatchKey *key) {
        bool is_there;
        size_t at;

        is_there = find_place(keys, key->namespace, key->name, &at);
        assert(is_there && keys->items[at] == key);

        sorted_remove(keys->items, &keys->n_items, at);
        return key;
}

/* Unmarks all keys before a list: unmarked objects at its end are gone. */
static void watch_keys_unmark(WatchKeys *keys) {
        for (size_t i = 0; i < keys->n_items; i++)
                keys->items[i]->is_marked = false;
}

/* Makes the next version of each object news. */
static void watch_keys_forget_versions(WatchKeys *keys) {
        for (size_t i = 0; i < keys->n_items; i++)
                keys->items[i]->version[0] = '\0';
}

static WatchKey *watch_keys_find_unmarked(const WatchKeys *keys) {
        for (size_t i = 0; i < keys->n_items; i++)
                if (!keys->items[i]->is_marked)
                        return keys->items[i];

        return NULL;
}

static void watch_keys_done(WatchKeys *keys) {
        for (size_t i = 0; i < keys->n_items; i++)
                watch_key_free(keys->items[i]);
        free(keys->items);
        *keys = WATCH_KEYS_INIT;
}

static KubeWatch *watch_ref(KubeWatch *watch) {
        watch->n_refs++;
        return watch;
}

static KubeWatch *watch_unref(KubeWatch *watch) {
        if (--watch->n_refs > 0)
                return NULL;

        frames_done(&watch->frames);
        watch_reader_done(&watch->reader);
        watch_keys_done(&watch->keys);
        error_done(&watch->outcome_error);
        error_done(&watch->error);
        sd_event_unref(watch->event);
        free(watch->resource_version);
        kube_pages_rewind(&watch->pages);
        free(watch->group);
        free(watch->version);
        free(watch->namespace);
        free(watch->resource);
        free(watch->fields);
        free(watch->labels);
        free(watch);
        return NULL;
}

/* error is NULL unless the state is KUBE_WATCH_TROUBLED. */
static int watch_set_state(KubeWatch *watch, KubeWatchState state, const Error *error) {
        const Error none = ERROR_INIT;

        error = error ?: &none;
        if (watch->state == state && error_equal(&watch->error, error))
                return 0;

        watch->state = state;
        error_done(&watch->error);
        if (error->kind != ERROR_NONE)
                (void) error_copy(&watch->error, error);
        return watch->options.on_state(state, watch->options.userdata);
}

static int report_gone(KubeWatch *watch, WatchKey *known) {
        cleanup(watch_key_free_p) WatchKey *key = watch_keys_take(&watch->keys, known);
        const KubeObject object = {
                .namespace = key->namespace,
                .name = key->name,
                .uid = key->uid,
        };

        return watch->options.on_gone(&object, watch->options.userdata);
}

static int report_new(KubeWatch *watch, const KubeObject *object) {
        int r;

        r = watch_keys_add(&watch->keys, object);
        if (r < 0)
                return r;

        return watch->options.on_object(object, watch->options.userdata);
}

/* Reports only changed objects of a list; a new list repeats many. */
static int report_known(KubeWatch *watch, WatchKey *key, const KubeObject *object) {
        int r;

        key->is_marked = true;
        if (strcmp(key->version, object->resource_version) == 0)
                return 0;

        r = text_set(&key->version, object->resource_version);
        if (r < 0)
                return r;

        return watch->options.on_object(object, watch->options.userdata);
}

static int report_object(KubeWatch *watch, WatchKey *key, const KubeObject *object) {
        int r;

        if (key && strcmp(key->uid, object->uid) == 0)
                return report_known(watch, key, object);

        if (key) {
                r = report_gone(watch, key);
                if (r < 0 || watch->is_closed)
                        return r;
        }

        return report_new(watch, object);
}

static int watch_report_event(KubeWatch *watch, const WatchEvent *event) {
        const KubeObject *object = &event->object;
        WatchKey *key = watch_keys_find(&watch->keys, object->namespace, object->name);

        switch (event->type) {
        case WATCH_EVENT_ADDED:
        case WATCH_EVENT_MODIFIED: return report_object(watch, key, object);
        case WATCH_EVENT_DELETED:
                return key && strcmp(key->uid, object->uid) == 0 ? report_gone(watch, key) : 0;
        case WATCH_EVENT_BOOKMARK:
        case WATCH_EVENT_ERROR:
        case _WATCH_EVENT_TYPE_MAX: break;
        }

        return 0;
}

static int watch_report_rest_gone(KubeWatch *watch) {
        WatchKey *key;
        int r;

        while (!watch->is_closed && (key = watch_keys_find_unmarked(&watch->keys))) {
                r = report_gone(watch, key);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int watch_handle(KubeWatch *watch, WatchPlanEvent event, const KubeReply *reply,
                        const Error *error);
static int watch_ask_page(KubeWatch *watch);

static int on_guard(void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        KubeWatch *watch = watch_ref(userdata);
        int r;

        watch->call = kube_call_unref(watch->call);
        (void) error_set(&error, ERROR_TIMEOUT, "GET %s: the server does not answer",
                         watch->resource);
        r = watch_handle(watch, WATCH_ON_SILENCE, NULL, &error);
        watch_unref(watch);
        return r;
}

static bool is_success(const KubeReply *reply) {
        return reply->code >= 200 && reply->code < 300;
}

/* Keeps the decision until the stream has ended, because its callbacks cannot start another
 * request. */
static void watch_decide(KubeWatch *watch, WatchPlanEvent outcome, ErrorKind kind,
                         const char *message) {
        watch->has_outcome = true;
        watch->outcome = outcome;
        error_done(&watch->outcome_error);
        (void) error_set(&watch->outcome_error, kind, "GET %s: %s", watch->resource, message);
}

/* Keeps a refusal and returns 0; returns a local failure as it is. */
static int watch_decide_garbage(KubeWatch *watch, int r, const Error *error) {
        if (error->kind == ERROR_NONE)
                return r;

        watch->outcome_reply = (KubeReply){ .body = "" };
        watch_decide(watch, WATCH_ON_GARBAGE, error->kind, error_message(error));
        return 0;
}

static void watch_take_error(KubeWatch *watch, const WatchStatus *status) {
        cleanup(error_done) Error error = ERROR_INIT;
        /* A status without a code explains nothing. */
        const KubeReply reply = {
                .code = status->code >= 400 ? status->code : 500,
                .body = "",
                .retry_after_usec = status->retry_after_usec,
        };

        kube_status_error(reply.code, status->message, strlen(status->message), &error);
        watch->outcome_reply = reply;
        watch_decide(watch,
                     watch_plan_error_event(&watch->plan, reply.code,
                                            kube_is_retriable(&reply, &error)),
                     error.kind, error_message(&error));
}

static int watch_list_ended(KubeWatch *watch) {
        timer_stop(&watch->guard);
        watch->has_bookmarks = !watch->lacks_bookmarks;
        return watch_handle(watch, WATCH_ON_LISTED, NULL, NULL);
}

static void watch_expect_bookmarks(KubeWatch *watch, bool has_bookmarks) {
        watch->has_bookmarks = has_bookmarks;
        watch->lacks_bookmarks = !has_bookmarks;
}

/* While a list is streamed its objects come in any order, but if it breaks, the next one begins anew. */
static int watch_take_event(KubeWatch *watch, const WatchEvent *event) {
        int r;

        if (event->type == WATCH_EVENT_ERROR) {
                watch_take_error(watch, &event->status);
                return 0;
        }

        r = text_set(&watch->resource_version, event->object.resource_version);
        if (r < 0)
                return r;

        if (watch->plan.step == WATCH_STREAMING && event->is_list_end)
                return watch_list_ended(watch);

        if (watch->plan.step == WATCH_WATCHING) {
                watch->has_worked = true;
                watch->broken_usec = 0;
                if (event->type == WATCH_EVENT_BOOKMARK)
                        watch_expect_bookmarks(watch, true);
                r = watch_set_state(watch, KUBE_WATCH_SYNCED, NULL);
                if (r < 0 || watch->is_closed)
                        return r;
        }

        return watch_report_event(watch, event);
}

static int watch_take_frame(KubeWatch *watch, Slice frame) {
        cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = watch_event_read(&watch->reader, frame, &event, &error);
        if (r < 0)
                return watch_decide_garbage(watch, r, &error);

        return watch_take_event(watch, &event);
}

static int watch_take_piece(KubeWatch *watch, Slice piece) {
        cleanup(error_done) Error error = ERROR_INIT;
        Slice frame;
        int r;

        while ((r = frames_next(&watch->frames, &piece, &frame, &error)) > 0) {
                r = watch_take_frame(watch, frame);
                if (r < 0 || watch->is_closed || watch->has_outcome)
                        return r;
        }

        return r < 0 ? watch_decide_garbage(watch, r, &error) : 0;
}

/* Ends the stream when the watch is closed, has an outcome or has failed. */
static int leave_stream(KubeWatch *watch, int r) {
        bool is_over = r < 0 || watch->is_closed || watch->has_outcome;

        if (r < 0)
                watch->failure = r;
        watch_unref(watch);
        return is_over ? -ECANCELED : 0;
}

static int watch_on_data(const char *data, size_t size, void *userdata) {
        KubeWatch *watch = watch_ref(userdata);

        return leave_stream(watch, watch_take_piece(watch, (Slice){ .data = data, .size = size }));
}

/* If the server takes the request, no event was missed, unless an event says otherwise. */
static int watch_on_accepted(void *userdata) {
        KubeWatch *watch = watch_ref(userdata);
        int r;

        if (watch->plan.step == WATCH_STREAMING)
                return leave_stream(watch, timer_start(&watch->guard, LIST_END_USEC));

        r = watch_set_state(watch, KUBE_WATCH_SYNCED, NULL);
        return leave_stream(watch, r);
}

static int watch_refused(KubeWatch *watch, const KubeReply *reply, const Error *error) {
        bool is_retriable = is_success(reply) || kube_is_retriable(reply, error);

        return watch_handle(watch, watch_plan_refusal(&watch->plan, reply->code, is_retriable),
                            reply, error);
}

static int watch_apply_outcome(KubeWatch *watch) {
        cleanup(error_done) Error error = watch->outcome_error;

        watch->has_outcome = false;
        watch->outcome_error = ERROR_INIT;
        return watch_handle(watch, watch->outcome, &watch->outcome_reply, &error);
}

static int watch_fell_silent(KubeWatch *watch, const KubeReply *reply, const Error *error) {
        cleanup(error_done) Error silence = ERROR_INIT;

        watch_expect_bookmarks(watch, false);
        (void) error_set(&silence, ERROR_TIMEOUT, "GET %s: no data since the connection broke",
                         watch->resource);
        return watch_handle(watch, WATCH_ON_SILENCE, reply, error ?: &silence);
}

/* After a break another server, or another store, may serve the next watch. */
static void watch_note_break(KubeWatch *watch, uint64_t now_usec) {
        if (watch->plan.step == WATCH_WATCHING && watch->broken_usec == 0 &&
            now_usec - watch->began_usec + EARLY_USEC < watch->asked_usec)
                watch->broken_usec = now_usec;
}

static bool watch_is_stale(const KubeWatch *watch, uint64_t now_usec) {
        return watch->plan.step == WATCH_WATCHING && watch->broken_usec > 0 &&
               now_usec - watch->broken_usec >= STALE_USEC;
}

static int watch_ended(KubeWatch *watch, uint64_t lasted_usec) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) error_set(&error, ERROR_UNAVAILABLE, "GET %s: the server ends it at once",
                         watch->resource);
        return watch_handle(watch, lasted_usec < EARLY_USEC ? WATCH_ON_ENDED_EARLY : WATCH_ON_ENDED,
                            NULL, &error);
}

/* Whether the server took the watch and let it last. Load balancers cut connections that are idle for
 * half a minute, again and again, and the next watch has to begin as soon after the tenth cut as after
 * the first. */
static bool watch_has_lasted(const KubeWatch *watch, const KubeReply *reply, bool is_late,
                             uint64_t now_usec) {
        return watch->plan.step == WATCH_WATCHING && now_usec - watch->began_usec >= WORKING_USEC &&
               (watch->has_worked || (is_success(reply) && !watch->has_outcome && !is_late));
}

static int watch_stream_ended(KubeWatch *watch, const KubeReply *reply, const Error *error) {
        bool is_late = error && error->kind == ERROR_TIMEOUT;
        uint64_t now_usec;
        int r;

        r = sd_event_now(watch->event, CLOCK_MONOTONIC, &now_usec);
        if (r < 0)
                return r;

        if (watch_has_lasted(watch, reply, is_late, now_usec))
                watch_plan_forget_failures(&watch->plan);

        watch_note_break(watch, now_usec);
        if (watch->has_outcome)
                return watch_apply_outcome(watch);
        if (is_success(reply) && (is_late || watch_is_stale(watch, now_usec)))
                return watch_fell_silent(watch, reply, error);
        if (!error)
                return watch_ended(watch, now_usec - watch->began_usec);

        return watch_refused(watch, reply, error);
}

static int watch_on_stream_ended(const KubeReply *reply, const Error *error, void *userdata) {
        KubeWatch *watch = watch_ref(userdata);
        int r = watch->failure;

        watch->call = kube_call_unref(watch->call);
        timer_stop(&watch->guard);
        frames_done(&watch->frames);
        if (r >= 0)
                r = watch_stream_ended(watch, reply, error);
        watch_unref(watch);
        return r;
}

static int watch_report_page(KubeWatch *watch, const WatchList *list, Error *reterr) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < list->n_items && !watch->is_closed; i++) {
                cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;

                r = watch_list_item(list, i, &event, reterr);
                if (r >= 0)
                        r = watch_report_event(watch, &event);
        }

        return r;
}

static int watch_turn_page(KubeWatch *watch, const WatchList *list, Error *reterr) {
        int r;

        r = kube_pages_turn(&watch->pages, list->next, reterr);
        if (r < 0)
                return r;
        if (watch->pages.next)
                return watch_handle(watch, WATCH_ON_PAGE, NULL, NULL);

        r = text_set(&watch->resource_version, list->version);
        return r < 0 ? r : watch_handle(watch, WATCH_ON_LISTED, NULL, NULL);
}

static int watch_read_page(KubeWatch *watch, const KubeReply *reply, Error *reterr) {
        cleanup(watch_list_done) WatchList list = WATCH_LIST_INIT;
        int r;

        r = watch_list_read(&watch->reader, (Slice){ .data = reply->body, .size = reply->size },
                            &list, reterr);
        if (r < 0)
                return r;

        r = watch_report_page(watch, &list, reterr);
        if (r < 0 || watch->is_closed)
                return r;

        return watch_turn_page(watch, &list, reterr);
}

static int watch_take_page(KubeWatch *watch, const KubeReply *reply) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(error_done) Error named = ERROR_INIT;
        int r;

        r = watch_read_page(watch, reply, &error);
        if (r >= 0 || error.kind == ERROR_NONE)
                return r;

        (void) error_set(&named, error.kind, "GET %s: %s", watch->resource, error_message(&error));
        return watch_handle(watch, WATCH_ON_GARBAGE, NULL, &named);
}

static int watch_on_page(const KubeReply *reply, const Error *error, void *userdata) {
        KubeWatch *watch = watch_ref(userdata);
        int r;

        watch->call = kube_call_unref(watch->call);
        if (!error)
                r = watch_take_page(watch, reply);
        else if (kube_pages_shrink(&watch->pages, reply->code, error))
                r = watch_ask_page(watch);
        else
                r = watch_refused(watch, reply, error);
        watch_unref(watch);
        return r;
}

static int watch_call(KubeWatch *watch, KubeRequest *request, const char *query) {
        cleanup(free_p) char *path = NULL;
        KubePath parts = watch->options.path;
        int r;

        parts.query = query;
        r = kube_path_format(&parts, &path);
        if (r < 0)
                return r;

        r = sd_event_now(watch->event, CLOCK_MONOTONIC, &watch->began_usec);
        if (r < 0)
                return r;

        request->method = "GET";
        request->path = path;
        request->userdata = watch;
        return kube_call(watch->options.client, request, &watch->call);
}

/* The callback may free the watch. */
static void count_restart(KubeWatch *watch) {
        if (watch->has_begun && watch->options.on_restart)
                watch->options.on_restart(watch->options.userdata);
        watch->has_begun = true;
}

/* The callback may free the watch, too. */
static void begin_list(KubeWatch *watch) {
        bool is_again = watch->has_begun;

        count_restart(watch);
        if (is_again && !watch->is_closed && watch->options.on_list)
                watch->options.on_list(watch->options.userdata);
        watch->broken_usec = 0;
        if (!watch->is_closed)
                watch_keys_unmark(&watch->keys);
}

static int call_stream(KubeWatch *watch, const char *query, unsigned seconds,
                       uint64_t silence_usec) {
        KubeRequest request = {
                .verb = "watch",
                .accept = watch->options.is_protobuf   ? STREAM_ACCEPT_PROTOBUF
                          : watch->options.is_metadata ? KUBE_METADATA_ONLY
                                                       : KUBE_JSON,
                .timeout_usec = seconds * USEC_PER_SEC + END_SLACK_USEC,
                .accept_usec = ACCEPT_USEC,
                .silence_usec = silence_usec,
                .on_accepted = watch_on_accepted,
                .on_data = watch_on_data,
                .on_replied = watch_on_stream_ended,
        };

        frames_done(&watch->frames);
        watch->frames = FRAMES_INIT(watch->options.is_protobuf ? FRAME_LENGTH : FRAME_LINE,
                                    watch->options.object_max + FRAME_SLACK);
        watch->asked_usec = seconds * USEC_PER_SEC;
        watch->has_worked = false;

        return watch_call(watch, &request, query);
}

static unsigned long_seconds(void) {
        return LONG_MIN_SEC + random_number() % LONG_SPREAD_SEC;
}

static unsigned short_seconds(void) {
        return SHORT_MIN_SEC + random_number() % SHORT_SPREAD_SEC;
}

/* Asks without a version, for the newest list: an older one could bring back deleted objects. */
static int watch_ask_stream(KubeWatch *watch) {
        cleanup(free_p) char *query = NULL;
        unsigned seconds = watch->lacks_bookmarks ? short_seconds() : long_seconds();
        int r;

        begin_list(watch);
        if (watch->is_closed)
                return 0;

        r = text_format(&query,
                        "watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
                        "&resourceVersionMatch=NotOlderThan&timeoutSeconds=%u",
                        seconds);
        if (r < 0)
                return r;

        return call_stream(watch, query, seconds, watch->lacks_bookmarks ? 0 : SILENCE_USEC);
}

static int watch_ask_watch(KubeWatch *watch) {
        cleanup(free_p) char *query = NULL;
        cleanup(free_p) char *version = NULL;
        unsigned seconds = watch->has_bookmarks ? long_seconds() : short_seconds();
        int r;

        count_restart(watch);
        if (watch->is_closed)
                return 0;

        r = kube_path_escape(watch->resource_version, &version)
                    ?: text_format(&query,
                                   "watch=true&allowWatchBookmarks=true&resourceVersion=%s"
                                   "&timeoutSeconds=%u",
                                   version, seconds);
        if (r < 0)
                return r;

        return call_stream(watch, query, seconds, watch->has_bookmarks ? SILENCE_USEC : 0);
}

/* A tree of JSON may take 45 times its text, so that a page of it is no longer than one object may be. */
static size_t page_max(const KubeWatch *watch) {
        size_t object_max = watch->options.object_max + FRAME_SLACK;

        return watch->options.is_protobuf && object_max < KUBE_PAGE_BYTES_MAX ? KUBE_PAGE_BYTES_MAX
                                                                              : object_max;
}

static int call_page(KubeWatch *watch, const char *query) {
        KubeRequest request = {
                .verb = "list",
                .accept = watch->options.is_protobuf   ? KUBE_PROTOBUF
                          : watch->options.is_metadata ? KUBE_METADATA_LIST
                                                       : KUBE_JSON,
                .reply_max = page_max(watch),
                .timeout_usec = PAGE_TIMEOUT_USEC,
                .on_replied = watch_on_page,
        };

        return watch_call(watch, &request, query);
}

static int watch_ask_page(KubeWatch *watch) {
        cleanup(free_p) char *query = NULL;
        int r;

        if (!watch->pages.next)
                begin_list(watch);
        if (watch->is_closed)
                return 0;

        r = kube_pages_query(&watch->pages, &query);
        return r < 0 ? r : call_page(watch, query);
}

static int watch_sync(KubeWatch *watch) {
        int r;

        r = watch_report_rest_gone(watch);
        if (r < 0 || watch->is_closed)
                return r;

        return watch_set_state(watch, KUBE_WATCH_SYNCED, NULL);
}

static int watch_sync_and_watch(KubeWatch *watch) {
        int r;

        r = watch_sync(watch);
        if (r < 0 || watch->is_closed)
                return r;

        return watch_ask_watch(watch);
}

static int on_pause_over(void *userdata) {
        KubeWatch *watch = watch_ref(userdata);
        int r;

        r = watch_handle(watch, WATCH_ON_TIMER, NULL, NULL);
        watch_unref(watch);
        return r;
}

/* A list that broke begins at its first page again. */
static int watch_wait(KubeWatch *watch, WatchPlanEvent event, const KubeReply *reply,
                      const Error *error) {
        unsigned n = watch->plan.n_in_a_row[event];
        uint64_t usec;
        int r;

        /* A page that is not the first one may be refused for its continuation. */
        watch->is_malformed = reply && reply->code == 400 && !watch->pages.next;
        kube_pages_rewind(&watch->pages);
        usec = watch_plan_wait_usec(&watch->plan, event, error->kind,
                                    kube_retry_usec(n, reply, random_number()), random_number());
        r = timer_start(&watch->pause, usec);
        if (r < 0)
                return r;

        if (!watch_plan_is_harmless(&watch->plan, event))
                return watch_set_state(watch, KUBE_WATCH_TROUBLED, error);
        if (watch->plan.step == WATCH_RELISTING && watch->state == KUBE_WATCH_SYNCED)
                return watch_set_state(watch, KUBE_WATCH_LISTING, NULL);

        return 0;
}

/* Goes on with the plan. reply and error may be NULL, and are about a refusal. */
static int watch_handle(KubeWatch *watch, WatchPlanEvent event, const KubeReply *reply,
                        const Error *error) {
        switch (watch_plan_step(&watch->plan, event)) {
        case WATCH_DO_NOTHING: return 0;
        case WATCH_DO_STREAM: return watch_ask_stream(watch);
        case WATCH_DO_PAGE: return watch_ask_page(watch);
        case WATCH_DO_SYNC: return watch_sync(watch);
        case WATCH_DO_WATCH: return watch_ask_watch(watch);
        case WATCH_DO_SYNC_AND_WATCH: return watch_sync_and_watch(watch);
        case WATCH_DO_WAIT: return watch_wait(watch, event, reply, error);
        case _WATCH_ACTION_MAX: break;
        }

        abort();
}

static void watch_drop_call(KubeWatch *watch) {
        watch->call = kube_call_unref(watch->call);
        timer_stop(&watch->guard);
        watch->has_outcome = false;
        error_done(&watch->outcome_error);
}

static int watch_copy_options(KubeWatch *watch, const KubeWatchOptions *options) {
        watch->options = *options;
        watch->options.object_max = options->object_max ?: OBJECT_MAX;
        if (text_copy(options->path.group, &watch->group) < 0 ||
            text_copy(options->path.version, &watch->version) < 0 ||
            text_copy(options->path.namespace, &watch->namespace) < 0 ||
            text_copy(options->path.resource, &watch->resource) < 0 ||
            text_copy(options->path.fields, &watch->fields) < 0 ||
            text_copy(options->path.labels, &watch->labels) < 0)
                return -ENOMEM;

        watch->options.path = (KubePath){
                .group = watch->group,
                .version = watch->version,
                .namespace = watch->namespace,
                .resource = watch->resource,
                .fields = watch->fields,
                .labels = watch->labels,
        };
        return 0;
}

int kube_watch_new(const KubeWatchOptions *options, KubeWatch **ret) {
        cleanup(kube_watch_free_p) KubeWatch *watch = NULL;
        int r;

        watch = malloc(sizeof(*watch));
        if (!watch)
                return -ENOMEM;

        *watch = (KubeWatch){
                .n_refs = 1,
                .event = sd_event_ref(kube_client_event(options->client)),
                .state = KUBE_WATCH_LISTING,
                .plan = { .step = WATCH_RELISTING },
                .reader = WATCH_READER_INIT(options->is_protobuf),
                .pages = { .size = PAGE_SIZE },
        };

        timer_init(&watch->pause, watch->event, /* accuracy_usec= */ 0, on_pause_over, watch);
        timer_init(&watch->guard, watch->event, /* accuracy_usec= */ 0, on_guard, watch);
        r = watch_copy_options(watch, options);
        if (r < 0)
                return r;

        r = watch_handle(watch, WATCH_ON_TIMER, NULL, NULL);
        if (r < 0)
                return r;

        *ret = take_ptr(watch);
        return 0;
}

KubeWatch *kube_watch_free(KubeWatch *watch) {
        if (!watch)
                return NULL;

        assert(!watch->is_closed);

        watch->is_closed = true;
        watch_drop_call(watch);
        timer_done(&watch->pause);
        timer_done(&watch->guard);
        return watch_unref(watch);
}

KubeWatchState kube_watch_state(const KubeWatch *watch) {
        return watch->state;
}

const Error *kube_watch_error(const KubeWatch *watch) {
        return &watch->error;
}

bool kube_watch_is_malformed(const KubeWatch *watch) {
        return watch->is_malformed;
}

int kube_watch_relist(KubeWatch *watch) {
        const Error none = ERROR_INIT;

        watch_drop_call(watch);
        if (watch->plan.step == WATCH_REWATCHING)
                timer_stop(&watch->pause);

        return watch_handle(watch, WATCH_ON_STALE, NULL, &none);
}

void kube_watch_stop(KubeWatch *watch) {
        watch_drop_call(watch);
        frames_done(&watch->frames);
        timer_stop(&watch->pause);
        kube_pages_rewind(&watch->pages);
        watch->plan = (WatchPlan){ .step = WATCH_RELISTING };
        watch->state = KUBE_WATCH_LISTING;
        error_done(&watch->error);
}

int kube_watch_begin_again(KubeWatch *watch, const char *version) {
        int r;

        kube_watch_stop(watch);
        watch_keys_forget_versions(&watch->keys);
        r = version ? text_set(&watch->version, version) : 0;
        if (r < 0)
                return r;

        watch->options.path.version = watch->version;
        return watch_handle(watch, WATCH_ON_TIMER, NULL, NULL);
}

int kube_watch_kick(KubeWatch *watch) {
        return timer_is_running(&watch->pause) ? timer_start(&watch->pause, 0) : 0;
}
