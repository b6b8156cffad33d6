/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What really runs in the pods of this node, and restarts where their metadata has changed
 *
 * For each pod whose owner wants it: says in the annotation apps.kruise.io/runtime-containers-meta
 * which container of the runtime is behind each name and what it was made with; restarts, at once
 * and no more than once, the containers whose environment is made from labels or annotations that
 * have another value now; and tells by the condition inplaced.io/InPlaceVerified whether what was
 * asked for is what runs. What is known of a container is asked once, since it does not change as
 * long as the container lives.
 */

#include "agent/meta/verdict.h"
#include "agent/pod/pods.h"
#include "agent/pod/stops.h"
#include "cri/runtimes.h"

typedef struct Meta Meta;

typedef struct MetaOptions {
        sd_event *event;
        Log *log;
        KubeClient *client;
        KubeEvents *events;
        Pods *pods;
        Runtimes *runtimes;
        Stops *stops;
        bool has_condition; /* tell by the condition, too */

        /* A pod was written to (NULL) or not; for metrics. */
        void (*on_written)(const Error *error, void *userdata);
        /* meta_error() has become another one without a write. NULL: nobody wants to know. */
        void (*on_changed)(void *userdata);
        void *userdata;
} MetaOptions;

int meta_new(const MetaOptions *options, Meta **ret);
/* What has begun goes on in the stops, and is nobody's any more. */
Meta *meta_free(Meta *meta);

/* A runtime came or went. */
int meta_runtime_changed(Meta *meta);

/* The runtime holds something else under this name (canonical, see image-ref.h). */
int meta_image_changed(Meta *meta, const char *canonical);

/* Does not wait any longer if writes are backing off: the API server is known to answer. */
int meta_kick(Meta *meta);

/* Whether the environment of a container is the one that its metadata asks for; by what the
 * runtime's labels say of its pod. */
typedef enum MetaEnvironment {
        META_ENVIRONMENT_NONE, /* nothing in it is made from metadata, or nobody looks */
        META_ENVIRONMENT_UNKNOWN,
        META_ENVIRONMENT_CURRENT,
        META_ENVIRONMENT_STALE,
        _META_ENVIRONMENT_MAX,
} MetaEnvironment;

MetaEnvironment meta_environment(const Meta *meta, const char *namespace, const char *pod,
                                 const char *runtime_uid, const char *container);
const char *meta_environment_to_string(MetaEnvironment environment);

/* How many containers of all pods had this verdict when they were last looked at. */
size_t meta_count(const Meta *meta, Verdict verdict);

/* Why the last write failed that may concern more than one pod, or unset: also once no pod is left
 * that was to be written then. */
const Error *meta_error(const Meta *meta);
