/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a preStop hook as the kubelet would
 *
 * A hook has succeeded if its command exits with 0, if a server answers with any HTTP status, or if
 * one accepts a connection. A server that was to be asked by https and speaks plain HTTP is asked
 * once more without TLS.
 */

#include "agent/pod/handler.h"

typedef struct Hook Hook;

typedef struct HookTarget {
        RpcClient *client;        /* of the runtime, for exec */
        const char *container_id; /* of the runtime */
        const char *address; /* of the pod, for a hook without a host of its own; NULL: unknown */
} HookTarget;

/* error is NULL if it has succeeded; TIMEOUT if it was not done in time. plain_host: see handler.h.
 * Runs once, not from within hook_run(). */
typedef int (*HookDone)(const Error *error, const char *plain_host, void *userdata);

/* Copies what it needs. */
int hook_run(sd_event *event, const HandlerSpec *spec, const HookTarget *target,
             uint64_t timeout_usec, HookDone on_done, void *userdata, Hook **ret);

/* Ends it if it still runs; no callback then. Returns NULL. */
Hook *hook_free(Hook *hook);
