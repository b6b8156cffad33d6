/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/credential-providers.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/auth/credential-cache.h"
#include "agent/auth/credential-provider-spec.h"
#include "agent/auth/secret-file.h"
#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/program.h"
#include "agent/base/text.h"

#define ANSWERS_MAX 256
#define RUNS_MAX 4
#define OUTPUT_MAX ((size_t) 1 << 20)
#define TIMEOUT_USEC ((uint64_t) 60 * 1000000)

typedef struct Run Run;
typedef struct Slot Slot;

struct CredentialProviders {
        sd_event *event;
        Log *log;
        char *config_path;
        char *bin_dir;
        CredentialProvidersSpec spec;
        Error refusal; /* reason why the configuration is not in force, or unset */
        CredentialCache *cache;
        Error *failures; /* last error of each plugin, or unset */
        Run *runs;       /* the newest first */
        size_t n_running;
        Deferred turn; /* a run was dropped, so that the next may begin */
};

/* A run asks a plugin for an image. All slots that need the answer share the run; only a few runs
 * go on at once. A run without slots is ended. */
struct Run {
        CredentialProviders *providers;
        size_t i_plugin;
        char *canonical_name;
        Program *program; /* NULL: not started yet */
        Slot *slots;      /* slots that wait for the run */
        LIST_LINKS(Run);
};

/* A plugin that matches the image. */
struct Slot {
        CredentialProvidersAsk *ask;
        Run *run;                 /* NULL: it does not wait */
        CredentialAnswer *answer; /* NULL: none yet, or it failed */
        LIST_LINKS(Slot);
};

struct CredentialProvidersAsk {
        CredentialProvidersReady on_ready;
        void *userdata;
        Deferred ready; /* called when nothing is pending any more */
        Error error;
        size_t n_pending;
        size_t n_slots;
        Slot slots[];
};

DEFINE_CLEANUP(CredentialProviders *, credential_providers_free)
DEFINE_CLEANUP(CredentialProvidersAsk *, credential_providers_ask_unref)
DEFINE_CLEANUP(CredentialAnswer *, credential_answer_unref)
DEFINE_CLEANUP(Keyring *, keyring_free)

/* Adds the plugins of the file. A missing file is no error. */
static int read_file(const char *path, CredentialProvidersSpec *spec, Error *reterr) {
        cleanup(credential_providers_spec_done) CredentialProvidersSpec more =
                CREDENTIAL_PROVIDERS_SPEC_INIT;
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

        r = credential_providers_spec_parse(file.text, file.size, &more, &error);
        if (r >= 0)
                r = credential_providers_spec_add(spec, &more, &error);
        if (error.kind != ERROR_NONE)
                return error_set(reterr, error.kind, "%s: %s", path, error_message(&error));
        return r;
}

static int is_config(const struct dirent *entry) {
        static const char *const endings[] = { ".json", ".yaml", ".yml" };
        const char *ending = strrchr(entry->d_name, '.');

        for (size_t i = 0; ending && i < sizeof(endings) / sizeof(endings[0]); i++)
                if (strcmp(ending, endings[i]) == 0)
                        return true;
        return false;
}

/* Adds the plugins of all files in the folder, in the order of their names. */
static int read_folder(const char *path, CredentialProvidersSpec *spec, Error *reterr) {
        cleanup(free_p) struct dirent **names = NULL;
        int n = scandir(path, &names, is_config, alphasort), r = 0;

        if (n < 0)
                return errno == ENOMEM
                               ? -ENOMEM
                               : error_set(reterr, ERROR_DENIED, "%s: %s", path, strerror(errno));
        if (n == 0)
                return error_set(reterr, ERROR_INVALID, "%s: no file *.json, *.yaml or *.yml",
                                 path);

        for (int i = 0; i < n; i++) {
                cleanup(free_p) char *file = NULL;

                if (r >= 0)
                        r = text_format(&file, "%s/%s", path, names[i]->d_name);
                if (r >= 0)
                        r = read_file(file, spec, reterr);
                free(names[i]);
        }

        return r;
}

/* A folder of files as well as a file: since release 1.34 the kubelet takes both. */
static int read_config(const char *path, CredentialProvidersSpec *spec, Error *reterr) {
        struct stat status;

        return stat(path, &status) == 0 && S_ISDIR(status.st_mode) ? read_folder(path, spec, reterr)
                                                                   : read_file(path, spec, reterr);
}

