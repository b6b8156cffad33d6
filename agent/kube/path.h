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

/* Escapes a value of a query; the caller owns *ret. */
int kube_path_escape(const char *text, char **ret);

/* Makes a query that selects objects, such as "labelSelector=app%3Dweb"; NULL: any. *ret is NULL if
 * both are. The caller owns *ret. */
int kube_path_select(const char *fields, const char *labels, char **ret);
