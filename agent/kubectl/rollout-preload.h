/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Having the images of an update pulled before it begins
 *
 * On the nodes of the pods that it will change, as far as these have an agent that pulls images, with the pull
 * secrets of the template.
 */

#include <stdbool.h>

#include "agent/kubectl/rollout-census.h"
#include "agent/kubectl/rollout-watch.h"

/* A node without an agent, or without an agent that answers, and a user without the right are no failure unless
 * is_required. is_shown: progress, on stdout. *ret_is_done: time has passed. */
int rollout_preload(const RolloutWatch *watch, json_object *record, const Census *census,
                    bool is_required, bool is_shown, bool *ret_is_done, Error *reterr);