/* Only the kubelet can make such a token, for the pod that uses the image. */
static void note_token_needed(const CredentialProvidersSpec *spec, const char *config_path,
                              Log *log) {
        for (size_t i = 0; i < spec->n_items; i++)
                if (spec->items[i].needs_token)
                        log_warning(log, NULL,
                                    "Cannot use the credential provider %s of \"%s\": it needs the "
                                    "token of a pod's service account, and images are pulled here "
                                    "without a pod; continuing with the others.",
                                    spec->items[i].name, config_path);
}

/* Reads the configuration until it has plugins: on a node that sets itself up, the agent may be started before the file
 * is written. */
static int read_until_there(CredentialProviders *providers) {
        cleanup(credential_providers_spec_done) CredentialProvidersSpec spec =
                CREDENTIAL_PROVIDERS_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (providers->spec.n_items > 0)
                return 0;

        r = read_config(providers->config_path, &spec, &error);
        (void) log_trouble(
                providers->log, LOG_ERR, &providers->refusal,
                error.kind == ERROR_NONE ? NULL : &error,
                "Cannot use credential provider plugins, continuing without them",
                "The configuration of credential provider plugins has no fault any more");
        if (r < 0 || error.kind != ERROR_NONE)
                return error.kind == ERROR_NONE ? r : 0;

        providers->failures =
                (free(providers->failures), calloc(spec.n_items + 1, sizeof(*providers->failures)));
        if (!providers->failures)
                return -ENOMEM;

        note_token_needed(&spec, providers->config_path, providers->log);
        providers->spec = spec;
        spec = CREDENTIAL_PROVIDERS_SPEC_INIT;
        return 0;
}

/* Removes the run from the list and ends its program. */
static void run_free(Run *run) {
        CredentialProviders *providers = run->providers;

        list_remove(&providers->runs, run);
        if (run->program)
                providers->n_running--;
        program_free(run->program);
        free(run->canonical_name);
        free(run);
}

static const CredentialProviderSpec *spec_of(const Run *run) {
        return &run->providers->spec.items[run->i_plugin];
}

static uint64_t now(const CredentialProviders *providers) {
        uint64_t usec = 0;

        (void) sd_event_now(providers->event, CLOCK_BOOTTIME, &usec);
        return usec;
}

/* Parses the plugin's output and caches the answer for as long as the plugin allows. */
static int take_output(Run *run, const char *output, size_t size, CredentialAnswer **ret,
                       Error *reterr) {
        cleanup(credential_provider_response_done) CredentialProviderResponse response =
                CREDENTIAL_PROVIDER_RESPONSE_INIT;
        cleanup(credential_answer_unref_p) CredentialAnswer *answer = NULL;
        cleanup(keyring_free_p) Keyring *keyring = NULL;
        const CredentialProviderSpec *spec = spec_of(run);
        char source[512];
        int r;

        r = credential_provider_response_parse(output, size, spec->api_version, &response, reterr);
        if (r < 0)
                return r;

        r = keyring_new(&keyring);
        if (r < 0)
                return r;
        (void) snprintf(source, sizeof(source), "credential provider %s", spec->name);
        r = keyring_add_spec(keyring, source, &response.credentials);
        if (r < 0)
                return r;

        r = credential_answer_new(keyring, &answer);
        if (r < 0)
                return r;
        keyring = NULL;

        r = credential_cache_put(run->providers->cache, run->i_plugin, response.scope,
                                 run->canonical_name, now(run->providers),
                                 response.has_keep ? response.keep_usec : spec->keep_usec, answer);
        if (r < 0)
                return r;

        *ret = take_ptr(answer);
        return 0;
}

static void note_success(Run *run) {
        Error *failure = &run->providers->failures[run->i_plugin];

        if (failure->kind == ERROR_NONE)
                return;

        error_done(failure);
        log_info(run->providers->log, NULL, "The credential provider \"%s\" works again.",
                 spec_of(run)->name);
}

/* Logs the first failure, and later ones when the reason changes. */
static void note_failure(Run *run, const Error *error) {
        if (error_update(&run->providers->failures[run->i_plugin], error))
                log_warning(run->providers->log, NULL,
                            "Continuing without the credentials of a plugin: %s",
                            error_message(error));
}

