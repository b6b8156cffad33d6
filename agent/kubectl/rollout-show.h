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
#include <stdint.h>

#include "agent/kubectl/announcer.h"
#include "agent/kubectl/pod-table.h"
#include "agent/kubectl/rollout-census.h"

typedef struct RolloutShow {
        json_object *pods;   /* see RolloutView.noted */
        Announcer announcer; /* begins anew when a pod's phase changes */
        int64_t drawn_sec;
        PodTable table;
        bool is_quiet; /* stdout is for a document at the end; what takes long is said on stderr */
} RolloutShow;

int rollout_show_init(RolloutShow *ret);

/* Since a pod's phase changed. */
int64_t rollout_show_still_sec(const RolloutShow *show);

/* awaited: NULL: nothing; pod: the name of the pod that it is about; NULL: none. */
int rollout_show(RolloutShow *show, int64_t now_sec, json_object *record, const Census *census,
                 const char *awaited, const char *pod);

/* The same when nothing can be seen of the pods. */
int rollout_show_away(RolloutShow *show, const char *awaited);

/* The table for the last time, unless the record is NULL: what is printed next stands below. */
int rollout_show_end(RolloutShow *show, int64_t now_sec, json_object *record, const Census *census);

void rollout_show_done(RolloutShow *show);
