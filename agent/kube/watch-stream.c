/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/kube/retry.h"
#include "agent/kube/status-error-spec.h"
#include "agent/kube/watch-internal.h"

#define EARLY_USEC ((uint64_t) 1000000)

/* So long after a watch broke the next ones should have told something. No longer than the shortest
 * of them. */
#define DOUBT_USEC ((uint64_t) 120 * 1000000)

/* A watch that has lasted so long was not refused. */
#define WORKING_USEC ((uint64_t) 10 * 1000000)

static bool is_success(const KubeReply *reply) {
        return reply->code >= 200 && reply->code < 300;
}

static int set_text(char **text, const char *value) {
        char *copy = strdup(value);

        if (!copy)
                return -ENOMEM;

        free(*text);
        *text = copy;
        return 0;
}

/* Callbacks of a stream cannot ask for anything new: what is decided there is done when the stream
 * has ended. */
static void watch_decide(KubeWatch *watch, WatchHappening verdict, ErrorKind kind,
                         const char *message) {
        watch->has_verdict = true;
        watch->verdict = verdict;
        error_done(&watch->verdict_error);
        (void) error_set(&watch->verdict_error, kind, "GET %s: %s", watch->resource, message);
}

/* Returns 0 for a refusal, which is kept, and a local failure as it is. */
static int watch_decide_garbage(KubeWatch *watch, int r, const Error *error) {
        if (error->kind == ERROR_NONE)
                return r;

        watch->verdict_reply = (KubeReply){ .body = "" };
        watch_decide(watch, WATCH_ON_GARBAGE, error->kind, error_message(error));
        return 0;
}

static void watch_take_error(KubeWatch *watch, const WatchStatus *status) {
        cleanup(error_done) Error error = ERROR_INIT;
        /* A status without a code is as good as one that nobody has explained. */
        const KubeReply reply = {
                .code = status->code >= 400 ? status->code : 500,
                .body = "",
                .retry_after_usec = status->retry_after_usec,
        };

        kube_status_error(reply.code, status->message, strlen(status->message), &error);
        watch->verdict_reply = reply;
        watch_decide(watch,
                     watch_plan_error_event(&watch->plan, reply.code,
                                            kube_is_retriable(&reply, &error)),
                     error.kind, error_message(&error));
}

static int watch_list_ended(KubeWatch *watch) {
        watch->guard = sd_event_source_disable_unref(watch->guard);
        watch->has_bookmarks = !watch->lacks_bookmarks;
        return watch_handle(watch, WATCH_ON_LISTED, NULL, NULL);
}

static void watch_expect_bookmarks(KubeWatch *watch, bool has_bookmarks) {
        watch->has_bookmarks = has_bookmarks;
        watch->lacks_bookmarks = !has_bookmarks;
}

/* While a list is streamed its objects come in any order, but if it breaks nobody goes on from there. */
static int watch_take_event(KubeWatch *watch, const WatchEvent *event) {
        int r;

        if (event->type == WATCH_EVENT_ERROR) {
                watch_take_error(watch, &event->status);
                return 0;
        }

        r = set_text(&watch->resource_version, event->object.resource_version);
        if (r < 0)
                return r;

        if (watch->plan.step == WATCH_STREAMING && event->is_list_end)
                return watch_list_ended(watch);

        if (watch->plan.step == WATCH_WATCHING) {
                watch->has_worked = true;
                watch->doubt_usec = 0;
                if (event->type == WATCH_EVENT_BOOKMARK)
                        watch_expect_bookmarks(watch, true);
                r = watch_set_state(watch, KUBE_WATCH_SYNCED, NULL);
                if (r < 0 || watch->is_closed)
                        return r;
        }

        return watch_tell_event(watch, event);
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
                if (r < 0 || watch->is_closed || watch->has_verdict)
                        return r;
        }

        return r < 0 ? watch_decide_garbage(watch, r, &error) : 0;
}

/* The stream has to end when the watch is closed, has a verdict or has failed. */
static int leave_stream(KubeWatch *watch, int r) {
        bool is_over = r < 0 || watch->is_closed || watch->has_verdict;

        if (r < 0)
                watch->failure = r;
        watch_unref(watch);
        return is_over ? -ECANCELED : 0;
}

int watch_on_data(const char *data, size_t size, void *userdata) {
        KubeWatch *watch = watch_ref(userdata);

        return leave_stream(watch, watch_take_piece(watch, (Slice){ .data = data, .size = size }));
}

/* That the server takes the request says that nothing was missed, unless an event says otherwise. */
int watch_on_accepted(void *userdata) {
        KubeWatch *watch = watch_ref(userdata);
        int r;

        watch->is_accepted = true;
        if (watch->plan.step == WATCH_STREAMING)
                return leave_stream(watch, watch_guard_list_end(watch));

        watch->guard = sd_event_source_disable_unref(watch->guard);
        r = watch_set_state(watch, KUBE_WATCH_SYNCED, NULL);
        return leave_stream(watch, r);
}

static int watch_refused(KubeWatch *watch, const KubeReply *reply, const Error *error) {
        bool is_retriable = is_success(reply) || kube_is_retriable(reply, error);

        return watch_handle(watch, watch_plan_refusal(&watch->plan, reply->code, is_retriable),
                            reply, error);
}

static int watch_judged(KubeWatch *watch) {
        cleanup(error_done) Error error = watch->verdict_error;

        watch->has_verdict = false;
        watch->verdict_error = ERROR_INIT;
        return watch_handle(watch, watch->verdict, &watch->verdict_reply, &error);
}

