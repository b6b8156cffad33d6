/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/access-means.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

struct AccessMeans {
        KubeconfigSpec spec;
        AccessFile ca;
        AccessFile certificate;
        AccessFile key;
        AccessFile token;
        AccessExec *exec;
        unsigned n_changes; /* of anything but the token */
        bool is_refused;    /* what is in force, by the last answer that said so or not */
};

DEFINE_CLEANUP(AccessMeans *, access_means_free)

/* A literal IPv6 address needs brackets. */
static int format_server(const char *host, const char *port, char **ret) {
        bool is_ipv6 = strchr(host, ':') != NULL;

        if (asprintf(ret, "https://%s%s%s:%s", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port) <
            0) {
                *ret = NULL;
                return -ENOMEM;
        }

        return 0;
}

static int format_file(const char *folder, const char *name, char **ret) {
        if (asprintf(ret, "%s/%s", folder, name) < 0) {
                *ret = NULL;
                return -ENOMEM;
        }

        return 0;
}

int access_means_read_pod(const char *folder, KubeconfigSpec *ret, Error *reterr) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        const char *host = getenv("KUBERNETES_SERVICE_HOST");
        const char *port = getenv("KUBERNETES_SERVICE_PORT");
        int r;

        if (!host || !host[0] || !port || !port[0])
                return error_set(reterr, ERROR_INVALID,
                                 "this is not a pod of Kubernetes: KUBERNETES_SERVICE_HOST and "
                                 "KUBERNETES_SERVICE_PORT are not set");

        r = format_server(host, port, &spec.server)
                    ?: format_file(folder, "ca.crt", &spec.ca.file)
                    ?: format_file(folder, "token", &spec.token_file);
        if (r < 0)
                return r;

        *ret = spec;
        spec = KUBECONFIG_SPEC_INIT;
        return 0;
}

/* Counts what is new, other than the token. */
static int read_counted(AccessMeans *means, AccessFile *file, Error *reterr) {
        int r;

        r = access_file_read(file, reterr);
        if (r > 0)
                means->n_changes++;
        return r;
}

/* Both may be replaced between reading one and the other, then the first one is outdated. */
static int read_pair(AccessMeans *means, Error *reterr) {
        int r;

        r = read_counted(means, &means->certificate, reterr);
        if (r < 0)
                return r;

        r = read_counted(means, &means->key, reterr);
        if (r <= 0)
                return r;

        return read_counted(means, &means->certificate, reterr);
}

/* A token that is given beside the file stands in for it. */
static int read_token(AccessMeans *means, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = access_file_read(&means->token, &error);
        if (error.kind != ERROR_NONE)
                return means->spec.token ? 0 : error_copy(reterr, &error);
        if (r > 0)
                means->is_refused = false;
        return r;
}

static int read_files(AccessMeans *means, Error *reterr) {
        int r;

        r = read_counted(means, &means->ca, reterr);
        if (r < 0)
                return r;

        r = read_pair(means, reterr);
        if (r < 0)
                return r;

        return read_token(means, reterr);
}

static int init_files(AccessMeans *means) {
        const KubeconfigSpec *spec = &means->spec;

        return access_file_init(&means->ca, ACCESS_FILE_PEM, spec->ca.file)
               ?: access_file_init(&means->certificate, ACCESS_FILE_PEM, spec->certificate.file)
               ?: access_file_init(&means->key, ACCESS_FILE_PEM, spec->key.file)
               ?: access_file_init(&means->token, ACCESS_FILE_TOKEN, spec->token_file);
}

int access_means_new(sd_event *event, KubeconfigSpec *spec, AccessExecChanged on_changed,
                     void *userdata, AccessMeans **ret, Error *reterr) {
        cleanup(access_means_free_p) AccessMeans *means = NULL;
        int r;

        means = calloc(1, sizeof(*means));
        if (!means) {
                kubeconfig_spec_done(spec);
                return -ENOMEM;
        }

        means->spec = *spec;
        *spec = KUBECONFIG_SPEC_INIT;
        r = init_files(means);
        if (r < 0)
                return r;
        r = read_files(means, reterr);
        if (r < 0)
                return r;

        if (means->spec.exec.api_version) {
                r = access_exec_new(event, &means->spec.exec, on_changed, userdata, &means->exec);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(means);
        return 0;
}

AccessMeans *access_means_free(AccessMeans *means) {
        if (!means)
                return NULL;

        access_exec_free(means->exec);
        access_file_done(&means->ca);
        access_file_done(&means->certificate);
        access_file_done(&means->key);
        access_file_done(&means->token);
        kubeconfig_spec_done(&means->spec);
        free(means);
        return NULL;
}

static KubeCredentials describe(const AccessMeans *means) {
        const KubeconfigSpec *spec = &means->spec;

        return (KubeCredentials){
                .server = spec->server,
                .ca = spec->ca.text ?: means->ca.text,
                .certificate = spec->certificate.text ?: means->certificate.text,
                .key = spec->key.text ?: means->key.text,
                .token = means->token.text ?: spec->token,
                .username = spec->username,
                .password = spec->password,
                .tls_server_name = spec->tls_server_name,
                .proxy = spec->proxy,
                .is_unverified = spec->is_unverified,
                .generation = means->n_changes,
        };
}

static int add_made(AccessMeans *means, KubeCredentials *credentials, Error *reterr) {
        const ExecCredentialCluster cluster = {
                .server = credentials->server,
                .tls_server_name = credentials->tls_server_name,
                .is_unverified = credentials->is_unverified,
                .ca = credentials->ca,
                .proxy = credentials->proxy,
                .config = means->spec.exec.cluster_config,
        };
        const ExecCredential *made;
        int r;

        r = access_exec_get(means->exec, &cluster, &made, reterr);
        if (r <= 0)
                return r;

        credentials->token = made->token;
        credentials->certificate = made->certificate;
        credentials->key = made->key;
        credentials->generation += access_exec_generation(means->exec);
        return 1;
}

int access_means_get(AccessMeans *means, KubeCredentials *ret, Error *reterr) {
        KubeCredentials credentials;
        int r;

        r = read_files(means, reterr);
        if (r < 0)
                return r;

        credentials = describe(means);
        if (means->exec) {
                r = add_made(means, &credentials, reterr);
                if (r <= 0)
                        return r;
        }

        *ret = credentials;
        return 1;
}

void access_means_refuse_token(AccessMeans *means) {
        access_file_forget(&means->token);
        if (means->exec)
                access_exec_refuse(means->exec);
        else
                means->is_refused = true;
}

void access_means_accept_token(AccessMeans *means) {
        means->is_refused = false;
}

bool access_means_is_refused(const AccessMeans *means) {
        return means->is_refused;
}

const Error *access_means_trouble(const AccessMeans *means) {
        const AccessFile *const files[] = {
                &means->ca,
                &means->certificate,
                &means->key,
                &means->token,
        };

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                if (files[i]->trouble.kind != ERROR_NONE)
                        return &files[i]->trouble;

        return NULL;
}

bool access_means_is_waiting(const AccessMeans *means) {
        return means->exec && access_exec_is_running(means->exec);
}
