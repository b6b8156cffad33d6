/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connects to a server at an address
 *
 * Names are not resolved, except "localhost".
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

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

typedef struct TcpConnect TcpConnect;

/* number: 0 if it connected, else an errno such as ECONNREFUSED, or ETIMEDOUT. Runs once, not
 * from within tcp_connect(). */
typedef int (*TcpConnected)(int number, void *userdata);

int tcp_connect(sd_event *event, const TcpAddress *address, uint64_t timeout_usec,
                TcpConnected on_connected, void *userdata, TcpConnect **ret);

/* In the callback of one that connected: the descriptor, which the caller owns from now on. */
int tcp_connect_take(TcpConnect *attempt);

/* Gives up if it still runs, no callback then, and closes a connection that was not taken. Returns
 * NULL. */
TcpConnect *tcp_connect_free(TcpConnect *attempt);
