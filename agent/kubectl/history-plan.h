/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The template before, for kubectl rollout history and kubectl rollout undo
 *
 * A Deployment's revisions are the templates of its ReplicaSets. An update in place changes the template of
 * the one that has the pods, so another one without pods has to keep what was there before. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>

#include "agent/kubectl/takeover-plan.h"

/* Makes a ReplicaSet without pods as the Deployment's controller would have left it, with the images before the
 * update or with those after it, and the revision of the ReplicaSet that has the pods. It has the same name
 * whenever it is made for the same record. The caller owns *ret; NULL: the Deployment keeps no history. */
int history_make(const RolloutView *view, json_object *record, bool is_before,
                 json_object *replica_set, json_object **ret);
