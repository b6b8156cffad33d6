/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What -o json and -o yaml print of an update in place, when it has ended
 *
 * The workload, each image before and after this run, and each pod. Pure.
 */

#include <json-c/json_types.h>

#include "agent/kubectl/takeover-plan.h"

/* outcome: "updated". The caller owns it. NULL: no memory. */
json_object *rollout_report(const RolloutView *view, json_object *record, const char *outcome);
