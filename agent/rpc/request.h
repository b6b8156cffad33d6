/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One call that is being served, from its arrival on; see server.h for what can be done with it
 */

#include <grpc/grpc.h>

#include "agent/rpc/server.h"

/* What the requests share with their server, and may outlive it. */
typedef struct RpcDoor {
        unsigned n_refs;
        bool is_open;   /* until the server is freed */
        void *userdata; /* of the services */
} RpcDoor;

int rpc_door_new(void *userdata, RpcDoor **ret);
RpcDoor *rpc_door_unref(RpcDoor *door);

/* Takes the call over, reads its message and hands both to the service, or refuses it if there is
 * no service. */
int rpc_request_receive(CompletionQueue *queue, grpc_call *call, const RpcService *service,
                        RpcDoor *door);
