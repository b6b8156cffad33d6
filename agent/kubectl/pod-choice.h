/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The pods that a person names
 *
 * By a pod's name, by a workload whose selector chooses them, or by labels.
 */

#include "agent/kubectl/session.h"
#include "agent/kubectl/workload.h"

/* NULL: not by that. */
typedef struct PodChoice {
        char *fields;
        char *labels;
        char *name; /* as it was given; NULL: by labels */
        WorkloadKind kind;
        json_object *workload; /* NULL: by something else */
} PodChoice;

#define POD_CHOICE_INIT ((PodChoice){ .fields = NULL })

/* name: "web-0", "pod/web-0" or "deployment/web", for whose selector the server is asked. */
int pod_choice_of_name(Session *session, const char *name, PodChoice *ret, Error *reterr);
/* selector: NULL is all pods. */
int pod_choice_of_labels(const char *selector, PodChoice *ret);
void pod_choice_done(PodChoice *choice);

/* Shows each of them; *ret_n is how many there are. namespace: NULL is all. */
int pod_choice_list(Session *session, const PodChoice *choice, const char *namespace,
                    SessionItem on_pod, void *userdata, size_t *ret_n, Error *reterr);

/* A workload in the session's namespace, and its path, in a version that the server has; refused if it has none, or if
 * there is no such namespace. Borrows the name; the caller owns *ret. */
int workload_find(Session *session, WorkloadKind kind, const char *name, KubePath *ret_path,
                  json_object **ret, Error *reterr);
