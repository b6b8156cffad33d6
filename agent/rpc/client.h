/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calling a gRPC server
 *
 * A client is one connection to a Unix socket. gRPC does not make it, so that its end is known at once and
 * the owner alone decides when to connect again: a client whose connection has ended stays dead.
 *
 * Starting a call never blocks; what comes back arrives through callbacks, for which four promises
 * hold:
 *
 *   1. They run on the thread of the event loop, and never before the function that started the
 *      call has returned.
 *   2. The last one, RpcDone, runs at most once, and none after it.
 *   3. None runs any more once rpc_call_unref() was called, which also cancels the call.
 *   4. Messages and errors are borrowed: they are gone when the callback returns.
 */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/rpc/completion.h"

#define RPC_NO_TIMEOUT UINT64_MAX
#define RPC_REPLY_SIZE_MAX (16 * 1024 * 1024) /* what the kubelet allows a runtime */

typedef struct RpcClient RpcClient;
typedef struct RpcCall RpcCall;

/* A method of a service. Everything in it is static. */
typedef struct RpcMethod {
        const char *path; /* "/runtime.v1.RuntimeService/Version" */
        const ProtobufCMessageDescriptor *reply;
        const char *metadata_key;   /* sent with each call; NULL for none */
        const char *metadata_value; /* NULL: see rpc_call_unary_with() */
} RpcMethod;

/* The connection ended. The client is dead from now on, and may be freed here. */
typedef int (*RpcClosed)(void *userdata);

/* One message of a stream of the server. */
typedef int (*RpcMessage)(const void *message, void *userdata);

/* The end. Of a unary call: either its reply or an error; of a stream: no reply, and an error
 * unless the server said OK. Returns 0, or a negative errno for a local failure, which ends the
 * event loop. */
typedef int (*RpcDone)(const void *reply, const Error *error, void *userdata);

/* Connects at once. A socket that is missing, refuses or may not be used is ERROR_UNAVAILABLE or
 * ERROR_DENIED, with the reason in words. on_closed may be NULL. */
int rpc_client_connect(CompletionQueue *queue, const char *path, RpcClosed on_closed,
                       void *userdata, RpcClient **ret, Error *reterr);

/* Calls may go on without their client and then end like any other. Returns NULL. */
RpcClient *rpc_client_free(RpcClient *client);

/* Path of the socket; NULL if the connection was made elsewhere. Borrowed from the client. */
const char *rpc_client_path(const RpcClient *client);

/* False as soon as the kernel knows of the connection's end, which may be before RpcClosed runs. */
bool rpc_client_is_connected(const RpcClient *client);

/* Called for each finished call that was not canceled. The method is the one of the call. */
typedef void (*RpcObserver)(const RpcMethod *method, uint64_t duration_usec, ErrorKind result,
                            void *userdata);
void rpc_client_set_observer(RpcClient *client, RpcObserver observer, void *userdata);

/* The request is packed at once. The caller owns *ret and keeps it until it no longer cares. */
int rpc_call_unary(RpcClient *client, const RpcMethod *method, const ProtobufCMessage *request,
                   uint64_t timeout_usec, RpcDone done, void *userdata, RpcCall **ret);

/* The value of the method's metadata, copied; NULL: this call has none. */
int rpc_call_unary_with(RpcClient *client, const RpcMethod *method, const char *metadata_value,
                        const ProtobufCMessage *request, uint64_t timeout_usec, RpcDone done,
                        void *userdata, RpcCall **ret);

int rpc_call_stream(RpcClient *client, const RpcMethod *method, const ProtobufCMessage *request,
                    uint64_t timeout_usec, RpcMessage on_message, RpcDone done, void *userdata,
                    RpcCall **ret);

/* Returns NULL. */
RpcCall *rpc_call_unref(RpcCall *call);

/* A call to the same server without gRPC's core, for one whose reply must not be held as a whole: for the observer
 * alone. The caller owns *ret. */
typedef struct RpcOutside RpcOutside;
int rpc_outside_begin(RpcClient *client, const RpcMethod *method, RpcOutside **ret);

/* It has ended, or, with ERROR_CANCELED, is of no interest any more. Returns NULL. */
RpcOutside *rpc_outside_end(RpcOutside *call, ErrorKind result);

/* The kind of error that a status of gRPC stands for. */
ErrorKind rpc_error_kind(unsigned status);
