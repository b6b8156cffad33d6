/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs what a hook or a probe consists of
 *
 * exec through the runtime; httpGet without a proxy and without verifying certificates; tcpSocket,
 * which connects and closes; grpc, which asks a server for its health; sleep. The result is what happened: what it means for a hook, or after how
 * many of them a probe has failed, is up to the caller.
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
        HANDLER_FAILED,  /* the container did something else, or nothing in time */
        HANDLER_NOT_RUN, /* which means nothing for the container */
        _HANDLER_OUTCOME_MAX,
} HandlerOutcome;

/* Borrowed during the callback. */
typedef struct HandlerResult {
        HandlerOutcome outcome;
        const Error *error; /* why it did not succeed; TIMEOUT if the time was over; NULL: it did */
        int status;         /* of HTTP, also if its answer broke off; 0: none. Or of the command */
        /* The first bytes, as they came: of the body, or of the command's standard output, or its
         * standard error if it failed. */
        const char *output;
        size_t output_size;
        /* "10.0.0.7:8443" if that was to be asked by https, speaks plain HTTP, and was therefore
         * asked once more without TLS; else NULL. */
        const char *plain_host;
} HandlerResult;

/* Runs once, not from within handler_run(). The handler may be freed here. */
typedef int (*HandlerDone)(const HandlerResult *result, void *userdata);

typedef struct HandlerOptions {
        sd_event *event;
        const HandlerSpec *spec;  /* not of kind NONE */
        RpcClient *client;        /* of the runtime, for exec; NULL: it is not there */
        const char *container_id; /* of the runtime */
        HttpPeer *http;           /* for any server, for exec, httpGet and grpc; outlives it */
        const char *address;      /* of the pod, for a spec without a host; NULL: unknown */
        const char *user_agent;   /* unless the spec has one */
        bool allows_plain; /* asks a server again that was asked by https and speaks plain HTTP, without
                              the header Authorization */
        unsigned redirects_max; /* so many are followed, to the same host alone; more are a failure,
                                 * one to another host is an answer */
        uint64_t timeout_usec;
        HandlerDone on_done;
        void *userdata;
} HandlerOptions;

/* Copies what it needs. An exec that takes too long is ended by the runtime. */
int handler_run(const HandlerOptions *options, Handler **ret);

/* Ends it if it still runs; no callback then. Returns NULL. */
Handler *handler_free(Handler *handler);