static int watch_fell_silent(KubeWatch *watch, const KubeReply *reply, const Error *error) {
        cleanup(error_done) Error silence = ERROR_INIT;

        watch_expect_bookmarks(watch, false);
        (void) error_set(&silence, ERROR_TIMEOUT, "GET %s: nothing came since it broke",
                         watch->resource);
        return watch_handle(watch, WATCH_ON_SILENCE, reply, error ?: &silence);
}

/* Where a watch breaks, another server, or another store, may take its place. */
static void watch_note_break(KubeWatch *watch, uint64_t now_usec) {
        if (watch->plan.step == WATCH_WATCHING && watch->doubt_usec == 0 &&
            now_usec - watch->began_usec + EARLY_USEC < watch->asked_usec)
                watch->doubt_usec = now_usec;
}

static bool watch_is_in_doubt(const KubeWatch *watch, uint64_t now_usec) {
        return watch->plan.step == WATCH_WATCHING && watch->doubt_usec > 0 &&
               now_usec - watch->doubt_usec >= DOUBT_USEC;
}

static int watch_ended(KubeWatch *watch, uint64_t lasted_usec) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) error_set(&error, ERROR_UNAVAILABLE, "GET %s: the server ends it at once",
                         watch->resource);
        return watch_handle(watch, lasted_usec < EARLY_USEC ? WATCH_ON_ENDED_EARLY : WATCH_ON_ENDED,
                            NULL, &error);
}

static int watch_stream_ended(KubeWatch *watch, const KubeReply *reply, const Error *error) {
        bool is_good = !error && !watch->has_verdict;
        bool is_late = error && error->kind == ERROR_TIMEOUT;
        uint64_t now_usec;
        int r;

        r = sd_event_now(watch->event, CLOCK_MONOTONIC, &now_usec);
        if (r < 0)
                return r;

        if (watch->plan.step == WATCH_WATCHING && now_usec - watch->began_usec >= WORKING_USEC &&
            (is_good || watch->has_worked))
                watch_plan_forgive(&watch->plan);

        watch_note_break(watch, now_usec);
        if (watch->has_verdict)
                return watch_judged(watch);
        if (is_success(reply) && (is_late || watch_is_in_doubt(watch, now_usec)))
                return watch_fell_silent(watch, reply, error);
        if (!error)
                return watch_ended(watch, now_usec - watch->began_usec);

        return watch_refused(watch, reply, error);
}

int watch_on_stream_ended(const KubeReply *reply, const Error *error, void *userdata) {
        KubeWatch *watch = watch_ref(userdata);
        int r = watch->failure;

        watch->call = kube_call_unref(watch->call);
        watch->guard = sd_event_source_disable_unref(watch->guard);
        frames_done(&watch->frames);
        if (r >= 0)
                r = watch_stream_ended(watch, reply, error);
        watch_unref(watch);
        return r;
}

static int watch_tell_page(KubeWatch *watch, const WatchList *list, Error *reterr) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < list->n_items && !watch->is_closed; i++) {
                cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;

                r = watch_list_item(list, i, &event, reterr);
                if (r >= 0)
                        r = watch_tell_event(watch, &event);
        }

        return r;
}

/* A server that gives the same page again would be asked for ever. */
static int watch_turn_page(KubeWatch *watch, const WatchList *list, Error *reterr) {
        int r;

        if (!list->next[0]) {
                free(watch->next);
                watch->next = NULL;
                r = set_text(&watch->resource_version, list->version);
                return r < 0 ? r : watch_handle(watch, WATCH_ON_LISTED, NULL, NULL);
        }

        if (watch->next && strcmp(watch->next, list->next) == 0)
                return error_set(reterr, ERROR_INVALID, "a page of the list follows itself");

        r = set_text(&watch->next, list->next);
        return r < 0 ? r : watch_handle(watch, WATCH_ON_PAGE, NULL, NULL);
}

static int watch_read_page(KubeWatch *watch, const KubeReply *reply, Error *reterr) {
        cleanup(watch_list_done) WatchList list = WATCH_LIST_INIT;
        int r;

        r = watch_list_read(&watch->reader, (Slice){ .data = reply->body, .size = reply->size },
                            &list, reterr);
        if (r < 0)
                return r;

        r = watch_tell_page(watch, &list, reterr);
        if (r < 0 || watch->is_closed)
                return r;

        return watch_turn_page(watch, &list, reterr);
}

static int watch_take_page(KubeWatch *watch, const KubeReply *reply) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(error_done) Error told = ERROR_INIT;
        int r;

        r = watch_read_page(watch, reply, &error);
        if (r >= 0 || error.kind == ERROR_NONE)
                return r;

        (void) error_set(&told, error.kind, "GET %s: %s", watch->resource, error_message(&error));
        return watch_handle(watch, WATCH_ON_GARBAGE, NULL, &told);
}

/* 500, 50, 5, 1. */
static bool has_shrunk_page(KubeWatch *watch, const KubeReply *reply, const Error *error) {
        if (error->kind != ERROR_INVALID || !is_success(reply) || watch->page_size <= 1)
                return false;

        watch->page_size = watch->page_size >= 10 ? watch->page_size / 10 : 1;
        return true;
}

int watch_on_page(const KubeReply *reply, const Error *error, void *userdata) {
        KubeWatch *watch = watch_ref(userdata);
        int r;

        watch->call = kube_call_unref(watch->call);
        if (!error)
                r = watch_take_page(watch, reply);
        else if (has_shrunk_page(watch, reply, error))
                r = watch_ask_page(watch);
        else
                r = watch_refused(watch, reply, error);
        watch_unref(watch);
        return r;
}
