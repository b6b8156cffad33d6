/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Answers of credential provider plugins, for as long as they are good
 *
 * An answer is kept for an image, its registry or all images, apart for each plugin. There is a limit
 * to the number of answers; beyond it, the answer that expires first is dropped. Pure: the caller gives the
 * time, of any clock that does not jump.
 */

#include <stdint.h>

#include "agent/auth/credential-provider-spec.h"
#include "agent/image/credentials.h"

/* Reference-counted; wiped with the last reference. */
typedef struct CredentialAnswer CredentialAnswer;

/* Takes the keyring over when it succeeds. */
int credential_answer_new(Keyring *keyring, CredentialAnswer **ret);
CredentialAnswer *credential_answer_ref(CredentialAnswer *answer);
CredentialAnswer *credential_answer_unref(CredentialAnswer *answer);
const Keyring *credential_answer_keyring(const CredentialAnswer *answer);

typedef struct CredentialCache CredentialCache;

int credential_cache_new(size_t n_max, CredentialCache **ret);
CredentialCache *credential_cache_free(CredentialCache *cache);
size_t credential_cache_count(const CredentialCache *cache);

/* Returns the answer for the image, else its registry, else all images. Borrowed, or NULL. */
CredentialAnswer *credential_cache_find(CredentialCache *cache, size_t i_plugin,
                                        const char *canonical_name, uint64_t now_usec);

/* Replaces an answer for the same scope. An answer that is good for 0 is not kept. */
int credential_cache_put(CredentialCache *cache, size_t i_plugin, CredentialScope scope,
                         const char *canonical_name, uint64_t now_usec, uint64_t keep_usec,
                         CredentialAnswer *answer);

/* Drops expired answers. */
void credential_cache_purge(CredentialCache *cache, uint64_t now_usec);
