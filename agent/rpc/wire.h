/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Converts messages and errors between gRPC and the rest of the agent
 */

#include <grpc/grpc.h>
#include <protobuf-c/protobuf-c.h>

#include "agent/base/error.h"

/* The caller owns the buffer. */
grpc_byte_buffer *wire_pack(const ProtobufCMessage *message);

/* The caller owns the message. NULL if the buffer is NULL or has another type. */
ProtobufCMessage *wire_unpack(const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer);

/* Unpacks a message from an untrusted peer: also NULL if a text in it contains a NUL, which would
 * cut a C string, or if it takes much more memory than any request does. */
ProtobufCMessage *wire_unpack_request(const ProtobufCMessageDescriptor *type,
                                      grpc_byte_buffer *buffer);

ErrorKind wire_error_kind(grpc_status_code status);
/* The same for a call whose time is over. The server cancels such a call by itself, which may arrive just before gRPC
 * notices the time. */
ErrorKind wire_late_error_kind(grpc_status_code status);
grpc_status_code wire_status(ErrorKind kind);
const char *wire_status_to_string(grpc_status_code status);
