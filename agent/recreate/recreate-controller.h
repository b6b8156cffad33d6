/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Acts as OpenKruise's controller for restart requests, if the cluster has none
 *
 * It assigns requests to the node of their pod, makes the pod unready before a restart and ready after
 * it, and ends, unlabels and deletes requests. recreate_controller_plan() decides which of these to do.
 */

#include "agent/recreate/recreate-request.h"

/* Decides, and later acts, if no write is pending. */
int recreate_controller_decide(RecreateRequest *request, bool has_turn);
int recreate_controller_act(RecreateRequest *request, bool has_turn);

/* The pod is or may be unready because of the request, which still has to make it ready. */
bool recreate_controller_owes_gate(const RecreateRequest *request);

/* Handle a request without a node that the watch shows, or removes. An invalid one does not affect
 * others. */
int recreate_unassigned_show(Recreate *recreate, const KubeObject *object);
int recreate_unassigned_gone(Recreate *recreate, const char *uid);
/* A pod was added. */
int recreate_unassigned_on_pod(Recreate *recreate, const Pod *pod);
int recreate_unassigned_kick(Recreate *recreate);
void recreate_unassigned_drop(Recreate *recreate);
