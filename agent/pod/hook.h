/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a hook as the kubelet would
 *
 * exec through the runtime, within the time that is left; httpGet to the pod's address with no
 * proxy and without verifying certificates, where any answer is success; tcpSocket, which connects
 * and closes; sleep.
 */

#include <systemd/sd-event.h>

#include "agent/pod/hook-spec.h"
#include "agent/rpc/client.h"

typedef struct Hook Hook;

typedef struct HookTarget {
        RpcClient *client;        /* of the runtime, for exec */
        const char *container_id; /* of the runtime */
        const char *address;      /* of the pod, for what has no host of its own; NULL: unknown */
} HookTarget;

/* error is NULL if it has succeeded; TIMEOUT if it was not done in time. Runs once, not from within
 * hook_run(). */
typedef int (*HookDone)(const Error *error, void *userdata);

/* Copies what it needs. An exec that is over its time is ended by the runtime. */
int hook_run(sd_event *event, const HookSpec *spec, const HookTarget *target, uint64_t timeout_usec,
             HookDone on_done, void *userdata, Hook **ret);

/* Within its HookDone: "10.0.0.7:8443" if that was to be asked by https, speaks plain HTTP, and was
 * asked once more so; NULL otherwise. Borrowed. */
const char *hook_plain_host(const Hook *hook);

/* Ends it if it still runs; no callback then. Returns NULL. */
Hook *hook_free(Hook *hook);
