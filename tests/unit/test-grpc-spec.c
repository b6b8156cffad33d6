/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How an answer of gRPC ends
 */

#include "agent/pod/grpc-spec.h"
#include "tests/unit/unit.h"

TEST(test_prefix) {
        uint8_t prefix[GRPC_PREFIX_SIZE];

        grpc_write_prefix(0x1020304, prefix);
        assert_memory_equal(prefix, "\0\1\2\3\4", GRPC_PREFIX_SIZE);
}

TEST(test_headers) {
        static const struct {
                const char *line;
                bool has_status;
                unsigned status;
                const char *message;
        } rows[] = {
                { "grpc-status: 0\r\n", true, 0, "" },
                { "Grpc-Status:13", true, 13, "" },
                { "grpc-status: 4294967309\r\n", true, 17, "" },
                { "grpc-status: x", true, 17, "" },
                { "grpc-status:", true, 17, "" },
                { "grpc-status-details: 1", false, 0, "" },
                { "HTTP/2 200 \r\n", false, 0, "" },
                { "\r\n", false, 0, "" },
                { "grpc-message: no \"such\" thing\r\n", false, 0, "no \"such\" thing" },
                { "grpc-message: 100%25 %C3%a4 %0A%1b[ %2 %zz %", false, 0,
                  "100% \xc3\xa4 ??[ %2 %zz %" },
        };
        char flood[2000];
        GrpcEnd end = { .has_status = false };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                end = (GrpcEnd){ .has_status = false };
                grpc_end_add_header(&end, rows[i].line, strlen(rows[i].line));
                assert_int_equal(end.has_status, rows[i].has_status);
                assert_int_equal(end.status, rows[i].status);
                assert_string_equal(end.message, rows[i].message);
        }

        memset(flood, 'x', sizeof(flood));
        memcpy(flood, "grpc-message:", strlen("grpc-message:"));
        grpc_end_add_header(&end, flood, sizeof(flood));
        assert_int_equal(strlen(end.message), GRPC_MESSAGE_MAX);
}

TEST(test_names) {
        assert_string_equal(grpc_status_to_string(0), "OK");
        assert_string_equal(grpc_status_to_string(14), "UNAVAILABLE");
        assert_string_equal(grpc_status_to_string(16), "UNAUTHENTICATED");
        assert_string_equal(grpc_status_to_string(17), "a status that gRPC does not have");
}
