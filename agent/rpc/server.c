/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/server.h"

#include <assert.h>
#include <errno.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/time-units.h"
#include "agent/rpc/client.h"
#include "agent/rpc/room.h"
#include "agent/rpc/wire.h"

#define REQUEST_SIZE_MAX (2 * 1024 * 1024)
#define STREAMS_MAX 64
/* Refused calls whose end has not been read: a client that keeps to STREAMS_MAX has fewer. */
#define REFUSED_CALLS_MAX (2 * STREAMS_MAX)
#define IDLE_MSEC (5 * 60 * 1000)
#define REFUSED_IDLE_MSEC 5000 /* idle time of a connection whose calls are refused */
/* A silent peer, or one without HTTP/2, does not answer pings. */
#define PING_MSEC 10000
#define PING_ANSWER_MSEC 5000

#define MESSAGE_SEC 10 /* time for the message of a request to arrive */
#define END_SEC 30     /* time for the caller to read the last message */
#define ACCURACY_USEC ((uint64_t) 100000)

static const RoomLimits call_limits = {
        .what = "calls",
        .for_user = 64,
        .for_others = 128,
        .for_all = SIZE_MAX, /* as many as root's connections can have */
};

/* A reply may be as large as a client accepts. */
static const RoomLimits reply_limits = {
        .what = "bytes of unread answers",
        .for_user = RPC_REPLY_SIZE_MAX,
        .for_others = (size_t) 32 << 20,
        .for_all = (size_t) 128 << 20,
};

struct RpcServer {
        unsigned n_refs; /* the owner and each channel */
        CompletionQueue *completions;
        const RpcService *services;
        size_t n_services;
        void *userdata;
        RpcChannelFreed on_freed; /* may be NULL */
        bool is_stopping;
        RpcChannel *channels; /* includes ended ones that still have calls */
};

/* A connection. gRPC does not report which connection a call came by, so each connection has a gRPC
 * server of its own: the kernel's data about the peer is then certain for its calls. */
struct RpcChannel {
        LIST_LINKS(RpcChannel);
        unsigned n_refs; /* references of the connection, gRPC's server and each request */
        RpcServer *server;
        Peer peer;
        Error refusal;    /* refusal for all calls; unset: serve them */
        size_t n_calls;   /* without refused ones, which must not take the room of other users */
        size_t n_refused; /* refused calls that are not over */
        size_t n_bytes;   /* bytes of unread replies */

        bool has_ended;
        bool has_stopped; /* gRPC's server is ending, or has ended */
        grpc_server *grpc;
        Completion shutdown;
        Completion arrival; /* the next call has arrived */
        bool is_waiting;    /* waiting for the next call */
        grpc_call *call;
        grpc_call_details details;
        grpc_metadata_array metadata;
};

