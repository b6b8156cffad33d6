/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The configuration of credential provider plugins
 *
 * A CredentialProviderConfig (kubelet.config.k8s.io) lists programs and the images that they are for.
 * It is read strictly, as the kubelet does: a field that nobody knows makes it invalid. Values of the
 * environment are wiped when they are freed, and are in no error.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

#define CREDENTIAL_PROVIDERS_MAX 64

typedef struct CredentialProviderSpec {
        char *name; /* of the program, without a folder */
        char *api_version;
        char **match_images; /* keys as in agent/image/credentials.h; at least one */
        size_t n_match_images;
        uint64_t keep_usec; /* if the plugin does not say how long */
        char **arguments;   /* ended by NULL */
        char **environment; /* "NAME=value", no name twice; ended by NULL */
        bool wants_token;   /* of a pod's service account; it is for no image then */
} CredentialProviderSpec;

typedef struct CredentialProvidersSpec {
        CredentialProviderSpec *items; /* in the order of the document */
        size_t n_items;
} CredentialProvidersSpec;

#define CREDENTIAL_PROVIDERS_SPEC_INIT ((CredentialProvidersSpec){ .items = NULL })

/* YAML or JSON. A refusal names what is wrong by its path, e.g. "providers[0].name: ...". */
int credential_providers_spec_parse(const char *text, size_t size, CredentialProvidersSpec *ret,
                                    Error *reterr);
void credential_providers_spec_done(CredentialProvidersSpec *spec);

bool credential_provider_spec_matches(const CredentialProviderSpec *spec,
                                      const char *canonical_name);
