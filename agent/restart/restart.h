/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Restarts containers of a pod for a local caller
 *
 * Finds them in the runtime, stops them beside each other, sidecars after the others and in reverse
 * order, and, on request, waits until each runs again. It needs no API server; where there is
 * one, its pods show which are sidecars, whether a container comes back, and when it is ready. While
 * the server is away, what was known last counts.
 */

#include "agent/pod/pods.h"
#include "agent/pod/stops.h"
#include "cri/runtimes.h"

typedef struct Restart Restart;

typedef enum RestartPhase {
        RESTART_WAITING,  /* its stop has not begun; the message is what it waits for */
        RESTART_STOPPING, /* hook or stop */
        RESTART_STOPPED,  /* it has ended; final unless its return is waited for */
        RESTART_RUNNING, /* another container of that name runs, and is ready as far as known; final */
        RESTART_FAILED, /* final; see the message */
        _RESTART_PHASE_MAX,
} RestartPhase;

/* Borrowed during the call. */
typedef struct RestartNews {
        const char *namespace;
        const char *pod;
        const char *container;
        RestartPhase phase;
        bool is_final;
        const char *old_id;  /* the runtime's; "" if not known */
        const char *new_id;  /* of the one that runs instead; "" before */
        const char *message; /* one line, "" if there is nothing to report */
} RestartNews;

typedef struct RestartOptions {
        sd_event *event;
        const Runtimes *runtimes;
        Stops *stops;
        Pods *pods;            /* NULL: there is no API server */
        const char *owner;     /* "request/ID"; copied */
        const char *namespace; /* "": the pod's name has to be the only one on the node */
        const char *pod;
        const char *container; /* "": all that run, but for init and debug containers */
        const char *reason;    /* of who asks, for the event; "" if none is given */
        int64_t grace_sec;     /* or STOP_GRACE_OF_POD */
        bool must_wait;        /* until they run again, */
        int64_t wait_sec;      /* each for so long at most; 0: ten minutes */

        int (*on_news)(const RestartNews *news, void *userdata);
        /* Once, and last. error: nothing was done at all: NOT_FOUND, INVALID (ambiguous),
         * UNAVAILABLE. The restart may be freed here. */
        int (*on_end)(const Error *error, void *userdata);
        void *userdata;
} RestartOptions;

/* Everything is copied. No callback runs from within. */
int restart_new(const RestartOptions *options, Restart **ret);

/* What has begun goes on, what has not is dropped; no callback. Returns NULL. */
Restart *restart_free(Restart *restart);
