/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The patches that a controller would write for a request and for its pod
 *
 * Pure. Each is a merge patch for one version of the object, so that it overwrites nothing of another
 * writer; the pod's is a strategic merge patch.
 */

#include "agent/pod/pod.h"
#include "agent/recreate/recreate-spec.h"

/* Prepares an unassigned request: labels, defaults, and the containers' current state. old: the
 * request's spec in this version, whose containers keep all their members. A request that has begun was
 * prepared before; its containers stay as they are, because it would stop a successor that they name.
 * The caller owns *ret. */
int recreate_controller_adopt(struct json_object *old, const char *version, const Pod *pod,
                              const char *node_name, bool has_begun, struct json_object **ret);

/* Records that the pod is unready from now on. The annotation belongs to the request's metadata, the
 * condition to its status. */
int recreate_controller_drain(const RecreateSpec *spec, RecreateDialect dialect, int64_t now_sec,
                              struct json_object **ret);

/* Makes the status' copy of the pod's status of each restarted container. *ret is NULL if there is
 * none, and else owned by the caller. */
int recreate_controller_snapshot(const RecreateSpec *spec, const Pod *pod,
                                 struct json_object **ret);

/* Removes the label by which the watch selects requests. */
int recreate_controller_unlabel(const RecreateSpec *spec, struct json_object **ret);

/* Adds the request to the list of those that keep the pod unready, or removes it; the pod becomes
 * ready again with the last one. *ret is NULL if nothing changes, and else owned by the caller. */
int recreate_controller_gate(struct json_object *pod, const RecreateSpec *spec, bool is_closed,
                             int64_t now_sec, struct json_object **ret);

/* Lists the names of requests in the pod's namespace that keep it unready, ended by NULL; owned by
 * the caller. */
int recreate_gate_requests(const Pod *pod, char ***ret);

/* Makes a request for a deleted one that still keeps the pod unready. No object has its UID. The
 * caller owns *ret. */
int recreate_controller_remnant(const Pod *pod, const char *name, RecreateSpec **ret);

/* The request may have made that pod unready, and is not over. */
bool recreate_gate_may_be_of(const RecreateSpec *spec, const char *pod_name);
