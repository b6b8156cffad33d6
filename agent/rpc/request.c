/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/rpc/wire.h"

struct RpcRequest {
        CompletionQueue *completions;
        const RpcService *service; /* NULL: there is no such method */
        RpcDoor *door;
        grpc_call *grpc;
        unsigned n_in_flight;
        bool is_owned;
        bool is_gone; /* the call is over, for whatever reason */
        bool is_sending;
        bool has_header; /* the initial metadata are on their way */

        Completion closed;
        Completion received;
        Completion sent;
        Completion finished;

        grpc_byte_buffer *incoming;
        grpc_byte_buffer *outgoing;
        grpc_slice status_details;
        int is_canceled;

        RpcStreamEvent on_ready;
        RpcStreamEvent on_gone;
        void *userdata;
};

int rpc_door_new(void *userdata, RpcDoor **ret) {
        RpcDoor *door;

        door = malloc(sizeof(*door));
        if (!door)
                return -ENOMEM;

        *door = (RpcDoor){ .n_refs = 1, .is_open = true, .userdata = userdata };
        *ret = door;
        return 0;
}

RpcDoor *rpc_door_unref(RpcDoor *door) {
        if (--door->n_refs == 0)
                free(door);
        return NULL;
}

static void message_done(ProtobufCMessage **message) {
        protobuf_c_message_free_unpacked(*message, NULL);
}

static RpcRequest *rpc_request_free_if_done(RpcRequest *request) {
        if (request->n_in_flight > 0 || request->is_owned)
                return NULL;

        grpc_call_unref(request->grpc);
        grpc_byte_buffer_destroy(request->incoming);
        grpc_byte_buffer_destroy(request->outgoing);
        grpc_slice_unref(request->status_details);
        rpc_door_unref(request->door);
        free(request);
        return NULL;
}

RpcRequest *rpc_request_unref(RpcRequest *request) {
        if (!request)
                return NULL;

        request->is_owned = false;
        if (request->n_in_flight > 0 && !request->is_gone)
                (void) grpc_call_cancel(request->grpc, NULL);
        return rpc_request_free_if_done(request);
}

const char *rpc_request_path(const RpcRequest *request) {
        return request->service->path;
}

static void rpc_request_start_batch(RpcRequest *request, const grpc_op *ops, size_t n,
                                    Completion *tag) {
        grpc_call_error e;

        request->n_in_flight++;
        e = grpc_call_start_batch(request->grpc, ops, n,
                                  completion_begin(request->completions, tag), NULL);
        assert(e == GRPC_CALL_OK); /* anything else is a bug in this file */
        (void) e;
}

/* Lets an operation go that has come back, and with the last one the request. */
static void rpc_request_settle(RpcRequest *request) {
        request->n_in_flight--;
        rpc_request_free_if_done(request);
}

static bool rpc_request_is_closing(const RpcRequest *request) {
        return completion_queue_is_closing(request->completions);
}

static int on_finished(bool is_ok, void *userdata) {
        rpc_request_settle(userdata);
        return 0;
}

/* Puts the message, the header before it, and the end behind it into one batch. */
static void rpc_request_send_batch(RpcRequest *request, const ProtobufCMessage *message,
                                   const Error *error, bool is_last, Completion *tag) {
        grpc_op ops[3] = { 0 };
        size_t n = 0;

        if (!request->has_header)
                ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
        request->has_header = true;

        if (message) {
                grpc_byte_buffer_destroy(request->outgoing);
                request->outgoing = wire_pack(message);
                ops[n].op = GRPC_OP_SEND_MESSAGE;
                ops[n++].data.send_message.send_message = request->outgoing;
        }

        if (is_last) {
                grpc_slice_unref(request->status_details);
                request->status_details =
                        grpc_slice_from_copied_string(error ? error_message(error) : "");
                ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
                ops[n].data.send_status_from_server.status =
                        error ? wire_status(error->kind) : GRPC_STATUS_OK;
                ops[n++].data.send_status_from_server.status_details = &request->status_details;
        }

        rpc_request_start_batch(request, ops, n, tag);
}

static int rpc_request_end(RpcRequest *request, const ProtobufCMessage *reply, const Error *error) {
        if (!request->is_gone && !rpc_request_is_closing(request)) {
                rpc_request_send_batch(request, reply, error, true, &request->finished);
                request->is_gone = true; /* nothing is left to cancel */
        }

        rpc_request_unref(request);
        return 0;
}

