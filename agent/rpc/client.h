/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls a gRPC server
 *
 * A client is one connection to a Unix socket. gRPC does not make it, so that the client learns of its end
 * at once and the owner alone decides when to connect again: a client whose connection has ended stays
 * dead.
 *
 * Starting a call never blocks; callbacks deliver replies and errors, with four promises:
 *
 *   1. They run on the thread of the event loop, and never before the function that started the
 *      call has returned.
 *   2. The last one, RpcDone, runs at most once, and none after it.
 *   3. None runs any more once rpc_call_unref() was called, which also cancels the call.
 *   4. Messages and errors are borrowed: they are gone when the callback returns.
 */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/rpc/completion.h"

#define RPC_NO_TIMEOUT UINT64_MAX
#define RPC_REPLY_SIZE_MAX (16 * 1024 * 1024) /* the kubelet's limit for a runtime's reply */

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

/* A message of the server's stream. */
typedef int (*RpcMessage)(const void *message, void *userdata);

/* The end of a call. A unary call has either a reply or an error; a stream has no reply, and an
 * error unless the server's status is OK. Returns 0, or a negative errno for a local failure, which
 * ends the event loop. */
typedef int (*RpcDone)(const void *reply, const Error *error, void *userdata);

/* Connects at once. A socket that is missing, refuses or may not be used is ERROR_UNAVAILABLE or
 * ERROR_DENIED, and a lack of descriptors ERROR_UNAVAILABLE, with the reason in words. on_closed may
 * be NULL. */
int rpc_client_connect(CompletionQueue *queue, const char *path, RpcClosed on_closed,
                       void *userdata, RpcClient **ret, Error *reterr);

/* Calls may outlive their client, and end as others do. Returns NULL. */
RpcClient *rpc_client_free(RpcClient *client);

/* Path of the socket; NULL if the connection was made elsewhere. Borrowed from the client. */
const char *rpc_client_path(const RpcClient *client);

/* Returns false as soon as the kernel knows of the connection's end, which may be before RpcClosed
 * runs. */
bool rpc_client_is_connected(const RpcClient *client);

/* Called for each finished call that was not canceled. The method is the one of the call. */
typedef void (*RpcObserver)(const RpcMethod *method, uint64_t duration_usec, ErrorKind result,
                            void *userdata);
void rpc_client_set_observer(RpcClient *client, RpcObserver observer, void *userdata);

/* Packs the request at once. The caller owns *ret, and cancels the call by freeing it. */
int rpc_call_unary(RpcClient *client, const RpcMethod *method, const ProtobufCMessage *request,
                   uint64_t timeout_usec, RpcDone done, void *userdata, RpcCall **ret);

/* metadata_value: the value of the method's metadata, copied; NULL: none for this call. */
int rpc_call_unary_with(RpcClient *client, const RpcMethod *method, const char *metadata_value,
                        const ProtobufCMessage *request, uint64_t timeout_usec, RpcDone done,
                        void *userdata, RpcCall **ret);

int rpc_call_stream(RpcClient *client, const RpcMethod *method, const ProtobufCMessage *request,
                    uint64_t timeout_usec, RpcMessage on_message, RpcDone done, void *userdata,
                    RpcCall **ret);

/* Returns NULL. */
RpcCall *rpc_call_unref(RpcCall *call);

/* Reports to the observer a call to the same server that does not use gRPC's core, because its
 * reply must not be held as a whole. The caller owns *ret. */
typedef struct RpcOutside RpcOutside;
int rpc_outside_begin(RpcClient *client, const RpcMethod *method, RpcOutside **ret);

/* Notes the end of the call; ERROR_CANCELED: without a report. Returns NULL. */
RpcOutside *rpc_outside_end(RpcOutside *call, ErrorKind result);

/* Returns the kind of error for a gRPC status. */
ErrorKind rpc_error_kind(unsigned status);
