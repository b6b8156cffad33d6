/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The runtimes of this node
 *
 * Either those that somebody named, or those that are found at the usual places. Several can be
 * connected at a time, and one of them is chosen to hold the images: the first in order that became
 * ready. The choice stays when that one goes away, since another runtime has another image store.
 */

#include <stddef.h>

#include "cri/runtime.h"

typedef struct Runtimes Runtimes;

typedef struct RuntimesOptions {
        const char *const *paths; /* of sockets; copied */
        size_t n_paths;
        RuntimeChanged on_changed; /* of any of them */
        RpcObserver on_call;       /* may be NULL */
        void *userdata;
} RuntimesOptions;

/* Tries none before runtimes_try(). */
int runtimes_new(CompletionQueue *queue, const RuntimesOptions *options, Runtimes **ret);
Runtimes *runtimes_free(Runtimes *runtimes);

/* NULL until one was ready; it need not be ready now. */
Runtime *runtimes_chosen(const Runtimes *runtimes);

/* The client of the chosen one, or NULL while it is away. False is never late, see
 * runtime_is_alive(). */
RpcClient *runtimes_client(const Runtimes *runtimes);
bool runtimes_are_alive(const Runtimes *runtimes);

/* None of them is being asked for the first time. */
bool runtimes_are_settled(const Runtimes *runtimes);

size_t runtimes_count(const Runtimes *runtimes);
Runtime *runtimes_get(const Runtimes *runtimes, size_t i);

/* Tries those that are not connected now rather than later. */
int runtimes_try(Runtimes *runtimes);