static void slot_end(Slot *slot, CredentialAnswer *answer, const Error *error) {
        CredentialProvidersAsk *ask = slot->ask;

        slot->run = NULL;
        if (answer)
                slot->answer = credential_answer_ref(answer);
        else {
                error_done(&ask->error);
                (void) error_copy(&ask->error, error);
        }

        if (--ask->n_pending == 0)
                (void) deferred_request(&ask->ready);
}

/* Passes the answer, or NULL and an error, to all slots of the run, and frees the run. */
static void run_end(Run *run, CredentialAnswer *answer, const Error *error) {
        Slot *slots = take_ptr(run->slots);

        run_free(run);
        while (slots) {
                Slot *slot = slots;

                list_remove(&slots, slot);
                slot_end(slot, answer, error);
        }
}

static int start_next(CredentialProviders *providers);

static int on_program_done(const char *output, size_t size, const Error *error, void *userdata) {
        cleanup(credential_answer_unref_p) CredentialAnswer *answer = NULL;
        cleanup(error_done) Error refusal = ERROR_INIT, named = ERROR_INIT;
        Run *run = userdata;
        CredentialProviders *providers = run->providers;
        int r;

        if (!error) {
                r = take_output(run, output, size, &answer, &refusal);
                if (r < 0 && refusal.kind == ERROR_NONE)
                        return r;
        }

        if (answer)
                note_success(run);
        else {
                (void) error_set(&named, error ? error->kind : refusal.kind,
                                 "credential provider %s: %s%s", spec_of(run)->name,
                                 error ? "" : "its answer is invalid: ",
                                 error_message(error ?: &refusal));
                note_failure(run, &named);
        }

        run_end(run, answer, answer ? NULL : &named);
        return start_next(providers);
}

static int run_start(Run *run) {
        const CredentialProviderSpec *spec = spec_of(run);
        cleanup(free_p) char *path = NULL;
        cleanup(free_p) char *request = NULL;
        int r;

        if (text_format(&path, "%s/%s", run->providers->bin_dir, spec->name) < 0)
                return -ENOMEM;
        r = credential_provider_request_format(spec->api_version, run->canonical_name, &request);
        if (r < 0)
                return r;

        r = program_run(run->providers->event,
                        &(ProgramOptions){
                                .path = path,
                                .arguments = (const char *const *) spec->arguments,
                                .environment = (const char *const *) spec->environment,
                                .input = request,
                                .input_size = strlen(request),
                                .output_max = OUTPUT_MAX,
                                .timeout_usec = TIMEOUT_USEC,
                        },
                        on_program_done, run, &run->program);
        if (r < 0)
                return r;

        run->providers->n_running++;
        return 0;
}

