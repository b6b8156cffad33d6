/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Paths of the API, such as /apis/apps.kruise.io/v1beta1/nodeimages/node-1/status
 */

typedef struct KubePath {
        const char *group; /* NULL or "": the core */
        const char *version;
        const char *namespace; /* NULL: none */
        const char *resource;  /* plural, lower case */
        const char *name;      /* NULL: all of them */
        const char *subresource;
        const char *proxied; /* path behind the subresource proxy, of one part; NULL: none */
        const char *fields;  /* "metadata.name=web-0"; NULL: any */
        const char *labels;  /* "app=web,!active"; NULL: any */
        const char *query;   /* more of the query, already escaped; NULL: none */
} KubePath;

/* Escapes names and selectors. The caller owns *ret. */
int kube_path_format(const KubePath *path, char **ret);

/* Escapes a value of a query; the caller owns *ret. */
int kube_path_escape(const char *text, char **ret);
