/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/pod-pulls.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/time-units.h"
#include "agent/document/json-reader.h"

#define PATIENCE_USEC (2 * USEC_PER_SEC)
#define LOOK_USEC (50 * USEC_PER_MSEC)

struct PodPulls {
        Session *session;
        const Flags *flags;
        NodePulls *nodes[NODE_PULLS_MAX];
        size_t n_nodes;
};

int pod_pulls_new(Session *session, const Flags *flags, PodPulls **ret) {
        PodPulls *pulls = malloc(sizeof(*pulls));

        if (!pulls)
                return -ENOMEM;

        *pulls = (PodPulls){ .session = session, .flags = flags };
        *ret = pulls;
        return 0;
}

PodPulls *pod_pulls_free(PodPulls *pulls) {
        if (!pulls)
                return NULL;

        for (size_t i = 0; i < pulls->n_nodes; i++)
                node_pulls_free(pulls->nodes[i]);
        free(pulls);
        return NULL;
}

/* The answers are looked at when all are there. */
static int on_change(void *userdata) {
        return 0;
}

int pod_pulls_ask(PodPulls *pulls, const NodeAgent *agent) {
        NodePulls *node;
        int r;

        if (!agent || !agent->pod || pulls->n_nodes == NODE_PULLS_MAX)
                return 0;
        for (size_t i = 0; i < pulls->n_nodes; i++)
                if (strcmp(node_pulls_name(pulls->nodes[i]), agent->node) == 0)
                        return 0;

        r = node_pulls_new(
                &(NodePullsOptions){
                        .event = session_event(pulls->session),
                        .flags = pulls->flags,
                        .node = agent->node,
                        .on_change = on_change,
                },
                &node);
        if (r < 0)
                return r;

        pulls->nodes[pulls->n_nodes++] = node;
        return node_pulls_ask(node, agent->pod, /* why= */ NULL, clock_monotonic_usec());
}

static bool is_any_asked(const PodPulls *pulls) {
        for (size_t i = 0; i < pulls->n_nodes; i++)
                if (node_pulls_is_asked(pulls->nodes[i]))
                        return true;

        return false;
}

int pod_pulls_wait(PodPulls *pulls, Error *reterr) {
        uint64_t end_usec = clock_monotonic_usec() + PATIENCE_USEC;
        int r = 0;

        while (r >= 0 && is_any_asked(pulls) && clock_monotonic_usec() < end_usec)
                r = session_pause(pulls->session, LOOK_USEC, reterr);
        return r;
}

/* names: "shop/web-0" */
static bool has_pod(json_object *names, const char *namespace, const char *name) {
        const size_t n = strlen(namespace);

        for (size_t i = 0; names && i < json_object_array_length(names); i++) {
                const char *text = json_object_get_string(json_object_array_get_idx(names, i));

                if (text && strncmp(text, namespace, n) == 0 && text[n] == '/' &&
                    strcmp(text + n + 1, name) == 0)
                        return true;
        }
        return false;
}

json_object *pod_pulls_find(const PodPulls *pulls, const char *namespace, const char *name) {
        for (size_t i = 0; i < pulls->n_nodes; i++) {
                json_object *found = node_pulls_get(pulls->nodes[i]);

                for (size_t k = 0; found && k < json_object_array_length(found); k++) {
                        json_object *pull = json_object_array_get_idx(found, k);

                        if (has_pod(json_get(pull, "pods", json_type_array), namespace, name))
                                return pull;
                }
        }
        return NULL;
}
