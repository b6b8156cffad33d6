/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The objects that in-place restarts, restart requests and probes share
 *
 * The agent makes one context; the controllers borrow it as long as they live.
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

        void (*on_changed)(void *userdata); /* a controller's error may have changed */
        void *userdata;
} PodContext;
