/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What gRPC and the rest of the agent say differently: messages and errors
 */

#include <grpc/grpc.h>
#include <protobuf-c/protobuf-c.h>

#include "agent/base/error.h"

/* The caller owns the buffer. */
grpc_byte_buffer *wire_pack(const ProtobufCMessage *message);

/* The caller owns the message. NULL if the buffer is NULL or holds something else. */
ProtobufCMessage *wire_unpack(const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer);

/* The same for a message from an untrusted peer: also NULL if a text in it holds a NUL, of
 * which a C string would show only the beginning. */
ProtobufCMessage *wire_unpack_request(const ProtobufCMessageDescriptor *type,
                                      grpc_byte_buffer *buffer);

ErrorKind wire_error_kind(grpc_status_code status);
grpc_status_code wire_status(ErrorKind kind);
const char *wire_status_to_string(grpc_status_code status);
