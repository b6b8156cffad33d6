/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The documents of credential provider plugins
 *
 * A CredentialProviderConfig (kubelet.config.k8s.io) lists programs and the images that they are for.
 * It is read strictly, as the kubelet does: an unknown field makes it invalid.
 *
 * A plugin reads a CredentialProviderRequest and writes a CredentialProviderResponse
 * (credentialprovider.kubelet.k8s.io), which may have unknown fields.
 *
 * Passwords, tokens and values of the environment are wiped when they are freed, and are in no error.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/image/credentials-spec.h"

#define CREDENTIAL_PROVIDERS_MAX 64

typedef struct CredentialProviderSpec {
        char *name; /* name of the program, without a folder */
        char *api_version;
        char **match_images; /* keys as in agent/image/credentials.h; at least one */
        size_t n_match_images;
        uint64_t keep_usec; /* lifetime of an answer that does not have its own */
        char **arguments;   /* ended by NULL */
        char **environment; /* "NAME=value", no name twice; ended by NULL */
        bool needs_token;   /* token of a pod's service account; then no image matches */
} CredentialProviderSpec;

typedef struct CredentialProvidersSpec {
        CredentialProviderSpec *items; /* in the order of the document, or of the documents */
        size_t n_items;
} CredentialProvidersSpec;

#define CREDENTIAL_PROVIDERS_SPEC_INIT ((CredentialProvidersSpec){ .items = NULL })

/* YAML or JSON. A refusal begins with the path of the fault, e.g. "providers[0].name: ...". */
int credential_providers_spec_parse(const char *text, size_t size, CredentialProvidersSpec *ret,
                                    Error *reterr);
/* Appends the plugins of another document, which is empty afterwards. No name may be there twice. */
int credential_providers_spec_add(CredentialProvidersSpec *spec, CredentialProvidersSpec *other,
                                  Error *reterr);
void credential_providers_spec_done(CredentialProvidersSpec *spec);

bool credential_provider_spec_matches(const CredentialProviderSpec *spec,
                                      const char *canonical_name);

/* JSON, ended by a NUL; owned by the caller. */
int credential_provider_request_format(const char *api_version, const char *canonical_name,
                                       char **ret);

/* Images that an answer may be used for. */
typedef enum CredentialScope {
        CREDENTIAL_SCOPE_IMAGE, /* all tags of the same repository */
        CREDENTIAL_SCOPE_REGISTRY,
        CREDENTIAL_SCOPE_GLOBAL,
        _CREDENTIAL_SCOPE_MAX,
} CredentialScope;

typedef struct CredentialProviderResponse {
        CredentialScope scope;
        bool has_keep; /* keep_usec is given */
        uint64_t keep_usec;
        CredentialsSpec credentials;
} CredentialProviderResponse;

#define CREDENTIAL_PROVIDER_RESPONSE_INIT ((CredentialProviderResponse){ .has_keep = false })

/* JSON. api_version is that of the request; an answer with another one is refused. */
int credential_provider_response_parse(const char *text, size_t size, const char *api_version,
                                       CredentialProviderResponse *ret, Error *reterr);
void credential_provider_response_done(CredentialProviderResponse *response);

/* Parses a duration as Kubernetes writes it, such as "12h0m0s", "1.5h", "300ms", "-5s" or "0", to
 * whole microseconds. Refuses other texts and more than 292 years; *ret is left alone then. */
int go_duration_parse(const char *text, int64_t *ret_usec, Error *reterr);
