/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One event on its way to the API server
 */

#include "agent/base/list.h"
#include "agent/kube/event-spec.h"

typedef struct EventItem {
        LIST_LINKS(struct EventItem);
        KubeEvents *events;
        KubeCall *call; /* NULL: it waits */
        uint64_t key;
        EventRecord record;
        bool is_repeat; /* the server has it, with a lower count */
        unsigned n_tries;
} EventItem;

int event_item_new(KubeEvents *events, const EventDecision *decision, const KubeReference *object,
                   const char *type, const char *reason, EventItem **ret);

/* It is on no list any more. Ends its call. */
EventItem *event_item_free(EventItem *item);

/* The callback's userdata is the item. */
int event_item_send(EventItem *item, KubeClient *client, const EventSource *source,
                    KubeReplied on_sent);

EventItem *event_items_find(EventItem *items, uint64_t key);
EventItem *event_items_free(EventItem *items);
