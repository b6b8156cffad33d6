/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/watch-json.h"

#include <json-c/json_object.h>
#include <string.h>

#include "agent/base/quote.h"
#include "agent/document/json-reader.h"

#define USEC_PER_SEC ((uint64_t) 1000000)

int watch_event_type_from_string(const char *text, WatchEventType *ret, Error *reterr) {
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

static int expect_object(struct json_object *json, const JsonPath *path, Error *reterr) {
        if (json_object_is_type(json, json_type_object))
                return 0;

        return json_refuse_type(path, json, "an object", reterr);
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

int watch_json_object(struct json_object *json, KubeObject *object, Error *reterr) {
        const JsonPath path = { .key = "metadata" };
        struct json_object *metadata;
        int r;

        r = expect_object(json, NULL, reterr);
        if (r < 0)
                return r;

        r = read_metadata(json, &metadata, reterr);
        if (r < 0)
                return r;

        r = read_string(metadata, &path, "namespace", &object->namespace, reterr);
        if (r < 0)
                return r;

        r = read_string(metadata, &path, "name", &object->name, reterr);
        if (r < 0)
                return r;

        r = read_string(metadata, &path, "uid", &object->uid, reterr);
        if (r < 0)
                return r;

        object->json = json;
        return read_string(metadata, &path, "resourceVersion", &object->resource_version, reterr);
}

static bool is_list_end(struct json_object *json) {
        struct json_object *metadata, *annotations, *value;

        return json_object_object_get_ex(json, "metadata", &metadata) &&
               json_object_object_get_ex(metadata, "annotations", &annotations) &&
               json_object_is_type(annotations, json_type_object) &&
               json_object_object_get_ex(annotations, WATCH_LIST_END_ANNOTATION, &value) &&
               json_object_is_type(value, json_type_string) &&
               strcmp(json_object_get_string(value), "true") == 0;
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

static int read_status(struct json_object *json, WatchStatus *status, Error *reterr) {
        const char *message;
        int64_t code = 0;
        int r;

        r = expect_object(json, NULL, reterr);
        if (r < 0)
                return r;

        r = json_read_text(json, NULL, "message", &message, reterr);
        if (r < 0)
                return r;

        r = json_read_integer(json, NULL, "code", &code, reterr);
        if (r < 0)
                return r;

        status->message = message ?: "";
        status->code = code > 0 && code < 1000 ? (int) code : 0;
        return read_retry_after(json, status, reterr);
}

int watch_json_event(struct json_object *json, WatchEvent *event, Error *reterr) {
        struct json_object *object;
        const char *type;
        int r;

        r = expect_object(json, NULL, reterr);
        if (r < 0)
                return r;

        r = read_string(json, NULL, "type", &type, reterr);
        if (r < 0)
                return r;

        r = watch_event_type_from_string(type, &event->type, reterr);
        if (r < 0)
                return r;

        (void) json_object_object_get_ex(json, "object", &object);
        if (event->type == WATCH_EVENT_ERROR)
                return read_status(object, &event->status, reterr);

        event->is_list_end = event->type == WATCH_EVENT_BOOKMARK && is_list_end(object);
        return watch_json_object(object, &event->object, reterr);
}

int watch_json_list(struct json_object *json, WatchList *list, Error *reterr) {
        const JsonPath path = { .key = "metadata" };
        struct json_object *metadata;
        const char *next;
        int r;

        r = expect_object(json, NULL, reterr);
        if (r < 0)
                return r;

        r = read_metadata(json, &metadata, reterr);
        if (r < 0)
                return r;

        r = read_string(metadata, &path, "resourceVersion", &list->version, reterr);
        if (r < 0)
                return r;

        r = json_read_text(metadata, &path, "continue", &next, reterr);
        if (r < 0)
                return r;

        r = json_read_list(json, NULL, "items", &list->items, reterr);
        if (r < 0)
                return r;

        list->next = next ?: "";
        list->n_items = list->items ? json_object_array_length(list->items) : 0;
        return 0;
}
