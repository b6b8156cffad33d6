/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All pods of an update in place at one time, and how many are how far
 *
 * Taken once per turn: what is written next, what a person sees, and the document at the end follow from the same. Pure.
 */

#include <json-c/json_types.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/kubectl/rollout-pod-plan.h"

typedef struct Census {
        char *aim;      /* see rollout_aim(); owned */
        PodState *pods; /* in the order of the view */
        size_t n_pods;
        size_t n_concerned; /* pods that the update is about */
        size_t n_by_phase[_ROLLOUT_PHASE_MAX];
        int64_t n_members; /* pods that the workload is to have, also those below the partition */
        int64_t n_unavailable;
        int64_t n_in_flight; /* without those that were given up, as above */
        int64_t n_given_up;
        int64_t n_spoiled; /* pods that were given up because they have failed */
        int64_t n_stuck;   /* pods that were given up because they do not end: no members */
        int64_t n_barred;  /* pods among them in whose place the workload is to have another one */
        int64_t n_foreign; /* pods that their controller replaces in the end */
        int64_t n_revised; /* pods that name the revision of the template */
} Census;

#define CENSUS_INIT ((Census){ .pods = NULL })

/* Replaces *census, from which it takes over the states of pods that are the same still. */
int census_take(const RolloutView *view, json_object *record, Census *census);
/* The first pod in that phase; NULL: none. */
const PodState *census_find(const Census *census, RolloutPhase phase);
/* Why this pod has failed, or what is awaited of it; NULL: nothing, or there is no such pod. */
const char *census_reason(const Census *census, const char *pod);
void census_done(Census *census);
