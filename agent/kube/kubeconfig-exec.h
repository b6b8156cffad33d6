/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * "users[].user.exec" of a kubeconfig: a program that makes credentials
 */

#include "agent/document/json-reader.h"
#include "agent/kube/kubeconfig-spec.h"

/* Reads the user's member "exec", if there is one. */
int kubeconfig_exec_read(struct json_object *user, const JsonPath *path, const char *folder,
                         KubeconfigExec *ret, Error *reterr);

/* Reads what the cluster says to that program alone: an extension. */
int kubeconfig_exec_read_cluster(struct json_object *cluster, const JsonPath *path,
                                 KubeconfigExec *exec, Error *reterr);

void kubeconfig_exec_done(KubeconfigExec *exec);
