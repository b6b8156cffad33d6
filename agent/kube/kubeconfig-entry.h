/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The named things of a kubeconfig (clusters, users, contexts) and their members
 */

#include "agent/document/json-reader.h"
#include "agent/kube/kubeconfig-spec.h"

/* Points into itself, so it must not be copied. */
typedef struct KubeconfigEntry {
        JsonPath list; /* "users" */
        JsonPath item; /* [2] */
        JsonPath path; /* .user */
        struct json_object *object;
} KubeconfigEntry;

/* For "users", "user". *ret_found is false if there is none of the name. */
int kubeconfig_find(struct json_object *root, const char *list_key, const char *key,
                    const char *name, KubeconfigEntry *ret, bool *ret_found, Error *reterr);

/* What the context's member of that name points to. *ret_found is false if it points nowhere. */
int kubeconfig_follow(struct json_object *root, const KubeconfigEntry *context,
                      const char *list_key, const char *key, KubeconfigEntry *ret, bool *ret_found,
                      Error *reterr);

/* Each copies a member, and leaves *ret as it was if it is not there. */

/* A text without control characters. */
int kubeconfig_read_line(const KubeconfigEntry *entry, const char *key, char **ret, Error *reterr);

/* A file, as a path from the root or, if the folder is not, from there. */
int kubeconfig_read_file(const KubeconfigEntry *entry, const char *folder, const char *key,
                         char **ret, Error *reterr);

/* "client-key" names a file, "client-key-data" holds what would be in it. */
int kubeconfig_read_source(const KubeconfigEntry *entry, const char *folder, const char *key,
                           const char *data_key, KubeconfigSource *ret, Error *reterr);
