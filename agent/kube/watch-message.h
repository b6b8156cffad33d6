/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Messages of lists and watches, in JSON or in protobuf
 *
 * Reads only names, UIDs and versions of objects. Refuses a message without them as a whole. Pure.
 */

#include <json-c/json_types.h>
#include <protobuf-c/protobuf-c.h>

#include "agent/base/error.h"
#include "agent/base/slice.h"
#include "agent/kube/object.h"

struct json_tokener;

/* Keeps the JSON parser from one message to the next. */
typedef struct WatchReader {
        bool is_protobuf;
        struct json_tokener *tokener; /* owned */
} WatchReader;

#define WATCH_READER_INIT(is_protobuf_) ((WatchReader){ .is_protobuf = (is_protobuf_) })

typedef enum WatchEventType {
        WATCH_EVENT_ADDED,
        WATCH_EVENT_MODIFIED,
        WATCH_EVENT_DELETED,
        WATCH_EVENT_BOOKMARK, /* the object has only its version */
        WATCH_EVENT_ERROR,    /* a status stands in place of the object */
        _WATCH_EVENT_TYPE_MAX,
} WatchEventType;

typedef struct WatchStatus {
        int code; /* code as in HTTP; 0: none */
        const char *message;
        uint64_t retry_after_usec; /* pause that the server requests; 0: none */
} WatchStatus;

/* Texts are never NULL, and last as long as the event. */
typedef struct WatchEvent {
        WatchEventType type;
        KubeObject object;
        bool is_list_end; /* a bookmark where a streamed list ends */
        WatchStatus status;
        struct json_object *json; /* owner of the texts */
        ProtobufCMessage *messages[3];
} WatchEvent;

#define WATCH_EVENT_INIT ((WatchEvent){ .json = NULL })

typedef struct WatchList {
        const char *version;
        const char *next; /* token of the next page; "": this is the last one */
        size_t n_items;
        struct json_object *json;
        struct json_object *items; /* borrowed from json */
        ProtobufCMessage *message;
} WatchList;

#define WATCH_LIST_INIT ((WatchList){ .json = NULL })

/* Reads one frame of a watch. */
int watch_event_read(WatchReader *reader, Slice frame, WatchEvent *ret, Error *reterr);
void watch_event_done(WatchEvent *event);

/* Reads the answer to a GET of one object, as an event of the type ADDED, which borrows the
 * body. */
int watch_object_read(WatchReader *reader, Slice body, WatchEvent *ret, Error *reterr);

/* Reads the answer to a list. */
int watch_list_read(WatchReader *reader, Slice body, WatchList *ret, Error *reterr);
void watch_list_done(WatchList *list);

/* Reads an object of the list, as an event of the type ADDED; it lasts as long as the list. */
int watch_list_item(const WatchList *list, size_t i, WatchEvent *ret, Error *reterr);

void watch_reader_done(WatchReader *reader);
