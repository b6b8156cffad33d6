/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waiting while pods restart
 *
 * What takes longer than five seconds is said, and again every 30, also off a terminal; after ten minutes without progress
 * it ends.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/kubectl/restart-plan.h"
#include "agent/kubectl/session.h"
#include "agent/kubectl/takeover-plan.h"

typedef struct RestartAnnouncer {
        int64_t since_sec; /* 0: it has not begun */
        int64_t said_sec;
        int64_t grace_sec; /* time that containers may take to stop */
} RestartAnnouncer;

/* True: it has lasted too long. why: NULL: nothing is awaited. */
bool restart_announce(RestartAnnouncer *announcer, const char *pod, const char *why);

typedef struct RestartWait {
        Session *session;
        RolloutView *view;  /* view with pods and budgets; the workload may be NULL */
        const char *labels; /* selector of the workload's pods */
        int64_t max_unavailable;
} RestartWait;

/* Until this pod may be unavailable. */
int restart_wait_turn(const RestartWait *wait, json_object *pod, Error *reterr);

/* Until these containers of the pod were replaced and it is as ready as before, or has failed; a pod that is gone needs no
 * waiting. *ret_why: of a failure, owned by the caller. */
int restart_wait_pod(const RestartWait *wait, json_object *before, json_object *containers,
                     bool was_ready, RestartEnd *ret_end, char **ret_why, Error *reterr);
