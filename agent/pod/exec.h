/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a command in a container, by the runtime's ExecSync
 *
 * A runtime replies with all output of the command, up to 16 MiB, and gRPC's core would hold two copies of it
 * before the agent could read any. So this makes the call by HTTP/2 on its own connection, reads the reply as it
 * arrives, and keeps EXEC_OUTPUT_MAX bytes of each output. The caller keeps the time limit.
 */

#include "agent/kube/http.h"
#include "agent/rpc/client.h"

typedef struct Exec Exec;

typedef struct ExecOptions {
        HttpPeer *http;           /* library, for any server; outlives the exec */
        RpcClient *client;        /* connection to the runtime */
        const char *container_id; /* the runtime's ID */
        char *const *command;     /* ends with NULL */
        int64_t timeout_sec;      /* time after which the runtime ends the command; at least 1 */
        RpcDone on_done;          /* the reply is a CriExec; see rpc/client.h */
        void *userdata;
} ExecOptions;

/* Copies the options. Fails with one line if the runtime cannot be reached, or there is no
 * libcurl. */
int exec_run(const ExecOptions *options, Exec **ret, Error *reterr);

/* Ends a call that still runs, and has the runtime end the command; no callback then. Returns
 * NULL. */
Exec *exec_free(Exec *exec);
