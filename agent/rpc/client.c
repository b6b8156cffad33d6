/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/client.h"

#include <assert.h>
#include <errno.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/rpc/connection.h"
#include "agent/rpc/wire.h"

#define AUTHORITY "localhost"

struct RpcClient {
        unsigned n_refs; /* the owner and each call */
        CompletionQueue *completions;
        grpc_channel *channel;
        Connection *connection;
        char *path; /* path of the socket; NULL: the owner made the connection */
        RpcClosed on_closed;
        void *userdata;
        RpcObserver observer;
        void *observer_userdata;
};

struct RpcCall {
        Completion end;      /* the status has arrived */
        Completion incoming; /* the next message of a stream has arrived */
        unsigned n_in_flight;
        bool is_owned;
        bool has_ended;    /* the status has arrived, but maybe not the last message */
        bool has_messages; /* the stream may have more messages */
        bool is_malformed; /* a message could not be read */

        RpcMessage on_message; /* NULL for a unary call */
        RpcDone done;
        void *userdata;
        const RpcMethod *method;
        RpcClient *client;
        uint64_t started_usec;
        uint64_t timeout_usec;

        grpc_call *grpc;
        grpc_byte_buffer *request;
        grpc_byte_buffer *reply;
        grpc_metadata metadata;
        size_t n_metadata; /* 0 or 1 */
        grpc_metadata_array header;
        grpc_metadata_array trailer;
        grpc_status_code status;
        grpc_slice details;
};

DEFINE_CLEANUP(RpcClient *, rpc_client_free)
DEFINE_CLEANUP(char *, gpr_free)

static void message_done(ProtobufCMessage **message) {
        protobuf_c_message_free_unpacked(*message, NULL);
}

static void rpc_client_unref(RpcClient *client) {
        if (--client->n_refs > 0)
                return;

        free(client->path);
        free(client);
}

static RpcCall *rpc_call_free_if_done(RpcCall *call) {
        if (call->n_in_flight > 0 || call->is_owned)
                return NULL;

        grpc_call_unref(call->grpc);
        grpc_byte_buffer_destroy(call->request);
        grpc_byte_buffer_destroy(call->reply);
        if (call->n_metadata > 0)
                grpc_slice_unref(call->metadata.value);
        grpc_metadata_array_destroy(&call->header);
        grpc_metadata_array_destroy(&call->trailer);
        grpc_slice_unref(call->details);
        rpc_client_unref(call->client);
        free(call);
        return NULL;
}

RpcCall *rpc_call_unref(RpcCall *call) {
        if (!call)
                return NULL;

        call->is_owned = false;
        if (call->n_in_flight > 0)
                (void) grpc_call_cancel(call->grpc, NULL);
        return rpc_call_free_if_done(call);
}

static int rpc_call_fail(RpcCall *call, ErrorKind kind, const char *reason) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) error_set(&error, kind, "%s", reason);
        return call->done(NULL, &error, call->userdata);
}

/* gRPC calls it unknown that the connection is gone, if the owner frees the client before gRPC notices that. */
static ErrorKind rpc_call_error_kind(const RpcCall *call) {
        bool is_cut = call->status == GRPC_STATUS_UNKNOWN &&
                      grpc_slice_str_cmp(call->details, "Stream removed") == 0;

        if (is_cut)
                return ERROR_UNAVAILABLE;
        return clock_monotonic_usec() - call->started_usec >= call->timeout_usec
                       ? wire_late_error_kind(call->status)
                       : wire_error_kind(call->status);
}

static int rpc_call_fail_with_status(RpcCall *call) {
        cleanup(gpr_free_p) char *details = grpc_slice_to_c_string(call->details);
        const char *reason = details && details[0] ? details : wire_status_to_string(call->status);

        return rpc_call_fail(call, rpc_call_error_kind(call), reason);
}

static void rpc_client_observe(const RpcClient *client, const RpcMethod *method,
                               uint64_t started_usec, ErrorKind result) {
        if (client->observer)
                client->observer(method, clock_monotonic_usec() - started_usec, result,
                                 client->observer_userdata);
}

static int rpc_call_finish(RpcCall *call) {
        cleanup(message_done) ProtobufCMessage *reply = NULL;

        rpc_client_observe(call->client, call->method, call->started_usec,
                           rpc_call_error_kind(call));

        if (call->is_malformed)
                return rpc_call_fail(call, ERROR_INTERNAL, "the reply cannot be read");
        if (call->status != GRPC_STATUS_OK)
                return rpc_call_fail_with_status(call);
        if (call->on_message)
                return call->done(NULL, NULL, call->userdata);

        reply = wire_unpack(call->method->reply, call->reply);
        if (!reply)
                return rpc_call_fail(call, ERROR_INTERNAL, "the reply cannot be read");

        return call->done(reply, NULL, call->userdata);
}

