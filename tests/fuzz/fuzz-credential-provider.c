/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The configuration of credential provider plugins, and what a plugin writes, from
 * an attacker
 *
 * Each input is read as both. What is accepted is complete and can be used; what is refused leaves
 * nothing behind and says why in one line.
 */

#include <string.h>

#include "agent/auth/credential-provider-spec.h"
#include "agent/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

#define V1 "credentialprovider.kubelet.k8s.io/v1"

static void check_refusal(const Error *error) {
        check(error->kind == ERROR_INVALID);
        check(!strchr(error_message(error), '\n'));
}

static void check_provider(const CredentialProviderSpec *provider) {
        check(provider->name[0] && !strchr(provider->name, '/'));
        check(strcmp(provider->name, ".") != 0 && strcmp(provider->name, "..") != 0);
        check(strncmp(provider->api_version, V1, strlen(V1)) == 0);
        check(provider->n_match_images > 0);
        for (size_t i = 0; i < provider->n_match_images; i++)
                check(provider->match_images[i][0]);
        check(provider->keep_usec <= INT64_MAX / 1000);
        check(provider->arguments);
        for (size_t i = 0; provider->environment[i]; i++)
                check(strchr(provider->environment[i], '=') > provider->environment[i]);

        (void) credential_provider_spec_matches(provider, "reg.example.com:5000/team/app");
        (void) credential_provider_spec_matches(provider, "[::1]:5000/a");
        (void) credential_provider_spec_matches(provider, "");
}

static void check_config(const char *text, size_t size) {
        cleanup(credential_providers_spec_done) CredentialProvidersSpec spec =
                CREDENTIAL_PROVIDERS_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        if (credential_providers_spec_parse(text, size, &spec, &error) < 0) {
                check_refusal(&error);
                check(!spec.items && spec.n_items == 0);
                return;
        }

        check(error.kind == ERROR_NONE);
        check(spec.n_items > 0 && spec.n_items <= CREDENTIAL_PROVIDERS_MAX);
        for (size_t i = 0; i < spec.n_items; i++)
                check_provider(&spec.items[i]);
}

static void check_answer(const char *text, size_t size) {
        cleanup(credential_provider_response_done) CredentialProviderResponse answer =
                CREDENTIAL_PROVIDER_RESPONSE_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        if (credential_provider_response_parse(text, size, V1, &answer, &error) < 0) {
                check_refusal(&error);
                check(!answer.credentials.entries && answer.credentials.n_entries == 0);
                return;
        }

        check(error.kind == ERROR_NONE);
        check((unsigned) answer.scope < _CREDENTIAL_SCOPE_MAX);
        check(answer.has_keep || answer.keep_usec == 0);
        check(answer.keep_usec <= INT64_MAX / 1000);
        for (size_t i = 0; i < answer.credentials.n_entries; i++)
                check(answer.credentials.entries[i].key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        check_config((const char *) data, size);
        check_answer((const char *) data, size);
        return 0;
}
