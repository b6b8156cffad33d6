/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/access-exec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/program.h"
#include "agent/base/quote.h"
#include "agent/kube/access-text.h"

#define VARIABLE "KUBERNETES_EXEC_INFO"
#define OUTPUT_MAX ((size_t) 1 << 20)
#define TIMEOUT_USEC ((uint64_t) 60 * 1000000)

/* What the server has taken for this long was not wrong from the start. */
#define PROVEN_USEC ((uint64_t) 60 * 1000000)

struct AccessExec {
        sd_event *event;
        const KubeconfigExec *exec;
        AccessExecChanged on_changed;
        void *userdata;

        Program *program;
        ExecCredential credential;
        bool has_credential;
        bool is_refused; /* by the server */
        unsigned generation;
        Error error;         /* of the last run; unset if it succeeded */
        unsigned n_failures; /* in a row: runs that failed, or made what was soon refused */
        uint64_t ended_usec; /* the last run */
        uint64_t not_before_usec;
};

static int64_t today(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        return now.tv_sec;
}

int access_exec_new(sd_event *event, const KubeconfigExec *kubeconfig, AccessExecChanged on_changed,
                    void *userdata, AccessExec **ret) {
        AccessExec *exec;

        exec = malloc(sizeof(*exec));
        if (!exec)
                return -ENOMEM;

        *exec = (AccessExec){
                .event = sd_event_ref(event),
                .exec = kubeconfig,
                .on_changed = on_changed,
                .userdata = userdata,
        };
        *ret = exec;
        return 0;
}

AccessExec *access_exec_free(AccessExec *exec) {
        if (!exec)
                return NULL;

        program_free(exec->program);
        exec_credential_done(&exec->credential);
        error_done(&exec->error);
        sd_event_unref(exec->event);
        free(exec);
        return NULL;
}

unsigned access_exec_generation(const AccessExec *exec) {
        return exec->generation;
}

bool access_exec_is_running(const AccessExec *exec) {
        return exec->program != NULL;
}

/* One failure more; counts from the last run, so what lasted a while is made anew at once. */
static void back_off(AccessExec *exec) {
        uint32_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        exec->n_failures++;
        exec->not_before_usec = exec->ended_usec + backoff_usec(exec->n_failures, random);
}

static bool is_same_text(const char *one, const char *other) {
        return strcmp(one ?: "", other ?: "") == 0;
}

static void adopt(AccessExec *exec, ExecCredential *credential) {
        if (!is_same_text(exec->credential.certificate, credential->certificate) ||
            !is_same_text(exec->credential.key, credential->key))
                exec->generation++;
        if (!exec->is_refused)
                exec->n_failures = 0;

        exec_credential_done(&exec->credential);
        exec->credential = *credential;
        *credential = EXEC_CREDENTIAL_INIT;
        exec->has_credential = true;
        exec->is_refused = false;
}

/* A program that is not there is worth the hint that was given for that. */
static void note_failure(AccessExec *exec, const char *words, const Error *error) {
        const char *hint = error->kind == ERROR_NOT_FOUND ? exec->exec->install_hint : NULL;
        ErrorKind kind = error->kind == ERROR_NOT_FOUND || error->kind == ERROR_INVALID
                                 ? ERROR_INVALID
                                 : ERROR_DENIED;
        char quoted[QUOTE_SIZE];

        (void) error_set(&exec->error, kind, "the program %s %s%s%s%s",
                         quote(exec->exec->command, quoted), words, error_message(error),
                         hint ? "; hint: " : "", hint ? quote(hint, (char[QUOTE_SIZE]){ 0 }) : "");
        back_off(exec);
}

static int on_program_done(const char *output, size_t size, const Error *error, void *userdata) {
        cleanup(exec_credential_done) ExecCredential credential = EXEC_CREDENTIAL_INIT;
        cleanup(error_done) Error refusal = ERROR_INIT;
        AccessExec *exec = userdata;
        int r;

        exec->program = program_free(exec->program);
        exec->ended_usec = clock_monotonic_usec();
        error_done(&exec->error);
        if (error) {
                note_failure(exec, "", error);
        } else {
                r = exec_credential_parse(output, size, exec->exec->api_version, today(),
                                          &credential, &refusal);
                if (refusal.kind != ERROR_NONE)
                        note_failure(exec, "gave an answer that makes no sense: ", &refusal);
                else if (r < 0)
                        return r;
                else
                        adopt(exec, &credential);
        }

        exec->on_changed(exec->userdata);
        return 0;
}

static void free_environment(const char ***environment) {
        free(*environment);
}

static int start(AccessExec *exec, const ExecCredentialCluster *cluster) {
        cleanup(free_environment) const char **environment = NULL;
        cleanup(access_text_done) char *request = NULL;
        cleanup(access_text_done) char *variable = NULL;
        size_t n = 0;
        int r;

        r = exec_credential_request(exec->exec->api_version,
                                    exec->exec->wants_cluster ? cluster : NULL, &request);
        if (r < 0)
                return r;
        if (asprintf(&variable, VARIABLE "=%s", request) < 0) {
                variable = NULL;
                return -ENOMEM;
        }

        while (exec->exec->environment[n])
                n++;
        environment = calloc(n + 2, sizeof(*environment));
        if (!environment)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                environment[i] = exec->exec->environment[i];
        environment[n] = variable;

        return program_run(exec->event,
                           &(ProgramOptions){
                                   .path = exec->exec->command,
                                   .arguments = (const char *const *) exec->exec->arguments,
                                   .environment = environment,
                                   .output_max = OUTPUT_MAX,
                                   .timeout_usec = TIMEOUT_USEC,
                           },
                           on_program_done, exec, &exec->program);
}

static int refuse(const AccessExec *exec, Error *reterr) {
        char quoted[QUOTE_SIZE];

        if (exec->error.kind != ERROR_NONE)
                return error_copy(reterr, &exec->error);

        return error_set(reterr, ERROR_DENIED, "the server refuses what the program %s makes",
                         quote(exec->exec->command, quoted));
}

int access_exec_get(AccessExec *exec, const ExecCredentialCluster *cluster,
                    const ExecCredential **ret, Error *reterr) {
        int64_t now = today();
        bool is_usable =
                exec->has_credential && !exec->is_refused && now < exec->credential.expires_at;
        int r;

        if ((!is_usable || now >= exec->credential.renew_at) && !exec->program &&
            clock_monotonic_usec() >= exec->not_before_usec) {
                r = start(exec, cluster);
                if (r < 0)
                        return r;
        }

        if (is_usable) {
                *ret = &exec->credential;
                return 1;
        }

        return exec->program ? 0 : refuse(exec, reterr);
}

void access_exec_refuse(AccessExec *exec) {
        if (exec->program || !exec->has_credential || exec->is_refused)
                return;

        exec->is_refused = true;
        if (clock_monotonic_usec() - exec->ended_usec >= PROVEN_USEC)
                exec->n_failures = 0;
        else
                back_off(exec);
}
