/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/kube/access-file.h"
#include "agent/kube/access-means.h"

#define POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

struct KubeAccess {
        sd_event *event;
        char *context; /* NULL: the current one */
        KubeAccessChanged on_changed;
        void *userdata;

        AccessFile config;      /* its path is NULL in a pod */
        char *folder;           /* where it is */
        bool is_config_waiting; /* for files that it names */
        Error trouble;          /* why what it says is not in force */

        AccessMeans *means; /* in force */
        char *source;
        KubeCredentials credentials;
        unsigned first_generation; /* of the means */
};

DEFINE_CLEANUP(KubeAccess *, kube_access_free)

bool kube_access_is_pod(const char *pod_folder) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;

        return access_means_read_pod(pod_folder ?: POD_FOLDER, &spec, NULL) >= 0 &&
               access(spec.token_file, F_OK) == 0;
}

static int get_folder(const char *path, char **ret) {
        const char *slash = strrchr(path, '/');

        *ret = slash ? strndup(path, (size_t) (slash - path)) : strdup(".");
        return *ret ? 0 : -ENOMEM;
}

/* Says which file it is that refuses something inside. */
static int refuse_config(const KubeAccess *access, const Error *error, Error *reterr) {
        return error_set(reterr, error->kind, "%s: %s", access->config.path, error_message(error));
}

static int set_means(KubeAccess *access, KubeconfigSpec *spec, Error *reterr) {
        cleanup(free_p) char *source = NULL;
        AccessMeans *means;
        int r;

        if (!access->config.path)
                source = strdup("the pod's service account");
        else if (asprintf(&source, "kubeconfig %s, context %s", access->config.path,
                          spec->context) < 0)
                source = NULL;
        if (!source)
                return -ENOMEM;

        r = access_means_new(access->event, spec, access->on_changed, access->userdata, &means,
                             reterr);
        if (r < 0)
                return r;

        access_means_free(access->means);
        access->means = means;
        access->first_generation = access->credentials.generation + 1;
        free(access->source);
        access->source = take_ptr(source);
        return 0;
}

/* What is in the kubeconfig comes into force as a whole, with the files that it names. */
static int adopt_config(KubeAccess *access, Error *reterr) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        access->is_config_waiting = false;
        r = kubeconfig_spec_parse(access->config.text, strlen(access->config.text), access->folder,
                                  access->context, &spec, &error);
        if (error.kind != ERROR_NONE)
                return refuse_config(access, &error, reterr);
        if (r < 0)
                return r;

        r = set_means(access, &spec, &error);
        if (error.kind == ERROR_NONE)
                return r;

        access->is_config_waiting = true;
        return refuse_config(access, &error, reterr);
}

/* Nobody is left waiting for a program that belongs to what is no longer in force. */
static int follow_config(KubeAccess *access) {
        int r;

        if (!access->config.path || access_means_is_waiting(access->means))
                return 0;

        r = access_file_read(&access->config, NULL);
        if (r < 0 || (r == 0 && !access->is_config_waiting))
                return r;

        error_done(&access->trouble);
        r = adopt_config(access, &access->trouble);
        return access->trouble.kind != ERROR_NONE ? 0 : r;
}

static int start_with_config(KubeAccess *access, const char *path, Error *reterr) {
        int r;

        r = access_file_init(&access->config, ACCESS_FILE_DOCUMENT, path)
                    ?: get_folder(path, &access->folder);
        if (r < 0)
                return r;

        r = access_file_read(&access->config, reterr);
        if (r < 0)
                return r;

        return adopt_config(access, reterr);
}

static int start_as_pod(KubeAccess *access, const char *folder, Error *reterr) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        int r;

        r = access_means_read_pod(folder, &spec, reterr);
        if (r < 0)
                return r;

        return set_means(access, &spec, reterr);
}

int kube_access_new(const KubeAccessOptions *options, KubeAccess **ret, Error *reterr) {
        cleanup(kube_access_free_p) KubeAccess *access = NULL;
        int r;

        access = calloc(1, sizeof(*access));
        if (!access)
                return -ENOMEM;

        access->event = sd_event_ref(options->event);
        access->on_changed = options->on_changed;
        access->userdata = options->userdata;
        if (options->context) {
                access->context = strdup(options->context);
                if (!access->context)
                        return -ENOMEM;
        }

        r = options->kubeconfig ? start_with_config(access, options->kubeconfig, reterr)
                                : start_as_pod(access, options->pod_folder ?: POD_FOLDER, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(access);
        return 0;
}

KubeAccess *kube_access_free(KubeAccess *access) {
        if (!access)
                return NULL;

        access_means_free(access->means);
        access_file_done(&access->config);
        error_done(&access->trouble);
        free(access->source);
        free(access->folder);
        free(access->context);
        sd_event_unref(access->event);
        free(access);
        return NULL;
}

int kube_access_get(KubeAccess *access, const KubeCredentials **ret, Error *reterr) {
        KubeCredentials credentials;
        const Error *trouble;
        int r;

        r = follow_config(access);
        if (r < 0)
                return r;

        r = access_means_get(access->means, &credentials, reterr);
        if (r <= 0)
                return r;

        trouble = kube_access_trouble(access);
        if (trouble && access_means_is_refused(access->means))
                return error_copy(reterr, trouble);

        access->credentials = credentials;
        access->credentials.generation += access->first_generation;
        *ret = &access->credentials;
        return 1;
}

void kube_access_refuse_token(KubeAccess *access) {
        access_file_forget(&access->config);
        access_means_refuse_token(access->means);
}

void kube_access_accept_token(KubeAccess *access) {
        access_means_accept_token(access->means);
}

const Error *kube_access_trouble(const KubeAccess *access) {
        if (access->config.trouble.kind != ERROR_NONE)
                return &access->config.trouble;
        if (access->trouble.kind != ERROR_NONE)
                return &access->trouble;

        return access_means_trouble(access->means);
}

const char *kube_access_source(const KubeAccess *access) {
        return access->source;
}
