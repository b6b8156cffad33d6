/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Requests to restart containers of a pod (ContainerRecreateRequest of apps.kruise.io)
 *
 * Watches the requests for this node, in the version that the API server has, and serves them: one
 * after another for a pod, in parallel for different pods. If no controller of OpenKruise prepares and
 * ends a request, which its labels show, the agent does that as well.
 */

#include "agent/pod/context.h"

typedef struct Recreate Recreate;

/* Discovers the kind, and begins to watch. The context is borrowed. */
int recreate_new(const PodContext *context, Recreate **ret);
/* Stops that have begun go on. */
Recreate *recreate_free(Recreate *recreate);

/* A runtime came or went. */
int recreate_runtime_changed(Recreate *recreate);

/* Ends all back-offs, since the API server is known to answer. */
int recreate_kick(Recreate *recreate);

/* Version that the agent serves, such as "v1beta1"; NULL: none, or unknown yet. */
const char *recreate_version(const Recreate *recreate);

/* Why the agent cannot watch requests, or which right to write about them is missing; or unset. A
 * server without the kind is no error, nor is an invalid request. */
const Error *recreate_error(const Recreate *recreate);

/* Number of requests that are not completed. */
size_t recreate_n_open(const Recreate *recreate);
