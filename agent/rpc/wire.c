/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/wire.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Few bytes can stand for much in memory: an empty text in a list has two, and takes some forty. A request of the
 * largest size needs a third of this. */
#define UNPACKED_MAX ((size_t) 8 << 20)
#define ALLOCATION_SIZE 32 /* glibc's smallest */

grpc_byte_buffer *wire_pack(const ProtobufCMessage *message) {
        grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
        grpc_byte_buffer *buffer;

        protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
        buffer = grpc_raw_byte_buffer_create(&slice, 1);
        grpc_slice_unref(slice);
        return buffer;
}

static ProtobufCMessage *unpack_with(const ProtobufCMessageDescriptor *type,
                                     ProtobufCAllocator *allocator, grpc_byte_buffer *buffer) {
        grpc_byte_buffer_reader reader;
        ProtobufCMessage *message;
        grpc_slice slice;

        if (!buffer || !grpc_byte_buffer_reader_init(&reader, buffer))
                return NULL;

        slice = grpc_byte_buffer_reader_readall(&reader);
        message = protobuf_c_message_unpack(type, allocator, GRPC_SLICE_LENGTH(slice),
                                            GRPC_SLICE_START_PTR(slice));
        grpc_slice_unref(slice);
        grpc_byte_buffer_reader_destroy(&reader);
        return message;
}

ProtobufCMessage *wire_unpack(const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer) {
        return unpack_with(type, NULL, buffer);
}

static void *limited_alloc(void *userdata, size_t size) {
        size_t *left = userdata;

        if (size > *left || *left - size < ALLOCATION_SIZE)
                return NULL;

        *left -= size + ALLOCATION_SIZE;
        return malloc(size);
}

static void limited_free(void *userdata, void *pointer) {
        free(pointer);
}

/* Packing again shows whether a C string was cut. A message without any NUL was not. */
static bool has_lost_text(const ProtobufCMessage *message, grpc_byte_buffer *buffer) {
        grpc_byte_buffer_reader reader;
        grpc_slice slice;
        bool has_nul, is_shorter;

        if (!grpc_byte_buffer_reader_init(&reader, buffer))
                return true;

        slice = grpc_byte_buffer_reader_readall(&reader);
        has_nul = memchr(GRPC_SLICE_START_PTR(slice), '\0', GRPC_SLICE_LENGTH(slice));
        is_shorter = protobuf_c_message_get_packed_size(message) < GRPC_SLICE_LENGTH(slice);
        grpc_slice_unref(slice);
        grpc_byte_buffer_reader_destroy(&reader);
        return has_nul && is_shorter;
}

ProtobufCMessage *wire_unpack_request(const ProtobufCMessageDescriptor *type,
                                      grpc_byte_buffer *buffer) {
        size_t left = UNPACKED_MAX;
        ProtobufCAllocator allocator = {
                .alloc = limited_alloc,
                .free = limited_free,
                .allocator_data = &left,
        };
        ProtobufCMessage *message = unpack_with(type, &allocator, buffer);

        if (!message || !has_lost_text(message, buffer))
                return message;

        protobuf_c_message_free_unpacked(message, NULL);
        return NULL;
}

/* The agent sends the first status of a kind, and understands all of them. */
/* clang-format off */
static const struct {
        grpc_status_code status;
        ErrorKind kind;
        const char *name;
} statuses[] = {
        { GRPC_STATUS_OK,                  ERROR_NONE,        "OK"                  },
        { GRPC_STATUS_CANCELLED,           ERROR_CANCELED,    "CANCELLED"           },
        { GRPC_STATUS_INVALID_ARGUMENT,    ERROR_INVALID,     "INVALID_ARGUMENT"    },
        { GRPC_STATUS_DEADLINE_EXCEEDED,   ERROR_TIMEOUT,     "DEADLINE_EXCEEDED"   },
        { GRPC_STATUS_NOT_FOUND,           ERROR_NOT_FOUND,   "NOT_FOUND"           },
        { GRPC_STATUS_ALREADY_EXISTS,      ERROR_CONFLICT,    "ALREADY_EXISTS"      },
        { GRPC_STATUS_PERMISSION_DENIED,   ERROR_DENIED,      "PERMISSION_DENIED"   },
        { GRPC_STATUS_UNAUTHENTICATED,     ERROR_DENIED,      "UNAUTHENTICATED"     },
        { GRPC_STATUS_UNAVAILABLE,         ERROR_UNAVAILABLE, "UNAVAILABLE"         },
        { GRPC_STATUS_UNIMPLEMENTED,       ERROR_UNSUPPORTED, "UNIMPLEMENTED"       },
        { GRPC_STATUS_OUT_OF_RANGE,        ERROR_GONE,        "OUT_OF_RANGE"        },
        { GRPC_STATUS_INTERNAL,            ERROR_INTERNAL,    "INTERNAL"            },
        { GRPC_STATUS_UNKNOWN,             ERROR_INTERNAL,    "UNKNOWN"             },
        { GRPC_STATUS_RESOURCE_EXHAUSTED,  ERROR_INTERNAL,    "RESOURCE_EXHAUSTED"  },
        { GRPC_STATUS_FAILED_PRECONDITION, ERROR_INTERNAL,    "FAILED_PRECONDITION" },
        { GRPC_STATUS_ABORTED,             ERROR_INTERNAL,    "ABORTED"             },
        { GRPC_STATUS_DATA_LOSS,           ERROR_INTERNAL,    "DATA_LOSS"           },
};
/* clang-format on */

#define N_STATUSES (sizeof(statuses) / sizeof(statuses[0]))

ErrorKind wire_error_kind(grpc_status_code status) {
        for (size_t i = 0; i < N_STATUSES; i++)
                if (statuses[i].status == status)
                        return statuses[i].kind;

        return ERROR_INTERNAL;
}

ErrorKind wire_late_error_kind(grpc_status_code status) {
        return wire_error_kind(status == GRPC_STATUS_CANCELLED ? GRPC_STATUS_DEADLINE_EXCEEDED
                                                               : status);
}

grpc_status_code wire_status(ErrorKind kind) {
        for (size_t i = 0; i < N_STATUSES; i++)
                if (statuses[i].kind == kind)
                        return statuses[i].status;

        return GRPC_STATUS_INTERNAL;
}

const char *wire_status_to_string(grpc_status_code status) {
        for (size_t i = 0; i < N_STATUSES; i++)
                if (statuses[i].status == status)
                        return statuses[i].name;

        return "an unknown gRPC status";
}
