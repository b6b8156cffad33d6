/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/watch-message.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/json_tokener.h>
#include <limits.h>

#include "agent/base/cleanup.h"
#include "agent/kube/protobuf.h"
#include "agent/kube/watch-json.h"
#include "agent/kube/watch-protobuf.h"

#define DEPTH_MAX 128

/* Its buffer grows with the longest text; that of a large object is not kept. */
#define TOKENER_KEPT ((size_t) 64 << 10)

static int reader_begin(WatchReader *reader) {
        if (reader->tokener) {
                json_tokener_reset(reader->tokener);
                return 0;
        }

        reader->tokener = json_tokener_new_ex(DEPTH_MAX);
        if (!reader->tokener)
                return -ENOMEM;

        json_tokener_set_flags(reader->tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
        return 0;
}

static int refuse_json(WatchReader *reader, Error *reterr) {
        enum json_tokener_error error = json_tokener_get_error(reader->tokener);

        return error_set(reterr, ERROR_INVALID, "this is not JSON: %s",
                         error == json_tokener_success    ? "something stands behind its end"
                         : error == json_tokener_continue ? "its end is missing"
                                                          : json_tokener_error_desc(error));
}

static int parse_json(WatchReader *reader, Slice text, struct json_object **ret, Error *reterr) {
        struct json_object *json;
        int r;

        if (text.size > INT_MAX)
                return error_set(reterr, ERROR_INVALID, "this is too large");

        r = reader_begin(reader);
        if (r < 0)
                return r;

        json = json_tokener_parse_ex(reader->tokener, text.data, (int) text.size);
        if (!json || json_tokener_get_parse_end(reader->tokener) != text.size) {
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
                r = parse_json(reader, frame, &event.json, reterr);
                if (r >= 0)
                        r = watch_json_event(event.json, &event, reterr);
        }
        if (r < 0)
                return r;

        r = check_event(&event, reterr);
        if (r < 0)
                return r;

        *ret = event;
        event = WATCH_EVENT_INIT;
        return 0;
}

int watch_object_read(WatchReader *reader, Slice body, WatchEvent *ret, Error *reterr) {
        cleanup(watch_event_done) WatchEvent event = event_empty();
        int r;

        assert(!reader->is_protobuf);

        r = parse_json(reader, body, &event.json, reterr);
        if (r >= 0)
                r = watch_json_object(event.json, &event.object, reterr);
        if (r >= 0)
                r = check_event(&event, reterr);
        if (r < 0)
                return r;

        *ret = event;
        event = WATCH_EVENT_INIT;
        return 0;
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
                r = parse_json(reader, body, &list.json, reterr);
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
        if (r < 0)
                return r;

        r = check_event(&event, reterr);
        if (r < 0)
                return r;

        *ret = event;
        event = WATCH_EVENT_INIT;
        return 0;
}

void watch_reader_done(WatchReader *reader) {
        if (reader->tokener)
                json_tokener_free(reader->tokener);
        reader->tokener = NULL;
}
