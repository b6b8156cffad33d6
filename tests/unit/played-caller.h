/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A caller of the local API
 *
 * Its functions stand for those of rpc/server.h. What the caller gets is kept as lines of JSON, with ' for ". To be
 * included once.
 */

#include "agent/api/calls.h"
#include "agent/ctl/message-json.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "tests/unit/unit.h"

struct RpcRequest {
        Peer peer;
        const char *path;
        char text[8192];
        Error refusal;
        bool has_ended;
        bool has_room;     /* for another message of the stream */
        size_t reply_size; /* size that was checked before the reply was made */
        RpcStreamEvent on_ready, on_gone;
        void *userdata;
};

/* Shows a NodeImage as the phases of its tags alone. */
static inline void played_shorten(json_object *json) {
        json_object *text = json_object_object_get(json, "nodeImageJson");
        json_object *all = text ? json_tokener_parse(json_object_get_string(text)) : NULL;
        json_object *phases = json_object_new_array(),
                    *images = json_object_object_get(json_object_object_get(all, "status"),
                                                     "imageStatuses");
        char line[128];

        if (!text) {
                json_object_put(phases);
                return;
        }
        json_object_object_foreach(images, name, image) {
                json_object *tags = json_object_object_get(image, "tags");

                for (size_t i = 0; i < json_object_array_length(tags); i++) {
                        json_object *tag = json_object_array_get_idx(tags, i);

                        (void) snprintf(line, sizeof(line), "%s:%s %s", name,
                                        json_get_text(tag, "tag"), json_get_text(tag, "phase"));
                        json_object_array_add(phases, json_object_new_string(line));
                }
        }
        json_object_put(all);
        json_object_object_add(json, "nodeImageJson", phases);
}

static inline int played_take(RpcRequest *request, const ProtobufCMessage *message) {
        cleanup(json_object_put_p) json_object *json = json_from_message(message);
        size_t size = strlen(request->text);

        played_shorten(json);
        (void) snprintf(request->text + size, sizeof(request->text) - size, "%s\n",
                        json_object_to_json_string_ext(json,
                                                       JSON_C_TO_STRING_PLAIN |
                                                               JSON_C_TO_STRING_NOSLASHESCAPE));
        for (char *at = request->text + size; *at; at++)
                if (*at == '"')
                        *at = '\'';
        return 0;
}

const Peer *rpc_request_peer(const RpcRequest *request) {
        return &request->peer;
}

const char *rpc_request_path(const RpcRequest *request) {
        return request->path ?: "/inplaced.v1.Node/Call";
}

int rpc_request_check_reply(const RpcRequest *request, size_t size, Error *reterr) {
        ((RpcRequest *) request)->reply_size = size;
        return size > 100000 ? error_set(reterr, ERROR_UNAVAILABLE, "too large") : 0;
}

RpcRequest *rpc_request_unref(RpcRequest *request) {
        if (request)
                request->has_ended = true;
        return NULL;
}

int rpc_request_reply(RpcRequest *request, const ProtobufCMessage *reply) {
        assert_false(request->has_ended);
        request->has_ended = true;
        return played_take(request, reply);
}

int rpc_request_refuse(RpcRequest *request, const Error *error) {
        assert_false(request->has_ended);
        request->has_ended = true;
        (void) error_copy(&request->refusal, error);
        return 0;
}

void rpc_request_open_stream(RpcRequest *request, RpcStreamEvent on_ready, RpcStreamEvent on_gone,
                             void *userdata) {
        request->on_ready = on_ready;
        request->on_gone = on_gone;
        request->userdata = userdata;
}

bool rpc_request_can_send(const RpcRequest *request) {
        return request->has_room;
}

int rpc_request_send(RpcRequest *request, const ProtobufCMessage *message) {
        assert_false(request->has_ended);
        request->has_room = false;
        return played_take(request, message);
}

int rpc_request_finish(RpcRequest *request, const Error *error) {
        request->has_ended = true;
        if (error)
                (void) error_copy(&request->refusal, error);
        return 0;
}

/* The caller has read all that was sent. */
static inline void played_read(RpcRequest *request) {
        request->text[0] = '\0';
        request->has_room = true;
        assert_ok(request->on_ready(request, request->userdata));
}

static inline void played_leave(RpcRequest *request) {
        assert_ok(request->on_gone(request, request->userdata));
}

static inline void assert_answer(RpcRequest *request, const char *text) {
        assert_int_equal(request->refusal.kind, ERROR_NONE);
        assert_string_equal(request->text, text);
        request->text[0] = '\0';
}

static inline void assert_refusal(RpcRequest *request, ErrorKind kind, const char *message) {
        assert_true(request->has_ended);
        assert_string_equal(request->text, "");
        assert_int_equal(request->refusal.kind, kind);
        assert_string_equal(error_message(&request->refusal), message);
        error_done(&request->refusal);
}
