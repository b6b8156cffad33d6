/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One pull secret from the API server
 *
 * Tries a few times and then says that the server is away: a pull waits for it, and knows better when
 * to try again.
 */

#include "agent/kube/client.h"
#include "agent/kube/secret-spec.h"

typedef struct SecretRead SecretRead;

/* Either a text, which may be taken over, or an error, whose message begins with the secret's name.
 * ERROR_UNAVAILABLE: nothing was learnt about the secret. Runs once, not from within
 * secret_read_start(); the read may be freed in it. */
typedef int (*SecretReadDone)(SecretText *text, const Error *error, void *userdata);

/* The names are borrowed until the end, and ones that secret_spec_is_name() accepts. */
int secret_read_start(KubeClient *client, const char *namespace, const char *name,
                      SecretReadDone on_done, void *userdata, SecretRead **ret);

/* Ends it; on_done does not run any more. Returns NULL. */
SecretRead *secret_read_free(SecretRead *read);
