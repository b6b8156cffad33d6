/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which version of a kind the API server serves
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/kube/client.h"

/* Borrowed until the end of a discovery. */
typedef struct KubeKind {
        const char *group;
        const char *const *versions; /* versions in order of preference, ended by NULL */
        const char *resource;        /* plural, lower case */
        bool needs_status;           /* only a version counts that has the subresource "status" */
} KubeKind;

/* The questions of a discovery, for those who send them by themselves: whether there is the group, and then which
 * resources each version has. Pure. */
typedef struct KubeQuestions {
        KubeKind kind;
        size_t n_asked;      /* 1: the group; then a version each */
        const char *version; /* first with the kind; NULL: none so far. Borrowed */
        char path[256];      /* path of the last question */
} KubeQuestions;

/* Returns the path of the next question; NULL: there is none, and the version is the result. */
const char *kube_questions_next(KubeQuestions *questions);
/* answer: NULL: there is no such page. */
int kube_questions_take(KubeQuestions *questions, json_object *answer, Error *reterr);

typedef struct KubeDiscovery KubeDiscovery;

/* version: the first version that serves the kind; borrowed. NULL: none, or the error has the reason. */
typedef int (*KubeDiscovered)(const char *version, const Error *error, void *userdata);

/* Asks once; when to ask again is up to the caller. on_discovered is not called from within. */
int kube_discover(KubeClient *client, const KubeKind *kind, KubeDiscovered on_discovered,
                  void *userdata, KubeDiscovery **ret);

/* Ends it; no callback runs after that. Returns NULL. */
KubeDiscovery *kube_discovery_free(KubeDiscovery *discovery);
