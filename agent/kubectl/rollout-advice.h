/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sentences about an update in place, on stderr, and the commands that lead on
 *
 * Each names the workload. A command stands on a line of its own, to be copied.
 */

#include <json-c/json_types.h>

#include "agent/kubectl/rollout-plan.h"
#include "agent/kubectl/rollout-watch.h"

/* "deployment.apps/web: REASON" */
void rollout_explain(const RolloutWatch *watch, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/* A command for this workload. The word may be NULL. */
void rollout_offer(const RolloutWatch *watch, const char *command, const char *word);
/* The command with each of the images. */
void rollout_offer_images(const RolloutWatch *watch, json_object *images, const char *command);
/* Prints the commands that go on with an open update, or back. */
void rollout_offer_ways(const RolloutWatch *watch, json_object *record);
/* The same where the answer is missing to the write that begins it, or turns it. */
void rollout_offer_unsure(const RolloutWatch *watch, json_object *record);

/* Warns a user who would replace the pods with the next manifest. */
void rollout_explain_manifest(const RolloutWatch *watch, json_object *record);
/* Says what the update will do otherwise than the flags or the strategy let one think. */
void rollout_explain_limits(const RolloutWatch *watch, const RolloutLimits *limits);
void rollout_explain_init_containers(const RolloutWatch *watch, json_object *record);
