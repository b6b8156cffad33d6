/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How to reach the API server: where it is, how to know it, and who we are to it
 *
 * Read from a kubeconfig (its current context, or another one), or from the files that Kubernetes gives
 * to every pod. The kubeconfig and the files that it names, tokens above all, are read again when they
 * changed, because they rotate. If a file cannot be read any more, or is invalid, its old content stays in
 * force until the server refuses that: then kube_access_get() reports the problem.
 * A program of "users[].user.exec" is run when there is no token yet, and again when the token is
 * about to expire or was refused; not in a tight loop if that does not help.
 * See kubernetes.io/docs/reference/config-api/kubeconfig.v1.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "agent/base/error.h"
#include "agent/kube/kubeconfig-spec.h"

typedef struct KubeAccess KubeAccess;

/* Credentials of one request. Texts are NULL where there is none; certificates and keys are PEM. */
typedef struct KubeCredentials {
        const char *server; /* such as "https://10.96.0.1:443", without a slash at the end */
        const char *ca;     /* NULL: the system's */
        const char *certificate;
        const char *key;
        const char *token;
        const char *username; /* basic authentication, which a proxy in between may ask for */
        const char *password;
        const char *tls_server_name;
        const char *proxy;
        char *const *impersonation; /* headers, ended by NULL */
        bool is_unverified;         /* insecure-skip-tls-verify */
        unsigned generation; /* differs if anything but the token does: then a connection that was
                              * made with the old ones must not be used any more */
} KubeCredentials;

/* A program ended: kube_access_get() will return another result now. */
typedef void (*KubeAccessChanged)(void *userdata);

typedef struct KubeAccessOptions {
        sd_event *event;
        const char *kubeconfig; /* a path */
        const char *
                kubeconfig_list; /* several, as in $KUBECONFIG: separated by ":", the first that says
                                      * something counts, and those that are missing or empty are
                                      * skipped. Both NULL: as a pod */
        const char *context;     /* NULL: current-context */
        KubeconfigOverrides overrides; /* borrowed: they outlive it */
        const char *pod_folder;        /* NULL: /var/run/secrets/kubernetes.io/serviceaccount */
        KubeAccessChanged on_changed;
        void *userdata;
} KubeAccessOptions;

/* Whether a pod's files are there: the token's file and the two variables of the environment. */
bool kube_access_is_pod(const char *pod_folder);

/* Refused with one line if it cannot be used, which names the file and, where there is one, the path
 * inside it. ERROR_NOT_FOUND: of the list, no file is there. ERROR_UNAVAILABLE: the kubeconfig is valid, but a file that
 * it names is missing or invalid, and may be written later. Other options are copied. */
int kube_access_new(const KubeAccessOptions *options, KubeAccess **ret, Error *reterr);
KubeAccess *kube_access_free(KubeAccess *access);

/* 1: *ret has the current credentials, borrowed until the next call or until the loop goes on. 0: a
 * program makes them, and on_changed will be called. Else a refusal, of the kind ERROR_INVALID or
 * ERROR_DENIED, that may end by itself. */
int kube_access_get(KubeAccess *access, const KubeCredentials **ret, Error *reterr);

/* Notes that the server refused the token (401): it has to be read or made anew. */
void kube_access_refuse_token(KubeAccess *access);

/* Notes that the server took the credentials: earlier refusals do not count any more. */
void kube_access_accept_token(KubeAccess *access);

/* Returns why an older content than that of the files is in force, or NULL; borrowed.
 * kube_access_get() finds it out. */
const Error *kube_access_trouble(const KubeAccess *access);

/* "kubeconfig /etc/kubernetes/kubelet.conf, context default" or "the pod's service account"; for
 * people; borrowed. */
const char *kube_access_source(const KubeAccess *access);

/* Returns the context's namespace and user, or the pod's; NULL: none. Borrowed. */
const char *kube_access_namespace(const KubeAccess *access);
const char *kube_access_user(const KubeAccess *access);
