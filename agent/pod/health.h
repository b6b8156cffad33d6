/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Asks a server for its health (grpc.health.v1), on a connection that was made to it
 *
 * Without TLS, by one POST over HTTP/2, behind a relay that bounds what the server can send. The caller
 * keeps the time limit.
 */

#include <systemd/sd-event.h>

#include "agent/base/error.h"
#include "agent/kube/http.h"

typedef struct Health Health;

/* error: NULL if the server says that it is SERVING. Runs once, not from within health_ask(). It may be freed
 * here. */
typedef int (*HealthDone)(const Error *error, void *userdata);

typedef struct HealthOptions {
        sd_event *event;
        HttpPeer *http;        /* library, for any server; outlives the request */
        int fd;                /* connection to the server; taken over, also on failure */
        const char *authority; /* name of the server in requests: "10.0.0.7:8080" */
        const char *service;   /* service to check; empty: the server as a whole */
        const char *user_agent;
        HealthDone on_done;
        void *userdata;
} HealthOptions;

/* Copies the options. Fails with one line if libcurl cannot be loaded, or there are no descriptors
 * left. */
int health_ask(const HealthOptions *options, Health **ret, Error *reterr);

/* Ends a request that still runs; no callback then. Returns NULL. */
Health *health_free(Health *health);
