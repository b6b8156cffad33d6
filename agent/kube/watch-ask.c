/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/kube/watch-internal.h"

#define USEC_PER_SEC ((uint64_t) 1000000)

#define STREAM_ACCEPT_PROTOBUF KUBE_PROTOBUF ";stream=watch"

/* Of a page in memory. One that is larger is asked for again with fewer objects. */
#define PAGE_BYTES_MAX ((size_t) 8 << 20)
#define PAGE_TIMEOUT_USEC (60 * USEC_PER_SEC)

/* An object in its event is a little longer than it is alone. */
#define FRAME_SLACK ((size_t) 4 << 10)

/* Servers that do not know of streamed lists begin to watch, and never say where the list ends. */
#define LIST_END_USEC (10 * USEC_PER_SEC)

/* The server says at once whether it takes the request, unless it is very busy. */
#define ACCEPT_USEC (60 * USEC_PER_SEC)

/*
 * How a stream that is dead or deaf is told from one on which nothing happens
 *
 * kube-apiserver sends a bookmark after a minute, and each minute again, if its store has a newer
 * version than the one that the watch began from; mostly it has. So two of them must have been lost
 * when nothing came for 150 s, and the watch can be a long one, of 5 to 10 minutes. From a server that
 * sends none, nobody knows what to expect but the end of the watch, which then is after 120 to 150 s,
 * so that it is as soon missed. Either is found out by trying: where a list was streamed there should
 * be bookmarks, and if then there is silence we believe that there are none, until we see one.
 *
 * After a silence the agent lists: a server whose store was restored from a backup takes a watch from
 * a version that is not there any more, and has nothing to tell. Without bookmarks that can only have
 * happened where a watch broke, so there the next ones have as much time to tell anything. Where all is
 * well that costs one list per change of the store's silence, not one per silence.
 */
#define SILENCE_USEC (150 * USEC_PER_SEC)
#define LONG_MIN_SEC 300u
#define LONG_SPREAD_SEC 301u
#define SHORT_MIN_SEC 120u
#define SHORT_SPREAD_SEC 31u
#define END_SLACK_USEC (15 * USEC_PER_SEC)

static int on_guard(sd_event_source *source, uint64_t usec, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        KubeWatch *watch = watch_ref(userdata);
        int r;

        watch->guard = sd_event_source_disable_unref(watch->guard);
        watch->call = kube_call_unref(watch->call);
        (void) error_set(&error, ERROR_TIMEOUT, "GET %s: the server does not answer",
                         watch->resource);
        r = watch_handle(watch, watch->is_accepted ? WATCH_ON_SILENCE : WATCH_ON_REFUSED, NULL,
                         &error);
        watch_unref(watch);
        return r;
}

static int watch_set_guard(KubeWatch *watch, uint64_t usec) {
        watch->guard = sd_event_source_disable_unref(watch->guard);
        return watch_set_timer(watch, usec, on_guard, &watch->guard);
}

