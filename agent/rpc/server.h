/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Serving gRPC calls on the event loop
 *
 * The server is given connections that were accepted and checked elsewhere. For each call it
 * finds the method, reads the one message of the request, and hands both to the method's handler
 * as an RpcRequest, which the handler answers now or later. All callbacks run on the thread of the
 * event loop.
 *
 * What a caller can make the server hold has limits: the size of a request, the calls of a user, the
 * bytes of answers that a user does not read, and the time that a request or an answer takes to get
 * through. They are described in room.h; what exceeds them is refused in words.
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

/* What a connection made gRPC hold has been freed, which may take some time after its end. */
typedef void (*RpcChannelFreed)(void *userdata);
void rpc_server_observe(RpcServer *server, RpcChannelFreed on_freed);

/* Cancels the calls that it still serves; their requests must have been unreferenced. The server
 * is gone for good when the completion queue is freed, not earlier. Returns NULL. */
RpcServer *rpc_server_free(RpcServer *server);

/* Takes over a connected, non-blocking socket, and what is known of its peer. With a refusal, which is
 * copied, every call is refused in these words. The caller owns *ret until rpc_channel_end(). */
int rpc_server_add_connection(RpcServer *server, int fd, Peer *peer, const Error *refusal,
                              RpcChannel **ret);

/* The connection has ended: its calls are canceled. The server does the same when it is freed, and
 * then there is nothing left to end. */
void rpc_channel_end(RpcChannel *channel);

/* Lets go of a request; one that was not answered is canceled. Returns NULL. */
RpcRequest *rpc_request_unref(RpcRequest *request);

/* Which of the services this is. */
const char *rpc_request_path(const RpcRequest *request);

/* Who asks. */
const Peer *rpc_request_peer(const RpcRequest *request);

/* Refuses a reply of that many bytes, as rpc_request_reply() would: for what is dear to build. */
int rpc_request_check_reply(const RpcRequest *request, size_t size, Error *reterr);

/* Answer a unary call and let go of the request. A reply that is too large, or for which the caller
 * has too many others to read, becomes a refusal. */
int rpc_request_reply(RpcRequest *request, const ProtobufCMessage *reply);
int rpc_request_refuse(RpcRequest *request, const Error *error);

/* A stream: on_ready runs whenever one more message can be sent, the first time right after this
 * function was called; on_gone when the caller has gone away. Both may end the stream. */
typedef int (*RpcStreamEvent)(RpcRequest *request, void *userdata);
void rpc_request_open_stream(RpcRequest *request, RpcStreamEvent on_ready, RpcStreamEvent on_gone,
                             void *userdata);

/* Only when nothing is being sent; else the message would have to be kept somewhere. */
bool rpc_request_can_send(const RpcRequest *request);
int rpc_request_send(RpcRequest *request, const ProtobufCMessage *message);

/* Ends the stream after what was sent, with OK if there is no error, and lets go of the request. */
int rpc_request_finish(RpcRequest *request, const Error *error);
