/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/doctor-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/workload.h"

#define KRUISE "apps.kruise.io"
#define APPLY "apply the definitions of inplaced, or install OpenKruise"

static const char *const beta[] = { "v1beta1", "v1alpha1", NULL };
static const char *const alpha[] = { "v1alpha1", "v1beta1", NULL };

/* clang-format off */
const DoctorKind doctor_kinds[] = {
        { { KRUISE, beta, "nodeimages", false },                false, APPLY },
        { { KRUISE, beta, "containerrecreaterequests", false }, false, APPLY },
        { { KRUISE, beta, "imagepulljobs", false },             true,  "not served; NodeImages are written directly" },
        { { KRUISE, alpha, "clonesets", false },                true,  "not served" },
};
/* clang-format on */

const size_t n_doctor_kinds = sizeof(doctor_kinds) / sizeof(doctor_kinds[0]);

/* As the agent's own manifests see it. */
static bool runs_containers(json_object *node) {
        json_object *labels = object_at(node, "metadata.labels");

        return !json_is(labels, "type", "virtual-kubelet") &&
               strcmp(json_get_text(labels, "kubernetes.io/os") ?: "linux", "linux") == 0;
}

int doctor_nodes_add(json_object *nodes, json_object *node) {
        return runs_containers(node) ? patch_add_null(nodes, object_name(node)) : 0;
}

/* Among agents whose version is known; of equally many, the first one by name of node. */
static const char *most_frequent_version(const Agents *agents) {
        const char *best = NULL;
        size_t n_best = 0;

        for (size_t i = 0; i < agents->n_items; i++) {
                const char *version = agents->items[i]->version;
                size_t n = 0;

                if (!version || text_equal(version, best))
                        continue;
                for (size_t j = i; j < agents->n_items; j++)
                        n += text_equal(agents->items[j]->version, version);
                if (n > n_best) {
                        best = version;
                        n_best = n;
                }
        }

        return best;
}

/* Says why a node has a problem; NULL: it has none. The caller owns *ret_message. */
static int judge(const NodeAgent *agent, const char *usual, char **ret_message,
                 const char **ret_advice) {
        int n = 0;

        *ret_message = NULL;
        if (!agent) {
                *ret_advice = "install inplaced there, or let the DaemonSet run there";
                return text_copy("there is no agent", ret_message);
        }
        if (agent->is_silent) {
                *ret_advice = "start it; if it was removed, delete the NodeImage of that name";
                return text_copy("the agent does not answer: its NodeImage has requests that it "
                                 "has not taken up",
                                 ret_message);
        }
        if (agent->has_pod && !agent->is_ready) {
                *ret_advice = "its log says more: kubectl logs -n NAMESPACE POD";
                n = text_format(ret_message, "the agent is not ready: %s",
                                agent->trouble ?: "no reason given");
        } else if (agent->version && usual && strcmp(agent->version, usual) != 0) {
                *ret_advice = "finish the update of the agents";
                n = text_format(ret_message, "the agent is of version %s, most others are of %s",
                                agent->version, usual);
        }
        if (n < 0)
                return -ENOMEM;

        return 0;
}

/* The message is taken over. */
static int add_to_group(DoctorGroups *groups, char *message, const char *advice, const char *node) {
        cleanup(free_p) char *owned = message;
        DoctorGroup *group = NULL;
        const char **nodes;

        for (size_t i = 0; !group && i < groups->n_items; i++)
                if (strcmp(groups->items[i].message, message) == 0)
                        group = &groups->items[i];
        if (!group) {
                DoctorGroup *more = reallocarray(groups->items, groups->n_items + 1, sizeof(*more));

                if (!more)
                        return -ENOMEM;
                groups->items = more;
                group = &more[groups->n_items++];
                *group = (DoctorGroup){ .message = take_ptr(owned), .advice = advice };
        }

        nodes = reallocarray(group->nodes, group->n_nodes + 1, sizeof(*nodes));
        if (!nodes)
                return -ENOMEM;

        group->nodes = nodes;
        nodes[group->n_nodes++] = node;
        return 0;
}

int doctor_plan_nodes(json_object *nodes, const Agents *agents, DoctorGroups *ret) {
        cleanup(doctor_groups_done)
                DoctorGroups groups = { .version = most_frequent_version(agents) };

        json_object_object_foreach(nodes, name, none) {
                const NodeAgent *agent = agents_find(agents, name);
                const char *advice = "";
                char *message;
                int r;

                (void) none;
                groups.n_with_agent += agent && !agent->is_silent;
                if (agent && !agent->is_silent && !agent->has_pod) {
                        groups.n_traces++;
                        if (groups.wrote_at == 0 || agent->wrote_at < groups.wrote_at)
                                groups.wrote_at = agent->wrote_at;
                }
                groups.n_of_unknown_version += agent && !agent->version;
                if (!agent && agents->error.kind != ERROR_NONE)
                        continue;
                r = judge(agent, groups.version, &message, &advice);
                if (r >= 0 && message)
                        r = add_to_group(&groups, message, advice, name);
                if (r < 0)
                        return r;
        }

        *ret = groups;
        groups = DOCTOR_GROUPS_INIT;
        return 0;
}

/* An older kubelet has no policy, and verifies nothing. What the agent pulled is not in the records of the kubelet. */
int doctor_plan_preloaded(json_object *configz, const char *node, DoctorGroups *groups) {
        const char *policy =
                object_text(configz, "kubeletconfig.imagePullCredentialsVerificationPolicy");
        char *message = NULL;
        int r;

        if (!policy || text_equal(policy, "NeverVerify") ||
            text_equal(policy, "NeverVerifyPreloadedImages"))
                r = text_copy("any pod may run them", &message);
        else if (text_equal(policy, "NeverVerifyAllowlistedImages"))
                r = text_format(&message,
                                "any pod may run those of the kubelet's allowlist; for others it "
                                "needs pull credentials of its own (%s)",
                                policy);
        else
                r = text_format(&message, "a pod needs pull credentials of its own (%s)", policy);

        return r < 0 ? r : add_to_group(groups, message, /* advice= */ NULL, node);
}

