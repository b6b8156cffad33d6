/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Requests to restart containers of a pod (ContainerRecreateRequest of apps.kruise.io)
 *
 * Watches those for this node, in the version that the API server has, and serves them: one after
 * another for a pod, beside each other for different ones. Where no controller of OpenKruise
 * prepares and ends a request, which shows in its labels, the agent does that as well.
 */

#include "agent/pod/context.h"

typedef struct Recreate Recreate;

/* Finds out whether there are such requests, and begins. The context is borrowed. */
int recreate_new(const PodContext *context, Recreate **ret);
/* What has begun goes on in the stops. */
Recreate *recreate_free(Recreate *recreate);

/* A runtime came or went. */
int recreate_runtime_changed(Recreate *recreate);

/* Does not wait any longer if anything is backing off: the API server is known to answer. */
int recreate_kick(Recreate *recreate);

/* The version that is served, such as "v1beta1"; NULL: none, or not known yet. */
const char *recreate_version(const Recreate *recreate);

/* Why requests cannot be seen, or which right to write about them is missing; or unset. A server
 * that has no such kind is no error, nor is what is wrong with one of them. */
const Error *recreate_error(const Recreate *recreate);

/* Requests that are not completed. */
size_t recreate_n_open(const Recreate *recreate);
