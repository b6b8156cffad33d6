/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What OpenKruise's controller does for restart requests, where there is none
 *
 * It assigns requests to the node of their pod, makes the pod unready before a restart and ready after
 * it, and ends, unlabels and deletes requests. What is to be done is decided by
 * recreate_controller_plan().
 */

#include "agent/recreate/recreate-request.h"

/* What it decides; and what it does, if nothing is being written. */
int recreate_controller_decide(RecreateRequest *request, bool has_turn);
int recreate_controller_act(RecreateRequest *request, bool has_turn);

/* Its pod is, or may be, unready because of it, and that is still to be ended. */
bool recreate_controller_owes_gate(const RecreateRequest *request);

/* A request without a node, which the watch shows or that is gone. What is wrong with it is no
 * obstacle to others. */
int recreate_unassigned_show(Recreate *recreate, const KubeObject *object);
int recreate_unassigned_gone(Recreate *recreate, const char *uid);
/* A pod is there now. */
int recreate_unassigned_on_pod(Recreate *recreate, const Pod *pod);
int recreate_unassigned_kick(Recreate *recreate);
void recreate_unassigned_drop(Recreate *recreate);
