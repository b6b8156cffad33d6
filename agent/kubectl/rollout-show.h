/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Progress of an update in place, for a person
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
        json_object *pods;    /* see RolloutView.noted */
        int64_t progress_sec; /* when a pod's phase changed last, by the monotonic clock */
        int64_t said_sec;     /* when it was said what is awaited, by the same clock */
        int64_t drawn_sec;
        size_t n_drawn; /* lines */
        bool is_quiet;  /* stdout is for a document at the end; what takes long is said on stderr */
} RolloutShow;

/* Pods that the update is about. */
typedef struct RolloutSum {
        size_t n_pods, n_updated;
} RolloutSum;

RolloutSum rollout_count(const RolloutView *view, json_object *record);

int rollout_show_init(RolloutShow *ret);

/* Since a pod's phase changed. */
int64_t rollout_show_still_sec(const RolloutShow *show);

/* awaited: NULL: nothing. */
int rollout_show(RolloutShow *show, const RolloutView *view, json_object *record,
                 const char *awaited);

/* The same when nothing can be seen of the pods. */
int rollout_show_away(RolloutShow *show, const char *awaited);

/* The table for the last time, unless the record is NULL: what is printed next stands below. */
int rollout_show_end(RolloutShow *show, const RolloutView *view, json_object *record);

void rollout_show_done(RolloutShow *show);
