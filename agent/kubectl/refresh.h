/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Resolving the tags of a workload again, on the nodes of its pods
 *
 * Each of these nodes pulls the images with the policy Always, by a request as preload makes it, and its agent reports what
 * the tag is there now. The workload and its pods are only read.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/kubectl/rollout-watch.h"

/* *ret: {container: image}, what is to be set; empty: all is up to date. *ret_before: the images of these containers before, with
 * their digests, as far as they are known. Refused if a node cannot pull, or does not answer, or nodes disagree. partition: see
 * refresh_plan(); is_shown: progress, on stdout. The caller owns both. */
int refresh_resolve(const RolloutWatch *watch, int64_t partition, bool is_shown, json_object **ret,
                    json_object **ret_before, Error *reterr);
