/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One way to the API server: what a kubeconfig says, or what a pod is given, with the files and the
 * program that belong to it
 */

#include "agent/kube/access-exec.h"
#include "agent/kube/access-file.h"
#include "agent/kube/access.h"
#include "agent/kube/kubeconfig-spec.h"

typedef struct AccessMeans AccessMeans;

/* The spec is taken over, also in case of a failure. All its files have to be there. */
int access_means_new(sd_event *event, KubeconfigSpec *spec, AccessExecChanged on_changed,
                     void *userdata, AccessMeans **ret, Error *reterr);
AccessMeans *access_means_free(AccessMeans *means);

/* What is needed in a pod. Refused if the variables of the environment are not there. */
int access_means_read_pod(const char *folder, KubeconfigSpec *ret, Error *reterr);

/* As kube_access_get(); *ret->generation counts from 0. */
int access_means_get(AccessMeans *means, KubeCredentials *ret, Error *reterr);

void access_means_refuse_token(AccessMeans *means);
void access_means_accept_token(AccessMeans *means);

/* Why the content of a file is older than the file, or NULL; borrowed. */
const Error *access_means_trouble(const AccessMeans *means);

/* The server refused the token, and there has been no other one since. */
bool access_means_is_refused(const AccessMeans *means);

/* A program runs. */
bool access_means_is_waiting(const AccessMeans *means);