static int start_next(CredentialProviders *providers) {
        while (providers->n_running < RUNS_MAX) {
                Run *oldest = NULL;
                int r;

                for (Run *run = providers->runs; run; run = run->next)
                        if (!run->program)
                                oldest = run;
                if (!oldest)
                        return 0;

                r = run_start(oldest);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int on_turn(void *userdata) {
        return start_next(userdata);
}

static Run *find_run(CredentialProviders *providers, size_t i_plugin, const char *name) {
        for (Run *run = providers->runs; run; run = run->next)
                if (run->i_plugin == i_plugin && strcmp(run->canonical_name, name) == 0)
                        return run;

        return NULL;
}

static int run_new(CredentialProviders *providers, size_t i_plugin, const char *name, Run **ret) {
        Run *run;

        run = calloc(1, sizeof(*run));
        if (!run)
                return -ENOMEM;

        run->canonical_name = strdup(name);
        if (!run->canonical_name) {
                free(run);
                return -ENOMEM;
        }
        run->providers = providers;
        run->i_plugin = i_plugin;
        list_prepend(&providers->runs, run);

        *ret = run;
        return 0;
}

static int slot_join_run(Slot *slot, CredentialProviders *providers, size_t i_plugin,
                         const char *canonical_name) {
        Run *run = find_run(providers, i_plugin, canonical_name);
        int r;

        if (!run) {
                r = run_new(providers, i_plugin, canonical_name, &run);
                if (r < 0)
                        return r;
        }

        slot->run = run;
        list_prepend(&run->slots, slot);
        slot->ask->n_pending++;
        return start_next(providers);
}

/* Does nothing if the slot does not wait. */
static void slot_leave_run(Slot *slot) {
        Run *run = slot->run;
        CredentialProviders *providers;

        if (!run)
                return;

        providers = run->providers;
        list_remove(&run->slots, slot);
        slot->run = NULL;
        if (run->slots)
                return;

        run_free(run);
        (void) deferred_request(&providers->turn);
}

int credential_providers_new(sd_event *event, Log *log, const char *config_path,
                             const char *bin_dir, CredentialProviders **ret, Error *reterr) {
        cleanup(credential_providers_free_p) CredentialProviders *providers = NULL;
        int r;

        providers = calloc(1, sizeof(*providers));
        if (!providers)
                return -ENOMEM;

        providers->event = sd_event_ref(event);
        providers->log = log;
        providers->config_path = strdup(config_path);
        providers->bin_dir = strdup(bin_dir);
        if (!providers->config_path || !providers->bin_dir)
                return -ENOMEM;
        r = read_until_there(providers);
        if (r < 0)
                return r;
        if (providers->refusal.kind != ERROR_NONE)
                (void) error_copy(reterr, &providers->refusal);
        r = credential_cache_new(ANSWERS_MAX, &providers->cache);
        if (r < 0)
                return r;
        /* Starts the turn once, so that later requests need no memory. */
        deferred_init(&providers->turn, event, on_turn, providers);
        r = deferred_request(&providers->turn);
        if (r < 0)
                return r;

        *ret = take_ptr(providers);
        return 0;
}

CredentialProviders *credential_providers_free(CredentialProviders *providers) {
        if (!providers)
                return NULL;

        while (providers->runs)
                run_free(providers->runs);
        for (size_t i = 0; providers->failures && i < providers->spec.n_items; i++)
                error_done(&providers->failures[i]);
        free(providers->failures);
        deferred_done(&providers->turn);
        credential_cache_free(providers->cache);
        credential_providers_spec_done(&providers->spec);
        error_done(&providers->refusal);
        sd_event_unref(providers->event);
        free(providers->config_path);
        free(providers->bin_dir);
        free(providers);
        return NULL;
}

CredentialProvidersAsk *credential_providers_ask_unref(CredentialProvidersAsk *ask) {
        if (!ask)
                return NULL;

        for (size_t i = 0; i < ask->n_slots; i++) {
                slot_leave_run(&ask->slots[i]);
                credential_answer_unref(ask->slots[i].answer);
        }
        deferred_done(&ask->ready);
        error_done(&ask->error);
        free(ask);
        return NULL;
}

/* Adds the answers in the order of the plugins. */
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

/* The callback may drop the ask, so nothing that is handed out belongs to it. */
static int on_ready(void *userdata) {
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
        deferred_init(&ask->ready, providers->event, on_ready, ask);
        r = deferred_request(&ask->ready);
        if (r < 0)
                return r;

        *ret = take_ptr(ask);
        return 0;
}

/* Fills the slot from the cache or by a run. */
static int fill_slot(CredentialProviders *providers, size_t i_plugin, const char *canonical_name,
                     uint64_t now_usec, bool must_be_fresh, Slot *slot) {
        CredentialAnswer *known = NULL;

        if (!must_be_fresh)
                known = credential_cache_find(providers->cache, i_plugin, canonical_name, now_usec);
        if (known) {
                slot->answer = credential_answer_ref(known);
                return 0;
        }

        return slot_join_run(slot, providers, i_plugin, canonical_name);
}

static int fill_slots(CredentialProviders *providers, const char *canonical_name,
                      bool must_be_fresh, CredentialProvidersAsk *ask) {
        uint64_t now_usec = now(providers);
        size_t n = 0;
        int r;

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

        r = read_until_there(providers);
        if (r >= 0)
                r = ask_new(providers, canonical_name, &ask);
        if (r < 0)
                return r;

        ask->on_ready = on_answer;
        ask->userdata = userdata;
        r = fill_slots(providers, canonical_name, must_be_fresh, ask);
        if (r < 0)
                return r;
        if (ask->n_pending > 0)
                deferred_cancel(&ask->ready);

        *ret = take_ptr(ask);
        return 0;
}
