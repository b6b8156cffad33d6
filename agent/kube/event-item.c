/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/event-item.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/kube/path.h"

#define REPLY_MAX ((size_t) 64 << 10)

DEFINE_CLEANUP(EventItem *, event_item_free)

int event_item_new(KubeEvents *events, const EventDecision *decision, const KubeReference *object,
                   const char *type, const char *reason, EventItem **ret) {
        cleanup(event_item_free_p) EventItem *item = NULL;
        int r;

        item = malloc(sizeof(*item));
        if (!item)
                return -ENOMEM;

        *item = (EventItem){
                .events = events,
                .key = decision->key,
                .is_repeat = decision->verdict == EVENT_REPEAT,
        };
        r = event_record_init(&item->record, object, type, reason);
        if (r < 0)
                return r;

        *ret = take_ptr(item);
        return 0;
}

EventItem *event_item_free(EventItem *item) {
        if (!item)
                return NULL;

        item->call = kube_call_unref(item->call);
        event_record_done(&item->record);
        free(item);
        return NULL;
}

static int item_path(const EventItem *item, char **ret) {
        char name[EVENT_NAME_SIZE];
        const KubePath path = {
                .version = "v1",
                .namespace = event_spec_namespace(&item->record),
                .resource = "events",
                .name = item->is_repeat ? event_spec_name(&item->record, name) : NULL,
        };

        return kube_path_format(&path, ret);
}

int event_item_send(EventItem *item, KubeClient *client, const EventSource *source,
                    KubeReplied on_sent) {
        cleanup(free_p) char *path = NULL;
        cleanup(free_p) char *body = NULL;
        int r;

        r = item_path(item, &path);
        if (r < 0)
                return r;

        r = item->is_repeat ? event_spec_patch(&item->record, &body)
                            : event_spec_create(&item->record, source, &body);
        if (r < 0)
                return r;

        return kube_call(client,
                         &(KubeRequest){
                                 .verb = item->is_repeat ? "patch" : "create",
                                 .method = item->is_repeat ? "PATCH" : "POST",
                                 .path = path,
                                 .content_type = item->is_repeat ? KUBE_MERGE_PATCH : KUBE_JSON,
                                 .body = body,
                                 .reply_max = REPLY_MAX,
                                 .on_replied = on_sent,
                                 .userdata = item,
                         },
                         &item->call);
}

EventItem *event_items_find(EventItem *items, uint64_t key) {
        for (EventItem *item = items; item; item = item->next)
                if (item->key == key)
                        return item;

        return NULL;
}

EventItem *event_items_free(EventItem *items) {
        while (items) {
                EventItem *item = items;

                items = item->next;
                event_item_free(item);
        }

        return NULL;
}
