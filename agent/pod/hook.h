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
        RpcClient *client;        /* connection to the runtime, for exec */
        const char *container_id; /* the runtime's ID */
        const char *address;      /* the pod's address, for a hook without a host; NULL: unknown */
} HookTarget;

/* error is NULL if it has succeeded; TIMEOUT if it was not done in time. plain_host: see handler.h.
 * Runs once, not from within hook_run(). */
typedef int (*HookDone)(const Error *error, const char *plain_host, void *userdata);

int hook_run(sd_event *event, const HandlerSpec *spec, const HookTarget *target,
             uint64_t timeout_usec, HookDone on_done, void *userdata, Hook **ret);

/* Ends a hook that still runs; no callback then. Returns NULL. */
Hook *hook_free(Hook *hook);
