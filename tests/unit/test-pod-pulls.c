/* SPDX-License-Identifier: Apache-2.0 */

/* Which agents "kubectl inplace status" asks for pulls of pods. */

#include "tests/unit/unit.h"

#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/node-pulls.h"
#include "agent/kubectl/pod-pulls.h"

/* It stands for the one of node-pulls.h, as its functions do, see tests/CMakeLists.txt. */
struct NodePulls {
        const char *name;
        json_object *pulls; /* borrowed; NULL: it has not answered */
};

static unsigned n_asked;
static NodePulls *made[2];

int __wrap_node_pulls_new(const NodePullsOptions *options, NodePulls **ret);
NodePulls *__wrap_node_pulls_free(NodePulls *node);
const char *__wrap_node_pulls_name(const NodePulls *node);
int __wrap_node_pulls_ask(NodePulls *node, const char *pod, const char *why, uint64_t now_usec);
json_object *__wrap_node_pulls_get(const NodePulls *node);
sd_event *__wrap_session_event(const Session *session);

int __wrap_node_pulls_new(const NodePullsOptions *options, NodePulls **ret) {
        *ret = calloc(1, sizeof(**ret));
        assert_non_null(*ret);
        (*ret)->name = options->node;
        made[n_asked] = *ret;
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

json_object *__wrap_node_pulls_get(const NodePulls *node) {
        return node->pulls;
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

/* Names of pods are whole, and a pod's pull is not always the first. */
TEST(test_pull_of_a_pod) {
        static const struct {
                const char *namespace, *name, *image;
        } rows[] = {
                { "shop", "web-0", "a" },   { "shop", "web-1", "b" },   { "shop", "web-2", "c" },
                { "shop", "eb-0", NULL },   { "shop", "web-00", NULL }, { "sho", "web-0", NULL },
                { "other", "web-0", NULL },
        };
        cleanup(json_object_put_p) json_object *pulls =
                json_tokener_parse("[{\"image\":\"a\",\"pods\":[\"shop/web-0\"]},"
                                   "{\"image\":\"b\",\"pods\":[\"shop/db\",\"shop/web-1\"]},"
                                   "{\"image\":\"c\",\"pods\":[\"shop/web-2\"]}]");
        const Flags flags = { .watch = false };
        PodPulls *all;

        n_asked = 0;
        assert_ok(pod_pulls_new(NULL, &flags, &all));
        for (size_t i = 0; i < 2; i++) {
                const NodeAgent agent = { .node = (char *) (i == 0 ? "n1" : "n2"),
                                          .pod = (char *) "inplaced/inplaced-x7k2p" };

                assert_ok(pod_pulls_ask(all, &agent));
        }
        assert_null(pod_pulls_find(all, "shop", "web-0"));
        made[1]->pulls = pulls;
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                json_object *pull = pod_pulls_find(all, rows[i].namespace, rows[i].name);

                assert_string_equal(pull ? json_get_text(pull, "image") : "none",
                                    rows[i].image ?: "none");
        }
        pod_pulls_free(all);
}
