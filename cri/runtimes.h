/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The container runtimes of this node
 *
 * The runtimes of the configuration, or else those at the usual places. The agent connects to each socket,
 * asks for its version, notices its end, and tries again. A runtime never fails: it has a state, and a
 * sentence that explains the state.
 *
 * Several can be connected at a time, and one of them is chosen to hold the images: the first in
 * order that became ready. The choice stays when that one goes away, since another runtime has
 * another image store.
 */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "agent/observe/metrics.h"
#include "agent/rpc/client.h"

typedef struct Runtime Runtime;
typedef struct Runtimes Runtimes;

typedef enum RuntimeState {
        RUNTIME_ABSENT,     /* no socket, or no process behind it */
        RUNTIME_CONNECTING, /* connected, and asked for its version and whether it works */
        RUNTIME_READY,
        RUNTIME_REFUSED, /* the peer does not speak CRI v1, does not answer, or denies us access */
        _RUNTIME_STATE_MAX,
} RuntimeState;

/* The state or its sentence changed, or the runtime became silent, or answers again. */
typedef int (*RuntimeChanged)(Runtime *runtime, void *userdata);

typedef struct RuntimesOptions {
        const char *const *paths; /* paths of sockets; copied */
        size_t n_paths;
        Metrics *metrics;          /* counts calls; may be NULL */
        RuntimeChanged on_changed; /* called for each runtime */
        void *userdata;
} RuntimesOptions;

/* Tries none before runtimes_try(). */
int runtimes_new(CompletionQueue *queue, const RuntimesOptions *options, Runtimes **ret);
Runtimes *runtimes_free(Runtimes *runtimes);

/* Sets the gauges. */
void runtimes_measure(Runtimes *runtimes);

/* NULL until one was ready; it need not be ready now. */
Runtime *runtimes_chosen(const Runtimes *runtimes);

/* Returns the runtime of that name: the chosen one if it has that name, or had it before it went away; else any that
 * is ready; NULL: there is none. */
Runtime *runtimes_find(const Runtimes *runtimes, const char *name);

/* Returns the client of the chosen runtime, or NULL while it is away. False is never late, see
 * runtime_is_alive(). */
RpcClient *runtimes_client(const Runtimes *runtimes);
bool runtimes_are_alive(const Runtimes *runtimes);

/* Whether each runtime has been asked once. */
bool runtimes_are_settled(const Runtimes *runtimes);

size_t runtimes_count(const Runtimes *runtimes);
Runtime *runtimes_get(const Runtimes *runtimes, size_t i);

/* Tries to connect the other runtimes now rather than later. */
int runtimes_try(Runtimes *runtimes);

RuntimeState runtime_state(const Runtime *runtime);

/* For on_changed: whether only the reason differs from the last call. */
bool runtime_is_as_before(const Runtime *runtime);

/* NULL unless the runtime is ready. Borrowed until the state changes. */
RpcClient *runtime_client(const Runtime *runtime);

/* False as soon as the kernel knows that the connection has ended, even before on_changed. */
bool runtime_is_alive(const Runtime *runtime);

/* The runtime is ready, but has answered neither a quick call nor the question for its version in
 * time, and no call since. Calls to it may go on. */
bool runtime_is_silent(const Runtime *runtime);

const char *runtime_path(const Runtime *runtime);
const char *runtime_name(const Runtime *runtime);        /* "containerd"; "" if not ready */
const char *runtime_version(const Runtime *runtime);     /* "1.7.2" */
const char *runtime_api_version(const Runtime *runtime); /* "v1" */
/* Returns the folder of its images, or NULL if that is unknown. */
const char *runtime_image_path(const Runtime *runtime);
const char *runtime_sentence(const Runtime *runtime);
unsigned runtime_n_connects(const Runtime *runtime); /* how often the runtime became ready */

/* Returns when the runtime became ready last, by CLOCK_REALTIME; all zero: not yet. */
struct timespec runtime_connected_at(const Runtime *runtime);
