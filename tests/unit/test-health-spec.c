/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the question for the health of a gRPC server, and the meaning of the answers
 */

#include "agent/pod/health-spec.h"
#include "tests/unit/unit.h"

TEST(test_pack) {
        static const uint8_t whole[] = { 0, 0, 0, 0, 0 };
        static const uint8_t cart[] = { 0, 0, 0, 0, 6, 0x0a, 4, 'c', 'a', 'r', 't' };
        char name[301] = "";
        uint8_t *body;
        size_t size;

        assert_ok(health_spec_pack("", &body, &size));
        assert_int_equal(size, sizeof(whole));
        assert_memory_equal(body, whole, size);
        free(body);

        assert_ok(health_spec_pack("cart", &body, &size));
        assert_int_equal(size, sizeof(cart));
        assert_memory_equal(body, cart, size);
        free(body);

        memset(name, 'x', sizeof(name) - 1);
        assert_ok(health_spec_pack(name, &body, &size));
        assert_int_equal(size, 5 + 3 + 300);
        assert_memory_equal(body, ((const uint8_t[]){ 0, 0, 0, 303 >> 8, 303 & 255 }), 5);
        free(body);
}

#define SAYS(bytes) .body = (bytes), .body_size = sizeof(bytes) - 1
#define UNIMPLEMENTED \
        "this server does not implement the grpc health protocol (grpc.health.v1.Health): "

