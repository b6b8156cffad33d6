/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is written to a credential provider plugin, and by it
 *
 * A plugin reads a CredentialProviderRequest and writes a CredentialProviderResponse
 * (credentialprovider.kubelet.k8s.io). The answer may have more fields than we know. Passwords and
 * tokens are wiped when they are freed, and are in no error.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/image/credentials-spec.h"

/* JSON, ended by a NUL; owned by the caller. */
int credential_provider_request_format(const char *api_version, const char *canonical_name,
                                       char **ret);

/* What else an answer may be used for. */
typedef enum CredentialScope {
        CREDENTIAL_SCOPE_IMAGE, /* all tags of the same repository */
        CREDENTIAL_SCOPE_REGISTRY,
        CREDENTIAL_SCOPE_GLOBAL,
        _CREDENTIAL_SCOPE_MAX,
} CredentialScope;

typedef struct CredentialProviderResponse {
        CredentialScope scope;
        bool has_keep; /* it says how long */
        uint64_t keep_usec;
        CredentialsSpec credentials;
} CredentialProviderResponse;

#define CREDENTIAL_PROVIDER_RESPONSE_INIT ((CredentialProviderResponse){ .has_keep = false })

/* JSON. api_version is the one that the request had, and the answer must have. */
int credential_provider_response_parse(const char *text, size_t size, const char *api_version,
                                       CredentialProviderResponse *ret, Error *reterr);
void credential_provider_response_done(CredentialProviderResponse *response);
