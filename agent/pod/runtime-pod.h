/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the runtime says of the containers of pods
 *
 * The kubelet labels each container with the pod it belongs to. Of the containers of one name, dead
 * ones among them, the newest counts.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cri/types.h"

/* What the kubelet writes on containers. */
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
        int64_t created_at_nsec; /* since 1970 */
        unsigned restart_count;
        uint64_t kubelet_hash; /* 0 if it cannot be read */
        char *image;     /* the reference that it was made with, as far as the runtime tells */
        char *image_ref; /* image ID or repo digest; image_id if the runtime tells it */
} RuntimeContainer;

typedef struct RuntimePod {
        char *namespace;
        char *name;
        char *uid;
        RuntimeContainer *containers; /* one of each name, by name */
        size_t n_containers;
} RuntimePod;

typedef struct RuntimePods {
        RuntimePod *items; /* by namespace and name */
        size_t n_items;
} RuntimePods;

#define RUNTIME_PODS_INIT ((RuntimePods){ .items = NULL })

/* Containers without those labels are none of a pod, and left out. */
int runtime_pods_read(const CriContainerList *list, RuntimePods *ret);
void runtime_pods_done(RuntimePods *pods);

/* Only one of which the runtime says all three: a UID alone is what somebody else may have told. */
const RuntimePod *runtime_pods_find(const RuntimePods *pods, const char *namespace,
                                    const char *name, const char *uid);
const RuntimeContainer *runtime_pod_find(const RuntimePod *pod, const char *container);

/* Of a container in a list; borrowed, or NULL. */
const char *cri_container_label(const CriContainer *container, const char *key);
const char *cri_container_annotation(const CriContainer *container, const char *key);
