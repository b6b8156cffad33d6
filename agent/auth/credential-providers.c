/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/credential-providers.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "agent/auth/credential-cache.h"
#include "agent/auth/credential-provider-spec.h"
#include "agent/auth/credential-runs.h"
#include "agent/auth/secret-file.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"

#define ANSWERS_MAX 256

struct CredentialProviders {
        sd_event *event;
        CredentialProvidersSpec spec;
        CredentialCache *cache;
        CredentialRuns *runs;
};

/* One plugin that is for the image. */
typedef struct Slot {
        CredentialProvidersAsk *ask;
        CredentialWaiter waiter;
        CredentialAnswer *answer; /* NULL: none yet, or it failed */
} Slot;

struct CredentialProvidersAsk {
        CredentialProvidersReady on_ready;
        void *userdata;
        sd_event_source *ready; /* goes off when nothing is pending any more */
        Error error;
        size_t n_pending;
        size_t n_slots;
        Slot slots[];
};

DEFINE_CLEANUP(CredentialProviders *, credential_providers_free)
DEFINE_CLEANUP(CredentialProvidersAsk *, credential_providers_ask_unref)
DEFINE_CLEANUP(Keyring *, keyring_free)

/* That there is no file is no error. */
static int read_config(const char *path, CredentialProvidersSpec *ret, Error *reterr) {
        cleanup(secret_file_done) SecretFile file = SECRET_FILE_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = secret_file_read(path, &file, &error);
        if (error.kind == ERROR_NOT_FOUND)
                return 0;
        if (error.kind != ERROR_NONE)
                return error_copy(reterr, &error);
        if (r < 0)
                return r;

        r = credential_providers_spec_parse(file.text, file.size, ret, &error);
        if (error.kind != ERROR_NONE)
                return error_set(reterr, error.kind, "%s: %s", path, error_message(&error));
        return r;
}

/* The kubelet makes one for the pod that the image is for. */
static void note_token_wanted(const CredentialProvidersSpec *spec, const char *config_path,
                              Log *log) {
        for (size_t i = 0; i < spec->n_items; i++)
                if (spec->items[i].wants_token)
                        log_warning(log, NULL,
                                    "Cannot use the credential provider %s of `%s`: it needs the "
                                    "token of a pod's service account, and images are pulled here "
                                    "without a pod; going on with the others.",
                                    spec->items[i].name, config_path);
}

int credential_providers_new(sd_event *event, Log *log, const char *config_path,
                             const char *bin_dir, CredentialProviders **ret, Error *reterr) {
        cleanup(credential_providers_free_p) CredentialProviders *providers = NULL;
        int r;

        providers = calloc(1, sizeof(*providers));
        if (!providers)
                return -ENOMEM;

        providers->event = sd_event_ref(event);
        r = read_config(config_path, &providers->spec, reterr);
        if (r < 0)
                return r;
        note_token_wanted(&providers->spec, config_path, log);
        r = credential_cache_new(ANSWERS_MAX, &providers->cache);
        if (r < 0)
                return r;

        r = credential_runs_new(
                &(CredentialRunsOptions){
                        .event = event,
                        .log = log,
                        .bin_dir = bin_dir,
                        .spec = &providers->spec,
                        .cache = providers->cache,
                },
                &providers->runs);
        if (r < 0)
                return r;

        *ret = take_ptr(providers);
        return 0;
}

CredentialProviders *credential_providers_free(CredentialProviders *providers) {
        if (!providers)
                return NULL;

        credential_runs_free(providers->runs);
        credential_cache_free(providers->cache);
        credential_providers_spec_done(&providers->spec);
        sd_event_unref(providers->event);
        free(providers);
        return NULL;
}

size_t credential_providers_count(const CredentialProviders *providers) {
        return providers->spec.n_items;
}

CredentialProvidersAsk *credential_providers_ask_unref(CredentialProvidersAsk *ask) {
        if (!ask)
                return NULL;

        for (size_t i = 0; i < ask->n_slots; i++) {
                credential_runs_leave(&ask->slots[i].waiter);
                credential_answer_unref(ask->slots[i].answer);
        }
        sd_event_source_disable_unref(ask->ready);
        error_done(&ask->error);
        free(ask);
        return NULL;
}

