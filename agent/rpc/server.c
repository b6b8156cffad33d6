/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/server.h"

#include <assert.h>
#include <errno.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <stdlib.h>

#include "agent/rpc/request.h"

#define REQUEST_SIZE_MAX (4 * 1024 * 1024)
#define STREAMS_PER_CONNECTION_MAX 64
#define IDLE_CONNECTION_MSEC (5 * 60 * 1000)

struct RpcServer {
        CompletionQueue *completions;
        grpc_server *grpc;
        const RpcService *services;
        size_t n_services;
        RpcDoor *door;
        bool is_stopping;

        Completion shutdown;
        Completion arrival; /* the next call is here */
        bool is_waiting;    /* for that one */
        grpc_call *call;
        grpc_call_details details;
        grpc_metadata_array metadata;
};

static const RpcService *rpc_server_find(const RpcServer *server, grpc_slice path) {
        for (size_t i = 0; i < server->n_services; i++)
                if (grpc_slice_str_cmp(path, server->services[i].path) == 0)
                        return &server->services[i];

        return NULL;
}

static void rpc_server_wait(RpcServer *server) {
        grpc_completion_queue *queue = completion_queue_get_grpc(server->completions);
        grpc_call_error e;

        grpc_call_details_init(&server->details);
        grpc_metadata_array_init(&server->metadata);
        server->is_waiting = true;
        e = grpc_server_request_call(server->grpc, &server->call, &server->details,
                                     &server->metadata, queue, queue,
                                     completion_begin(server->completions, &server->arrival));
        assert(e == GRPC_CALL_OK);
        (void) e;
}

static void rpc_server_free_if_done(RpcServer *server) {
        if (server->is_waiting || server->grpc)
                return;

        rpc_door_unref(server->door);
        free(server);
}

static int on_arrival(bool is_ok, void *userdata) {
        RpcServer *server = userdata;
        int r = 0;

        server->is_waiting = false;
        if (is_ok && !server->is_stopping) {
                r = rpc_request_receive(server->completions, server->call,
                                        rpc_server_find(server, server->details.method),
                                        server->door);
        } else if (is_ok) {
                grpc_call_unref(server->call);
        }

        grpc_call_details_destroy(&server->details);
        grpc_metadata_array_destroy(&server->metadata);
        if (!server->is_stopping)
                rpc_server_wait(server);
        else
                rpc_server_free_if_done(server);
        return r;
}

static int on_shutdown(bool is_ok, void *userdata) {
        RpcServer *server = userdata;

        grpc_server_destroy(server->grpc);
        server->grpc = NULL;
        rpc_server_free_if_done(server);
        return 0;
}

static grpc_server *grpc_server_new(CompletionQueue *queue) {
        grpc_arg args[] = {
                { GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                  .value.integer = REQUEST_SIZE_MAX },
                { GRPC_ARG_INTEGER, GRPC_ARG_MAX_CONCURRENT_STREAMS,
                  .value.integer = STREAMS_PER_CONNECTION_MAX },
                { GRPC_ARG_INTEGER, GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                  .value.integer = IDLE_CONNECTION_MSEC },
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

int rpc_server_new(CompletionQueue *queue, const RpcService *services, size_t n_services,
                   void *userdata, RpcServer **ret) {
        RpcServer *server;
        RpcDoor *door;
        int r;

        server = malloc(sizeof(*server));
        if (!server)
                return -ENOMEM;

        r = rpc_door_new(userdata, &door);
        if (r < 0) {
                free(server);
                return r;
        }

        *server = (RpcServer){
                .completions = queue,
                .grpc = grpc_server_new(queue),
                .services = services,
                .n_services = n_services,
                .door = door,
                .shutdown = { .handler = on_shutdown, .userdata = server },
                .arrival = { .handler = on_arrival, .userdata = server },
        };
        rpc_server_wait(server);

        *ret = server;
        return 0;
}

RpcServer *rpc_server_free(RpcServer *server) {
        if (!server)
                return NULL;

        server->is_stopping = true;
        server->door->is_open = false;
        grpc_server_shutdown_and_notify(server->grpc,
                                        completion_queue_get_grpc(server->completions),
                                        completion_begin(server->completions, &server->shutdown));
        grpc_server_cancel_all_calls(server->grpc);
        return NULL;
}

void rpc_server_add_connection(RpcServer *server, int fd) {
        grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();

        grpc_server_add_channel_from_fd(server->grpc, fd, credentials);
        grpc_server_credentials_release(credentials);
}
