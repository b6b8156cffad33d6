/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/credential-runs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/program.h"

#define RUNS_MAX 4
#define OUTPUT_MAX ((size_t) 1 << 20)
#define TIMEOUT_USEC ((uint64_t) 60 * 1000000)

struct CredentialRun {
        CredentialRuns *runs;
        size_t i_plugin;
        char *canonical_name;
        Program *program; /* NULL: not started yet */
        CredentialWaiter *waiters;
        LIST_LINKS(CredentialRun);
};

struct CredentialRuns {
        sd_event *event;
        Log *log;
        char *bin_dir;
        const CredentialProvidersSpec *spec;
        CredentialCache *cache;
        Error *failures;     /* of each plugin, the last one, or unset */
        CredentialRun *list; /* the newest first */
        size_t n_running;
        sd_event_source *turn; /* somebody left, so that the next may begin */
};

DEFINE_CLEANUP(CredentialRuns *, credential_runs_free)
DEFINE_CLEANUP(Keyring *, keyring_free)
DEFINE_CLEANUP(CredentialAnswer *, credential_answer_unref)

/* Takes it off the list, and ends its program. */
static CredentialRun *run_free(CredentialRun *run) {
        CredentialRuns *runs = run->runs;

        list_remove(&runs->list, run);
        if (run->program)
                runs->n_running--;
        program_free(run->program);
        free(run->canonical_name);
        free(run);
        return NULL;
}

static const CredentialProviderSpec *spec_of(const CredentialRun *run) {
        return &run->runs->spec->items[run->i_plugin];
}

static uint64_t now_usec(const CredentialRuns *runs) {
        uint64_t usec = 0;

        (void) sd_event_now(runs->event, CLOCK_BOOTTIME, &usec);
        return usec;
}

/* Reads what the plugin wrote, and keeps it as long as it says. */
static int take_output(CredentialRun *run, const char *output, size_t size, CredentialAnswer **ret,
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

        r = credential_cache_put(run->runs->cache, run->i_plugin, response.scope,
                                 run->canonical_name, now_usec(run->runs),
                                 response.has_keep ? response.keep_usec : spec->keep_usec, answer);
        if (r < 0)
                return r;

        *ret = take_ptr(answer);
        return 0;
}

static void note_success(CredentialRun *run) {
        Error *failure = &run->runs->failures[run->i_plugin];

        if (failure->kind == ERROR_NONE)
                return;

        error_done(failure);
        log_info(run->runs->log, NULL, "The credential provider `%s` works again.",
                 spec_of(run)->name);
}

static void note_failure(CredentialRun *run, const Error *error) {
        Error *failure = &run->runs->failures[run->i_plugin];

        if (failure->kind == error->kind &&
            strcmp(error_message(failure), error_message(error)) == 0)
                return;

        error_done(failure);
        (void) error_copy(failure, error);
        log_warning(run->runs->log, NULL, "Going on without what a plugin knows: %s",
                    error_message(error));
}

/* Tells all who waited; the run is gone then. */
static void run_end(CredentialRun *run, CredentialAnswer *answer, const Error *error) {
        CredentialWaiter *waiters = take_ptr(run->waiters);

        run_free(run);
        while (waiters) {
                CredentialWaiter *waiter = waiters;

                list_remove(&waiters, waiter);
                waiter->run = NULL;
                waiter->on_done(answer, error, waiter->userdata);
        }
}

static int start_next(CredentialRuns *runs);

static int on_program_done(const char *output, size_t size, const Error *error, void *userdata) {
        cleanup(credential_answer_unref_p) CredentialAnswer *answer = NULL;
        cleanup(error_done) Error refusal = ERROR_INIT, named = ERROR_INIT;
        CredentialRun *run = userdata;
        CredentialRuns *runs = run->runs;
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
                                 error ? "" : "its answer makes no sense: ",
                                 error_message(error ?: &refusal));
                note_failure(run, &named);
        }

        run_end(run, answer, answer ? NULL : &named);
        return start_next(runs);
}

