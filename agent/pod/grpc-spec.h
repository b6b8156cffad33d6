/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A gRPC call as an HTTP/2 request: the frames of messages and the status of the reply
 *
 * For calls whose answers are not trusted: libraries for gRPC hold a whole message, whatever its size. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRPC_CONTENT_TYPE "application/grpc"
#define GRPC_PREFIX_SIZE 5 /* a message's prefix: a flag for compression, and the size */
#define GRPC_MESSAGE_MAX 512

typedef struct GrpcEnd {
        bool has_status;
        unsigned status;                    /* 0: OK */
        char message[GRPC_MESSAGE_MAX + 1]; /* without control characters */
} GrpcEnd;

/* Writes the prefix of an uncompressed message of that size. */
void grpc_write_prefix(size_t size, uint8_t prefix[static GRPC_PREFIX_SIZE]);

/* Reads a line of the header or the trailer: "grpc-status: 0", with or without its line break. */
void grpc_end_add_header(GrpcEnd *end, const char *line, size_t size);

/* "UNAVAILABLE" */
const char *grpc_status_to_string(unsigned status);