/* Runs the last callback once status and messages have arrived. */
static int rpc_call_settle(RpcCall *call) {
        int r = 0;

        if (call->is_owned && call->has_ended && !call->has_messages)
                r = rpc_call_finish(call);

        call->n_in_flight--;
        rpc_call_free_if_done(call);
        return r;
}

static int on_end(bool is_ok, void *userdata) {
        RpcCall *call = userdata;

        call->has_ended = true;
        return rpc_call_settle(call);
}

static void rpc_call_start_batch(RpcCall *call, const grpc_op *ops, size_t n, Completion *tag) {
        grpc_call_error e;

        call->n_in_flight++;
        e = grpc_call_start_batch(call->grpc, ops, n,
                                  completion_begin(call->client->completions, tag), NULL);
        assert(e == GRPC_CALL_OK); /* anything else is a bug in this file */
        (void) e;
}

static void rpc_call_receive(RpcCall *call) {
        const grpc_op op = {
                .op = GRPC_OP_RECV_MESSAGE,
                .data.recv_message.recv_message = &call->reply,
        };

        rpc_call_start_batch(call, &op, 1, &call->incoming);
}

static int rpc_call_deliver(RpcCall *call) {
        cleanup(message_done) ProtobufCMessage *message = NULL;

        message = wire_unpack(call->method->reply, call->reply);
        grpc_byte_buffer_destroy(call->reply);
        call->reply = NULL;

        if (!message) {
                call->is_malformed = true;
                (void) grpc_call_cancel(call->grpc, NULL);
                return 0;
        }

        return call->on_message(message, call->userdata);
}

static int on_incoming(bool is_ok, void *userdata) {
        RpcCall *call = userdata;
        int r, k;

        call->has_messages = call->is_owned && is_ok && call->reply;
        if (!call->has_messages)
                return rpc_call_settle(call);

        r = rpc_call_deliver(call);
        call->has_messages = call->is_owned && !call->is_malformed &&
                             !completion_queue_is_closing(call->client->completions);
        if (call->has_messages)
                rpc_call_receive(call);

        k = rpc_call_settle(call);
        return r < 0 ? r : k;
}

/* Sends the request and begins to receive. A unary call is one batch with one tag; the messages of
 * a stream come in batches of their own. */
static void rpc_call_send(RpcCall *call) {
        grpc_op ops[6] = {
                { .op = GRPC_OP_SEND_INITIAL_METADATA,
                  .data.send_initial_metadata = {
                          .count = call->n_metadata,
                          .metadata = &call->metadata,
                  } },
                { .op = GRPC_OP_SEND_MESSAGE,
                  .data.send_message.send_message = call->request },
                { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
                { .op = GRPC_OP_RECV_INITIAL_METADATA,
                  .data.recv_initial_metadata.recv_initial_metadata = &call->header },
                { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                  .data.recv_status_on_client = {
                          .trailing_metadata = &call->trailer,
                          .status = &call->status,
                          .status_details = &call->details,
                  } },
                { .op = GRPC_OP_RECV_MESSAGE,
                  .data.recv_message.recv_message = &call->reply },
        };

        call->has_messages = call->on_message;
        rpc_call_start_batch(call, ops, call->on_message ? 5 : 6, &call->end);
        if (call->on_message)
                rpc_call_receive(call);
}

static gpr_timespec deadline_from_now(uint64_t timeout_usec) {
        if (timeout_usec == RPC_NO_TIMEOUT)
                return gpr_inf_future(GPR_CLOCK_MONOTONIC);

        return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                            gpr_time_from_micros((int64_t) timeout_usec, GPR_TIMESPAN));
}

static int rpc_call_start(RpcClient *client, const RpcMethod *method, const char *metadata_value,
                          const ProtobufCMessage *request, uint64_t timeout_usec,
                          RpcMessage on_message, RpcDone done, void *userdata, RpcCall **ret) {

        RpcCall *call;

        call = malloc(sizeof(*call));
        if (!call)
                return -ENOMEM;

        *call = (RpcCall){
                .end = { .handler = on_end, .userdata = call },
                .incoming = { .handler = on_incoming, .userdata = call },
                .is_owned = true,
                .on_message = on_message,
                .done = done,
                .userdata = userdata,
                .method = method,
                .client = client,
                .started_usec = clock_monotonic_usec(),
                .timeout_usec = timeout_usec,
                .request = wire_pack(request),
                .details = grpc_empty_slice(),
                .grpc = grpc_channel_create_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                                 completion_queue_get_grpc(client->completions),
                                                 grpc_slice_from_static_string(method->path), NULL,
                                                 deadline_from_now(timeout_usec), NULL),
        };
        if (metadata_value) {
                call->metadata.key = grpc_slice_from_static_string(method->metadata_key);
                call->metadata.value = grpc_slice_from_copied_string(metadata_value);
                call->n_metadata = 1;
        }
        grpc_metadata_array_init(&call->header);
        grpc_metadata_array_init(&call->trailer);
        client->n_refs++;
        rpc_call_send(call);

        *ret = call;
        return 0;
}

