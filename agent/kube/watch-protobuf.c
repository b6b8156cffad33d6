/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/watch-protobuf.h"

#include <string.h>

#include "agent/kube/protobuf.h"
#include "agent/kube/watch-json.h"

#define USEC_PER_SEC ((uint64_t) 1000000)

/* Reads the object's own message; its bytes have to last as long as the event. */
static int read_object(const uint8_t *bytes, size_t size, ProtobufCMessage **message,
                       KubeObject *object, Error *reterr) {
        const KubeObjectMeta *meta;
        int r;

        r = kube_protobuf_unpack(&kubernetes__v1__object__descriptor, bytes, size, message, reterr);
        if (r < 0)
                return r;

        meta = ((const KubeObjectMessage *) *message)->metadata;
        if (!meta)
                return error_set(reterr, ERROR_INVALID, "metadata: is missing");

        object->namespace = meta->namespace_ ?: "";
        object->name = meta->name ?: "";
        object->uid = meta->uid ?: "";
        object->resource_version = meta->resourceversion ?: "";
        object->bytes = bytes;
        object->n_bytes = size;
        return 0;
}

static bool is_list_end(const WatchEvent *event) {
        const KubeObjectMessage *object = (const KubeObjectMessage *) event->messages[2];
        const char *value = kube_protobuf_annotation(object->metadata, WATCH_LIST_END_ANNOTATION);

        return event->type == WATCH_EVENT_BOOKMARK && value && strcmp(value, "true") == 0;
}

static int read_status(ProtobufCBinaryData raw, WatchEvent *event, Error *reterr) {
        KubeStatusMessage *status;
        int r;

        r = kube_protobuf_read_status(raw.data, raw.len, &status, reterr);
        if (r < 0)
                return r;

        event->messages[1] = &status->base;
        event->status.message = status->message ?: "";
        if (status->code > 0 && status->code < 1000)
                event->status.code = status->code;
        if (status->details && status->details->retryafterseconds > 0)
                event->status.retry_after_usec =
                        (uint64_t) status->details->retryafterseconds * USEC_PER_SEC;
        return 0;
}

int watch_protobuf_event(Slice frame, WatchEvent *event, Error *reterr) {
        const KubeWatchEventMessage *message;
        KubeEnvelope *envelope;
        int r;

        r = kube_protobuf_unpack(&kubernetes__v1__watch_event__descriptor,
                                 (const uint8_t *) frame.data, frame.size, &event->messages[0],
                                 reterr);
        if (r < 0)
                return r;

        message = (const KubeWatchEventMessage *) event->messages[0];
        r = watch_event_type_from_string(message->type ?: "", &event->type, reterr);
        if (r < 0)
                return r;
        if (!message->object)
                return error_set(reterr, ERROR_INVALID, "an event without an object");
        if (event->type == WATCH_EVENT_ERROR)
                return read_status(message->object->raw, event, reterr);

        r = kube_protobuf_open(message->object->raw.data, message->object->raw.len, &envelope,
                               reterr);
        if (r < 0)
                return r;

        event->messages[1] = &envelope->base;
        r = read_object(envelope->raw.data, envelope->raw.len, &event->messages[2], &event->object,
                        reterr);
        if (r < 0)
                return r;

        event->is_list_end = is_list_end(event);
        return 0;
}

int watch_protobuf_list(Slice body, WatchList *list, Error *reterr) {
        const KubeListMessage *message;
        KubeEnvelope *envelope;
        int r;

        r = kube_protobuf_open((const uint8_t *) body.data, body.size, &envelope, reterr);
        if (r < 0)
                return r;

        r = kube_protobuf_unpack(&kubernetes__v1__list__descriptor, envelope->raw.data,
                                 envelope->raw.len, &list->message, reterr);
        kube_protobuf_free(envelope);
        if (r < 0)
                return r;

        message = (const KubeListMessage *) list->message;
        if (!message->metadata)
                return error_set(reterr, ERROR_INVALID, "metadata: is missing");

        list->version = message->metadata->resourceversion ?: "";
        list->next = message->metadata->continue_ ?: "";
        list->n_items = message->n_items;
        return 0;
}

int watch_protobuf_item(const WatchList *list, size_t i, WatchEvent *event, Error *reterr) {
        const KubeListMessage *message = (const KubeListMessage *) list->message;

        return read_object(message->items[i].data, message->items[i].len, &event->messages[0],
                           &event->object, reterr);
}