TEST(test_judge) {
        /* clang-format off */
        static const struct {
                int http_status;
                const char *headers[3];
                const char *body;
                size_t body_size;
                ErrorKind kind;
                const char *message;
        } answers[] = {
                { 200, { "grpc-status: 0\r\n" }, SAYS("\0\0\0\0\2\x08\1"), ERROR_NONE, "" },
                { 200, { "Grpc-Status:0" }, SAYS("\0\0\0\0\2\x08\1"), ERROR_NONE, "" },
                /* A field that we do not know. */
                { 200, { "grpc-status: 0" }, SAYS("\0\0\0\0\4\x08\1\x10\7"), ERROR_NONE, "" },
                { 200, { "grpc-status: 0" }, SAYS("\0\0\0\0\2\x08\2"), ERROR_UNAVAILABLE,
                  "service unhealthy (responded with \"NOT_SERVING\")" },
                { 200, { "grpc-status: 0" }, SAYS("\0\0\0\0\0"), ERROR_UNAVAILABLE,
                  "service unhealthy (responded with \"UNKNOWN\")" },
                { 200, { "grpc-status: 0" }, SAYS("\0\0\0\0\2\x08\x4d"), ERROR_UNAVAILABLE,
                  "service unhealthy (responded with \"UNKNOWN\")" },
                { 200, { "grpc-status: 12\r\n", "grpc-message: unknown service" }, NULL, 0,
                  ERROR_UNSUPPORTED, UNIMPLEMENTED "unknown service" },
                { 200, { "grpc-status: 12" }, NULL, 0, ERROR_UNSUPPORTED,
                  UNIMPLEMENTED "UNIMPLEMENTED" },
                { 200, { "grpc-status: 5", "grpc-message: 100%25 %e4%XX%4" }, NULL, 0,
                  ERROR_UNAVAILABLE, "health rpc failed: 100% \xe4%XX%4" },
                { 200, { "grpc-status: 5", "grpc-message: a%0Ab%1b%7f" }, NULL, 0,
                  ERROR_UNAVAILABLE, "health rpc failed: a?b??" },
                { 200, { "grpc-status: 14" }, NULL, 0, ERROR_UNAVAILABLE,
                  "health rpc failed: UNAVAILABLE" },
                { 200, { "grpc-status: 17" }, NULL, 0, ERROR_UNAVAILABLE,
                  "health rpc failed: a status that gRPC does not have" },
                { 200, { "grpc-status: 99999999999999999999" }, NULL, 0, ERROR_UNAVAILABLE,
                  "health rpc failed: a status that gRPC does not have" },
                { 200, { "grpc-status: " }, SAYS("\0\0\0\0\2\x08\1"), ERROR_UNAVAILABLE,
                  "health rpc failed: a status that gRPC does not have" },
                { 200, { "grpc-status: -0" }, SAYS("\0\0\0\0\2\x08\1"), ERROR_UNAVAILABLE,
                  "health rpc failed: a status that gRPC does not have" },
                { 200, { "grpc-status-details-bin: 0" }, SAYS("\0\0\0\0\2\x08\1"),
                  ERROR_UNAVAILABLE, "health rpc failed: the answer has no grpc-status" },
                { 404, { NULL }, NULL, 0, ERROR_UNSUPPORTED,
                  UNIMPLEMENTED "the server answered with HTTP status 404" },
                { 503, { "content-type: text/plain" }, SAYS("no"), ERROR_UNAVAILABLE,
                  "health rpc failed: the server answered with HTTP status 503" },
                /* Compressed, cut, too long, two messages, and no message. */
                { 200, { "grpc-status: 0" }, SAYS("\1\0\0\0\2\x08\1"), ERROR_UNAVAILABLE,
                  "health rpc failed: the answer is not a HealthCheckResponse" },
                { 200, { "grpc-status: 0" }, SAYS("\0\0\0\0\2\x08"), ERROR_UNAVAILABLE,
                  "health rpc failed: the answer is not a HealthCheckResponse" },
                { 200, { "grpc-status: 0" }, SAYS("\0\xff\xff\xff\xff\x08\1"), ERROR_UNAVAILABLE,
                  "health rpc failed: the answer is not a HealthCheckResponse" },
                { 200, { "grpc-status: 0" }, SAYS("\0\0\0\0\2\x08\1\0\0\0\0\2\x08\1"),
                  ERROR_UNAVAILABLE, "health rpc failed: the answer is not a HealthCheckResponse" },
                { 200, { "grpc-status: 0" }, SAYS("\0\0\0\0\2\xff\xff"), ERROR_UNAVAILABLE,
                  "health rpc failed: the answer is not a HealthCheckResponse" },
                { 200, { "grpc-status: 0" }, NULL, 0, ERROR_UNAVAILABLE,
                  "health rpc failed: the answer is not a HealthCheckResponse" },
        };
        /* clang-format on */

        for (size_t i = 0; i < N_ELEMENTS(answers); i++) {
                cleanup(error_done) Error error = ERROR_INIT;
                HealthReply reply = { .body_size = 0 };
                int r;

                for (size_t k = 0; answers[i].headers[k]; k++)
                        grpc_end_add_header(&reply.end, answers[i].headers[k],
                                            strlen(answers[i].headers[k]));
                if (answers[i].body)
                        for (size_t k = 0; k < answers[i].body_size; k++)
                                assert_true(health_spec_add_body(&reply, answers[i].body + k, 1));
                r = health_spec_judge(&reply, answers[i].http_status, &error);
                assert_true(answers[i].kind == ERROR_NONE ? r == 0 : r < 0);
                if (error.kind != answers[i].kind ||
                    (error.kind != ERROR_NONE && strcmp(error.message, answers[i].message) != 0))
                        fail_msg("answer %zu: %s: %s", i, error_kind_to_string(error.kind),
                                 error_message(&error));
        }
}

/* A body that does not fit is no reply of this call. */
TEST(test_sizes) {
        static const char much[HEALTH_BODY_MAX + 1];
        HealthReply reply = { .body_size = 0 };
        char line[1024] = "grpc-message: ";

        assert_true(health_spec_add_body(&reply, much, HEALTH_BODY_MAX));
        assert_true(health_spec_add_body(&reply, much, 0));
        assert_false(health_spec_add_body(&reply, much, 1));
        assert_int_equal(reply.body_size, HEALTH_BODY_MAX);

        memset(line + strlen(line), 'x', sizeof(line) - strlen(line));
        grpc_end_add_header(&reply.end, line, sizeof(line));
        assert_int_equal(strlen(reply.end.message), GRPC_MESSAGE_MAX);
        assert_false(reply.end.has_status);
}