int watch_guard_list_end(KubeWatch *watch) {
        return watch_set_guard(watch, LIST_END_USEC);
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

/* Whoever counts may free the watch. */
static void count_restart(KubeWatch *watch) {
        if (watch->has_begun && watch->options.on_restart)
                watch->options.on_restart(watch->options.userdata);
        watch->has_begun = true;
}

/* The same goes for whoever wants to know of lists. */
static void begin_list(KubeWatch *watch) {
        bool is_again = watch->has_begun;

        count_restart(watch);
        if (is_again && !watch->is_closed && watch->options.on_list)
                watch->options.on_list(watch->options.userdata);
        watch->doubt_usec = 0;
        if (!watch->is_closed)
                watch_keys_unmark(&watch->keys);
}

static int call_stream(KubeWatch *watch, const char *query, unsigned seconds,
                       uint64_t silence_usec) {
        KubeRequest request = {
                .verb = "watch",
                .accept = watch->options.is_protobuf ? STREAM_ACCEPT_PROTOBUF : KUBE_JSON,
                .timeout_usec = seconds * USEC_PER_SEC + END_SLACK_USEC,
                .silence_usec = silence_usec,
                .on_accepted = watch_on_accepted,
                .on_data = watch_on_data,
                .on_replied = watch_on_stream_ended,
        };
        int r;

        frames_done(&watch->frames);
        watch->frames = FRAMES_INIT(watch->options.is_protobuf ? FRAME_LENGTH : FRAME_LINE,
                                    watch->options.object_max + FRAME_SLACK);
        watch->asked_usec = seconds * USEC_PER_SEC;
        watch->is_accepted = false;
        watch->has_worked = false;

        r = watch_set_guard(watch, ACCEPT_USEC);
        if (r < 0)
                return r;

        return watch_call(watch, &request, query);
}

static unsigned long_seconds(void) {
        return LONG_MIN_SEC + watch_random() % LONG_SPREAD_SEC;
}

static unsigned short_seconds(void) {
        return SHORT_MIN_SEC + watch_random() % SHORT_SPREAD_SEC;
}

static const char *selector_of(const KubeWatch *watch) {
        return watch->selector ?: "";
}

static const char *separator_of(const KubeWatch *watch) {
        return watch->selector ? "&" : "";
}

/* Without a version: the newest there is, since an older list could bring back what is gone. */
int watch_ask_stream(KubeWatch *watch) {
        cleanup(free_p) char *query = NULL;
        unsigned seconds = watch->lacks_bookmarks ? short_seconds() : long_seconds();

        begin_list(watch);
        if (watch->is_closed)
                return 0;

        if (asprintf(&query,
                     "%s%swatch=true&allowWatchBookmarks=true&sendInitialEvents=true"
                     "&resourceVersionMatch=NotOlderThan&timeoutSeconds=%u",
                     selector_of(watch), separator_of(watch), seconds) < 0) {
                query = NULL;
                return -ENOMEM;
        }

        return call_stream(watch, query, seconds, watch->lacks_bookmarks ? 0 : SILENCE_USEC);
}

int watch_ask_watch(KubeWatch *watch) {
        cleanup(free_p) char *query = NULL;
        cleanup(free_p) char *version = NULL;
        unsigned seconds = watch->has_bookmarks ? long_seconds() : short_seconds();
        int r;

        count_restart(watch);
        if (watch->is_closed)
                return 0;

        r = kube_path_escape(watch->resource_version, &version);
        if (r < 0)
                return r;

        if (asprintf(&query,
                     "%s%swatch=true&allowWatchBookmarks=true&resourceVersion=%s"
                     "&timeoutSeconds=%u",
                     selector_of(watch), separator_of(watch), version, seconds) < 0) {
                query = NULL;
                return -ENOMEM;
        }

        return call_stream(watch, query, seconds, watch->has_bookmarks ? SILENCE_USEC : 0);
}

static int call_page(KubeWatch *watch, const char *query) {
        size_t object_max = watch->options.object_max + FRAME_SLACK;
        KubeRequest request = {
                .verb = "list",
                .accept = watch->options.is_protobuf ? KUBE_PROTOBUF : KUBE_JSON,
                .reply_max = object_max > PAGE_BYTES_MAX ? object_max : PAGE_BYTES_MAX,
                .timeout_usec = PAGE_TIMEOUT_USEC,
                .on_replied = watch_on_page,
        };

        return watch_call(watch, &request, query);
}

int watch_ask_page(KubeWatch *watch) {
        cleanup(free_p) char *query = NULL;
        cleanup(free_p) char *next = NULL;
        int r;

        if (watch->next) {
                r = kube_path_escape(watch->next, &next);
                if (r < 0)
                        return r;
        } else {
                begin_list(watch);
                if (watch->is_closed)
                        return 0;
        }

        if (asprintf(&query, "%s%slimit=%u%s%s", selector_of(watch), separator_of(watch),
                     watch->page_size, next ? "&continue=" : "", next ?: "") < 0) {
                query = NULL;
                return -ENOMEM;
        }

        return call_page(watch, query);
}
