/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * "set image" and "rollout" of a workload that OpenKruise updates in place
 *
 * Writes its template and follows what the controller does with the pods.
 */

#include <json-c/json_types.h>

#include "agent/fleet/flags.h"
#include "agent/fleet/rollout-watch.h"

/* images: {container: image}; NULL: only follows. Returns an ExitStatus, or a negative errno. */
int kruise_run(RolloutWatch *watch, const Flags *flags, json_object *images);
