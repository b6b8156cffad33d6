/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/server.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/rpc/server-internal.h"

const RpcService *rpc_server_find(const RpcServer *server, grpc_slice path) {
        for (size_t i = 0; i < server->n_services; i++)
                if (grpc_slice_str_cmp(path, server->services[i].path) == 0)
                        return &server->services[i];

        return NULL;
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

RpcServer *rpc_server_unref(RpcServer *server) {
        if (--server->n_refs == 0)
                free(server);
        return NULL;
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
        return rpc_channel_new(server, fd, peer, refusal, ret);
}
