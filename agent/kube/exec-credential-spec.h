/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Input and output of a program that makes credentials
 *
 * Both are an object of the kind ExecCredential, whose version the kubeconfig chooses.
 * See kubernetes.io/docs/reference/config-api/client-authentication.v1.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

#define EXEC_CREDENTIAL_V1 "client.authentication.k8s.io/v1"
#define EXEC_CREDENTIAL_V1BETA1 "client.authentication.k8s.io/v1beta1"

/* Texts may be NULL. */
typedef struct ExecCredentialCluster {
        const char *server;
        const char *tls_server_name;
        bool is_unverified;
        const char *ca; /* PEM */
        const char *proxy;
        const char *config; /* JSON */
} ExecCredentialCluster;

/* Formats the program's KUBERNETES_EXEC_INFO. cluster: NULL if the program does not get it. Owned
 * by the caller. */
int exec_credential_request(const char *api_version, const ExecCredentialCluster *cluster,
                            char **ret);

/* A token, or certificate and key, or all. It is wiped when it is freed. */
typedef struct ExecCredential {
        char *token;
        char *certificate;  /* PEM */
        char *key;          /* PEM */
        int64_t expires_at; /* seconds since the epoch; INT64_MAX: never */
        int64_t renew_at;   /* a little earlier, so that no request waits */
} ExecCredential;

#define EXEC_CREDENTIAL_INIT ((ExecCredential){ .token = NULL })

/* now: in seconds since the epoch; an expired credential is refused. A refusal is one line without
 * any value of the text, which need not end with a NUL. */
int exec_credential_parse(const char *text, size_t size, const char *api_version, int64_t now,
                          ExecCredential *ret, Error *reterr);

void exec_credential_done(ExecCredential *credential);