int rpc_call_stream(RpcClient *client, const RpcMethod *method, const ProtobufCMessage *request,
                    uint64_t timeout_usec, RpcMessage on_message, RpcDone done, void *userdata,
                    RpcCall **ret) {

        return rpc_call_start(client, method, method->metadata_value, request, timeout_usec,
                              on_message, done, userdata, ret);
}

int rpc_call_unary_with(RpcClient *client, const RpcMethod *method, const char *metadata_value,
                        const ProtobufCMessage *request, uint64_t timeout_usec, RpcDone done,
                        void *userdata, RpcCall **ret) {

        return rpc_call_start(client, method, metadata_value, request, timeout_usec, NULL, done,
                              userdata, ret);
}

int rpc_call_unary(RpcClient *client, const RpcMethod *method, const ProtobufCMessage *request,
                   uint64_t timeout_usec, RpcDone done, void *userdata, RpcCall **ret) {

        return rpc_call_unary_with(client, method, method->metadata_value, request, timeout_usec,
                                   done, userdata, ret);
}

static grpc_channel *channel_new(int fd) {
        grpc_arg args[] = {
                { GRPC_ARG_STRING, GRPC_ARG_DEFAULT_AUTHORITY, .value.string = (char *) AUTHORITY },
                { GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                  .value.integer = (int) RPC_REPLY_SIZE_MAX },
                { GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_RETRIES, .value.integer = 0 },
        };
        const grpc_channel_args list = {
                .num_args = sizeof(args) / sizeof(args[0]),
                .args = args,
        };
        grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
        grpc_channel *channel = grpc_channel_create_from_fd(AUTHORITY, fd, credentials, &list);

        grpc_channel_credentials_release(credentials);
        return channel;
}

static int on_connection_ended(Connection *connection, void *userdata) {
        RpcClient *client = userdata;

        return client->on_closed ? client->on_closed(client->userdata) : 0;
}

/* fd is taken over, also on failure. */
static int client_new(CompletionQueue *queue, int fd, RpcClient **ret) {
        cleanup(rpc_client_free_p) RpcClient *client = NULL;
        cleanup(close_p) int owned_fd = fd;
        int r;

        client = malloc(sizeof(*client));
        if (!client)
                return -ENOMEM;

        *client = (RpcClient){ .n_refs = 1, .completions = queue };
        r = connection_new(completion_queue_get_event(queue), fd, on_connection_ended, client,
                           &client->connection);
        if (r < 0)
                return r;

        client->channel = channel_new(take_fd(&owned_fd));
        if (!client->channel)
                return -ENOMEM;

        *ret = take_ptr(client);
        return 0;
}

int rpc_client_connect(CompletionQueue *queue, const char *path, RpcClosed on_closed,
                       void *userdata, RpcClient **ret, Error *reterr) {

        RpcClient *client;
        int fd, r;

        r = connection_open(path, &fd, reterr);
        if (r < 0)
                return r;

        r = client_new(queue, fd, &client);
        if (r == -EMFILE)
                return error_set(reterr, ERROR_UNAVAILABLE, "%s: %s", path, strerror(-r));
        if (r < 0)
                return r;

        client->on_closed = on_closed;
        client->userdata = userdata;
        client->path = strdup(path);
        if (!client->path) {
                rpc_client_free(client);
                return -ENOMEM;
        }

        *ret = client;
        return 0;
}

RpcClient *rpc_client_free(RpcClient *client) {
        if (!client)
                return NULL;

        client->connection = connection_free(client->connection);
        if (client->channel)
                grpc_channel_destroy(client->channel);
        client->observer = NULL;
        rpc_client_unref(client);
        return NULL;
}

const char *rpc_client_path(const RpcClient *client) {
        return client->path;
}

bool rpc_client_is_connected(const RpcClient *client) {
        return connection_is_alive(client->connection);
}

void rpc_client_set_observer(RpcClient *client, RpcObserver observer, void *userdata) {
        client->observer = observer;
        client->observer_userdata = userdata;
}

struct RpcOutside {
        RpcClient *client;
        const RpcMethod *method;
        uint64_t started_usec;
};

int rpc_outside_begin(RpcClient *client, const RpcMethod *method, RpcOutside **ret) {
        RpcOutside *call = malloc(sizeof(*call));

        if (!call)
                return -ENOMEM;

        *call = (RpcOutside){
                .client = client,
                .method = method,
                .started_usec = clock_monotonic_usec(),
        };
        client->n_refs++;
        *ret = call;
        return 0;
}

RpcOutside *rpc_outside_end(RpcOutside *call, ErrorKind result) {
        if (!call)
                return NULL;

        if (result != ERROR_CANCELED)
                rpc_client_observe(call->client, call->method, call->started_usec, result);
        rpc_client_unref(call->client);
        free(call);
        return NULL;
}

ErrorKind rpc_error_kind(unsigned status) {
        return wire_error_kind((grpc_status_code) status);
}
