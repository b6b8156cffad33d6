/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pulls yield to the kubelet
 *
 * While the kubelet pulls an image that a pod of this node waits for, pulls of the agent pause, so that they
 * take nothing of the node's bandwidth. No API tells what the kubelet pulls: a pod waits if the kubelet
 * starts one of its containers next (pod.h), or has to replace it because its image was changed, and the
 * runtime does not hold the image, or that of a volume.
 */

#include <time.h>

#include "agent/image/images.h"
#include "agent/pod/pods.h"

typedef struct PodWaits PodWaits;

typedef struct PodWaitsOptions {
        sd_event *event;
        Log *log;
        Metrics *metrics; /* may be NULL */
        const Runtimes *runtimes;
        Images *images;
        Pods *pods;
        uint64_t limit_usec; /* the longest pause; 0: pulls do not yield */
} PodWaitsOptions;

/* All are borrowed, and have to outlive it. */
int pod_waits_new(const PodWaitsOptions *options, PodWaits **ret);
PodWaits *pod_waits_free(PodWaits *waits);

/* An image for which a pod waits. */
typedef struct PodWait {
        const char *pod; /* "namespace/name" */
        const char *key; /* canonical reference of the image */
        struct timespec
                since;   /* time of its begin; all zero: it began before the agent knew the pods */
        bool is_missing; /* the runtime does not hold the image */
} PodWait;

/* Calls visit for each. All is borrowed during the call. */
int pod_waits_visit(const PodWaits *waits, int (*visit)(const PodWait *wait, void *userdata),
                    void *userdata);

int pod_waits_set_limit(PodWaits *waits, uint64_t limit_usec);