/* A call that is being served. */
struct RpcRequest {
        RpcChannel *channel;
        const RpcService *service; /* NULL: there is no such method */
        grpc_call *grpc;
        Timer deadline;
        size_t n_bytes; /* bytes of the reply, until it was read */
        unsigned n_in_flight;
        bool is_owned;
        bool is_refused; /* there was no room for it */
        bool is_awaited; /* the message has not arrived */
        bool is_gone;    /* the call has ended, for any reason */
        bool is_sending;
        bool has_header; /* the initial metadata were sent */

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

static RpcServer *rpc_server_unref(RpcServer *server) {
        if (--server->n_refs == 0)
                free(server);
        return NULL;
}

static const RpcService *rpc_server_find(const RpcServer *server, grpc_slice path) {
        for (size_t i = 0; i < server->n_services; i++)
                if (grpc_slice_str_cmp(path, server->services[i].path) == 0)
                        return &server->services[i];

        return NULL;
}

static RoomUse rpc_channel_count(const RpcChannel *channel, bool is_about_replies) {
        RoomUse use = { 0 };

        for (const RpcChannel *c = channel->server->channels; c; c = c->next)
                room_count(&use, peer_is_root(&c->peer), c->peer.uid == channel->peer.uid,
                           is_about_replies ? c->n_bytes : c->n_calls);
        return use;
}

/* Refuses one more call. */
static int rpc_channel_check_call(const RpcChannel *channel, Error *reterr) {
        const RoomUse use = rpc_channel_count(channel, false);

        if (channel->refusal.kind != ERROR_NONE)
                return error_copy(reterr, &channel->refusal);

        return room_check(&call_limits, &use, peer_is_root(&channel->peer), channel->peer.uid, 1,
                          reterr);
}

/* Refuses the bytes of one more reply. */
static int rpc_channel_check_reply(const RpcChannel *channel, size_t size, Error *reterr) {
        const RoomUse use = rpc_channel_count(channel, true);

        if (size > RPC_REPLY_SIZE_MAX)
                return error_set(reterr, ERROR_INTERNAL,
                                 "the answer has %zu bytes, more than the %d that a caller takes",
                                 size, RPC_REPLY_SIZE_MAX);

        return room_check(&reply_limits, &use, peer_is_root(&channel->peer), channel->peer.uid,
                          size, reterr);
}

static RpcChannel *rpc_channel_unref(RpcChannel *channel) {
        if (--channel->n_refs > 0)
                return NULL;

        if (channel->server->on_freed && !channel->server->is_stopping)
                channel->server->on_freed(channel->server->userdata);
        list_remove(&channel->server->channels, channel);
        rpc_server_unref(channel->server);
        peer_done(&channel->peer);
        error_done(&channel->refusal);
        free(channel);
        return NULL;
}

static RpcRequest *rpc_request_free_if_done(RpcRequest *request) {
        if (request->n_in_flight > 0 || request->is_owned)
                return NULL;

        timer_done(&request->deadline);
        grpc_call_unref(request->grpc);
        grpc_byte_buffer_destroy(request->incoming);
        grpc_byte_buffer_destroy(request->outgoing);
        grpc_slice_unref(request->status_details);
        if (request->is_refused)
                request->channel->n_refused--;
        else
                request->channel->n_calls--;
        request->channel->n_bytes -= request->n_bytes;
        rpc_channel_unref(request->channel);
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

const Peer *rpc_request_peer(const RpcRequest *request) {
        return &request->channel->peer;
}

static void rpc_request_start_batch(RpcRequest *request, const grpc_op *ops, size_t n,
                                    Completion *tag) {
        grpc_call_error e;

        request->n_in_flight++;
        e = grpc_call_start_batch(request->grpc, ops, n,
                                  completion_begin(request->channel->server->completions, tag),
                                  NULL);
        assert(e == GRPC_CALL_OK); /* anything else is a bug in this file */
        (void) e;
}

/* gcc's analyzer does not count the operations: one is in flight until here. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-use-after-free"
/* Notes a finished operation, and frees the request with the last one. */
static void rpc_request_settle(RpcRequest *request) {
        request->n_in_flight--;
        rpc_request_free_if_done(request);
}
#pragma GCC diagnostic pop

static bool rpc_request_is_closing(const RpcRequest *request) {
        return completion_queue_is_closing(request->channel->server->completions);
}

/* The caller has read all messages, or is gone. */
static int on_finished(bool is_ok, void *userdata) {
        RpcRequest *request = userdata;

        request->channel->n_bytes -= request->n_bytes;
        request->n_bytes = 0;
        rpc_request_settle(request);
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
        int r = 0;

        if (!request->is_gone && !rpc_request_is_closing(request)) {
                rpc_request_send_batch(request, reply, error, true, &request->finished);
                request->is_gone = true; /* nothing is left to cancel */
                r = timer_start(&request->deadline, END_SEC * USEC_PER_SEC);
        }

        rpc_request_unref(request);
        return r;
}

int rpc_request_check_reply(const RpcRequest *request, size_t size, Error *reterr) {
        return rpc_channel_check_reply(request->channel, size, reterr);
}

int rpc_request_reply(RpcRequest *request, const ProtobufCMessage *reply) {
        size_t size = protobuf_c_message_get_packed_size(reply);
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = rpc_channel_check_reply(request->channel, size, &error);
        if (error.kind != ERROR_NONE)
                return rpc_request_end(request, NULL, &error);
        if (r < 0)
                return r;

        request->n_bytes = size;
        request->channel->n_bytes += size;
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

static void message_done(ProtobufCMessage **message) {
        protobuf_c_message_free_unpacked(*message, NULL);
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

        r = request->service->serve(request, message, request->channel->server->userdata);
        if (r < 0)
                return r;

        if (request->is_owned && request->on_ready && rpc_request_can_send(request))
                return request->on_ready(request, request->userdata);

        return 0;
}

static int on_received(bool is_ok, void *userdata) {
        RpcRequest *request = userdata;
        int r = 0;

        request->is_awaited = false;
        if (!request->is_gone) /* else the deadline is that of the end */
                timer_stop(&request->deadline);
        if (is_ok && !request->is_gone && !request->channel->server->is_stopping)
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
        if (request->is_awaited)
                rpc_request_start_batch(request, &receive_op, 1, &request->received);
}

/* Refuses a call whose message is late, and cancels one whose end is, since it only takes
 * memory. */
static int on_deadline(void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        RpcRequest *request = userdata;

        if (request->is_gone) {
                (void) grpc_call_cancel(request->grpc, NULL);
                return 0;
        }

        (void) error_set(&error, ERROR_TIMEOUT, "the request did not arrive within %d s",
                         MESSAGE_SEC);
        return rpc_request_refuse(request, &error);
}

static void rpc_channel_stop(RpcChannel *channel) {
        CompletionQueue *completions = channel->server->completions;

        if (channel->has_stopped)
                return;

        channel->has_stopped = true;
        grpc_server_shutdown_and_notify(channel->grpc, completion_queue_get_grpc(completions),
                                        completion_begin(completions, &channel->shutdown));
        grpc_server_cancel_all_calls(channel->grpc);
}

/* Takes the call over, reads its message and passes both to the service, or refuses it; service
 * NULL: unknown method. Refuses a call without room before it reads it. */
static int rpc_request_receive(RpcChannel *channel, grpc_call *call, const RpcService *service) {
        cleanup(error_done) Error error = ERROR_INIT;
        RpcRequest *request;
        int r;

        r = rpc_channel_check_call(channel, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        request = malloc(sizeof(*request));
        if (!request)
                return -ENOMEM;

        *request = (RpcRequest){
                .channel = channel,
                .service = service,
                .grpc = call,
                .is_owned = true,
                .is_refused = error.kind != ERROR_NONE,
                .is_awaited = error.kind == ERROR_NONE,
                .closed = { .handler = on_closed, .userdata = request },
                .received = { .handler = on_received, .userdata = request },
                .sent = { .handler = on_sent, .userdata = request },
                .finished = { .handler = on_finished, .userdata = request },
                .status_details = grpc_empty_slice(),
        };
        channel->n_refs++;
        if (request->is_refused)
                channel->n_refused++;
        else
                channel->n_calls++;
        timer_init(&request->deadline, completion_queue_get_event(channel->server->completions),
                   ACCURACY_USEC, on_deadline, request);
        r = timer_start(&request->deadline, MESSAGE_SEC * USEC_PER_SEC);
        rpc_request_start(request);
        if (r < 0)
                return r;

        if (request->is_awaited)
                return 0;

        r = rpc_request_refuse(request, &error);
        if (channel->n_refused > REFUSED_CALLS_MAX)
                rpc_channel_stop(channel);
        return r;
}

static void rpc_channel_wait(RpcChannel *channel) {
        CompletionQueue *completions = channel->server->completions;
        grpc_completion_queue *queue = completion_queue_get_grpc(completions);
        grpc_call_error e;

        grpc_call_details_init(&channel->details);
        grpc_metadata_array_init(&channel->metadata);
        channel->is_waiting = true;
        e = grpc_server_request_call(channel->grpc, &channel->call, &channel->details,
                                     &channel->metadata, queue, queue,
                                     completion_begin(completions, &channel->arrival));
        assert(e == GRPC_CALL_OK);
        (void) e;
}

static void rpc_channel_unref_if_done(RpcChannel *channel) {
        if (!channel->is_waiting && !channel->grpc)
                rpc_channel_unref(channel);
}

static int on_arrival(bool is_ok, void *userdata) {
        RpcChannel *channel = userdata;
        int r = 0;

        channel->is_waiting = false;
        if (is_ok && !channel->has_stopped)
                r = rpc_request_receive(channel, channel->call,
                                        rpc_server_find(channel->server, channel->details.method));
        else if (is_ok)
                grpc_call_unref(channel->call);

        grpc_call_details_destroy(&channel->details);
        grpc_metadata_array_destroy(&channel->metadata);
        if (!channel->has_stopped)
                rpc_channel_wait(channel);
        else
                rpc_channel_unref_if_done(channel);
        return r;
}

static int on_shutdown(bool is_ok, void *userdata) {
        RpcChannel *channel = userdata;

        grpc_server_destroy(channel->grpc);
        channel->grpc = NULL;
        rpc_channel_unref_if_done(channel);
        return 0;
}

static grpc_server *grpc_server_new(CompletionQueue *queue, bool is_refused) {
        grpc_arg args[] = {
                { GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                  .value.integer = REQUEST_SIZE_MAX },
                { GRPC_ARG_INTEGER, GRPC_ARG_MAX_CONCURRENT_STREAMS, .value.integer = STREAMS_MAX },
                { GRPC_ARG_INTEGER, GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                  .value.integer = is_refused ? REFUSED_IDLE_MSEC : IDLE_MSEC },
                { GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIME_MS, .value.integer = PING_MSEC },
                { GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                  .value.integer = PING_ANSWER_MSEC },
                { GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, .value.integer = 1 },
                /* Pings have a price, and a client may keep a quiet stream alive with them. */
                { GRPC_ARG_INTEGER, GRPC_ARG_HTTP2_MAX_PING_STRIKES, .value.integer = 0 },
                /* gRPC unpacks a compressed message before it compares the size with the limit. */
                { GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, .value.integer = 0 },
                { GRPC_ARG_INTEGER, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
                  .value.integer = 1 << GRPC_COMPRESS_NONE },
        };
        const grpc_channel_args list = {
                .num_args = sizeof(args) / sizeof(args[0]),
                .args = args,
        };
        grpc_server *server = grpc_server_create(&list, NULL);

        grpc_server_register_completion_queue(server, completion_queue_get_grpc(queue), NULL);
        grpc_server_start(server);
        return server;
}

static void rpc_channel_open(RpcChannel *channel, int fd) {
        grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();

        channel->grpc =
                grpc_server_new(channel->server->completions, channel->refusal.kind != ERROR_NONE);
        rpc_channel_wait(channel);
        grpc_server_add_channel_from_fd(channel->grpc, fd, credentials);
        grpc_server_credentials_release(credentials);
}

void rpc_channel_end(RpcChannel *channel) {
        if (channel->has_ended)
                return;

        channel->has_ended = true;
        rpc_channel_stop(channel);
        rpc_channel_unref(channel);
}

int rpc_server_new(CompletionQueue *queue, const RpcService *services, size_t n_services,
                   void *userdata, RpcServer **ret) {
        RpcServer *server;

        server = malloc(sizeof(*server));
        if (!server)
                return -ENOMEM;

        *server = (RpcServer){
                .n_refs = 1,
                .completions = queue,
                .services = services,
                .n_services = n_services,
                .userdata = userdata,
        };
        *ret = server;
        return 0;
}

void rpc_server_observe(RpcServer *server, RpcChannelFreed on_freed) {
        server->on_freed = on_freed;
}

RpcServer *rpc_server_free(RpcServer *server) {
        RpcChannel *next;

        if (!server)
                return NULL;

        server->is_stopping = true;
        for (RpcChannel *channel = server->channels; channel; channel = next) {
                next = channel->next;
                rpc_channel_end(channel);
        }
        return rpc_server_unref(server);
}

int rpc_server_add_connection(RpcServer *server, int fd, Peer *peer, const Error *refusal,
                              RpcChannel **ret) {
        RpcChannel *channel;

        channel = malloc(sizeof(*channel));
        if (!channel) {
                close_p(&fd);
                peer_done(peer);
                return -ENOMEM;
        }

        *channel = (RpcChannel){
                .n_refs = 2,
                .server = server,
                .peer = *peer,
                .shutdown = { .handler = on_shutdown, .userdata = channel },
                .arrival = { .handler = on_arrival, .userdata = channel },
        };
        if (refusal)
                (void) error_copy(&channel->refusal, refusal);
        server->n_refs++;
        list_prepend(&server->channels, channel);
        rpc_channel_open(channel, fd);

        *ret = channel;
        return 0;
}
