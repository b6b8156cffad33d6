/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watch plan
 *
 * Tables that decide the next request to the API server, and its time: no I/O, no clock, no memory. watch.c
 * feeds the plan with events and carries out the actions that it returns.
 *
 * A list is streamed if possible, as a watch that begins with all objects and says where they end: one
 * request for all, and no page has to fit into memory. A server that does not know streamed lists, or whose
 * etcd is too old for them, is not asked for them again.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"

typedef enum WatchStep {
        WATCH_RELISTING,  /* waits until it lists; also the start */
        WATCH_STREAMING,  /* lists, as the beginning of a watch */
        WATCH_PAGING,     /* lists, page by page */
        WATCH_WATCHING,   /* all objects are known, and changes are coming */
        WATCH_REWATCHING, /* waits, then watches from the last version */
        _WATCH_STEP_MAX,
} WatchStep;

typedef enum WatchPlanEvent {
        WATCH_ON_TIMER,        /* the waiting is over */
        WATCH_ON_PAGE,         /* more pages follow */
        WATCH_ON_LISTED,       /* the list is complete */
        WATCH_ON_UNSTREAMABLE, /* lists cannot be streamed here */
        WATCH_ON_ENDED,        /* the server ended the watch, as agreed */
        WATCH_ON_ENDED_EARLY,  /* the server ended it right after it began */
        WATCH_ON_SILENCE,      /* nothing came for so long that the connection must be dead */
        WATCH_ON_STALE,        /* the owner knows that the shown objects are outdated */
        WATCH_ON_GONE,         /* the version is too old */
        WATCH_ON_REFUSED,      /* the same request may work later */
        WATCH_ON_DENIED,       /* the same request will not work */
        WATCH_ON_GARBAGE,      /* the answer cannot be understood */
        _WATCH_PLAN_EVENT_MAX,
} WatchPlanEvent;

typedef enum WatchAction {
        WATCH_DO_NOTHING,
        WATCH_DO_STREAM,
        WATCH_DO_PAGE,  /* the first one, or the next */
        WATCH_DO_SYNC,  /* report the objects that are gone; the stream goes on */
        WATCH_DO_WATCH, /* watch from the last version */
        WATCH_DO_SYNC_AND_WATCH,
        WATCH_DO_WAIT, /* wait, for watch_plan_wait_usec() */
        _WATCH_ACTION_MAX,
} WatchAction;

typedef struct WatchPlan {
        WatchStep step;
        bool is_paged;                              /* permanent: streaming did not work */
        unsigned n_in_a_row[_WATCH_PLAN_EVENT_MAX]; /* failures since a watch worked */
} WatchPlan;

/* Takes one step and returns the action for it. An unexpected event changes nothing. */
WatchAction watch_plan_step(WatchPlan *plan, WatchPlanEvent event);

/* Classifies a refusal with a status of HTTP, or 0 without one. */
WatchPlanEvent watch_plan_refusal(const WatchPlan *plan, int code, bool is_retriable);

/* The same for an event of the type ERROR, which carries such a status. */
WatchPlanEvent watch_plan_error_event(const WatchPlan *plan, int code, bool is_retriable);

/* Forgets failures after a watch that worked. */
void watch_plan_forget_failures(WatchPlan *plan);

/* Whether the event happened for the first time, and often does: it need not be reported. */
bool watch_plan_is_harmless(const WatchPlan *plan, WatchPlanEvent event);

/* Returns the time for WATCH_DO_WAIT. kind is the refusal's, retry_usec the result of
 * kube_retry_usec() for the number in n_in_a_row, random any number. */
uint64_t watch_plan_wait_usec(const WatchPlan *plan, WatchPlanEvent event, ErrorKind kind,
                              uint64_t retry_usec, uint32_t random);
