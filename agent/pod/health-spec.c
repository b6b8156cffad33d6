/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/health-spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/grpc/health/v1/health.pb-c.h"

#define FRAME_SIZE 5 /* whether it is compressed, and how long it is */

#define STATUS_OK 0
#define STATUS_UNIMPLEMENTED 12
#define STATUS_MAX 16

int health_spec_pack(const char *service, uint8_t **ret, size_t *ret_size) {
        Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
        uint8_t *body;
        size_t size;

        request.service = (char *) service;
        size = grpc__health__v1__health_check_request__get_packed_size(&request);
        body = malloc(FRAME_SIZE + size);
        if (!body)
                return -ENOMEM;

        body[0] = 0;
        for (size_t i = 1; i < FRAME_SIZE; i++)
                body[i] = (uint8_t) (size >> (8 * (FRAME_SIZE - 1 - i)));
        (void) grpc__health__v1__health_check_request__pack(&request, body + FRAME_SIZE);
        *ret = body;
        *ret_size = FRAME_SIZE + size;
        return 0;
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                return (c | 0x20) - 'a' + 10;

        return -1;
}

/* "%2F" is how gRPC writes what may not stand in a header. What is no text becomes "?". */
static void read_message(HealthReply *reply, const char *text, size_t size) {
        size_t n = 0;

        for (size_t i = 0; i < size && n < HEALTH_MESSAGE_MAX; i++) {
                int high = text[i] == '%' && i + 2 < size ? hex_digit(text[i + 1]) : -1;
                int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
                unsigned char c = (unsigned char) text[i];

                if (low >= 0) {
                        c = (unsigned char) (high * 16 + low);
                        i += 2;
                }
                reply->message[n++] = c < ' ' || c == 0x7f ? '?' : (char) c;
        }
        reply->message[n] = '\0';
}

/* A status that is no number is one that gRPC does not have. */
static void read_status(HealthReply *reply, const char *text, size_t size) {
        unsigned status = 0;

        for (size_t i = 0; i < size && status <= STATUS_MAX; i++)
                status = text[i] >= '0' && text[i] <= '9' ? status * 10 + (unsigned) (text[i] - '0')
                                                          : STATUS_MAX + 1;
        reply->status = size > 0 ? status : STATUS_MAX + 1;
        reply->has_status = true;
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void health_spec_add_header(HealthReply *reply, const char *line, size_t size) {
        static const struct {
                const char *name;
                void (*read)(HealthReply *reply, const char *text, size_t size);
        } headers[] = {
                { "grpc-status:", read_status },
                { "grpc-message:", read_message },
        };

        for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
                size_t begin = strlen(headers[i].name), end = size;

                if (size < begin || strncasecmp(line, headers[i].name, begin) != 0)
                        continue;

                while (end > begin && is_blank(line[end - 1]))
                        end--;
                while (begin < end && is_blank(line[begin]))
                        begin++;
                headers[i].read(reply, line + begin, end - begin);
        }
}

bool health_spec_add_body(HealthReply *reply, const void *data, size_t size) {
        if (size > HEALTH_BODY_MAX - reply->body_size)
                return false;

        memcpy(reply->body + reply->body_size, data, size);
        reply->body_size += size;
        return true;
}

static const char *status_to_string(unsigned status) {
        static const char *const names[STATUS_MAX + 1] = {
                "OK",
                "CANCELLED",
                "UNKNOWN",
                "INVALID_ARGUMENT",
                "DEADLINE_EXCEEDED",
                "NOT_FOUND",
                "ALREADY_EXISTS",
                "PERMISSION_DENIED",
                "RESOURCE_EXHAUSTED",
                "FAILED_PRECONDITION",
                "ABORTED",
                "OUT_OF_RANGE",
                "UNIMPLEMENTED",
                "INTERNAL",
                "UNAVAILABLE",
                "DATA_LOSS",
                "UNAUTHENTICATED",
        };

        return status <= STATUS_MAX ? names[status] : "a status that gRPC does not have";
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

/* The answer did not come from a server of gRPC: 404 is the one of a web server. */
static int refuse_http(int status, Error *reterr) {
        char why[64] = "the answer has no grpc-status";

        if (status != 200)
                (void) snprintf(why, sizeof(why), "the server answered with HTTP status %d",
                                status);
        return status == 404 ? refuse_unimplemented(why, reterr) : refuse(why, reterr);
}

/* The status that the message has; negative: there is no message, or it is not one. */
static int read_body(const HealthReply *reply) {
        Grpc__Health__V1__HealthCheckResponse *response;
        size_t size = 0;
        int status;

        if (reply->body_size < FRAME_SIZE || reply->body[0] != 0)
                return -1;

        for (size_t i = 1; i < FRAME_SIZE; i++)
                size = size << 8 | reply->body[i];
        if (size != reply->body_size - FRAME_SIZE)
                return -1;

        response = grpc__health__v1__health_check_response__unpack(NULL, size,
                                                                   reply->body + FRAME_SIZE);
        if (!response)
                return -1;

        status = response->status < 0 ? 0 : (int) response->status;
        grpc__health__v1__health_check_response__free_unpacked(response, NULL);
        return status;
}

int health_spec_judge(const HealthReply *reply, int http_status, Error *reterr) {
        const ProtobufCEnumValue *value;
        int status;

        if (!reply->has_status)
                return refuse_http(http_status, reterr);
        if (reply->status != STATUS_OK) {
                const char *why =
                        reply->message[0] ? reply->message : status_to_string(reply->status);

                return reply->status == STATUS_UNIMPLEMENTED ? refuse_unimplemented(why, reterr)
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
