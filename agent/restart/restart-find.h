/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which containers a request for a local restart means
 *
 * A pod is named by its name alone, or by its namespace too; a name that stands for pods of several
 * namespaces is refused rather than guessed. Containers that do not run are not stopped. Pure.
 */

#include "agent/base/error.h"
#include "agent/pod/pods.h"
#include "agent/pod/runtime-pods.h"

#define RESTART_CONTAINERS_MAX 64

typedef struct RestartQuestion {
        const char *namespace; /* "": any */
        const char *pod;
        const char *container; /* "": all that run, but for init and debug containers */
        const char *reason;    /* "" if none is given */
        int64_t grace_sec;     /* or STOP_GRACE_OF_POD */
} RestartQuestion;

/* Refuses what can name nothing, and a reason that would not stay within its line. */
int restart_question_check(const RestartQuestion *question, Error *reterr);

/* What was found. Everything is borrowed. */
typedef struct RestartFound {
        const RuntimePod *pod;
        const Pod *known; /* this very pod at the API server; NULL: unknown */
        const RuntimeContainer *containers[RESTART_CONTAINERS_MAX];
        size_t n_containers; /* at least 1 */
} RestartFound;

/* running: what the runtime has under the pod's name. known: NULL if there is no API server; what
 * was known last counts while it is away. Refuses with NOT_FOUND or INVALID. */
int restart_find(const RuntimePods *running, const Pods *known, const RestartQuestion *question,
                 RestartFound *ret, Error *reterr);

/* Why nothing starts the container again once it has ended: one line, owned by the caller; NULL:
 * the kubelet does, as far as known. */
int restart_stays_down(const Pod *known, const char *container, char **ret);
