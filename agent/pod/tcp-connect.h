/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connects to a server at an address
 */

#include <stdint.h>
#include <systemd/sd-event.h>

#include "agent/base/tcp-address.h"

typedef struct TcpConnect TcpConnect;

/* number: 0 if it connected, else an errno such as ECONNREFUSED, or ETIMEDOUT. Runs once, not
 * from within tcp_connect(). */
typedef int (*TcpConnected)(int number, void *userdata);

int tcp_connect(sd_event *event, const TcpAddress *address, uint64_t timeout_usec,
                TcpConnected on_connected, void *userdata, TcpConnect **ret);

/* Takes over the descriptor, in the callback of an attempt that connected. */
int tcp_connect_take(TcpConnect *attempt);

/* Gives up if it still runs, no callback then, and closes a connection that was not taken. Returns
 * NULL. */
TcpConnect *tcp_connect_free(TcpConnect *attempt);
