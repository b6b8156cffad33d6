/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the containers of a request for a local restart
 *
 * The caller names a pod with or without its namespace; a name that pods of several namespaces have is
 * refused rather than guessed. Containers that do not run are not stopped. Pure.
 */

#include "agent/base/error.h"
#include "agent/pod/pods.h"
#include "agent/pod/runtime-pods.h"

#define RESTART_CONTAINERS_MAX 64

typedef struct RestartQuestion {
        const char *namespace; /* "": any */
        const char *pod;
        const char *container; /* "": all that run, except init and debug containers */
        const char *reason;    /* "" if none is given */
        int64_t grace_sec;     /* grace period in seconds, or STOP_GRACE_OF_POD */
} RestartQuestion;

/* Refuses names that no pod can have, and a reason that would not stay within its line. */
int restart_question_check(const RestartQuestion *question, Error *reterr);

/* The result. Everything is borrowed. */
typedef struct RestartFound {
        const RuntimePod *pod;
        const Pod *known; /* pod from the API server; NULL: unknown */
        const RuntimeContainer *containers[RESTART_CONTAINERS_MAX];
        size_t n_containers; /* containers to restart; at least 1 */
} RestartFound;

/* running: the runtime's pods of that name. known: NULL if there is no API server; keeps the last
 * state while the server is away. Fails with NOT_FOUND or INVALID. */
int restart_find(const RuntimePods *running, const Pods *known, const RestartQuestion *question,
                 RestartFound *ret, Error *reterr);

/* Says why no container of the pod is started again; NULL: some may be. */
const char *restart_end_of_pod(const Pod *pod);

/* Sets why the kubelet will not start the container again, in one line that the caller owns; NULL:
 * it will, as far as known. */
int restart_stays_down(const Pod *known, const char *container, char **ret);
