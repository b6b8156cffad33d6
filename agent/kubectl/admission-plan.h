/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Admission that changes the images of new pods, or more than the images of others
 *
 * A webhook or a policy that matches the creation of pods alone, such as that of a registry mirror, would be bypassed by
 * an update in place, which writes the images of pods that are there. It shows in pods that have another name of the
 * image in the template that they were made of. Pure.
 */

#include <json-c/json_types.h>

#include "agent/base/error.h"
#include "agent/kubectl/takeover-plan.h"

/* Refused, as ERROR_UNSUPPORTED, if a pod that the update is about has such an image in a container that the update
 * changes. */
int admission_check(const RolloutView *view, json_object *record, Error *reterr);

/* Copies a refusal of a write. If admission has changed more of a pod than its image, as the plugin AlwaysPullImages does with
 * pods that are older than it, the copy says what to do, as ERROR_UNSUPPORTED. */
int admission_copy_refusal(const Error *refusal, Error *reterr);
