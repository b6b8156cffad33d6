/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of a restart share
 */

#include "agent/pod/restart.h"
#include "agent/rpc/client.h"

/* One container. */
typedef struct RestartItem {
        Restart *restart;
        char *name;
        char *old_id;
        char *new_id;           /* NULL: not known yet */
        unsigned restart_count; /* of the old one */
        PodContainerKind kind;  /* MAIN if nobody knows */
        size_t index;           /* in the pod's spec, if that is known */
        bool comes_back;        /* as far as known */
        bool was_added;         /* its stop */
        char *stays_down;       /* why nothing starts it again; NULL: it comes back */
        Stop *stop;
        uint64_t deadline_usec; /* of its return; on the monotonic clock */
        bool is_unready;        /* it is there again, but not ready */

        /* What was told. */
        RestartPhase phase;
        bool is_final;
        char *message;
} RestartItem;

struct Restart {
        sd_event *event;
        const Runtimes *runtimes;
        Stops *stops;
        Pods *pods;
        char *owner;
        char *namespace;
        char *pod;
        char *container;
        char *reason;
        char *address; /* of the pod; NULL: not known */
        int64_t grace_sec;
        bool must_wait;
        int64_t wait_sec;
        int (*on_news)(const RestartNews *news, void *userdata);
        int (*on_end)(const Error *error, void *userdata);
        void *userdata;

        sd_event_source *begin;
        RpcCall *call; /* looks for the containers, and later whether they run again */

        char *uid; /* of the pod, as in the runtime */
        bool was_known;
        RestartItem *items;
        size_t n_items;
        size_t n_unfinished;

        PodsWatcher watcher;
        bool is_watching;
        sd_event_source *tick;
};

/* Tells, unless nothing else is to be said than the last time. */
int restart_tell(RestartItem *item, RestartPhase phase, bool is_final, const char *message);

/* Ends the restart if nothing is left to do, which may free it: the last statement of a
 * callback. */
int restart_settle(Restart *restart);

/* restart-return.c: waits until the container that has ended runs again. */
int restart_await(RestartItem *item);
void restart_stop_waiting(Restart *restart);
