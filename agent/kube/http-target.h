/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the server is, and under which name it has to prove who it is
 *
 * With a name of its own for TLS ("tls-server-name") the requests are addressed to that name, since
 * it is what goes into the handshake and what the certificate is compared with, while the connection
 * and the Host header go to the server's address.
 */

#include <stdbool.h>

#include "agent/base/error.h"
#include "agent/kube/http-library.h"

typedef struct HttpTarget {
        char *server;     /* as people know it, such as "https://10.96.0.1:443" */
        char *base;       /* what every path is added to */
        char *connect_to; /* "::10.96.0.1:443", or NULL: what base says */
        char *host;       /* "Host: 10.96.0.1:443", or NULL: what base says */
        bool is_plain;    /* no TLS */
        char *name;       /* of the host, or its address without brackets */
        char *port;
} HttpTarget;

int http_target_read(const HttpLibrary *curl, const char *server, const char *tls_server_name,
                     HttpTarget *ret, Error *reterr);
void http_target_done(HttpTarget *target);
