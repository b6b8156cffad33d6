/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The fields of a pod of the API server that the agent uses
 *
 * Made once from the object's bytes (pod-spec.h) and never changed: each state of the pod has a Pod of its
 * own. It keeps values of labels and annotations only as hashes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POD_RESTART_ANNOTATION "inplaced.io/restart-on-metadata-change"
#define POD_META_ANNOTATION "apps.kruise.io/runtime-containers-meta"
#define POD_VERIFIED_CONDITION "inplaced.io/InPlaceVerified"

/* Limit of containers of all kinds together; a pod with more is refused. */
#define POD_CONTAINERS_MAX ((size_t) 1024)

typedef enum PodContainerKind {
        POD_CONTAINER_MAIN,
        POD_CONTAINER_SIDECAR, /* an init container that restarts always */
        POD_CONTAINER_INIT,
        _POD_CONTAINER_KIND_MAX,
} PodContainerKind;

/* Texts are owned, and "" where there is nothing. */
typedef struct PodContainer {
        char *name;
        char *image; /* the reference that the pod asks for */
        PodContainerKind kind;
        bool comes_back;      /* the kubelet starts it again, whatever its exit status */
        bool rules_decide;    /* restart rules decide by its exit status */
        char *restart_policy; /* the container's, or the pod's: "Always" */
        char **env_names;  /* variables made from labels or annotations, in order; ends with NULL */
        uint32_t env_hash; /* hash of the values that they would have now */
        bool is_env_overridden; /* a later variable overrides one of the same name */
        bool is_env_own;        /* a variable is made from the annotation that the agent writes */
        bool restarts_on_metadata; /* the pod's annotation is "true", or a list with its name */
        uint32_t plain_hash;       /* see env-hash.h */

        /* Status. */
        int status_index;   /* index in containerStatuses or initContainerStatuses; -1: none yet */
        char *container_id; /* "containerd://…" */
        char *former_id;    /* ID of the previous container, in the same form */
        int32_t restart_count;
        bool is_ready;
        bool is_running;
        bool is_started; /* it runs, and its startup probe has succeeded if it has one */
        bool has_ended;
        bool stays_ended;     /* it has ended, and neither its policy nor a rule starts it again */
        bool is_gated;        /* the pod's closed gate waits until it runs its image */
        bool is_pulled_never; /* the kubelet does not pull its image: imagePullPolicy Never */
        bool is_next; /* the kubelet starts it next, and pulls its image before if it is missing */
        int64_t started_at_sec; /* start in seconds since 1970; 0: it does not run */
} PodContainer;

/* The condition InPlaceUpdateReady, which OpenKruise keeps. */
typedef enum PodUpdate {
        POD_UPDATE_NONE,    /* the pod has no such condition */
        POD_UPDATE_READY,   /* nothing is being updated */
        POD_UPDATE_RUNNING, /* the condition is False */
        _POD_UPDATE_MAX,
} PodUpdate;

/* The readiness gate inplaced.io/Ready, see gate-spec.h. */
typedef enum PodGate {
        POD_GATE_NONE,     /* the pod has no such gate */
        POD_GATE_UNSET,    /* nothing has opened it yet */
        POD_GATE_CLOSED,   /* closed for images that the pod does not request */
        POD_GATE_UPDATING, /* closed for the images that the pod requests now */
        POD_GATE_OTHER,    /* open, or closed for another reason */
        _POD_GATE_MAX,
} PodGate;

typedef struct Pod {
        char *namespace;
        char *name;
        char *uid;
        char *resource_version;
        char *runtime_uid; /* the UID in the runtime's labels; another one for static pods */
        char *ip;
        int64_t grace_sec;
        bool is_deleted;      /* the pod has a deletion timestamp */
        bool is_finished;     /* Succeeded or Failed */
        bool is_ready;        /* the condition Ready is True */
        bool is_kruise;       /* a workload of OpenKruise owns it, or a SidecarSet is in it */
        bool has_kruise_gate; /* the pod has the readiness gate KruisePodReady */
        char *kruise_message; /* message of that condition while it is False; or NULL */
        PodUpdate update;
        PodGate gate;
        uint64_t gate_digest; /* digest of the message in a closed gate; else 0 */
        char *restart_on_metadata; /* the annotation inplaced.io/restart-on-metadata-change; NULL: none, or
                             * one that is False */
        char *meta; /* the annotation apps.kruise.io/runtime-containers-meta, or NULL */

        /* The condition inplaced.io/InPlaceVerified; NULL: there is none. */
        char *verified_status;
        char *verified_reason;
        char *verified_message;

        PodContainer *containers; /* in the order of the spec, then the init containers */
        size_t n_containers;
        /* Images that it mounts as volumes, without those that are never pulled; ends with NULL.
         * NULL: none. */
        char **volume_images;
} Pod;

/* Takes NULL. Returns NULL. */
Pod *pod_free(Pod *pod);

/* NULL if it has none of that name. */
const PodContainer *pod_find(const Pod *pod, const char *container);

/* Whether the kubelet starts it again, at least with some exit statuses. */
bool pod_may_restart(const PodContainer *container);

/* "containerd://0123" → "containerd" and "0123"; false if it is not of that form. The scheme is
 * written into the buffer; the ID is borrowed. */
bool pod_split_container_id(const char *id, char *scheme, size_t scheme_size, const char **ret_id);
