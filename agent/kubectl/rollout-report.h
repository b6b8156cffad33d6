/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Document that -o json and -o yaml print when an update in place has ended
 *
 * The workload, each image before and after this run, and each pod. Pure.
 */

#include <json-c/json_types.h>

#include "agent/kubectl/rollout-census.h"

/* outcome: "updated". The reason says why it ended before all was done; NULL: none is known. The caller owns the result.
 * NULL: no memory. */
json_object *rollout_report(const RolloutView *view, json_object *record, const Census *census,
                            const char *outcome, const char *reason);
