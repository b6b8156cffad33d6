/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Addresses of TCP sockets
 */

#include <arpa/inet.h>
#include "agent/base/tcp-address.h"
#include "tests/unit/unit.h"

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

TEST_ROWS(test_rows, rows, text, const struct Row *row) {
        char host[INET6_ADDRSTRLEN];
        TcpAddress address;

        print_message("%s\n", row->text);
        assert_int_equal(tcp_address_parse(row->text, &address), row->host != NULL);
        if (!row->host)
                return;

        assert_non_null(inet_ntop(address.any.sa_family,
                                  address.any.sa_family == AF_INET
                                          ? (const void *) &address.v4.sin_addr
                                          : (const void *) &address.v6.sin6_addr,
                                  host, sizeof(host)));
        assert_string_equal(host, row->host);
        assert_int_equal(ntohs(address.v4.sin_port), row->port);
}
