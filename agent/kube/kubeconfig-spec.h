/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kubeconfig: the access of one of its contexts
 *
 * It may be spread over several files, as in $KUBECONFIG: the first entry of a name counts as a whole, and
 * so does the first current context.
 *
 * Files that it names are not read here; their paths are relative to the folder of the file that names
 * them, as in kubectl. The parser refuses what kubectl refuses, such as two ways to say the same, and
 * members that would silently give another access than the intended one: impersonation with
 * "as-user-extra", the old "auth-provider", a program that needs a terminal. It ignores unknown fields.
 *
 * The spec is wiped when it is freed, and no error text contains a value that may be a secret.
 * See kubernetes.io/docs/reference/config-api/kubeconfig.v1.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/error.h"

/* A file's path, or its content, or neither. */
typedef struct KubeconfigSource {
        char *file;
        char *text; /* PEM */
} KubeconfigSource;

/* A program that makes credentials. */
typedef struct KubeconfigExec {
        const char *api_version; /* EXEC_CREDENTIAL_V1 or _V1BETA1; NULL: there is no program */
        char *command;           /* absolute, or a name that is looked up in PATH */
        char **arguments;        /* ended by NULL */
        char **environment;      /* "NAME=value", ended by NULL */
        char *install_hint;
        bool wants_cluster;   /* provideClusterInfo */
        char *cluster_config; /* JSON, for the program alone */
} KubeconfigExec;

/* Texts are NULL or not empty. */
typedef struct KubeconfigSpec {
        char *context;   /* name of the context */
        char *namespace; /* namespace of the context; NULL: none */
        char *user;      /* the name of its user */

        char *server; /* URL without a slash at the end */
        KubeconfigSource ca;
        bool is_unverified;
        char *tls_server_name;
        char *proxy;

        char *token;
        char *token_file; /* overrides the token as long as it can be read */
        KubeconfigSource certificate;
        KubeconfigSource key; /* present if, and only if, the certificate is */
        char *username;
        char *password;
        KubeconfigExec exec;  /* only if there is neither token nor certificate nor user name */
        char **impersonation; /* headers, "Impersonate-User: jane", ended by NULL; NULL: none */
} KubeconfigSpec;

#define KUBECONFIG_SPEC_INIT ((KubeconfigSpec){ .context = NULL })

/* A kubeconfig file. The text need not end with a NUL. */
typedef struct KubeconfigFile {
        const char *text;
        size_t size;
        const char *folder; /* folder of the file */
        const char *path;   /* path for errors; NULL: errors do not name the file */
} KubeconfigFile;

/* Values that replace those of the files. Texts are single lines; NULL: the files decide. */
typedef struct KubeconfigOverrides {
        const char *cluster, *user; /* names */
        const char *server;
        const char *token;            /* replaces all other credentials */
        const char *as;               /* replaces the user's own "as-..." */
        const char *const *as_groups; /* ended by NULL */
} KubeconfigOverrides;

/* At least one file. context: NULL is the current one. overrides: NULL for none. A refusal is one line such as
 * "/etc/x.conf: contexts[1].context.cluster: there is no cluster "x"". */
int kubeconfig_spec_parse(const KubeconfigFile *files, size_t n_files, const char *context,
                          const KubeconfigOverrides *overrides, KubeconfigSpec *ret, Error *reterr);

void kubeconfig_spec_done(KubeconfigSpec *spec);
