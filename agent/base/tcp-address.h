/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The address of a TCP socket
 *
 * Names are not resolved, which may block and may lead to another machine, except "localhost", which is
 * 127.0.0.1. Pure.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct TcpAddress {
        union {
                struct sockaddr any;
                struct sockaddr_in v4;
                struct sockaddr_in6 v6;
        };
        socklen_t size;
} TcpAddress;

/* False if the host is not an IPv4 or IPv6 address, the latter without brackets. */
bool tcp_address_read(const char *host, uint16_t port, TcpAddress *ret);

/* "127.0.0.1:10248", "[::1]:0", "localhost:80": false for anything else. */
bool tcp_address_parse(const char *text, TcpAddress *ret);
