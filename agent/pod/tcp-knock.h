/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds out whether somebody accepts connections at an address
 *
 * Connects and closes again. Names are not looked up, except "localhost".
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

typedef struct TcpKnock TcpKnock;

/* number: 0 if somebody is there, else an errno such as ECONNREFUSED, or ETIMEDOUT. Runs once, not
 * from within tcp_knock(). */
typedef int (*TcpKnocked)(int number, void *userdata);

int tcp_knock(sd_event *event, const TcpAddress *address, uint64_t timeout_usec,
              TcpKnocked on_knocked, void *userdata, TcpKnock **ret);

/* Gives up if it still runs; no callback then. Returns NULL. */
TcpKnock *tcp_knock_free(TcpKnock *knock);