static int run_start(CredentialRun *run) {
        const CredentialProviderSpec *spec = spec_of(run);
        cleanup(free_p) char *path = NULL;
        cleanup(free_p) char *request = NULL;
        int r;

        if (asprintf(&path, "%s/%s", run->runs->bin_dir, spec->name) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        r = credential_provider_request_format(spec->api_version, run->canonical_name, &request);
        if (r < 0)
                return r;

        r = program_run(run->runs->event,
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

        run->runs->n_running++;
        return 0;
}

static int start_next(CredentialRuns *runs) {
        while (runs->n_running < RUNS_MAX) {
                CredentialRun *oldest = NULL;
                int r;

                for (CredentialRun *run = runs->list; run; run = run->next)
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

static int on_turn(sd_event_source *source, void *userdata) {
        return start_next(userdata);
}

int credential_runs_new(const CredentialRunsOptions *options, CredentialRuns **ret) {
        cleanup(credential_runs_free_p) CredentialRuns *runs = NULL;
        int r;

        runs = calloc(1, sizeof(*runs));
        if (!runs)
                return -ENOMEM;

        runs->event = sd_event_ref(options->event);
        runs->log = options->log;
        runs->spec = options->spec;
        runs->cache = options->cache;
        runs->bin_dir = strdup(options->bin_dir);
        runs->failures = calloc(options->spec->n_items + 1, sizeof(*runs->failures));
        if (!runs->bin_dir || !runs->failures)
                return -ENOMEM;

        r = loop_add_defer(runs->event, &runs->turn, on_turn, runs);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(runs->turn, SD_EVENT_OFF);
        if (r < 0)
                return r;
        *ret = take_ptr(runs);
        return 0;
}

CredentialRuns *credential_runs_free(CredentialRuns *runs) {
        if (!runs)
                return NULL;

        while (runs->list)
                run_free(runs->list);
        for (size_t i = 0; runs->failures && i < runs->spec->n_items; i++)
                error_done(&runs->failures[i]);
        free(runs->failures);
        sd_event_source_disable_unref(runs->turn);
        sd_event_unref(runs->event);
        free(runs->bin_dir);
        free(runs);
        return NULL;
}

static CredentialRun *find_run(CredentialRuns *runs, size_t i_plugin, const char *name) {
        for (CredentialRun *run = runs->list; run; run = run->next)
                if (run->i_plugin == i_plugin && strcmp(run->canonical_name, name) == 0)
                        return run;

        return NULL;
}

static int run_new(CredentialRuns *runs, size_t i_plugin, const char *name, CredentialRun **ret) {
        CredentialRun *run;

        run = calloc(1, sizeof(*run));
        if (!run)
                return -ENOMEM;

        run->canonical_name = strdup(name);
        if (!run->canonical_name) {
                free(run);
                return -ENOMEM;
        }
        run->runs = runs;
        run->i_plugin = i_plugin;
        list_prepend(&runs->list, run);

        *ret = run;
        return 0;
}

int credential_runs_join(CredentialRuns *runs, size_t i_plugin, const char *canonical_name,
                         CredentialWaiter *waiter) {
        CredentialRun *run = find_run(runs, i_plugin, canonical_name);
        int r;

        if (!run) {
                r = run_new(runs, i_plugin, canonical_name, &run);
                if (r < 0)
                        return r;
        }

        waiter->run = run;
        list_prepend(&run->waiters, waiter);
        return start_next(runs);
}

void credential_runs_leave(CredentialWaiter *waiter) {
        CredentialRun *run = waiter->run;
        CredentialRuns *runs;

        if (!run)
                return;

        runs = run->runs;
        list_remove(&run->waiters, waiter);
        waiter->run = NULL;
        if (run->waiters)
                return;

        run_free(run);
        (void) sd_event_source_set_enabled(runs->turn, SD_EVENT_ONESHOT);
}
