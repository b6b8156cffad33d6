/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs the handler of a hook or a probe
 *
 * exec through the runtime; httpGet without a proxy and without verifying certificates; tcpSocket,
 * which connects and closes; grpc, which asks a server for its health; sleep. The caller decides what
 * the result means for a hook, and after how many failures a probe has failed.
 *
 * The other side is not trusted: it gets at most the time that the caller grants, and at most
 * HANDLER_OUTPUT_MAX bytes of what it sends are kept.
 */

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "agent/kube/http.h"
#include "agent/pod/handler-spec.h"
#include "agent/rpc/client.h"

#define HANDLER_OUTPUT_MAX ((size_t) 10 * 1024)

typedef struct Handler Handler;

typedef enum HandlerOutcome {
        /* Exit status 0, an HTTP status from 200 to 399, a connection, the health SERVING, or the sleep
         * is over. */
        HANDLER_SUCCEEDED,
        HANDLER_FAILED,  /* the container answered otherwise, or not in time */
        HANDLER_UNKNOWN, /* the attempt failed on the node, which says nothing about the container */
        _HANDLER_OUTCOME_MAX,
} HandlerOutcome;

/* Borrowed during the callback. */
typedef struct HandlerResult {
        HandlerOutcome outcome;
        const Error *error; /* reason of a failure, TIMEOUT if the time was over; NULL: success */
        int status;         /* HTTP status, even if the answer broke off, or exit status; 0: none */
        /* The first bytes, unchanged, of the body or the command's standard output, or its standard
         * error if the command failed. */
        const char *output;
        size_t output_size;
        /* "10.0.0.7:8443" if that server, which an https URL named, speaks plain HTTP and was
         * therefore asked again without TLS; else NULL. */
        const char *plain_host;
} HandlerResult;

/* Runs once, not from within handler_run(). The handler may be freed here. */
typedef int (*HandlerDone)(const HandlerResult *result, void *userdata);

typedef struct HandlerOptions {
        sd_event *event;
        const HandlerSpec *spec;  /* not of kind NONE */
        RpcClient *client;        /* connection to the runtime, for exec; NULL: not there */
        const char *container_id; /* the runtime's ID */
        HttpPeer *http;           /* library for exec, httpGet and grpc; outlives the handler */
        const char *address;      /* the pod's address, for a spec without a host; NULL: unknown */
        const char *user_agent;   /* User-Agent, if the spec has none */
        /* Repeats a request without TLS, and without the header Authorization, if the https server
         * speaks plain HTTP. */
        bool allows_plain;
        /* Number of redirects to follow, to the same host alone; more are a failure, one to another
         * host is an answer. */
        unsigned redirects_max;
        uint64_t timeout_usec;
        HandlerDone on_done;
        void *userdata;
} HandlerOptions;

/* Copies the options. The runtime ends an exec that takes too long. */
int handler_run(const HandlerOptions *options, Handler **ret);

/* Ends a handler that still runs; no callback then. Returns NULL. */
Handler *handler_free(Handler *handler);
