/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Credentials that a program makes, see "users[].user.exec" of a kubeconfig
 *
 * The program is run when they are needed, some time before they expire, and when the server has
 * refused them. While it fails, or makes what the server refuses, it is run ever more rarely.
 */

#include <systemd/sd-event.h>

#include "agent/kube/exec-credential-spec.h"
#include "agent/kube/kubeconfig-spec.h"

typedef struct AccessExec AccessExec;

/* The last thing that the AccessExec does: it may be freed. */
typedef void (*AccessExecChanged)(void *userdata);

/* exec is borrowed until it is freed. Runs nothing yet. */
int access_exec_new(sd_event *event, const KubeconfigExec *exec, AccessExecChanged on_changed,
                    void *userdata, AccessExec **ret);

/* Ends the program, if it runs. Returns NULL. */
AccessExec *access_exec_free(AccessExec *exec);

/* As kube_access_get(). The cluster is for a program that wants to know it. */
int access_exec_get(AccessExec *exec, const ExecCredentialCluster *cluster,
                    const ExecCredential **ret, Error *reterr);

void access_exec_refuse(AccessExec *exec);

/* Differs if the certificate does. */
unsigned access_exec_generation(const AccessExec *exec);
bool access_exec_is_running(const AccessExec *exec);
