/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waiting while pods restart
 *
 * What takes long is said, also off a terminal; after ten minutes without progress it ends.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/kubectl/announcer.h"
#include "agent/kubectl/restart-plan.h"
#include "agent/kubectl/session.h"
#include "agent/kubectl/takeover-plan.h"

typedef struct RestartWait {
        Session *session;
        RolloutView *view;  /* view with pods and budgets; the workload may be NULL */
        const char *labels; /* selector of the workload's pods */
        int64_t max_unavailable;
        /* Draws it, again and again; NULL: what takes long is printed. why: NULL: nothing is awaited. */
        void (*on_wait)(const char *pod, const char *why, void *userdata);
        void *userdata;
} RestartWait;

/* Shows what is awaited. True: it has lasted too long, the time that containers may take to stop included. why: NULL:
 * nothing is. */
bool restart_announce(const RestartWait *wait, Announcer *announcer, const char *pod,
                      const char *why, int64_t grace_sec);

/* The same while a watch has not shown all that there is, for this error: 1: it has lasted too long, 0, or -ENOMEM. The
 * caller owns *ret_why. */
int restart_announce_away(const RestartWait *wait, Announcer *announcer, const char *pod,
                          const Error *error, char **ret_why);

/* Until this pod may be unavailable, or *ret_may_begin is false: a pod of the workload goes, which may have been scaled. */
int restart_wait_turn(const RestartWait *wait, json_object *pod, bool *ret_may_begin,
                      Error *reterr);

/* Until these containers of the pod were replaced and it is as ready as before, or has failed; a pod that is gone needs no
 * waiting. *ret_why: of a failure, owned by the caller. */
int restart_wait_pod(const RestartWait *wait, json_object *before, json_object *containers,
                     bool was_ready, RestartEnd *ret_end, char **ret_why, Error *reterr);
