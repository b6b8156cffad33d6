/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One call that is being served, from its arrival on; see server.h for what can be done with it
 */

#include <grpc/grpc.h>

#include "agent/rpc/server.h"

/* Takes the call over, reads its message and hands both to the service, or refuses it if there is
 * no service. */
int rpc_request_receive(CompletionQueue *queue, grpc_call *call, const RpcService *service,
                        void *userdata);
