/* SPDX-License-Identifier: Apache-2.0 */

/* Which agents "kubectl inplace status" asks for pulls of pods. */

#include "tests/unit/unit.h"

#include "agent/kubectl/node-pulls.h"
#include "agent/kubectl/pod-pulls.h"

/* It stands for the one of node-pulls.h, as its functions do, see tests/CMakeLists.txt. */
struct NodePulls {
        const char *name;
};

static unsigned n_asked;

int __wrap_node_pulls_new(const NodePullsOptions *options, NodePulls **ret);
NodePulls *__wrap_node_pulls_free(NodePulls *node);
const char *__wrap_node_pulls_name(const NodePulls *node);
int __wrap_node_pulls_ask(NodePulls *node, const char *pod, const char *why, uint64_t now_usec);
sd_event *__wrap_session_event(const Session *session);

int __wrap_node_pulls_new(const NodePullsOptions *options, NodePulls **ret) {
        *ret = calloc(1, sizeof(**ret));
        assert_non_null(*ret);
        (*ret)->name = options->node;
        return 0;
}

NodePulls *__wrap_node_pulls_free(NodePulls *node) {
        free(node);
        return NULL;
}

const char *__wrap_node_pulls_name(const NodePulls *node) {
        return node->name;
}

int __wrap_node_pulls_ask(NodePulls *node, const char *pod, const char *why, uint64_t now_usec) {
        n_asked++;
        return 0;
}

sd_event *__wrap_session_event(const Session *session) {
        return NULL;
}

/* Several pods on a node may wait. */
TEST(test_each_node_once) {
        static const char *const nodes[] = { "n1", "n2", "n1", "n2" };
        const Flags flags = { .watch = false };
        PodPulls *pulls;

        n_asked = 0;
        assert_ok(pod_pulls_new(NULL, &flags, &pulls));
        for (size_t i = 0; i < N_ELEMENTS(nodes); i++) {
                const NodeAgent agent = { .node = (char *) nodes[i],
                                          .pod = (char *) "inplaced/inplaced-x7k2p" };

                assert_ok(pod_pulls_ask(pulls, &agent));
        }
        assert_int_equal(n_asked, 2);
        pod_pulls_free(pulls);
}
