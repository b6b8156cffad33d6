/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What really runs in the pods of this node, and restarts where their metadata has changed
 *
 * For each pod whose owner asks for it, it writes into the annotation
 * apps.kruise.io/runtime-containers-meta which container of the runtime is behind each name, and what it
 * was made with; it restarts, at once and no more than once, the containers whose environment is made
 * from labels or annotations that have another value now; and it shows by the condition
 * inplaced.io/InPlaceVerified whether what was asked for is what runs. The runtime is asked about a
 * container once, since what it reports does not change as long as the container lives.
 */

#include "agent/inplace/image-ids.h"
#include "agent/pod/context.h"

typedef struct InPlace InPlace;

/* The context is borrowed; its on_changed runs when a pod was written to, or could not be: inplace_error()
 * may differ then. has_condition: write the condition, too. */
int inplace_new(const PodContext *context, bool has_condition, InPlace **ret);
/* What has begun goes on in the stops, without an owner. */
InPlace *inplace_free(InPlace *inplace);

/* A runtime came or went. */
int inplace_runtime_changed(InPlace *inplace);

/* The runtime holds something else under this name (canonical, see image-ref.h). */
int inplace_image_changed(InPlace *inplace, const char *canonical);

/* Does not wait any longer if writes are backing off: the API server is known to answer. */
int inplace_kick(InPlace *inplace);

/* Whether the environment of a container is the one that its metadata asks for; by what the
 * runtime's labels contain about its pod. */
typedef enum InPlaceEnvironment {
        INPLACE_ENVIRONMENT_NONE, /* nothing in it is made from metadata, or the pod takes no part */
        INPLACE_ENVIRONMENT_UNKNOWN,
        INPLACE_ENVIRONMENT_CURRENT,
        INPLACE_ENVIRONMENT_STALE,
        _INPLACE_ENVIRONMENT_MAX,
} InPlaceEnvironment;

InPlaceEnvironment inplace_environment(const InPlace *inplace, const char *namespace,
                                       const char *pod, const char *runtime_uid,
                                       const char *container);
const char *inplace_environment_to_string(InPlaceEnvironment environment);

/* How many containers of all pods had this verdict when they were last inspected. */
size_t inplace_count(const InPlace *inplace, Verdict verdict);

/* Why the last write failed that may concern more than one pod, or unset: also once no pod is left
 * that was to be written then. */
const Error *inplace_error(const InPlace *inplace);
