/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Restarts containers of a pod for a local caller
 *
 * Finds the containers in the runtime, stops them in parallel, sidecars after the others and in reverse
 * order, and, on request, waits until each runs again. It needs no API server; if there is one, its pods
 * show which containers are sidecars, which come back, and when they are ready. While the server is
 * away, the last known state counts.
 */

#include "agent/pod/pods.h"
#include "agent/pod/stops.h"
#include "cri/runtimes.h"

typedef struct Restart Restart;

typedef enum RestartPhase {
        RESTART_WAITING,  /* the stop has not begun; the message says why */
        RESTART_STOPPING, /* hook or stop */
        RESTART_STOPPED, /* the container has ended; final unless the caller waits for its return */
        RESTART_RUNNING, /* a successor runs and, as far as is known, is ready; final */
        RESTART_FAILED,  /* final; see the message */
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
        const char *new_id;  /* ID of the successor; "" before it runs */
        const char *message; /* a line, "" if there is nothing to report */
} RestartNews;

typedef struct RestartOptions {
        sd_event *event;
        const Runtimes *runtimes;
        Stops *stops;
        Pods *pods;            /* NULL: there is no API server */
        const char *owner;     /* "request/ID"; copied */
        const char *namespace; /* "": the pod's name has to be the only one on the node */
        const char *pod;
        const char *container; /* "": all that run, except init and debug containers */
        const char *reason;    /* the caller's reason, for the event; or "" */
        int64_t grace_sec;     /* grace period in seconds, or STOP_GRACE_OF_POD */
        bool must_wait;        /* the call waits until the containers run again */
        int64_t wait_sec;      /* longest wait for each container; 0: ten minutes */

        int (*on_news)(const RestartNews *news, void *userdata);
        /* Runs once, and last. error: nothing was done: NOT_FOUND, INVALID (ambiguous),
         * UNAVAILABLE. The restart may be freed here. */
        int (*on_end)(const Error *error, void *userdata);
        void *userdata;
} RestartOptions;

/* Everything is copied. No callback runs from within. */
int restart_new(const RestartOptions *options, Restart **ret);

/* Drops stops that have not begun; the others go on. No callback runs any more. Returns NULL. */
Restart *restart_free(Restart *restart);
