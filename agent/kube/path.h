/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Paths of the API, such as /apis/apps.kruise.io/v1beta1/nodeimages/node-1/status
 */

#include "agent/base/error.h"

typedef struct KubePath {
        const char *group; /* NULL or "": the core */
        const char *version;
        const char *namespace; /* NULL: none */
        const char *resource;  /* plural, lower case */
        const char *name;      /* NULL: all of them */
        const char *subresource;
        const char *query; /* without "?", already escaped; NULL: none */
} KubePath;

/* Escapes the names. The caller owns *ret. */
int kube_path_format(const KubePath *path, char **ret);

/* One value of a query, escaped; the caller owns *ret. */
int kube_path_escape(const char *text, char **ret);

/* A query that chooses objects, such as "labelSelector=app%3Dweb"; NULL: not by that. *ret is NULL if it
 * chooses all. The caller owns *ret. */
int kube_path_select(const char *fields, const char *labels, char **ret);
