/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Carries bytes between a server that is not trusted and the code that reads its answer
 *
 * A library may read as long as the server sends, and keep any part of it. The relay passes RELAY_BYTES_MAX
 * bytes in all, a few at a time, so that the loop serves others in between. It cuts the connection of a server
 * that sends more, or does not read: the reader then sees the connection's end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>

#define RELAY_BYTES_MAX ((size_t) 16 * 1024) /* limit of bytes in each direction */

typedef struct Relay Relay;

/* server: the connection, which does not block; taken over, also on failure. */
int relay_new(sd_event *event, int server, Relay **ret);

/* The Unix socket at which one reader, of this process, gets to the server. */
const struct sockaddr *relay_address(const Relay *relay, socklen_t *ret_size);

/* The server has sent too much, or does not read. */
bool relay_is_cut(const Relay *relay);

/* Closes the connection. Returns NULL. */
Relay *relay_free(Relay *relay);
