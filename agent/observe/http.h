/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP server
 *
 * Answers GET and HEAD on a few fixed paths, on the event loop, for a monitoring system and for
 * probes. It is not for untrusted networks: no TLS, no authentication, nothing that changes state.
 * A peer gets one answer per connection, and the server serves at most 32 connections at a time (more
 * wait in the kernel). It cuts each after 10 s, and after half a second while it has no room. Without a
 * connection it does not wake up.
 */

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "agent/base/error.h"

typedef struct HttpServer HttpServer;

/* Zero-initialised except for the defaults given here. */
typedef struct HttpReply {
        unsigned status;          /* 200 */
        const char *content_type; /* plain text in UTF-8; borrowed, lives as long as the program */
        char *body;               /* empty; from malloc(), taken over, also after a failure */
        size_t size;              /* size of the body in bytes */
} HttpReply;

/* Fills the reply. Returns 0, or a negative errno for a local failure, which ends the event loop.
 * Must not free the server. */
typedef int (*HttpHandler)(HttpReply *reply, void *userdata);

/* Listens from now on. The address is "HOST:PORT": an IPv4 address, an IPv6 address in brackets, or
 * localhost, and a port, where 0 takes any free one. */
int http_server_new(sd_event *event, const char *address, HttpServer **ret, Error *reterr);

/* Closes all connections. Returns NULL. */
HttpServer *http_server_free(HttpServer *server);

/* Answers the path, which is borrowed until http_server_free(). */
int http_server_add(HttpServer *server, const char *path, HttpHandler handler, void *userdata);

uint16_t http_server_get_port(const HttpServer *server);
