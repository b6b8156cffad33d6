/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/watch-message.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/json_tokener.h>
#include <limits.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/time-units.h"
#include "agent/base/utf8.h"
#include "agent/document/json-reader.h"
#include "agent/kube/client.h"
#include "agent/kube/protobuf.h"

#define DEPTH_MAX 128

/* The tokener's buffer grows with the longest text; a large one is not kept. */
#define TOKENER_KEPT ((size_t) 64 << 10)

#define WATCH_LIST_END_ANNOTATION "k8s.io/initial-events-end"

/* "ADDED", "MODIFIED"... */
static int watch_event_type_from_string(const char *text, WatchEventType *ret, Error *reterr) {
        static const char *const names[_WATCH_EVENT_TYPE_MAX] = {
                [WATCH_EVENT_ADDED] = "ADDED",       [WATCH_EVENT_MODIFIED] = "MODIFIED",
                [WATCH_EVENT_DELETED] = "DELETED",   [WATCH_EVENT_ERROR] = "ERROR",
                [WATCH_EVENT_BOOKMARK] = "BOOKMARK",
        };

        for (WatchEventType type = 0; type < _WATCH_EVENT_TYPE_MAX; type++)
                if (strcmp(text, names[type]) == 0) {
                        *ret = type;
                        return 0;
                }

        return error_set(reterr, ERROR_INVALID, "an event of the unknown type %s",
                         quote(text, (char[QUOTE_SIZE]){ 0 }));
}

static int read_string(struct json_object *object, const JsonPath *path, const char *key,
                       const char **ret, Error *reterr) {
        const char *text;
        int r;

        r = json_read_string(object, path, key, &text, reterr);
        if (r < 0)
                return r;

        *ret = text ?: "";
        return 0;
}

static int read_metadata(struct json_object *json, struct json_object **ret, Error *reterr) {
        const JsonPath path = { .key = "metadata" };
        struct json_object *metadata;
        int r;

        r = json_read_object(json, NULL, "metadata", &metadata, reterr);
        if (r < 0)
                return r;
        if (!metadata)
                return json_refuse(&path, reterr, "is missing");

        *ret = metadata;
        return 0;
}

static int watch_json_object(struct json_object *json, KubeObject *object, Error *reterr) {
        const JsonPath path = { .key = "metadata" };
        struct json_object *metadata;
        int r;

        r = json_check_type(json, NULL, json_type_object, reterr)
                    ?: read_metadata(json, &metadata, reterr)
                    ?: read_string(metadata, &path, "namespace", &object->namespace, reterr)
                    ?: read_string(metadata, &path, "name", &object->name, reterr)
                    ?: read_string(metadata, &path, "uid", &object->uid, reterr);
        if (r < 0)
                return r;

        object->json = json;
        return read_string(metadata, &path, "resourceVersion", &object->resource_version, reterr);
}

static bool is_json_list_end(struct json_object *json) {
        struct json_object *metadata = json_get(json, "metadata", json_type_object);

        return json_is(json_get(metadata, "annotations", json_type_object),
                       WATCH_LIST_END_ANNOTATION, "true");
}

static int read_retry_after(struct json_object *json, WatchStatus *status, Error *reterr) {
        const JsonPath path = { .key = "details" };
        struct json_object *details;
        int64_t seconds = 0;
        int r;

        r = json_read_object(json, NULL, "details", &details, reterr);
        if (r < 0 || !details)
                return r;

        r = json_read_integer(details, &path, "retryAfterSeconds", &seconds, reterr);
        if (r < 0)
                return r;

        if (seconds > 0 && seconds < INT32_MAX)
                status->retry_after_usec = (uint64_t) seconds * USEC_PER_SEC;
        return 0;
}

static int read_json_status(struct json_object *json, WatchStatus *status, Error *reterr) {
        const char *message;
        int64_t code = 0;
        int r;

        r = json_check_type(json, NULL, json_type_object, reterr)
                    ?: json_read_text(json, NULL, "message", &message, reterr)
                    ?: json_read_integer(json, NULL, "code", &code, reterr);
        if (r < 0)
                return r;

        status->message = message ?: "";
        status->code = code > 0 && code < 1000 ? (int) code : 0;
        return read_retry_after(json, status, reterr);
}

