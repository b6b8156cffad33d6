/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The pods of this node, from the API server
 *
 * One watch, in protobuf, that keeps the newest state of each pod.
 */

#include "agent/base/list.h"
#include "agent/base/log.h"
#include "agent/kube/client.h"
#include "agent/pod/pod.h"

typedef struct Pods Pods;

/* Receives each change. A callback may remove only its own watcher, and must not free the Pods. */
typedef struct PodsWatcher {
        /* A pod was added or changed; before is its last state, or NULL. Both are borrowed; pod
         * until it changes again. */
        int (*on_pod)(const Pod *pod, const Pod *before, void *userdata);
        /* A pod was removed; borrowed during the call. */
        int (*on_gone)(const Pod *pod, void *userdata);
        /* The watch became synced, or no longer is; see pods_error(). */
        int (*on_state)(bool is_synced, void *userdata);
        void *userdata;
        LIST_LINKS(struct PodsWatcher);
} PodsWatcher;

typedef struct PodsOptions {
        KubeClient *client;
        Log *log;
        Metrics *metrics; /* may be NULL */
        const char *node_name;
        void (*on_changed)(void *userdata); /* pods_error() may differ */
        void *userdata;
} PodsOptions;

/* Begins at once. */
int pods_new(const PodsOptions *options, Pods **ret);
Pods *pods_free(Pods *pods);

/* The watcher is borrowed until it is taken off. It is notified of later changes only. */
void pods_watch(Pods *pods, PodsWatcher *watcher);
void pods_unwatch(Pods *pods, PodsWatcher *watcher);

/* The watch is synced, and watchers have been notified of all pods. */
bool pods_are_synced(const Pods *pods);

/* Why it is not up to date, or unset. */
const Error *pods_error(const Pods *pods);

/* Borrowed until the pod changes; NULL: no such pod here. */
const Pod *pods_find(const Pods *pods, const char *namespace, const char *name);

size_t pods_count(const Pods *pods);
/* Returns the pods in no particular order; i is less than the count. */
const Pod *pods_get(const Pods *pods, size_t i);

/* Ends the watch's back-off, if it is in one. */
int pods_kick(Pods *pods);
