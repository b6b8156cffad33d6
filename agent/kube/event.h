/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events (core/v1), as `kubectl describe` shows them
 *
 * Best effort: nothing waits for them, and they are few.
 * A repeated event raises the count of the first one; many events that differ only in their message become
 * one "(combined from similar events)"; each object may have 25 and then one every 5 minutes; an event that
 * the server does not take is tried a few times and then dropped. Those limits are client-go's.
 */

#include "agent/base/log.h"
#include "agent/kube/client.h"
#include "agent/kube/event-spec.h"

typedef struct KubeEvents KubeEvents;

typedef struct KubeEventsOptions {
        KubeClient *client;
        Log *log;
        const char *component; /* copied */
        const char *node_name; /* copied */
} KubeEventsOptions;

int kube_events_new(const KubeEventsOptions *options, KubeEvents **ret);
KubeEvents *kube_events_free(KubeEvents *events);

/* Sends an event about the object; a cluster-scoped one has no namespace, and its event goes to
 * "default". type: "Normal" or "Warning". Everything is copied; messages are cut at 1024 bytes. */
int kube_event_send(KubeEvents *events, const KubeReference *object, const char *type,
                    const char *reason, const char *message);

/* Returns the number of events that are not sent yet. */
size_t kube_events_n_waiting(const KubeEvents *events);
/* Returns the number of events that were never sent, over a limit or refused for good. */
uint64_t kube_events_n_dropped(const KubeEvents *events);

/* Ends a pause, because the server is known to answer. */
int kube_events_kick(KubeEvents *events);
