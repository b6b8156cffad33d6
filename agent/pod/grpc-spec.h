/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A call of gRPC as a request of HTTP/2: what frames its messages, and how the answer says what came of it
 *
 * For calls whose answers are not trusted: libraries for gRPC hold a whole message, whatever its size. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRPC_CONTENT_TYPE "application/grpc"
#define GRPC_PREFIX_SIZE 5 /* of a message: whether it is compressed, and its size */
#define GRPC_MESSAGE_MAX 512

typedef struct GrpcEnd {
        bool has_status;
        unsigned status;                    /* 0: OK */
        char message[GRPC_MESSAGE_MAX + 1]; /* without control characters */
} GrpcEnd;

/* A message of so many bytes follows, not compressed. */
void grpc_write_prefix(size_t size, uint8_t prefix[static GRPC_PREFIX_SIZE]);

/* A line of the head or of what follows the body: "grpc-status: 0", maybe with its line break. */
void grpc_end_add_header(GrpcEnd *end, const char *line, size_t size);

/* "UNAVAILABLE" */
const char *grpc_status_to_string(unsigned status);
