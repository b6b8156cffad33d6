/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What server, channels and requests share; see server.h for what can be done with them
 */

#include <grpc/grpc.h>

#include "agent/base/list.h"
#include "agent/rpc/room.h"
#include "agent/rpc/server.h"

struct RpcServer {
        unsigned n_refs; /* the owner and each channel */
        CompletionQueue *completions;
        const RpcService *services;
        size_t n_services;
        void *userdata;
        RpcChannelFreed on_freed; /* may be NULL */
        bool is_stopping;
        RpcChannel *channels; /* also those that have ended, but have calls */
};

RpcServer *rpc_server_unref(RpcServer *server);
const RpcService *rpc_server_find(const RpcServer *server, grpc_slice path);

/* One connection. gRPC does not say which connection a call came by, so each has a server of gRPC's
 * to itself: what the kernel has said about the peer is certain for its calls. */
struct RpcChannel {
        LIST_LINKS(RpcChannel);
        unsigned n_refs; /* until its end, gRPC's server, each request */
        RpcServer *server;
        Peer peer;
        Error refusal; /* of all calls; unset: they are served */
        size_t n_calls;
        size_t n_bytes; /* of replies that were not read */

        bool has_ended;
        grpc_server *grpc;
        Completion shutdown;
        Completion arrival; /* the next call is here */
        bool is_waiting;    /* for that one */
        grpc_call *call;
        grpc_call_details details;
        grpc_metadata_array metadata;
};

/* Takes fd and peer over; the error is copied. */
int rpc_channel_new(RpcServer *server, int fd, Peer *peer, const Error *refusal, RpcChannel **ret);
RpcChannel *rpc_channel_unref(RpcChannel *channel);

/* Refuse one more call, and bytes of one more reply. */
int rpc_channel_check_call(const RpcChannel *channel, Error *reterr);
int rpc_channel_check_reply(const RpcChannel *channel, size_t size, Error *reterr);

/* Takes the call over, reads its message and hands both to the service, or refuses it. Without a
 * service there is no such method. */
int rpc_request_receive(RpcChannel *channel, grpc_call *call, const RpcService *service);
