/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Serves gRPC calls on the event loop
 *
 * The listener accepts and checks connections and passes them to the server. For each call the server
 * finds the method, reads the message of the request, and passes both to the method's handler as an
 * RpcRequest, which the handler answers now or later. All callbacks run on the thread of the event
 * loop.
 *
 * The server limits what callers can make it hold: the size of a request, the calls of a user, the bytes
 * of replies that a user does not read, and the time to transfer a request or a reply. room.h describes
 * the limits; the server refuses calls beyond them with the reason.
 */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/base/error.h"
#include "agent/rpc/completion.h"
#include "agent/rpc/peer.h"

typedef struct RpcServer RpcServer;
typedef struct RpcChannel RpcChannel;
typedef struct RpcRequest RpcRequest;

/* The handler owns the request from now on; the message is borrowed. */
typedef int (*RpcServe)(RpcRequest *request, const void *message, void *userdata);

typedef struct RpcService {
        const char *path; /* "/inplaced.v1.Node/Preload" */
        const ProtobufCMessageDescriptor *request;
        RpcServe serve;
} RpcService;

/* The services are borrowed for the life of the server. */
int rpc_server_new(CompletionQueue *queue, const RpcService *services, size_t n_services,
                   void *userdata, RpcServer **ret);

/* The memory of a connection in gRPC was freed, which may be some time after its end. */
typedef void (*RpcChannelFreed)(void *userdata);
void rpc_server_observe(RpcServer *server, RpcChannelFreed on_freed);

/* Cancels the pending calls; their requests must have been unreferenced. The memory is freed with
 * the completion queue, not earlier. Returns NULL. */
RpcServer *rpc_server_free(RpcServer *server);

/* Takes over a connected, non-blocking socket and its peer. With a refusal, which is copied, the
 * server refuses every call with that reason. The caller owns *ret until rpc_channel_end(). */
int rpc_server_add_connection(RpcServer *server, int fd, Peer *peer, const Error *refusal,
                              RpcChannel **ret);

/* Cancels the calls of an ended connection. The server does the same when it is freed; do not call
 * this afterwards. */
void rpc_channel_end(RpcChannel *channel);

/* Releases a request; cancels it if it was not answered. Returns NULL. */
RpcRequest *rpc_request_unref(RpcRequest *request);

/* Path of the called method. */
const char *rpc_request_path(const RpcRequest *request);

/* The caller. */
const Peer *rpc_request_peer(const RpcRequest *request);

/* Fails for a reply of that size as rpc_request_reply() would, before an expensive reply is
 * built. */
int rpc_request_check_reply(const RpcRequest *request, size_t size, Error *reterr);

/* Answer a unary call and release the request. A reply that is too large, or whose caller has too
 * many unread ones, becomes a refusal. */
int rpc_request_reply(RpcRequest *request, const ProtobufCMessage *reply);
int rpc_request_refuse(RpcRequest *request, const Error *error);

/* Begins a stream: on_ready runs whenever one more message can be sent, the first time right after
 * this function returned; on_gone when the caller has gone away. Both may end the stream. */
typedef int (*RpcStreamEvent)(RpcRequest *request, void *userdata);
void rpc_request_open_stream(RpcRequest *request, RpcStreamEvent on_ready, RpcStreamEvent on_gone,
                             void *userdata);

/* No message is being sent. Send only then, since the server does not queue messages. */
bool rpc_request_can_send(const RpcRequest *request);
int rpc_request_send(RpcRequest *request, const ProtobufCMessage *message);

/* Ends the stream behind its messages, with OK if there is no error, and releases the request. */
int rpc_request_finish(RpcRequest *request, const Error *error);
