/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Having the images of an update pulled before it begins
 *
 * On the nodes of the pods that it will change, as far as these have an agent that pulls images, with the pull
 * secrets of the template, and those that admission has added to the pods.
 */

#include <stdbool.h>

#include "agent/kubectl/rollout-census.h"
#include "agent/kubectl/rollout-watch.h"

typedef struct RolloutPreload {
        bool is_required; /* a node without an agent that answers, and a user without the right are failures */
        bool keeps_apart;    /* as in PreloadRequest */
        bool is_shown;       /* progress, on stdout */
        const char *without; /* words of the command that updates without it */
        /* The images were found by it: the preload ends when the workload has another one. */
        json_object *template;
} RolloutPreload;

typedef struct RolloutPreloaded {
        bool is_done;       /* time has passed */
        bool is_everywhere; /* all nodes of these pods have pulled the images */
        bool is_outdated;   /* another client has changed the template before the end */
} RolloutPreloaded;

int rollout_preload(const RolloutWatch *watch, json_object *record, const Census *census,
                    const RolloutPreload *preload, RolloutPreloaded *ret, Error *reterr);