/* In the order of the plugins. */
static int collect(const CredentialProvidersAsk *ask, Keyring *keyring) {
        for (size_t i = 0; i < ask->n_slots; i++) {
                const CredentialAnswer *answer = ask->slots[i].answer;
                int r;

                if (!answer)
                        continue;
                r = keyring_add_all(keyring, credential_answer_keyring(answer));
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Whoever asked may drop the ask meanwhile, so nothing that is handed out belongs to it. */
static int on_ready(sd_event_source *source, void *userdata) {
        cleanup(keyring_free_p) Keyring *keyring = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        CredentialProvidersAsk *ask = userdata;
        int r;

        r = keyring_new(&keyring);
        if (r < 0)
                return r;
        r = collect(ask, keyring);
        if (r < 0)
                return r;

        error = ask->error;
        ask->error = ERROR_INIT;
        return ask->on_ready(keyring, error.kind == ERROR_NONE ? NULL : &error, ask->userdata);
}

static void on_run_done(CredentialAnswer *answer, const Error *error, void *userdata) {
        Slot *slot = userdata;
        CredentialProvidersAsk *ask = slot->ask;

        if (answer)
                slot->answer = credential_answer_ref(answer);
        else {
                error_done(&ask->error);
                (void) error_copy(&ask->error, error);
        }

        if (--ask->n_pending == 0)
                (void) sd_event_source_set_enabled(ask->ready, SD_EVENT_ONESHOT);
}

static int ask_new(CredentialProviders *providers, const char *canonical_name,
                   CredentialProvidersAsk **ret) {
        cleanup(credential_providers_ask_unref_p) CredentialProvidersAsk *ask = NULL;
        size_t n_slots = 0;
        int r;

        for (size_t i = 0; i < providers->spec.n_items; i++)
                if (credential_provider_spec_matches(&providers->spec.items[i], canonical_name))
                        n_slots++;

        ask = calloc(1, sizeof(*ask) + n_slots * sizeof(ask->slots[0]));
        if (!ask)
                return -ENOMEM;

        ask->n_slots = n_slots;
        r = loop_add_defer(providers->event, &ask->ready, on_ready, ask);
        if (r < 0)
                return r;
        *ret = take_ptr(ask);
        return 0;
}

/* From the cache, or by a run. */
static int fill_slot(CredentialProviders *providers, size_t i_plugin, const char *canonical_name,
                     uint64_t now_usec, bool must_be_fresh, Slot *slot) {
        CredentialAnswer *known = NULL;

        if (!must_be_fresh)
                known = credential_cache_find(providers->cache, i_plugin, canonical_name, now_usec);
        if (known) {
                slot->answer = credential_answer_ref(known);
                return 0;
        }

        slot->ask->n_pending++;
        slot->waiter.on_done = on_run_done;
        slot->waiter.userdata = slot;
        return credential_runs_join(providers->runs, i_plugin, canonical_name, &slot->waiter);
}

static int fill_slots(CredentialProviders *providers, const char *canonical_name,
                      bool must_be_fresh, CredentialProvidersAsk *ask) {
        uint64_t now_usec = 0;
        size_t n = 0;
        int r;

        (void) sd_event_now(providers->event, CLOCK_BOOTTIME, &now_usec);
        credential_cache_purge(providers->cache, now_usec);

        for (size_t i = 0; i < providers->spec.n_items; i++) {
                Slot *slot = &ask->slots[n];

                if (!credential_provider_spec_matches(&providers->spec.items[i], canonical_name))
                        continue;

                slot->ask = ask;
                r = fill_slot(providers, i, canonical_name, now_usec, must_be_fresh, slot);
                if (r < 0)
                        return r;
                n++;
        }

        return 0;
}

int credential_providers_ask(CredentialProviders *providers, const char *canonical_name,
                             bool must_be_fresh, CredentialProvidersReady on_answer, void *userdata,
                             CredentialProvidersAsk **ret) {
        cleanup(credential_providers_ask_unref_p) CredentialProvidersAsk *ask = NULL;
        int r;

        r = ask_new(providers, canonical_name, &ask);
        if (r < 0)
                return r;

        ask->on_ready = on_answer;
        ask->userdata = userdata;
        r = fill_slots(providers, canonical_name, must_be_fresh, ask);
        if (r < 0)
                return r;
        if (ask->n_pending > 0) {
                r = sd_event_source_set_enabled(ask->ready, SD_EVENT_OFF);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(ask);
        return 0;
}
