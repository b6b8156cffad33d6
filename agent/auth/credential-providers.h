/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Credential provider plugins
 *
 * Programs that know the credentials of a cloud's registries, configured and run as the kubelet runs
 * them: see kubernetes.io/docs/tasks/administer-cluster/kubelet-credential-provider. The answer is
 * kept as long as the plugin allows, for the image, its registry, or all. A plugin gets a minute;
 * simultaneous calls for one image share a run. A broken configuration is refused as a whole.
 */

#include <systemd/sd-event.h>

#include "agent/base/log.h"
#include "agent/image/credentials.h"

typedef struct CredentialProviders CredentialProviders;
typedef struct CredentialProvidersAsk CredentialProvidersAsk;

/* config: CredentialProviderConfig, YAML or JSON. A missing file is no plugins, and is read when it is there. If it cannot
 * be used, *reterr says so, which is logged, and it is read again when plugins are asked for; this is no failure. */
int credential_providers_new(sd_event *event, Log *log, const char *config_path,
                             const char *bin_dir, CredentialProviders **ret, Error *reterr);

/* All asks have been dropped before. Returns NULL. */
CredentialProviders *credential_providers_free(CredentialProviders *providers);

/* keyring: the answers of all plugins that match the image; borrowed during the call, so copy with
 * keyring_add_all(). Never NULL; a plugin that failed adds nothing. error: that of the last plugin
 * that failed; may be NULL. */
typedef int (*CredentialProvidersReady)(const Keyring *keyring, const Error *error, void *userdata);

/* canonical_name: such as "123.dkr.ecr.eu.amazonaws.com/team/app". on_answer runs once, not from
 * within; the ask may be dropped in it. must_be_fresh: a registry has refused the cached answer. */
int credential_providers_ask(CredentialProviders *providers, const char *canonical_name,
                             bool must_be_fresh, CredentialProvidersReady on_answer, void *userdata,
                             CredentialProvidersAsk **ret);

/* on_answer is not called any more. Returns NULL. */
CredentialProvidersAsk *credential_providers_ask_unref(CredentialProvidersAsk *ask);
