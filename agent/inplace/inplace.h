/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reports what runs in the pods of this node, and restarts containers whose metadata has changed
 *
 * For each pod whose owner asks for it, the agent writes the runtime's IDs of the containers and the
 * hashes of what they were made with into the annotation apps.kruise.io/runtime-containers-meta. It
 * restarts, at once and no more than once, containers whose environment is made from labels or
 * annotations with a new value. The condition inplaced.io/InPlaceVerified shows whether the pod runs
 * what it asks for. The agent asks the runtime once about each container, since the answer does not
 * change as long as the container lives.
 */

#include "agent/inplace/image-ids.h"
#include "agent/pod/context.h"

typedef struct InPlace InPlace;

/* The context is borrowed; its on_changed runs after each write to a pod, or its failure, when
 * inplace_error() may have changed. has_condition: write the condition, too. */
int inplace_new(const PodContext *context, bool has_condition, InPlace **ret);
/* Stops that have begun go on, without an owner. */
InPlace *inplace_free(InPlace *inplace);

/* A runtime came or went. */
int inplace_runtime_changed(InPlace *inplace);

/* The image of this name has changed in the runtime (canonical, see image-ref.h). */
int inplace_image_changed(InPlace *inplace, const char *canonical);

/* Ends the back-off of writes, since the API server is known to answer. */
int inplace_kick(InPlace *inplace);

/* Whether a container has the environment that its metadata asks for, by the pod in the runtime's
 * labels. */
typedef enum InPlaceEnvironment {
        INPLACE_ENVIRONMENT_NONE, /* metadata makes no part of it, or nothing depends on that */
        INPLACE_ENVIRONMENT_UNKNOWN,
        INPLACE_ENVIRONMENT_CURRENT,
        INPLACE_ENVIRONMENT_STALE,
        _INPLACE_ENVIRONMENT_MAX,
} InPlaceEnvironment;

InPlaceEnvironment inplace_environment(const InPlace *inplace, const char *namespace,
                                       const char *pod, const char *runtime_uid, const char *name);
const char *inplace_environment_to_string(InPlaceEnvironment environment);

/* Counts the containers of all pods by the verdict of their last inspection. */
size_t inplace_count(const InPlace *inplace, Verdict verdict);

/* Returns why the last write that may concern more than one pod failed, or unset, also once no such
 * pod has anything left to write. */
const Error *inplace_error(const InPlace *inplace);
