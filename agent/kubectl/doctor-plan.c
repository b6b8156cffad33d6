/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/doctor-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/workload.h"

#define KRUISE "apps.kruise.io"
#define APPLY "apply the definitions of inplaced, or install OpenKruise"

static const char *const beta[] = { "v1beta1", "v1alpha1", NULL };
static const char *const alpha[] = { "v1alpha1", "v1beta1", NULL };

/* clang-format off */
const DoctorKind doctor_kinds[] = {
        { KRUISE, beta, "nodeimages",                false, APPLY },
        { KRUISE, beta, "containerrecreaterequests", false, APPLY },
        { KRUISE, beta, "imagepulljobs",             true,  "not served; NodeImages are written directly" },
        { KRUISE, alpha, "clonesets",                true,  "not served" },
};
/* clang-format on */

const size_t n_doctor_kinds = sizeof(doctor_kinds) / sizeof(doctor_kinds[0]);

/* As the agent's own manifests see it. */
static bool runs_containers(json_object *node) {
        json_object *labels = object_at(node, "metadata.labels");

        return !json_is(labels, "type", "virtual-kubelet") &&
               strcmp(json_get_text(labels, "kubernetes.io/os") ?: "linux", "linux") == 0;
}

int doctor_nodes_add(DoctorNodes *nodes, json_object *node) {
        char **more;

        if (!runs_containers(node))
                return 0;

        more = reallocarray(nodes->items, nodes->n_items + 1, sizeof(*more));
        if (!more)
                return -ENOMEM;

        nodes->items = more;
        return text_copy(object_name(node), &nodes->items[nodes->n_items++]);
}

void doctor_nodes_done(DoctorNodes *nodes) {
        for (size_t i = 0; i < nodes->n_items; i++)
                free(nodes->items[i]);
        free(nodes->items);
        *nodes = (DoctorNodes){ .items = NULL };
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

/* What is wrong with a node; NULL: nothing. The caller owns *ret_message. */
static int judge(const NodeAgent *agent, const char *usual, char **ret_message,
                 const char **ret_advice) {
        int n = 0;

        *ret_message = NULL;
        if (!agent) {
                *ret_advice = "install inplaced there, or let the DaemonSet run there";
                return text_copy("there is no agent", ret_message);
        }
        if (agent->has_pod && !agent->is_ready) {
                *ret_advice = "its log says more: kubectl logs -n NAMESPACE POD";
                n = asprintf(ret_message, "the agent is not ready: %s",
                             agent->trouble ?: "no reason given");
        } else if (agent->version && usual && strcmp(agent->version, usual) != 0) {
                *ret_advice = "finish the update of the agents";
                n = asprintf(ret_message, "the agent is of version %s, most others are of %s",
                             agent->version, usual);
        }
        if (n < 0) {
                *ret_message = NULL;
                return -ENOMEM;
        }

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

int doctor_plan_nodes(const DoctorNodes *nodes, const Agents *agents, DoctorGroups *ret) {
        cleanup(doctor_groups_done)
                DoctorGroups groups = { .version = most_frequent_version(agents) };

        for (size_t i = 0; i < nodes->n_items; i++) {
                const NodeAgent *agent = agents_find(agents, nodes->items[i]);
                const char *advice = "";
                char *message;
                int r;

                groups.n_with_agent += agent != NULL;
                groups.n_of_unknown_version += agent && !agent->version;
                r = judge(agent, groups.version, &message, &advice);
                if (r >= 0 && message)
                        r = add_to_group(&groups, message, advice, nodes->items[i]);
                if (r < 0)
                        return r;
        }

        *ret = groups;
        groups = DOCTOR_GROUPS_INIT;
        return 0;
}

void doctor_groups_done(DoctorGroups *groups) {
        for (size_t i = 0; i < groups->n_items; i++) {
                free(groups->items[i].message);
                free(groups->items[i].nodes);
        }
        free(groups->items);
        *groups = DOCTOR_GROUPS_INIT;
}

char *doctor_group_names(const DoctorGroup *group, size_t n_max) {
        size_t n = group->n_nodes < n_max ? group->n_nodes : n_max, size;
        char *text = NULL;
        FILE *to = open_memstream(&text, &size);

        if (!to)
                return NULL;

        for (size_t i = 0; i < n; i++)
                (void) fprintf(to, "%s%s", i > 0 ? ", " : "", group->nodes[i]);
        if (n < group->n_nodes)
                (void) fprintf(to, " and %zu more", group->n_nodes - n);
        if (fclose(to) != 0) {
                free(text);
                return NULL;
        }

        return text;
}
