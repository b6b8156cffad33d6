/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A request from the API server (ContainerRecreateRequest)
 *
 * Pure. Reads both dialects: a controller of v1beta1 writes its records for the node into the status,
 * one of v1alpha1 into annotations.
 */

#include "agent/base/error.h"
#include "agent/recreate/recreate-status.h"

#define RECREATE_GROUP "apps.kruise.io"
#define RECREATE_RESOURCE "containerrecreaterequests"
#define RECREATE_LABEL_NODE "crr.apps.kruise.io/node-name"
#define RECREATE_LABEL_ACTIVE "crr.apps.kruise.io/active"
#define RECREATE_LABEL_POD_UID "crr.apps.kruise.io/pod-uid"
#define RECREATE_LABEL_MANAGED "inplaced.io/managed" /* the agent is its controller */
#define RECREATE_ANNOTATION_SNAPSHOT "crr.apps.kruise.io/sync-container-statuses"
#define RECREATE_ANNOTATION_DRAINED "crr.apps.kruise.io/unready-acquired"
#define RECREATE_CONDITION_DRAINED "PreRecreateGrace"

#define RECREATE_CONTAINERS_MAX 1024

typedef enum RecreateDialect {
        RECREATE_V1ALPHA1,
        RECREATE_V1BETA1,
        _RECREATE_DIALECT_MAX,
} RecreateDialect;

typedef struct RecreateContainer {
        char *name;
        char *context_id;      /* statusContext.containerID, "containerd://..."; NULL: none */
        int64_t restart_count; /* restart count in the statusContext */
} RecreateContainer;

/* The controller's copy of a container in the pod's status. */
typedef struct RecreateSnapshot {
        char *name;
        char *container_id;
        bool is_ready;
} RecreateSnapshot;

/* Texts are owned. Times are in seconds since 1970. */
typedef struct RecreateSpec {
        char *namespace;
        char *name;
        char *uid;
        char *version;
        int64_t created_at;
        bool is_deleted;
        bool is_managed; /* the agent is its controller, see RECREATE_LABEL_MANAGED */
        char *pod_uid;   /* UID in the label; NULL: none */
        char *pod_name;  /* NULL only if there is a problem */
        char *problem;   /* reason why it cannot be served, in one line, or NULL */

        RecreateContainer *containers;
        size_t n_containers;

        bool ignores_failure;
        bool is_ordered;
        bool is_forced;
        int64_t grace_sec;   /* -1: the pod's */
        int64_t unready_sec; /* time that the pod is unready before any stop; -1: not at all */
        int64_t min_started_sec;
        int64_t deadline_sec; /* limit in seconds after the creation; -1: none */
        int64_t ttl_sec;      /* seconds after the completion until it is deleted; -1: it stays */

        RecreateStatus status;
        RecreateSnapshot *snapshot;
        size_t n_snapshot;
        bool is_drained; /* a controller has made the pod unready */
        int64_t drained_at;
        char *bad_drain;  /* invalid text in place of that time, or NULL */
        char *conditions; /* JSON text of the status' conditions, if the agent adds one; else NULL */
} RecreateSpec;

/* Fails without a name, namespace or UID; any other error in the spec becomes the problem. Ignores
 * invalid parts of a status. The caller owns *ret. */
int recreate_spec_parse(struct json_object *object, RecreateDialect dialect, RecreateSpec **ret,
                        Error *reterr);

/* Returns the bytes that the spec takes in memory, about. */
size_t recreate_spec_size(const RecreateSpec *spec);

/* Takes NULL. Returns NULL. */
RecreateSpec *recreate_spec_free(RecreateSpec *spec);