int rpc_request_reply(RpcRequest *request, const ProtobufCMessage *reply) {
        return rpc_request_end(request, reply, NULL);
}

int rpc_request_refuse(RpcRequest *request, const Error *error) {
        return rpc_request_end(request, NULL, error);
}

int rpc_request_finish(RpcRequest *request, const Error *error) {
        return rpc_request_end(request, NULL, error);
}

bool rpc_request_can_send(const RpcRequest *request) {
        return !request->is_sending && !request->is_gone;
}

int rpc_request_send(RpcRequest *request, const ProtobufCMessage *message) {
        assert(rpc_request_can_send(request));

        request->is_sending = true;
        rpc_request_send_batch(request, message, NULL, false, &request->sent);
        return 0;
}

static int on_sent(bool is_ok, void *userdata) {
        RpcRequest *request = userdata;
        int r = 0;

        request->is_sending = false;
        if (request->is_owned && !request->is_gone && is_ok && request->on_ready)
                r = request->on_ready(request, request->userdata);

        rpc_request_settle(request);
        return r;
}

void rpc_request_open_stream(RpcRequest *request, RpcStreamEvent on_ready, RpcStreamEvent on_gone,
                             void *userdata) {
        request->on_ready = on_ready;
        request->on_gone = on_gone;
        request->userdata = userdata;
}

static int on_closed(bool is_ok, void *userdata) {
        RpcRequest *request = userdata;
        bool was_gone = request->is_gone;
        int r = 0;

        request->is_gone = true;
        if (request->is_owned && !was_gone && request->on_gone)
                r = request->on_gone(request, request->userdata);

        rpc_request_settle(request);
        return r;
}

static int rpc_request_refuse_as(RpcRequest *request, ErrorKind kind, const char *reason) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) error_set(&error, kind, "%s", reason);
        return rpc_request_refuse(request, &error);
}

static int rpc_request_serve(RpcRequest *request) {
        cleanup(message_done) ProtobufCMessage *message = NULL;
        int r;

        if (!request->service)
                return rpc_request_refuse_as(request, ERROR_UNSUPPORTED,
                                             "inplaced has no such method");

        message = wire_unpack_request(request->service->request, request->incoming);
        grpc_byte_buffer_destroy(request->incoming);
        request->incoming = NULL;
        if (!message)
                return rpc_request_refuse_as(request, ERROR_INVALID, "the request cannot be read");

        r = request->service->serve(request, message, request->door->userdata);
        if (r < 0)
                return r;

        if (request->is_owned && request->on_ready && rpc_request_can_send(request))
                return request->on_ready(request, request->userdata);

        return 0;
}

static int on_received(bool is_ok, void *userdata) {
        RpcRequest *request = userdata;
        int r = 0;

        if (is_ok && !request->is_gone && request->door->is_open)
                r = rpc_request_serve(request);
        else
                rpc_request_unref(request);

        rpc_request_settle(request);
        return r;
}

static void rpc_request_start(RpcRequest *request) {
        const grpc_op close_op = {
                .op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                .data.recv_close_on_server.cancelled = &request->is_canceled,
        };
        const grpc_op receive_op = {
                .op = GRPC_OP_RECV_MESSAGE,
                .data.recv_message.recv_message = &request->incoming,
        };

        rpc_request_start_batch(request, &close_op, 1, &request->closed);
        rpc_request_start_batch(request, &receive_op, 1, &request->received);
}

int rpc_request_receive(CompletionQueue *queue, grpc_call *call, const RpcService *service,
                        RpcDoor *door) {
        RpcRequest *request;

        request = malloc(sizeof(*request));
        if (!request)
                return -ENOMEM;

        *request = (RpcRequest){
                .completions = queue,
                .service = service,
                .door = door,
                .grpc = call,
                .is_owned = true,
                .closed = { .handler = on_closed, .userdata = request },
                .received = { .handler = on_received, .userdata = request },
                .sent = { .handler = on_sent, .userdata = request },
                .finished = { .handler = on_finished, .userdata = request },
                .status_details = grpc_empty_slice(),
        };
        door->n_refs++;
        rpc_request_start(request);
        return 0;
}
