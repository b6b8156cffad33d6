/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP to one server with one set of credentials, on the event loop
 *
 * The only user of libcurl, which is loaded when it is first needed. A peer keeps connections to its
 * server and lets as many requests as possible share one. It never changes: other credentials need
 * another peer. A peer for any server shares nothing but curl's own memory. This layer retries nothing and
 * follows no redirect. It has two time limits: 15 s to connect, and 30 s to notice a connection that has
 * died.
 *
 * Callbacks run from the event loop only. In any of them any transfer may be freed.
 */

#include <stdbool.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>

#include "agent/base/error.h"
#include "agent/kube/access.h"

/* Limit of the headers that a peer for any server takes; each line counts HTTP_HEADER_COST more. */
#define HTTP_HEAD_MAX ((size_t) 32 * 1024)
#define HTTP_HEADER_COST 128

typedef struct HttpPeer HttpPeer;
typedef struct HttpTransfer HttpTransfer;

/* Loads libcurl, or refuses with one line. For callers that have no peer yet. */
int http_load(Error *reterr);

/* Connects nothing yet. The credentials, without the token, are copied. Refused with one line if the
 * server's address is invalid, or libcurl cannot be loaded. */
int http_peer_new(sd_event *event, const KubeCredentials *credentials, HttpPeer **ret,
                  Error *reterr);

/* Makes a peer for requests to any server, each on its own connection, without credentials or a
 * proxy. It does not verify servers and does not trust their answers: an answer ends with an error
 * after HTTP_HEAD_MAX. libcurl is loaded for the first request. */
int http_peer_new_for_any(sd_event *event, HttpPeer **ret);

/* Transfers that still run keep the peer alive. Returns NULL. */
HttpPeer *http_peer_unref(HttpPeer *peer);

/* "https://10.96.0.1:443"; for people; borrowed. */
const char *http_peer_server(const HttpPeer *peer);

typedef struct HttpEnd {
        int code; /* 0: no answer began */
        uint64_t retry_after_usec;
        const Error *error;   /* NULL: the answer is complete. CANCELED: we cut it */
        bool is_plain;        /* the server was asked by https, and answered in plain HTTP */
        const char *redirect; /* absolute URL of a redirect; NULL: none. Borrowed */
} HttpEnd;

typedef struct HttpRequest {
        const char *server; /* "http://10.0.0.7:8080" if the peer is for any; else NULL */
        const char *method;
        const char *path;  /* and query */
        const char *token; /* NULL: none */
        const char *accept;
        const char *content_type; /* NULL: none */
        const char *body;         /* NULL: none */
        size_t body_size;         /* 0: it is a text */
        /* Additional headers, "Name: value" or, with an empty value, "Name;", which also replace
         * default ones; "Name:" removes a default one. Ends with NULL; NULL: none. */
        const char *const *headers;

        bool is_http2; /* with a body; also without TLS, where nothing else shows whether the server speaks it */
        const char *socket_path;        /* path of the server's Unix socket; NULL: none */
        const struct sockaddr *through; /* Unix socket to connect to instead; NULL: none */
        socklen_t through_size;         /* sizeof(struct sockaddr) at most */

        /* The final answer begins. A negative return cuts it. */
        int (*on_head)(int code, void *userdata);
        /* A line of a head, or of the headers behind the body. NULL: they are not needed. A negative return
         * cuts the answer. */
        int (*on_header)(const char *line, size_t size, void *userdata);
        /* A piece of its body. A negative return cuts it. */
        int (*on_data)(const char *data, size_t size, void *userdata);
        /* Once, and last. A negative return is a local failure and ends the loop. */
        int (*on_end)(const HttpEnd *end, void *userdata);
        void *userdata;
} HttpRequest;

/* Not from within on_head or on_data. Everything is copied. Refused with one line, only by a peer for any
 * server, if libcurl cannot be loaded. */
int http_send(HttpPeer *peer, const HttpRequest *request, HttpTransfer **ret, Error *reterr);

/* Ends it if it still runs; no callback runs after that. Returns NULL. */
HttpTransfer *http_transfer_free(HttpTransfer *transfer);

/* Returns the Date header of the current answer; "": it has none. */
const char *http_transfer_date(const HttpTransfer *transfer);