static int watch_json_event(struct json_object *json, WatchEvent *event, Error *reterr) {
        struct json_object *object;
        const char *type;
        int r;

        r = json_check_type(json, NULL, json_type_object, reterr)
                    ?: read_string(json, NULL, "type", &type, reterr)
                    ?: watch_event_type_from_string(type, &event->type, reterr);
        if (r < 0)
                return r;

        (void) json_object_object_get_ex(json, "object", &object);
        if (event->type == WATCH_EVENT_ERROR)
                return read_json_status(object, &event->status, reterr);

        event->is_list_end = event->type == WATCH_EVENT_BOOKMARK && is_json_list_end(object);
        return watch_json_object(object, &event->object, reterr);
}

static int watch_json_list(struct json_object *json, WatchList *list, Error *reterr) {
        const JsonPath path = { .key = "metadata" };
        struct json_object *metadata;
        const char *next;
        int r;

        r = json_check_type(json, NULL, json_type_object, reterr)
                    ?: read_metadata(json, &metadata, reterr)
                    ?: read_string(metadata, &path, "resourceVersion", &list->version, reterr)
                    ?: json_read_text(metadata, &path, "continue", &next, reterr)
                    ?: json_read_list(json, NULL, "items", &list->items, reterr);
        if (r < 0)
                return r;

        list->next = next ?: "";
        list->n_items = list->items ? json_object_array_length(list->items) : 0;
        return 0;
}

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

static bool is_protobuf_list_end(const WatchEvent *event) {
        const KubeObjectMessage *object = (const KubeObjectMessage *) event->messages[2];
        const char *value = kube_protobuf_annotation(object->metadata, WATCH_LIST_END_ANNOTATION);

        return event->type == WATCH_EVENT_BOOKMARK && value && strcmp(value, "true") == 0;
}

