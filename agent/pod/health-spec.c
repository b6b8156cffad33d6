/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/health-spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/grpc/health/v1/health.pb-c.h"

#define STATUS_OK 0
#define STATUS_UNIMPLEMENTED 12

int health_spec_pack(const char *service, uint8_t **ret, size_t *ret_size) {
        Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
        uint8_t *body;
        size_t size;

        request.service = (char *) service;
        size = grpc__health__v1__health_check_request__get_packed_size(&request);
        body = malloc(GRPC_PREFIX_SIZE + size);
        if (!body)
                return -ENOMEM;

        grpc_write_prefix(size, body);
        (void) grpc__health__v1__health_check_request__pack(&request, body + GRPC_PREFIX_SIZE);
        *ret = body;
        *ret_size = GRPC_PREFIX_SIZE + size;
        return 0;
}

bool health_spec_add_body(HealthReply *reply, const void *data, size_t size) {
        if (size > HEALTH_BODY_MAX - reply->body_size)
                return false;

        memcpy(reply->body + reply->body_size, data, size);
        reply->body_size += size;
        return true;
}

static int refuse(const char *why, Error *reterr) {
        return error_set(reterr, ERROR_UNAVAILABLE, "health rpc failed: %s", why);
}

static int refuse_unimplemented(const char *why, Error *reterr) {
        return error_set(reterr, ERROR_UNSUPPORTED,
                         "this server does not implement the grpc health protocol "
                         "(grpc.health.v1.Health): %s",
                         why);
}

/* A web server without gRPC answers with a status such as 404. */
static int refuse_http(int status, Error *reterr) {
        char why[64] = "the answer has no grpc-status";

        if (status != 200)
                (void) snprintf(why, sizeof(why), "the server answered with HTTP status %d",
                                status);
        return status == 404 ? refuse_unimplemented(why, reterr) : refuse(why, reterr);
}

/* Returns the status in the message; negative: there is no valid message. */
static int read_body(const HealthReply *reply) {
        Grpc__Health__V1__HealthCheckResponse *response;
        size_t size = 0;
        int status;

        if (reply->body_size < GRPC_PREFIX_SIZE || reply->body[0] != 0)
                return -1;

        for (size_t i = 1; i < GRPC_PREFIX_SIZE; i++)
                size = size << 8 | reply->body[i];
        if (size != reply->body_size - GRPC_PREFIX_SIZE)
                return -1;

        response = grpc__health__v1__health_check_response__unpack(NULL, size,
                                                                   reply->body + GRPC_PREFIX_SIZE);
        if (!response)
                return -1;

        status = response->status < 0 ? 0 : (int) response->status;
        grpc__health__v1__health_check_response__free_unpacked(response, NULL);
        return status;
}

int health_spec_judge(const HealthReply *reply, int http_status, Error *reterr) {
        const ProtobufCEnumValue *value;
        int status;

        if (!reply->end.has_status)
                return refuse_http(http_status, reterr);
        if (reply->end.status != STATUS_OK) {
                const char *why = reply->end.message[0] ? reply->end.message
                                                        : grpc_status_to_string(reply->end.status);

                return reply->end.status == STATUS_UNIMPLEMENTED ? refuse_unimplemented(why, reterr)
                                                                 : refuse(why, reterr);
        }

        status = read_body(reply);
        if (status < 0)
                return refuse("the answer is not a HealthCheckResponse", reterr);
        if (status == GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING)
                return 0;

        value = protobuf_c_enum_descriptor_get_value(
                &grpc__health__v1__health_check_response__serving_status__descriptor, status);
        return error_set(reterr, ERROR_UNAVAILABLE, "service unhealthy (responded with \"%s\")",
                         value ? value->name : "UNKNOWN");
}
