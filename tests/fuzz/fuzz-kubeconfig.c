/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A kubeconfig, or the answer of a program that makes credentials, from an attacker
 *
 * What is accepted is complete; what is refused leaves nothing behind and is reported in one line that
 * does not repeat the text's secrets.
 */

#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/kube/exec-credential-spec.h"
#include "agent/kube/kubeconfig-spec.h"
#include "tests/fuzz/fuzz.h"

#define SECRET "hunter2" /* in the saved inputs */

/* A name that leads nowhere is quoted, and may be any text. */
static bool quotes_a_name(const char *message) {
        return strstr(message, "there is no context \"") ||
               strstr(message, "there is no cluster \"") || strstr(message, "there is no user \"");
}

static void check_error(int r, const Error *error) {
        check((r < 0) == (error->kind != ERROR_NONE));
        if (r >= 0)
                return;

        check(error->kind == ERROR_INVALID);
        check(!strchr(error_message(error), '\n'));
        check(quotes_a_name(error_message(error)) || !strstr(error_message(error), SECRET));
}

static void check_source(const KubeconfigSource *source) {
        check(!source->file || !source->text);
        check(!source->file || source->file[0] == '/');
        check(!source->text || strstr(source->text, "-----BEGIN "));
}

static bool is_given(const KubeconfigSource *source) {
        return source->file || source->text;
}

static void check_exec(const KubeconfigExec *exec, const KubeconfigSpec *spec) {
        cleanup(free_p) char *request = NULL;
        const ExecCredentialCluster cluster = {
                .server = spec->server,
                .ca = spec->ca.text,
                .config = exec->cluster_config,
        };

        check(exec->command && exec->command[0]);
        check(exec->command[0] == '/' || !strchr(exec->command, '/'));
        check(exec->arguments && exec->environment);
        for (char **variable = exec->environment; *variable; variable++)
                check(strchr(*variable, '=') > *variable);
        check(!spec->token && !spec->token_file && !spec->username);
        check(exec_credential_request(exec->api_version, &cluster, &request) == 0);
}

static void check_kubeconfig(const char *text, size_t size) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        const KubeconfigFile files[] = { { text, size / 2, "/folder", "/folder/one" },
                                         { text, size, "/folder", "/folder/two" } };
        int r;

        (void) kubeconfig_spec_parse(files, 2, NULL, NULL, &spec, NULL);
        kubeconfig_spec_done(&spec);
        r = kubeconfig_spec_parse(&(KubeconfigFile){ text, size, "/folder", NULL }, 1, NULL, NULL,
                                  &spec, &error);
        check_error(r, &error);
        if (r < 0) {
                check(!spec.context && !spec.server && !spec.token && !spec.exec.command);
                return;
        }

        check(spec.context && spec.server && strstr(spec.server, "://"));
        check(spec.server[strlen(spec.server) - 1] != '/');
        check_source(&spec.ca);
        check_source(&spec.certificate);
        check_source(&spec.key);
        check(is_given(&spec.certificate) == is_given(&spec.key));
        check(!spec.is_unverified || !is_given(&spec.ca));
        if (spec.exec.api_version)
                check_exec(&spec.exec, &spec);
}

static void check_answer(const char *text, size_t size) {
        cleanup(exec_credential_done) ExecCredential credential = EXEC_CREDENTIAL_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = exec_credential_parse(text, size, EXEC_CREDENTIAL_V1, 1000000, &credential, &error);
        check_error(r, &error);
        if (r < 0) {
                check(!credential.token && !credential.certificate && !credential.key);
                return;
        }

        check(credential.token || credential.certificate);
        check(!credential.certificate == !credential.key);
        check(credential.expires_at > 1000000 && credential.renew_at > 1000000);
        check(credential.renew_at <= credential.expires_at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        check_kubeconfig((const char *) data, size);
        check_answer((const char *) data, size);
        return 0;
}
