/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a controller would write for a request, and for its pod
 *
 * Pure. All are merge patches for one version of the object, so that nothing of another writer is
 * overwritten; that of the pod is a strategic one.
 */

#include "agent/pod/pod.h"
#include "agent/recreate/recreate-spec.h"

/* Prepares an unassigned request: labels, defaults, and what the containers are now. object is
 * the request as it is, from which each container keeps all that it has. The caller owns *ret. */
int recreate_controller_adopt(struct json_object *object, const Pod *pod, const char *node_name,
                              struct json_object **ret);

/* Says that the pod is unready from now on. object: as for the adoption. The annotation belongs to
 * the request itself, the condition to its status. */
int recreate_controller_drain(struct json_object *object, const RecreateSpec *spec,
                              RecreateDialect dialect, int64_t now_sec, struct json_object **ret);

/* Of each container that runs anew, what the pod says of it, for the status. *ret is NULL if there
 * is none, and else owned by the caller. */
int recreate_controller_snapshot(const RecreateSpec *spec, const Pod *pod,
                                 struct json_object **ret);

/* Takes the label away by which requests are found. */
int recreate_controller_unlabel(const RecreateSpec *spec, struct json_object **ret);

/* Puts the request on the list of those that keep the pod unready, or takes it off; the pod becomes
 * ready again if that was the last one. *ret is NULL if it is so already, and else owned by the
 * caller. */
int recreate_controller_gate(struct json_object *pod, const RecreateSpec *spec, bool is_closed,
                             int64_t now_sec, struct json_object **ret);

/* The names of the requests of the pod's namespace that keep it unready, ended by NULL; owned by the
 * caller. */
int recreate_gate_requests(const Pod *pod, char ***ret);
/* Takes NULL. Returns NULL. */
char **recreate_gate_requests_free(char **names);

/* A request of which nothing is left but the pod that it keeps unready. No object has its UID. The
 * caller owns *ret. */
int recreate_controller_remnant(const Pod *pod, const char *name, RecreateSpec **ret);

/* Such a request may have made that pod unready: it is its business to make it ready again. */
bool recreate_gate_may_be_of(const RecreateSpec *spec, const char *pod_name);
