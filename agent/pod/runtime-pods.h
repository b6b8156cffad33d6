/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pods and their containers, as the runtime reports them
 *
 * Every part of the agent that lists containers does it here. The kubelet labels each container with
 * its pod. The newest of the containers of one name counts, even if it is dead.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/rpc/client.h"
#include "cri/types.h"

/* Labels and annotations that the kubelet writes on containers. */
#define LABEL_POD_NAME "io.kubernetes.pod.name"
#define LABEL_POD_NAMESPACE "io.kubernetes.pod.namespace"
#define LABEL_POD_UID "io.kubernetes.pod.uid"
#define LABEL_CONTAINER_NAME "io.kubernetes.container.name"
#define ANNOTATION_HASH "io.kubernetes.container.hash"
#define ANNOTATION_RESTART_COUNT "io.kubernetes.container.restartCount"
#define ANNOTATION_PRE_STOP "io.kubernetes.container.preStopHandler"
#define ANNOTATION_PORTS "io.kubernetes.container.ports"
#define ANNOTATION_DELETION_GRACE "io.kubernetes.pod.deletionGracePeriod"
#define ANNOTATION_TERMINATION_GRACE "io.kubernetes.pod.terminationGracePeriod"

/* Texts are owned. */
typedef struct RuntimeContainer {
        char *name;
        char *id;
        char *sandbox_id;
        bool is_running;
        bool is_exited;
        int64_t created_at_nsec; /* nanoseconds since 1970 */
        unsigned restart_count;
        uint64_t kubelet_hash; /* 0 if it cannot be read */
        char *image;     /* reference that the container was made with, if the runtime reports it */
        char *image_ref; /* image ID or repo digest; image_id if the runtime reports it */
} RuntimeContainer;

typedef struct RuntimePod {
        char *namespace;
        char *name;
        char *uid;
        RuntimeContainer *containers; /* the newest of each name, by name */
        size_t n_containers;
        RuntimeContainer *former; /* all other containers of the pod */
        size_t n_former;
} RuntimePod;

typedef struct RuntimePods {
        RuntimePod *items; /* pods by namespace and name */
        size_t n_items;
} RuntimePods;

#define RUNTIME_PODS_INIT ((RuntimePods){ .items = NULL })

/* Selects the pods whose containers are listed. NULL or "": any. */
typedef struct RuntimePodsFilter {
        const char *namespace;
        const char *pod;
        const char *uid;
} RuntimePodsFilter;

typedef struct RuntimePodsCall RuntimePodsCall;

/* Runs once, not from within the function that began the call, which may be freed here. pods is NULL
 * if there is an error; otherwise it is borrowed, unless the callback replaces it with
 * RUNTIME_PODS_INIT and so takes it over. */
typedef int (*RuntimePodsDone)(RuntimePods *pods, const Error *error, void *userdata);
/* container is NULL if there is an error, or if the runtime has none of that ID. Borrowed. */
typedef int (*RuntimeContainerDone)(const CriContainer *container, const Error *error,
                                    void *userdata);

/* Makes one call to the runtime. Copies the filter. */
int runtime_pods_list(RpcClient *client, const RuntimePodsFilter *filter, RuntimePodsDone on_done,
                      void *userdata, RuntimePodsCall **ret);

/* The container with exactly that ID, labelled or not. */
int runtime_pods_find_container(RpcClient *client, const char *id, RuntimeContainerDone on_done,
                                void *userdata, RuntimePodsCall **ret);

/* Cancels it if it still runs; no callback then. Returns NULL. */
RuntimePodsCall *runtime_pods_call_free(RuntimePodsCall *call);

/* Containers without those labels belong to no pod, and are left out. */
int runtime_pods_read(const CriContainerList *list, RuntimePods *ret);
void runtime_pods_done(RuntimePods *pods);

/* Finds the pod for which the runtime reports all three: a UID alone may come from an object that
 * any tenant can write. */
const RuntimePod *runtime_pods_find(const RuntimePods *pods, const char *namespace,
                                    const char *name, const char *uid);
/* The newest of that name; NULL: there is none. */
const RuntimeContainer *runtime_pod_find(const RuntimePod *pod, const char *container);

/* Returns a label or annotation of a listed container; borrowed, or NULL. */
const char *cri_container_label(const CriContainer *container, const char *key);
const char *cri_container_annotation(const CriContainer *container, const char *key);
