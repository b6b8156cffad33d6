/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keyring
 *
 * Which credentials may open the repository of an image? A keyring collects entries from any number
 * of pull secrets and files, and finds those that match by the rules of the kubelet:
 *
 *   - "https://", "http://" and a leading "/v1/" or "/v2/" of the path mean nothing;
 *   - host names have the same number of labels, and each label matches as a shell pattern, so
 *     "*.example.com" is for reg.example.com but not for a.b.example.com;
 *   - the port is the same, and the path is the beginning of the repository's;
 *   - the longer of two entries that match comes first (to be exact: descending byte order), and of
 *     equal ones the one that was added first;
 *   - an entry for index.docker.io is for Docker Hub, if no other entry is.
 *
 * Where one source must be asked before another, keep two keyrings and look up in both.
 * It reads no file, and what it holds is wiped when it is freed.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/error.h"
#include "agent/image/credentials-spec.h"

typedef struct Keyring Keyring;

/* Strings are NULL or not empty. */
typedef struct Credential {
        const char *username;
        const char *password;
        const char *identity_token;
        const char *registry_token;
        const char *source; /* source, for messages; the other members are secret */
} Credential;

/* Borrowed from the keyrings, until the first of them is freed. */
typedef struct CredentialList {
        const Credential **items;
        size_t n_items;
} CredentialList;

#define CREDENTIAL_LIST_INIT ((CredentialList){ .items = NULL })

int keyring_new(Keyring **ret);

/* Returns NULL. */
Keyring *keyring_free(Keyring *keyring);

/* Adds the entries of a docker config.json or .dockercfg, or none of them if it is refused: the
 * error names the source and the entry, and no value. The text need not end with a NUL; the name of
 * the source ("regcred.json", "namespace/secret") is copied. */
int keyring_add_text(Keyring *keyring, const char *source_name, const char *text, size_t size,
                     Error *reterr);

/* Takes the entries over. The caller cleans up the spec in any case. */
int keyring_add_spec(Keyring *keyring, const char *source_name, CredentialsSpec *spec);

/* Adds a copy of another keyring, behind existing entries with the same keys. */
int keyring_add_all(Keyring *keyring, const Keyring *other);

/* Whether the key of an entry, without "https://" and the like, matches the repository. */
bool keyring_key_matches(const char *key, const char *canonical_name);

/* Appends the credentials for a repository, given by its canonical name such as
 * "docker.io/library/nginx", in the order in which to try them. Finding none is no error: the pull
 * is anonymous. */
int keyring_lookup(const Keyring *keyring, const char *canonical_name, CredentialList *list);

void credential_list_done(CredentialList *list);