void doctor_groups_done(DoctorGroups *groups) {
        for (size_t i = 0; i < groups->n_items; i++) {
                free(groups->items[i].message);
                free(groups->items[i].nodes);
        }
        free(groups->items);
        *groups = DOCTOR_GROUPS_INIT;
}

typedef struct LimitSpec {
        const char *policy;
        const char *component; /* NULL: none */
        const char *rights[2]; /* bindings that grant what it limits */
        const char *limited;
} LimitSpec;

/* clang-format off */
static const LimitSpec limit_specs[_DOCTOR_LIMIT_MAX] = {
        [DOCTOR_LIMIT_RESOURCES] = { .policy = "inplaced-resources" },
        [DOCTOR_LIMIT_PODS] = { .policy = "inplaced-pods" },
        [DOCTOR_LIMIT_NODES] = { "inplaced-nodes", "images-ready", { "inplaced-images-ready", "inplaced-startup-taint" },
                                 "what agents write to Nodes" },
        [DOCTOR_LIMIT_LEASES] = { "inplaced-leases", "pull-slots", { "inplaced-pull-slots" }, "what agents write to Leases" },
        [DOCTOR_LIMIT_PULL_VIEWERS] = { "inplaced-pull-viewers", "pull-viewers", { "inplaced-pull-viewers" },
                                        "what the group inplaced:pull-viewers runs in the pods of agents" },
};
/* clang-format on */

/* Prefixes and suffixes of names are the user's. */
static bool is_named(json_object *object, const char *name) {
        const char *found = object_name(object);

        return found && name && strstr(found, name);
}

int doctor_limits_add_policy(DoctorLimits *limits, json_object *policy) {
        for (DoctorLimit limit = 0; limit < _DOCTOR_LIMIT_MAX; limit++)
                limits->is_there[limit] |= is_named(policy, limit_specs[limit].policy);
        return patch_add_null(limits->policies, object_name(policy));
}

static bool denies(json_object *binding) {
        return list_has_text(object_list(binding, "spec.validationActions"), "Deny");
}

void doctor_limits_add_binding(DoctorLimits *limits, json_object *binding) {
        const char *policy = object_text(binding, "spec.policyName");

        if (!policy || !json_object_object_get_ex(limits->policies, policy, NULL) ||
            !denies(binding))
                return;

        for (DoctorLimit limit = 0; limit < _DOCTOR_LIMIT_MAX; limit++)
                limits->is_enforced[limit] |= strstr(policy, limit_specs[limit].policy) != NULL;
}

void doctor_limits_add_right(DoctorLimits *limits, json_object *binding) {
        for (DoctorLimit limit = 0; limit < _DOCTOR_LIMIT_MAX; limit++)
                for (size_t i = 0; i < 2; i++)
                        limits->is_needed[limit] |= is_named(binding, limit_specs[limit].rights[i]);
}

const char *doctor_limit_component(DoctorLimit limit) {
        return limit_specs[limit].component;
}

int doctor_limits_describe(const DoctorLimits *limits, DoctorLimit limit, char **ret_message,
                           char **ret_advice) {
        const LimitSpec *spec = &limit_specs[limit];
        cleanup(free_p) char *message = NULL;
        cleanup(free_p) char *advice = NULL;
        bool is_wanted = limits->is_there[limit] || limits->is_needed[limit];

        if (spec->component && is_wanted && !limits->is_enforced[limit] &&
            (text_format(&message, "the policy \"%s\" %s, so nothing limits %s", spec->policy,
                         limits->is_there[limit] ? "has no binding that denies" : "is missing",
                         spec->limited) < 0 ||
             text_format(&advice,
                         "apply packaging/kubernetes/components/%s again; helm: policy=true",
                         spec->component) < 0))
                return -ENOMEM;
        *ret_message = take_ptr(message);
        *ret_advice = take_ptr(advice);
        return 0;
}

const char *doctor_limits_missing(const DoctorLimits *limits) {
        if (limits->is_enforced[DOCTOR_LIMIT_RESOURCES])
                return limits->is_enforced[DOCTOR_LIMIT_PODS] ? NULL : "pods";

        return limits->is_enforced[DOCTOR_LIMIT_PODS] ? "NodeImages" : "NodeImages and pods";
}

int doctor_unbound_add_policy(json_object *unbound, json_object *policy) {
        const char *name = object_name(policy);

        return name && strstr(name, "inplaced-hold") ? patch_add_null(unbound, name) : 0;
}

void doctor_unbound_add_binding(json_object *unbound, json_object *binding) {
        json_object_object_del(unbound, object_text(binding, "spec.policyName") ?: "");
}

char *doctor_group_names(const DoctorGroup *group, size_t n_max) {
        size_t n = group->n_nodes < n_max ? group->n_nodes : n_max, size;
        char *text = NULL;
        FILE *to = text_open(&text, &size);

        if (!to)
                return NULL;

        for (size_t i = 0; i < n; i++)
                (void) fprintf(to, "%s%s", i > 0 ? ", " : "", group->nodes[i]);
        if (n < group->n_nodes)
                (void) fprintf(to, " and %zu more", group->n_nodes - n);
        return text_close(to, &text) == 0 ? text : NULL;
}
