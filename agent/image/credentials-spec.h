/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Registry credentials as people keep them
 *
 * Reads the two forms in which a pull secret or a file holds credentials: docker's config.json,
 * whose "auths" maps a registry to an entry, and the older .dockercfg, which is that map itself.
 * Says what an entry holds and nothing about which images it is for: that is
 * agent/image/credentials.h.
 *
 * What it holds is wiped when it is freed, and no error text ever contains a value.
 */

#include <json-c/json_types.h>
#include <stddef.h>

#include "agent/base/error.h"
#include "agent/document/known-keys.h"

#define CREDENTIALS_SIZE_MAX ((size_t) 1024 * 1024)
#define CREDENTIALS_KEY_SIZE_MAX 1024

/* Limits for json_parse_within(); free such a document with json_object_wipe_p(). */
#define CREDENTIALS_LIMITS ((JsonLimits){ .size = CREDENTIALS_SIZE_MAX, .depth = 16 })

typedef struct CredentialsEntry {
        char *key; /* key as written: "https://index.docker.io/v1/", "*.example.com/team" */

        /* NULL or not empty, each of them. At least one is there. */
        char *username;
        char *password;
        char *identity_token;
        char *registry_token;
} CredentialsEntry;

typedef struct CredentialsSpec {
        CredentialsEntry *entries; /* entries in the order of the document */
        size_t n_entries;
} CredentialsSpec;

#define CREDENTIALS_SPEC_INIT ((CredentialsSpec){ .entries = NULL })

/* The text need not end with a NUL. An empty text has no entries. An empty entry is left out; an
 * invalid one makes the whole text ERROR_INVALID. */
int credentials_spec_parse(const char *text, size_t size, CredentialsSpec *ret, Error *reterr);

/* The same for a file that can only be a config.json: without "auths" it has no entries. */
int credentials_spec_parse_config(const char *text, size_t size, CredentialsSpec *ret,
                                  Error *reterr);

/* The same for a map inside another document. */
int credentials_spec_read(struct json_object *map, CredentialsSpec *ret, Error *reterr);

/* Finds unknown keys, and empty entries whose credentials a helper program keeps. Finds nothing in
 * a text that cannot be parsed. */
int credentials_spec_check_keys(const char *text, size_t size, UnknownKeys *ret);

void credentials_entry_done(CredentialsEntry *entry);
void credentials_spec_done(CredentialsSpec *spec);
