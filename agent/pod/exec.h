/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a command in a container, by the runtime's ExecSync
 *
 * A runtime answers with all that the command has printed, 16 MiB at most, which gRPC's core would hold twice
 * before any of it could be looked at. So the call is one of HTTP/2 over a connection of its own: the answer is
 * read as it comes, and of each output EXEC_OUTPUT_MAX bytes are kept. No time limit is kept here.
 */

#include <systemd/sd-event.h>

#include "agent/kube/http.h"
#include "agent/rpc/client.h"

typedef struct Exec Exec;

typedef struct ExecOptions {
        HttpPeer *http;           /* for any server; outlives it */
        RpcClient *client;        /* of the runtime */
        const char *container_id; /* of the runtime */
        char *const *command;     /* ends with NULL */
        int64_t timeout_sec;      /* at least 1; then the runtime ends the command */
        RpcDone on_done;          /* the reply is a CriExec; see rpc/client.h */
        void *userdata;
} ExecOptions;

/* Copies what it needs. Refused with one line if the runtime cannot be reached, or there is no libcurl. */
int exec_run(const ExecOptions *options, Exec **ret, Error *reterr);

/* Ends it if it still runs, and has the runtime end it; no callback then. Returns NULL. */
Exec *exec_free(Exec *exec);
