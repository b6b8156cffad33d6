/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Opens connections for gRPC and reports their end
 *
 * The agent opens a connection itself, so that it learns of a failure at once, with a reason.
 *
 * gRPC owns the connections that it is given and does not report when one of them ends. A second
 * descriptor of the same socket does: the kernel reports the hang-up of the peer, and gRPC's own
 * end too, since it shuts a socket down before closing it.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "agent/base/error.h"

typedef struct Connection Connection;

/* A socket that is missing, refuses or may not be used is ERROR_UNAVAILABLE or ERROR_DENIED, and a
 * lack of descriptors ERROR_UNAVAILABLE. The caller owns *ret_fd, which does not block. */
int connection_open(const char *path, int *ret_fd, Error *reterr);

/* May free the connection. */
typedef int (*ConnectionEnded)(Connection *connection, void *userdata);

/* Watches a duplicate of fd. */
int connection_new(sd_event *event, int fd, ConnectionEnded on_end, void *userdata,
                   Connection **ret);

/* Stops watching; the connection itself stays open. Returns NULL. */
Connection *connection_free(Connection *connection);

/* Asks the kernel, so that the answer is never stale. */
bool connection_is_alive(const Connection *connection);
