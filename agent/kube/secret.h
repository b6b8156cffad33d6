/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pull secrets, read one by one by their names
 *
 * Needs the right to get them, not to list or watch. An answer is kept for a short while, because many
 * images use the same secret, and wiped when it is dropped.
 */

#include "agent/kube/client.h"

typedef struct KubeSecrets KubeSecrets;
typedef struct KubeSecretAsk KubeSecretAsk;

/* Called with docker's config.json: the value of .dockerconfigjson or of .dockercfg, decoded. text
 * is borrowed during the call and not ended by a NUL. The error says, without any value, that the
 * secret is missing, may not be read, is of another type, or is broken. */
typedef int (*KubeSecretRead)(const char *text, size_t size, const Error *error, void *userdata);

/* keep_usec: how long an answer is kept. 0: 60 s; 1/6 of it for missing secrets. */
int kube_secrets_new(KubeClient *client, uint64_t keep_usec, KubeSecrets **ret);
KubeSecrets *kube_secrets_free(KubeSecrets *secrets);

/* must_be_fresh: a registry has refused the kept answer, so ask the server in any case.
 * Simultaneous calls for one secret share a request. on_read is never called from within. */
int kube_secrets_get(KubeSecrets *secrets, const char *namespace, const char *name,
                     bool must_be_fresh, KubeSecretRead on_read, void *userdata,
                     KubeSecretAsk **ret);

/* on_read is not called any more. Returns NULL. */
KubeSecretAsk *kube_secret_ask_unref(KubeSecretAsk *ask);
