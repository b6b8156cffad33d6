/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What all that works on this node's pods is given: restarts in place, restart requests and probes
 *
 * Made once, and borrowed by each of them as long as it lives.
 */

#include "agent/kube/event.h"
#include "agent/pod/places.h"
#include "agent/pod/pods.h"
#include "agent/pod/stops.h"
#include "cri/runtimes.h"

typedef struct PodContext {
        sd_event *event;
        Log *log;
        Metrics *metrics; /* may be NULL */
        KubeClient *client;
        KubeEvents *events;
        Pods *pods;
        Runtimes *runtimes;
        Stops *stops;
        Places *places;
        const char *node_name;

        void (*on_changed)(void *userdata); /* what one of them reports as its error may differ */
        void *userdata;
} PodContext;
