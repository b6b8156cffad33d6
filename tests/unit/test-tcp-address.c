/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Addresses of TCP sockets
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "agent/base/tcp-address.h"

/* clang-format off */
static const struct Row {
        const char *text;
        const char *host; /* NULL: no address */
        uint16_t port;
} rows[] = {
        { "127.0.0.1:10248",     "127.0.0.1", 10248 },
        { "0.0.0.0:0",           "0.0.0.0",   0     },
        { "localhost:65535",     "127.0.0.1", 65535 },
        { "[::1]:1",             "::1",       1     },
        { "[2001:db8::7]:80",    "2001:db8::7", 80  },
        { "",                    NULL, 0 },
        { "x",                   NULL, 0 },
        { "127.0.0.1",           NULL, 0 },
        { "127.0.0.1:",          NULL, 0 },
        { ":10248",              NULL, 0 },
        { "10248",               NULL, 0 },
        { "::1:10248",           NULL, 0 },
        { "[::1]",               NULL, 0 },
        { "[:1",                 NULL, 0 },
        { "[]:1",                NULL, 0 },
        { "[127.0.0.1]:1",       NULL, 0 },
        { "[localhost]:1",       NULL, 0 },
        { "127.0.0.1:65536",     NULL, 0 },
        { "127.0.0.1:123456",    NULL, 0 },
        { "127.0.0.1:01",        NULL, 0 },
        { "127.0.0.1:-1",        NULL, 0 },
        { "127.0.0.1: 1",        NULL, 0 },
        { "127.0.0.1:1x",        NULL, 0 },
        { "127.1:1",             NULL, 0 },
        { "node.example:1",      NULL, 0 },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1", NULL, 0 },
};
/* clang-format on */

static void test_rows(void **state) {
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char host[INET6_ADDRSTRLEN];
                TcpAddress address;

                print_message("%s\n", rows[i].text);
                assert_int_equal(tcp_address_parse(rows[i].text, &address), rows[i].host != NULL);
                if (!rows[i].host)
                        continue;

                assert_non_null(inet_ntop(address.any.sa_family,
                                          address.any.sa_family == AF_INET
                                                  ? (const void *) &address.v4.sin_addr
                                                  : (const void *) &address.v6.sin6_addr,
                                          host, sizeof(host)));
                assert_string_equal(host, rows[i].host);
                assert_int_equal(ntohs(address.v4.sin_port), rows[i].port);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows) };

        return cmocka_run_group_tests_name("addresses", tests, NULL, NULL);
}
