/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Requests to restart containers of a pod (ContainerRecreateRequest of apps.kruise.io)
 *
 * Watches those for this node, in the version that the API server has, and serves them: one after
 * another for a pod, beside each other for different ones. Where no controller of OpenKruise
 * prepares and ends a request, which shows in its labels, the agent does that as well.
 */

#include "agent/pod/pods.h"
#include "agent/pod/stops.h"
#include "cri/runtimes.h"

typedef struct Recreate Recreate;

typedef struct RecreateOptions {
        sd_event *event;
        Log *log;
        Metrics *metrics; /* may be NULL */
        KubeClient *client;
        Pods *pods;
        Runtimes *runtimes;
        Stops *stops;
        const char *node_name; /* copied */

        void (*on_changed)(void *userdata); /* what recreate_error() says may differ */
        void *userdata;
} RecreateOptions;

/* Finds out whether there are such requests, and begins. */
int recreate_new(const RecreateOptions *options, Recreate **ret);
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
