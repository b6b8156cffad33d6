/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rights that each command needs
 *
 * One table, for set image, rollout and restart, which ask before they begin, and for doctor. The ClusterRole inplaced-user
 * of packaging/kubernetes has those of a namespace. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/kubectl/workload.h"

/* A format that takes a namespace and a user. */
#define RIGHTS_GRANT \
        "kubectl create rolebinding inplaced-user -n %s --clusterrole=inplaced-user --user=%s"

/* set image and rollout of a WorkloadKind, which is the task then; and the others. */
typedef enum RightsTask {
        RIGHTS_STATUS = _WORKLOAD_KIND_MAX,
        RIGHTS_RESTART,
        RIGHTS_RESTART_BY_REQUESTS,
        RIGHTS_IMAGES,
        RIGHTS_PRELOAD,
        RIGHTS_PRELOAD_BY_JOBS, /* preload by OpenKruise's jobs */
        _RIGHTS_TASK_MAX,
} RightsTask;

/* "set image of Deployments" */
const char *rights_task_to_string(RightsTask task);

typedef struct Right {
        const char *verbs; /* "list watch" */
        const char *group; /* "": the core */
        const char *resource;
        const char *subresource; /* NULL: none */
        unsigned tasks;          /* bits 1 << RightsTask */
        bool is_cluster_wide;
        bool is_optional; /* only some of the workloads need it */
} Right;

/* A task's first right is the one on its own kind, of which the last verb is the write. */
extern const Right right_specs[];
extern const size_t n_right_specs;

/* Borrowed. */
const Right *rights_own(RightsTask task);

/* Whether the command needs it for the workload alone, and not for all of its kind. */
bool right_has_name(const Right *right, RightsTask task);

/* A SelfSubjectAccessReview; name: NULL: of all. The caller owns *ret. */
int right_review(const Right *right, const char *verb, const char *namespace, const char *name,
                 json_object **ret);
bool right_is_allowed(json_object *review);
