/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waiting while pods restart
 *
 * Long waits are printed, also off a terminal. A wait ends after ten minutes without progress.
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
        /* Draws the state, again and again; NULL: long waits are printed. why: NULL: there is
         * nothing to wait for. */
        void (*on_wait)(const char *pod, const char *why, void *userdata);
        void *userdata;
} RestartWait;

/* Shows the reason to wait; NULL: there is none. Returns whether it has lasted too long, with the
 * time that containers may take to stop. */
bool restart_announce(const RestartWait *wait, Announcer *announcer, const char *pod,
                      const char *why, int64_t grace_sec);

/* The same while a watch has not shown all that there is, for this error: 1: it has lasted too long, 0, or -ENOMEM. The
 * caller owns *ret_why. */
int restart_announce_away(const RestartWait *wait, Announcer *announcer, const char *pod,
                          const Error *error, char **ret_why);

/* Waits until this pod may be unavailable. *ret_may_begin: false if a pod of the workload goes, which may have been scaled. */
int restart_wait_turn(const RestartWait *wait, json_object *pod, bool *ret_may_begin,
                      Error *reterr);

/* Waits until these containers of the pod were replaced and it is as ready as before, or it has
 * failed or is gone. *ret_why: reason of a failure, owned by the caller. */
int restart_wait_pod(const RestartWait *wait, json_object *before, json_object *containers,
                     bool was_ready, RestartEnd *ret_end, char **ret_why, Error *reterr);
