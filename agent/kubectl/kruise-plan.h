/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An update of a workload of OpenKruise, whose controller updates the pods in place by itself
 *
 * The template gets the images, and the controller does the rest as the workload's own strategy says: so there
 * is nothing to take over, and nothing to give back. With the default strategy it replaces pods, which is
 * refused here. Pure; see OpenKruise's API, apps.kruise.io.
 */

#include <json-c/json_types.h>

#include "agent/base/error.h"
#include "agent/kubectl/rollout-plan.h"

/* Checks that the controller will update in place, and makes the merge patch of the template, which the
 * caller owns; NULL: it has these images. */
int kruise_begin(const RolloutView *view, const RolloutRequest *request, json_object **ret,
                 Error *reterr);

/* The record by which a census judges the pods: {container: image} that they should have; NULL: as the template
 * has them. Owned by the caller; NULL: no memory. */
json_object *kruise_record(const RolloutView *view, json_object *images);

/* ROLLOUT_WAIT, ROLLOUT_STOP or ROLLOUT_DONE: there is nothing to write. */
int kruise_plan(const RolloutView *view, json_object *record, const Census *census,
                RolloutStep *ret);
