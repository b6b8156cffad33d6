/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One container runtime, present or not
 *
 * Connects to a socket, asks for the version, notices at once when the connection ends, and tries
 * again. It never fails: it has a state, and a sentence that explains it.
 */

#include <stdbool.h>

#include "agent/rpc/client.h"

typedef struct Runtime Runtime;

typedef enum RuntimeState {
        RUNTIME_ABSENT,     /* no socket, or nobody behind it */
        RUNTIME_CONNECTING, /* connected, and asked for its version and whether it works */
        RUNTIME_READY,
        RUNTIME_REFUSED, /* somebody is there who does not speak CRI v1, or does not answer */
        _RUNTIME_STATE_MAX,
} RuntimeState;

/* The state or the sentence changed. */
typedef int (*RuntimeChanged)(Runtime *runtime, void *userdata);

typedef struct RuntimeOptions {
        const char *path;    /* of the socket, copied */
        uint64_t retry_usec; /* between two tries */
        RuntimeChanged on_changed;
        RpcObserver on_call; /* may be NULL */
        void *userdata;
} RuntimeOptions;

/* Does not try before runtime_try(). */
int runtime_new(CompletionQueue *queue, const RuntimeOptions *options, Runtime **ret);
Runtime *runtime_free(Runtime *runtime);

/* Tries to connect now, unless it has. */
int runtime_try(Runtime *runtime);

/* Tries this often from now on. */
void runtime_set_retry(Runtime *runtime, uint64_t retry_usec);

RuntimeState runtime_state(const Runtime *runtime);

/* In on_changed: the state is the same as when that was called last; there is but another reason. */
bool runtime_is_as_before(const Runtime *runtime);

/* NULL unless ready. Borrowed until the state changes. */
RpcClient *runtime_client(const Runtime *runtime);

/* False as soon as the kernel knows that the connection has ended, even before on_changed. */
bool runtime_is_alive(const Runtime *runtime);

const char *runtime_path(const Runtime *runtime);
const char *runtime_name(const Runtime *runtime);        /* "containerd"; "" if not ready */
const char *runtime_version(const Runtime *runtime);     /* "1.7.2" */
const char *runtime_api_version(const Runtime *runtime); /* "v1" */
/* Where it keeps the images, or NULL if it does not tell. */
const char *runtime_image_path(const Runtime *runtime);
const char *runtime_sentence(const Runtime *runtime);
unsigned runtime_n_connects(const Runtime *runtime); /* how often it became ready */
