/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of watch.h share: watch.c decides, watch-ask.c asks the server, watch-stream.c
 * takes its answers, watch-tell.c tells whoever wants to know
 */

#include <systemd/sd-event.h>

#include "agent/kube/frames.h"
#include "agent/kube/watch-keys.h"
#include "agent/kube/watch-message.h"
#include "agent/kube/watch-plan.h"
#include "agent/kube/watch.h"

/* In any callback the watch may be freed: whoever calls one holds a reference, and looks at
 * is_closed afterwards. */
struct KubeWatch {
        unsigned n_refs;
        bool is_closed;
        KubeWatchOptions options; /* its texts are those below */
        char *group;
        char *version;
        char *namespace;
        char *resource;
        char *selector;
        sd_event *event;

        KubeWatchState state;
        Error error;
        WatchPlan plan;
        WatchKeys keys;
        WatchReader reader;
        Frames frames;

        char *resource_version; /* from where to watch on; NULL before the first list */
        char *next;             /* the next page; NULL for the first one */
        unsigned page_size;
        bool has_bookmarks;   /* the server sends them from time to time */
        bool lacks_bookmarks; /* a silence has shown that it does not, for now */
        bool has_begun;

        KubeCall *call;
        sd_event_source *pause;
        sd_event_source *guard; /* the server has to do something before that */
        uint64_t began_usec;    /* the call */
        uint64_t asked_usec;    /* how long it was to last, if it is a watch */
        uint64_t doubt_usec;    /* when it broke, if nothing has come since; 0: not so */
        bool is_accepted;       /* the call */
        bool has_worked;        /* the watch has told something */

        /* The end of a stream that was decided inside of it, until it has ended. */
        bool has_verdict;
        WatchHappening verdict;
        KubeReply verdict_reply;
        Error verdict_error;
        int failure; /* negative: a local one */
};

KubeWatch *watch_ref(KubeWatch *watch);
KubeWatch *watch_unref(KubeWatch *watch);
uint32_t watch_random(void);
int watch_set_timer(KubeWatch *watch, uint64_t usec, sd_event_time_handler_t on_time,
                    sd_event_source **ret);

/* Goes on with the plan. reply and error may be NULL, and are about a refusal. */
int watch_handle(KubeWatch *watch, WatchHappening happening, const KubeReply *reply,
                 const Error *error);

/* error is NULL unless the state is KUBE_WATCH_TROUBLED. */
int watch_set_state(KubeWatch *watch, KubeWatchState state, const Error *error);

/* watch-ask.c */
int watch_ask_stream(KubeWatch *watch);
int watch_ask_page(KubeWatch *watch);
int watch_ask_watch(KubeWatch *watch);
/* From now on the server has some time until its streamed list has to end. */
int watch_guard_list_end(KubeWatch *watch);

/* watch-stream.c: what a request of these has for callbacks. */
int watch_on_accepted(void *userdata);
int watch_on_data(const char *data, size_t size, void *userdata);
int watch_on_stream_ended(const KubeReply *reply, const Error *error, void *userdata);
int watch_on_page(const KubeReply *reply, const Error *error, void *userdata);

/* watch-tell.c */
int watch_tell_event(KubeWatch *watch, const WatchEvent *event);
int watch_tell_rest_gone(KubeWatch *watch);
