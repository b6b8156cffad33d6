/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rights-plan.h"

#include <errno.h>
#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"

#define KRUISE "apps.kruise.io"
#define T(task) (1u << (task))
#define WITH_PODS                                                                      \
        (T(WORKLOAD_DEPLOYMENT) | T(WORKLOAD_REPLICA_SET) | T(WORKLOAD_STATEFUL_SET) | \
         T(WORKLOAD_DAEMON_SET))
#define OF_KRUISE                                                    \
        (T(WORKLOAD_CLONE_SET) | T(WORKLOAD_ADVANCED_STATEFUL_SET) | \
         T(WORKLOAD_ADVANCED_DAEMON_SET))
#define OURS (WITH_PODS | T(WORKLOAD_POD))
#define OWN "get list watch patch"

/* clang-format off */
const Right right_specs[] = {
        { OWN, "apps", "deployments", NULL, T(WORKLOAD_DEPLOYMENT), false, false },
        { OWN, "apps", "replicasets", NULL, T(WORKLOAD_REPLICA_SET), false, false },
        { OWN, "apps", "statefulsets", NULL, T(WORKLOAD_STATEFUL_SET), false, false },
        { OWN, "apps", "daemonsets", NULL, T(WORKLOAD_DAEMON_SET), false, false },
        { OWN, "", "pods", NULL, T(WORKLOAD_POD), false, false },
        { OWN, KRUISE, "clonesets", NULL, T(WORKLOAD_CLONE_SET), false, false },
        { OWN, KRUISE, "statefulsets", NULL, T(WORKLOAD_ADVANCED_STATEFUL_SET), false, false },
        { OWN, KRUISE, "daemonsets", NULL, T(WORKLOAD_ADVANCED_DAEMON_SET), false, false },
        { "get patch", "", "pods", NULL, T(RIGHTS_RESTART), false, false },
        { "list watch create", KRUISE, "containerrecreaterequests", NULL, T(RIGHTS_RESTART_BY_REQUESTS), false, false },
        { "list watch create", KRUISE, "imagepulljobs", NULL, T(RIGHTS_PRELOAD_BY_JOBS), false, false },
        { "list watch patch", KRUISE, "nodeimages", NULL, T(RIGHTS_PRELOAD), true, false },
        { "list watch", KRUISE, "nodeimages", NULL, T(RIGHTS_PRELOAD_BY_JOBS), true, false },
        { "list", KRUISE, "nodeimages", NULL, T(RIGHTS_IMAGES), true, false },
        { "list watch", "", "pods", NULL, WITH_PODS | OF_KRUISE | T(RIGHTS_STATUS) | T(RIGHTS_RESTART) | T(RIGHTS_RESTART_BY_REQUESTS), false, false },
        { "patch", "", "pods", NULL, WITH_PODS, false, false },
        { "list watch patch", "apps", "replicasets", NULL, T(WORKLOAD_DEPLOYMENT), false, false },
        { "list watch", "apps", "controllerrevisions", NULL, T(WORKLOAD_STATEFUL_SET) | T(WORKLOAD_DAEMON_SET), false, false },
        { "list watch", "policy", "poddisruptionbudgets", NULL, OURS | T(RIGHTS_RESTART) | T(RIGHTS_RESTART_BY_REQUESTS), false, false },
        { "get", KRUISE, "nodeimages", NULL, T(RIGHTS_IMAGES), true, true }, /* for --nodes */
        { "delete", KRUISE, "imagepulljobs", NULL, T(RIGHTS_PRELOAD_BY_JOBS), false, true }, /* for --withdraw */
        { "patch", "", "pods", "status", OURS, false, true }, /* for readiness gates */
        { "create", "apps", "replicasets", NULL, T(WORKLOAD_DEPLOYMENT), false, true }, /* for kubectl rollout undo */
        { "list", "apps", "replicasets", NULL, T(RIGHTS_RESTART) | T(RIGHTS_RESTART_BY_REQUESTS), false, true }, /* for Deployments */
};
/* clang-format on */

const size_t n_right_specs = sizeof(right_specs) / sizeof(right_specs[0]);

const char *rights_task_to_string(RightsTask task) {
        static const char *const names[] = {
                [WORKLOAD_DEPLOYMENT] = "set image of Deployments",
                [WORKLOAD_REPLICA_SET] = "set image of ReplicaSets",
                [WORKLOAD_STATEFUL_SET] = "set image of StatefulSets",
                [WORKLOAD_DAEMON_SET] = "set image of DaemonSets",
                [WORKLOAD_POD] = "set image of pods",
                [WORKLOAD_CLONE_SET] = "set image of CloneSets",
                [WORKLOAD_ADVANCED_STATEFUL_SET] = "set image of Advanced StatefulSets",
                [WORKLOAD_ADVANCED_DAEMON_SET] = "set image of Advanced DaemonSets",
                [RIGHTS_STATUS] = "status",
                [RIGHTS_RESTART] = "restart",
                [RIGHTS_RESTART_BY_REQUESTS] = "restart --request",
                [RIGHTS_IMAGES] = "images",
                [RIGHTS_PRELOAD] = "preload",
                [RIGHTS_PRELOAD_BY_JOBS] = "preload",
        };

        return names[task];
}

const Right *rights_own(RightsTask task) {
        const Right *right = right_specs;

        while (!(right->tasks & T(task)))
                right++;
        return right;
}

bool right_has_name(const Right *right, RightsTask task) {
        return (int) task < _WORKLOAD_KIND_MAX && right == rights_own(task);
}

static json_object *attributes_of(const Right *right, const char *verb, const char *namespace,
                                  const char *name) {
        cleanup(json_object_put_p) json_object *attributes = json_object_new_object();

        if (patch_add_text(attributes, "verb", verb) < 0 ||
            patch_add_text(attributes, "group", right->group) < 0 ||
            patch_add_text(attributes, "resource", right->resource) < 0 ||
            (right->subresource &&
             patch_add_text(attributes, "subresource", right->subresource) < 0) ||
            (name && patch_add_text(attributes, "name", name) < 0) ||
            (!right->is_cluster_wide && patch_add_text(attributes, "namespace", namespace) < 0))
                return NULL;

        return take_ptr(attributes);
}

int right_review(const Right *right, const char *verb, const char *namespace, const char *name,
                 json_object **ret) {
        cleanup(json_object_put_p) json_object *review =
                patch_wrap("spec", patch_wrap("resourceAttributes",
                                              attributes_of(right, verb, namespace, name)));

        if (patch_add_text(review, "apiVersion", "authorization.k8s.io/v1") < 0 ||
            patch_add_text(review, "kind", "SelfSubjectAccessReview") < 0)
                return -ENOMEM;

        *ret = take_ptr(review);
        return 0;
}

bool right_is_allowed(json_object *review) {
        json_object *allowed = object_at(review, "status.allowed");

        return json_object_is_type(allowed, json_type_boolean) && json_object_get_boolean(allowed);
}
