/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a person sees of an update in place
 *
 * On a terminal, a table of the pods that is drawn again as they change; elsewhere, a line for each change,
 * and one for what takes long.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/kubectl/takeover-plan.h"

#define ROLLOUT_PROGRESS_SEC 600 /* as a Deployment's progressDeadlineSeconds */

typedef struct RolloutShow {
        json_object *pods; /* {pod: {"phase", "since", "restarts"}} as it was shown last; the last
                                 for updated pods alone, see RolloutView.noted */
        char *awaited;     /* what was printed last */
        int64_t progress_sec; /* when something changed last */
        int64_t drawn_sec;
        size_t n_drawn; /* lines */
        bool is_quiet;  /* stdout is for a document at the end; what takes long is said on stderr */
} RolloutShow;

int rollout_show_init(RolloutShow *ret, int64_t now_sec);

/* awaited: NULL: nothing. */
int rollout_show(RolloutShow *show, const RolloutView *view, json_object *record,
                 const char *awaited);

/* The table for the last time, unless the record is NULL: what is printed next stands below. */
int rollout_show_end(RolloutShow *show, const RolloutView *view, json_object *record);

void rollout_show_done(RolloutShow *show);
