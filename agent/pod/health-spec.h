/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The request and the reply of grpc.health.v1.Health/Check, over HTTP
 *
 * gRPC is a POST whose body is a message behind five bytes, in both directions, and whose outcome is in the
 * headers behind the answer's body, or in those before it where there is none. The server is not
 * trusted: the reader keeps only what fits into HealthReply.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/pod/grpc-spec.h"

#define HEALTH_PATH "/grpc.health.v1.Health/Check"

#define HEALTH_BODY_MAX 1024 /* a reply has seven bytes */

typedef struct HealthReply {
        GrpcEnd end;
        uint8_t body[HEALTH_BODY_MAX];
        size_t body_size;
} HealthReply;

/* The body of the request. service: empty for the server as a whole. The caller owns *ret. */
int health_spec_pack(const char *service, uint8_t **ret, size_t *ret_size);

/* False if the body is larger than any reply. */
bool health_spec_add_body(HealthReply *reply, const void *data, size_t size);

/* Judges the reply in the kubelet's words: an error unless it is SERVING. http_status: of the answer.
 * 0, or a negative errno whose error may be unset. */
int health_spec_judge(const HealthReply *reply, int http_status, Error *reterr);