static int read_protobuf_status(ProtobufCBinaryData raw, WatchEvent *event, Error *reterr) {
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

/* The bytes have to last as long as the event. */
static int read_enveloped(const uint8_t *bytes, size_t size, WatchEvent *event, Error *reterr) {
        KubeEnvelope *envelope;
        int r;

        r = kube_protobuf_open(bytes, size, &envelope, reterr);
        if (r < 0)
                return r;

        event->messages[1] = &envelope->base;
        return read_object(envelope->raw.data, envelope->raw.len, &event->messages[2],
                           &event->object, reterr);
}

static int watch_protobuf_event(Slice frame, WatchEvent *event, Error *reterr) {
        const KubeWatchEventMessage *message;
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
                return read_protobuf_status(message->object->raw, event, reterr);

        r = read_enveloped(message->object->raw.data, message->object->raw.len, event, reterr);
        if (r < 0)
                return r;

        event->is_list_end = is_protobuf_list_end(event);
        return 0;
}

static int watch_protobuf_list(Slice body, WatchList *list, Error *reterr) {
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

static int watch_protobuf_item(const WatchList *list, size_t i, WatchEvent *event, Error *reterr) {
        const KubeListMessage *message = (const KubeListMessage *) list->message;

        return read_object(message->items[i].data, message->items[i].len, &event->messages[0],
                           &event->object, reterr);
}

static int reader_begin(WatchReader *reader) {
        if (reader->tokener) {
                json_tokener_reset(reader->tokener);
                return 0;
        }

        reader->tokener = json_tokener_new_ex(DEPTH_MAX);
        return reader->tokener ? 0 : -ENOMEM;
}

static int refuse_json(WatchReader *reader, Error *reterr) {
        enum json_tokener_error error = json_tokener_get_error(reader->tokener);

        return error_set(reterr, ERROR_INVALID, "this is not JSON: %s",
                         error == json_tokener_success    ? "something stands behind its end"
                         : error == json_tokener_continue ? "its end is missing"
                                                          : json_tokener_error_desc(error));
}

/* Leaves out the managedFields of metadata at this depth, which no reader needs. */
static int parse_json(WatchReader *reader, Slice text, unsigned depth, struct json_object **ret,
                      Error *reterr) {
        cleanup(free_p) char *shorter = NULL;
        struct json_object *json;
        size_t n = 0, end;
        int r;

        if (text.size > INT_MAX)
                return error_set(reterr, ERROR_INVALID, "this is too large");
        if (utf8_valid_size(text.data, text.size) < text.size)
                return error_set(reterr, ERROR_INVALID, "this is not JSON: it is not UTF-8");

        r = json_empty_lists(text.data, text.size, KUBE_MANAGED_FIELDS, depth, &shorter, &n);
        if (r < 0)
                return r;
        if (shorter)
                text = (Slice){ .data = shorter, .size = n };

        r = reader_begin(reader);
        if (r < 0)
                return r;

        json_tokener_set_flags(reader->tokener, json_reading_flags(text.data, text.size));
        r = json_parse_next(reader->tokener, text.data, text.size, &json, &end);
        if (r < 0)
                return r;
        if (!json || end != text.size) {
                json_object_put(json);
                return refuse_json(reader, reterr);
        }

        if (text.size > TOKENER_KEPT)
                watch_reader_done(reader);

        *ret = json;
        return 0;
}

static int check_event(const WatchEvent *event, Error *reterr) {
        const char *member = NULL;

        if (event->type == WATCH_EVENT_ERROR)
                return 0;

        if (!event->object.resource_version[0])
                member = "resourceVersion";
        else if (event->type != WATCH_EVENT_BOOKMARK && !event->object.name[0])
                member = "name";

        return member ? error_set(reterr, ERROR_INVALID, "metadata.%s: is missing", member) : 0;
}

/* Moves a checked event to the caller. */
static int event_hand_over(WatchEvent *event, WatchEvent *ret, Error *reterr) {
        int r;

        r = check_event(event, reterr);
        if (r < 0)
                return r;

        *ret = *event;
        *event = WATCH_EVENT_INIT;
        return 0;
}

static WatchEvent event_empty(void) {
        return (WatchEvent){
                .object = { .namespace = "", .name = "", .uid = "", .resource_version = "" },
                .status = { .message = "" },
        };
}

int watch_event_read(WatchReader *reader, Slice frame, WatchEvent *ret, Error *reterr) {
        cleanup(watch_event_done) WatchEvent event = event_empty();
        int r;

        if (reader->is_protobuf) {
                r = watch_protobuf_event(frame, &event, reterr);
        } else {
                r = parse_json(reader, frame, KUBE_DEPTH_EVENT, &event.json, reterr);
                if (r >= 0)
                        r = watch_json_event(event.json, &event, reterr);
        }
        return r < 0 ? r : event_hand_over(&event, ret, reterr);
}

int watch_object_read(WatchReader *reader, Slice body, WatchEvent *ret, Error *reterr) {
        cleanup(watch_event_done) WatchEvent event = event_empty();
        int r;

        if (reader->is_protobuf) {
                r = read_enveloped((const uint8_t *) body.data, body.size, &event, reterr);
        } else {
                r = parse_json(reader, body, KUBE_DEPTH_OBJECT, &event.json, reterr);
                if (r >= 0)
                        r = watch_json_object(event.json, &event.object, reterr);
        }
        return r < 0 ? r : event_hand_over(&event, ret, reterr);
}

void watch_event_done(WatchEvent *event) {
        json_object_put(event->json);
        for (size_t i = 0; i < sizeof(event->messages) / sizeof(event->messages[0]); i++)
                kube_protobuf_free(event->messages[i]);
        *event = WATCH_EVENT_INIT;
}

int watch_list_read(WatchReader *reader, Slice body, WatchList *ret, Error *reterr) {
        cleanup(watch_list_done) WatchList list = WATCH_LIST_INIT;
        int r;

        if (reader->is_protobuf) {
                r = watch_protobuf_list(body, &list, reterr);
        } else {
                r = parse_json(reader, body, KUBE_DEPTH_LIST, &list.json, reterr);
                if (r >= 0)
                        r = watch_json_list(list.json, &list, reterr);
        }
        if (r < 0)
                return r;
        if (!list.version[0])
                return error_set(reterr, ERROR_INVALID, "metadata.resourceVersion: is missing");

        *ret = list;
        list = WATCH_LIST_INIT;
        return 0;
}

void watch_list_done(WatchList *list) {
        json_object_put(list->json);
        kube_protobuf_free(list->message);
        *list = WATCH_LIST_INIT;
}

int watch_list_item(const WatchList *list, size_t i, WatchEvent *ret, Error *reterr) {
        cleanup(watch_event_done) WatchEvent event = event_empty();
        int r;

        assert(i < list->n_items);

        r = list->message ? watch_protobuf_item(list, i, &event, reterr)
                          : watch_json_object(json_object_array_get_idx(list->items, i),
                                              &event.object, reterr);
        return r < 0 ? r : event_hand_over(&event, ret, reterr);
}

void watch_reader_done(WatchReader *reader) {
        if (reader->tokener)
                json_tokener_free(reader->tokener);
        reader->tokener = NULL;
}
