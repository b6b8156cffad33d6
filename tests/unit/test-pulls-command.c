/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command "pulls", with answers of nodes that the test gives
 */

#include "agent/kubectl/commands.h"
#include "agent/kubectl/node-pulls.h"
#include "agent/kubectl/workload.h"
#include "tests/unit/played-cluster.h"

#define SAYS "test-pulls-command: "
#define NODES_MAX 24

#define WAITING(name, namespace, node)                                                    \
        "{'metadata':{'name':'" name                                                      \
        "','namespace':'" namespace "','labels':{'app':'web'}},'spec':{'nodeName':'" node \
                                    "','containers':[{'name':'app','image':'a:1'}]},"     \
                                    "'status':{'containerStatuses':[{'name':'app','state':{'waiting':{'reason':'ContainerCreating'}}}]}}"
#define RUNNING(name, namespace, node)                                                    \
        "{'metadata':{'name':'" name                                                      \
        "','namespace':'" namespace "','labels':{'app':'web'}},'spec':{'nodeName':'" node \
                                    "','containers':[{'name':'app','image':'a:1'}]},"     \
                                    "'status':{'containerStatuses':[{'name':'app','containerID':'c','imageID':'i','state':{'running':{}}}]}}"
#define AGENT(node)                                                                                                 \
        "{'metadata':{'name':'agent-" node                                                                          \
        "','namespace':'inplaced-system','labels':{'app.kubernetes.io/name':'inplaced'}},'spec':{'nodeName':'" node \
        "'},'status':{'conditions':[{'type':'Ready','status':'True'}]}}"
#define PULL(image, pods, more)              \
        "{'image':'" image "','pods':[" pods \
        "],'step':'Downloading','bytesDone':1000000,'bytesTotal':4000000" more "}"

/* clang-format off */
static const char objects[] =
        "{'nodes':[{'metadata':{'name':'n1','labels':{'pool':'a'}}},{'metadata':{'name':'n2','labels':{'pool':'a'}}}],"
        "'pods':[" WAITING("web-0", "shop", "n1") "," RUNNING("web-1", "shop", "n1") "," WAITING("db", "other", "n2") "," AGENT("n1") "," AGENT("n2") "]}";

static const struct Row {
        const char *name;
        Flags flags;
        const char *arguments[3];
        const char *answers; /* pulls of each node, or a text, which says why there are none */
        const char *later;   /* the same, when they have been shown; NULL: an interruption */
        const char *refused;
        const char *writes, *out, *err;
        int status;
} rows[] = {
        { "the pods of a namespace", { 0 }, { NULL }, "{'n1':[" PULL("a:1", "'shop/web-0','other/x'", ",'bytesPerSecond':1000000,'secondsLeft':3") "," PULL("b:1", "'other/y'", "") "," PULL("c:1", "", ",'digest':'sha256:aa'") "," PULL("d:1", "", ",'requestedBy':['folder:x']") "]}", NULL, NULL, "ask n1/inplaced-system/agent-n1 \n",
            "POD         IMAGE  STATE          PROGRESS      RATE  LEFT  NODE\n"
            "shop/web-0  a:1    downloading  1.0/4.0 MB  1.0 MB/s    3s  n1\n"
            "-           c:1    downloading  1.0/4.0 MB         -     -  n1\n", "", EXIT_STATUS_DONE },
        { "as JSON", { .format = OUTPUT_JSON }, { NULL }, "{'n1':[" PULL("a:1", "'shop/web-0','other/x'", "") "]}", NULL, NULL, "ask n1/inplaced-system/agent-n1 \n",
            "{\n"
            "  \"items\": [\n"
            "    {\n"
            "      \"node\": \"n1\",\n"
            "      \"image\": \"a:1\",\n"
            "      \"pods\": [\n"
            "        \"shop/web-0\"\n"
            "      ],\n"
            "      \"step\": \"Downloading\",\n"
            "      \"bytesDone\": 1000000,\n"
            "      \"bytesTotal\": 4000000\n"
            "    }\n"
            "  ]\n"
            "}\n", "", EXIT_STATUS_DONE },
        { "names", { .wants_names = true }, { NULL }, "{'n1':[" PULL("a:1", "'shop/web-0'", "") "," PULL("b:1", "'shop/web-0'", "") "]}", NULL, NULL, "ask n1/inplaced-system/agent-n1 \n", "pod/web-0\n", "", EXIT_STATUS_DONE },
        { "a pod", { 0 }, { "web-0" }, "{'n1':[" PULL("a:1", "'shop/web-0'", "") "]}", NULL, NULL, "ask n1/inplaced-system/agent-n1 \n",
            "POD         IMAGE  STATE          PROGRESS  RATE  LEFT  NODE\n"
            "shop/web-0  a:1    downloading  1.0/4.0 MB     -     -  n1\n", "", EXIT_STATUS_DONE },
        { "a pod that runs, and none", { 0 }, { "web-1", "none" }, "{}", NULL, NULL, "",
            "POD  IMAGE  STATE  PROGRESS  RATE  LEFT  NODE\n"
            "No image is being pulled.\n", SAYS "pods \"none\" not found in namespace shop\n", EXIT_STATUS_FAILED },
        { "all namespaces", { .all_namespaces = true }, { NULL }, "{'n1':[" PULL("a:1", "'shop/web-0'", "") "],'n2':[" PULL("d:1", "", ",'requestedBy':['folder:x']") "]}", NULL, NULL,
            "ask n1/inplaced-system/agent-n1 \n"
            "ask n2/inplaced-system/agent-n2 \n",
            "POD         IMAGE  STATE          PROGRESS  RATE  LEFT  NODE\n"
            "shop/web-0  a:1    downloading  1.0/4.0 MB     -     -  n1\n"
            "folder:x    d:1    downloading  1.0/4.0 MB     -     -  n2\n", "", EXIT_STATUS_DONE },
        { "nodes", { .nodes = "n2,,n1" }, { NULL }, "{'n1':[" PULL("b:1", "'other/y'", "") "],'n2':'cannot ask node n2: no'}", NULL, NULL,
            "ask n1/inplaced-system/agent-n1 \n"
            "ask n2/inplaced-system/agent-n2 \n",
            "POD      IMAGE  STATE          PROGRESS  RATE  LEFT  NODE\n"
            "other/y  b:1    downloading  1.0/4.0 MB     -     -  n1\n", SAYS "cannot ask node n2: no\n", EXIT_STATUS_PARTLY },
        { "a node that cannot be asked", { .nodes = "n2" }, { NULL }, "{'n2':'cannot ask node n2: no'}", NULL, NULL, "ask n2/inplaced-system/agent-n2 \n",
            "POD  IMAGE  STATE  PROGRESS  RATE  LEFT  NODE\n"
            "No image is being pulled.\n", SAYS "cannot ask node n2: no\n", EXIT_STATUS_FAILED },
        { "nodes with a label", { .selector = "pool=a" }, { NULL }, "{'n1':[],'n2':[]}", NULL, NULL,
            "ask n1/inplaced-system/agent-n1 \n"
            "ask n2/inplaced-system/agent-n2 \n",
            "POD  IMAGE  STATE  PROGRESS  RATE  LEFT  NODE\n"
            "No image is being pulled.\n", "", EXIT_STATUS_DONE },
        { "no node with a label", { .selector = "pool=b" }, { NULL }, "{}", NULL, NULL, "",
            "POD  IMAGE  STATE  PROGRESS  RATE  LEFT  NODE\n"
            "No image is being pulled.\n", SAYS "no node has the labels \"pool=b\"; see: kubectl get nodes\n", EXIT_STATUS_FAILED },
        { "no node", { .nodes = "," }, { NULL }, "{}", NULL, NULL, "",
            "POD  IMAGE  STATE  PROGRESS  RATE  LEFT  NODE\n"
            "No image is being pulled.\n", SAYS "--nodes names no node\n", EXIT_STATUS_FAILED },
        { "followed", { .watch = true }, { NULL }, "{'n1':[" PULL("a:1", "'shop/web-0'", "") "]}", "{'n1':[" PULL("a:1", "'shop/web-0'", ",'step':'Unpacking'") "]}", NULL, "ask n1/inplaced-system/agent-n1 \n",
            "POD  IMAGE  STATE  PROGRESS  RATE  LEFT  NODE\n"
            "shop/web-0  a:1    downloading  1.0/4.0 MB     -     -  n1\n"
            "shop/web-0  a:1    unpacking    1.0/4.0 MB     -     -  n1\n", "", EXIT_STATUS_SIGNAL + SIGINT },
        { "followed, as YAML", { .watch = true, .format = OUTPUT_YAML }, { NULL }, "{'n1':[" PULL("a:1", "'shop/web-0'", "") "]}", "{'n1':[]}", NULL, "ask n1/inplaced-system/agent-n1 \n",
            "items: []\n"
            "---\n"
            "items:\n"
            "- node: n1\n"
            "  image: a:1\n"
            "  pods:\n"
            "  - shop/web-0\n"
            "  step: Downloading\n"
            "  bytesDone: 1000000\n"
            "  bytesTotal: 4000000\n"
            "---\n"
            "items: []\n", "", EXIT_STATUS_SIGNAL + SIGINT },
        { "followed, names", { .watch = true, .wants_names = true, .nodes = "n1" }, { NULL }, "{'n1':[" PULL("a:1", "'shop/web-0'", "") "]}", "{'n1':[" PULL("b:1", "'shop/web-0','shop/web-2'", "") "]}", NULL, "ask n1/inplaced-system/agent-n1 \n",
            "pod/web-0\n"
            "pod/web-2\n", "", EXIT_STATUS_SIGNAL + SIGINT },
        { "followed nodes in trouble", { .watch = true, .nodes = "n1" }, { NULL }, "{'n1':'cannot ask node n1: no'}", "{'n1':'cannot ask node n1: no'}", NULL, "ask n1/inplaced-system/agent-n1 \n", "POD  IMAGE  STATE  PROGRESS  RATE  LEFT  NODE\n", SAYS "cannot ask node n1: no\n", EXIT_STATUS_SIGNAL + SIGINT },
        { "many nodes", { .watch = true, .nodes = "n1,n2,n3,n4,n5,n6,n7,n8,n9,n10,n11,n12,n13,n14,n15,n16,n17,n18,n19" }, { NULL }, "{}", NULL, NULL,
            "ask n1/inplaced-system/agent-n1 \n"
            "ask n10 \n"
            "ask n11 \n"
            "ask n12 \n"
            "ask n13 \n"
            "ask n14 \n"
            "ask n15 \n"
            "ask n16 \n"
            "ask n17 \n"
            "ask n18 \n"
            "ask n19 \n"
            "ask n2/inplaced-system/agent-n2 \n"
            "ask n3 \n"
            "ask n4 \n"
            "ask n5 \n"
            "ask n6 \n", "POD  IMAGE  STATE  PROGRESS  RATE  LEFT  NODE\n", SAYS "16 nodes are followed at a time: 3 more are left out; choose with --nodes\n", EXIT_STATUS_SIGNAL + SIGINT },
        { "agents that may not be found", { .nodes = "n1" }, { NULL }, "{'n1':[]}", NULL, "pods", "ask n1/no right to use pods \n",
            "POD  IMAGE  STATE  PROGRESS  RATE  LEFT  NODE\n"
            "No image is being pulled.\n", "", EXIT_STATUS_DONE },
        { "nodes that may not be found", { .selector = "pool=a" }, { NULL }, "{'n1':[]}", NULL, "nodes", "", "", SAYS "no right to use nodes\n", EXIT_STATUS_FAILED },
        { "nodes and a label", { .nodes = "n1", .selector = "pool=a" }, { NULL }, "{}", NULL, NULL, "", "", SAYS "--nodes and a selector exclude each other\n", EXIT_STATUS_USAGE },
        { "nodes and a pod", { .nodes = "n1" }, { "web-0" }, "{}", NULL, NULL, "", "", SAYS "nodes exclude names of pods and --all-namespaces\n", EXIT_STATUS_USAGE },
        { "nodes and all namespaces", { .selector = "pool", .all_namespaces = true }, { NULL }, "{}", NULL, NULL, "", "", SAYS "nodes exclude names of pods and --all-namespaces\n", EXIT_STATUS_USAGE },
        { "a pod and all namespaces", { .all_namespaces = true }, { "web-0" }, "{}", NULL, NULL, "", "", SAYS "a name and --all-namespaces exclude each other\n", EXIT_STATUS_USAGE },
};
/* clang-format on */

/* A node's questions; its functions stand for those of node-pulls.h. */
struct NodePulls {
        NodePullsOptions options;
        char *name;
        char *agent; /* pod that was asked */
        bool is_asked, is_told;
        json_object *answer;
        char *trouble;
        bool is_shown; /* the trouble */
};

static struct {
        const struct Row *row;
        NodePulls *nodes[NODES_MAX];
        size_t n_nodes;
        bool is_ended;
} server;

int __wrap_node_pulls_new(const NodePullsOptions *options, NodePulls **ret);
NodePulls *__wrap_node_pulls_free(NodePulls *node);
const char *__wrap_node_pulls_name(const NodePulls *node);
bool __wrap_node_pulls_is_due(const NodePulls *node, uint64_t now_usec);
bool __wrap_node_pulls_is_asked(const NodePulls *node);
int __wrap_node_pulls_ask(NodePulls *node, const char *pod, const char *why, uint64_t now_usec);
json_object *__wrap_node_pulls_get(const NodePulls *node);
const char *__wrap_node_pulls_trouble(const NodePulls *node);
const char *__wrap_node_pulls_new_trouble(NodePulls *node);
int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret);
int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr);
SessionFollow *__wrap_session_follow_free(SessionFollow *follow);
int __wrap_session_follow_check(SessionFollow *follow);
int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr);
sd_event *__wrap_session_event(const Session *session);
int __wrap_session_end_status(const Session *session);
bool __wrap_session_is_ended(const Session *session);

int __wrap_node_pulls_new(const NodePullsOptions *options, NodePulls **ret) {
        NodePulls *node = calloc(1, sizeof(*node));

        *node = (NodePulls){ .options = *options, .name = strdup(options->node) };
        assert_true(server.n_nodes < NODES_MAX);
        server.nodes[server.n_nodes++] = *ret = node;
        return 0;
}

NodePulls *__wrap_node_pulls_free(NodePulls *node) {
        for (size_t i = 0; i < server.n_nodes; i++)
                if (server.nodes[i] == node)
                        server.nodes[i] = server.nodes[--server.n_nodes];
        free(node->name);
        free(node->agent);
        free(node->trouble);
        json_object_put(node->answer);
        free(node);
        return NULL;
}

const char *__wrap_node_pulls_name(const NodePulls *node) {
        return node->name;
}

bool __wrap_node_pulls_is_due(const NodePulls *node, uint64_t now_usec) {
        return !node->is_asked && !node->answer && !node->trouble;
}

bool __wrap_node_pulls_is_asked(const NodePulls *node) {
        return node->is_asked;
}

int __wrap_node_pulls_ask(NodePulls *node, const char *pod, const char *why, uint64_t now_usec) {
        node->is_asked = true;
        if (pod)
                node->agent = strdup(pod);
        return cluster_note("ask", &(KubePath){ .resource = node->name, .name = pod ?: why }, NULL);
}

json_object *__wrap_node_pulls_get(const NodePulls *node) {
        return node->answer;
}

const char *__wrap_node_pulls_trouble(const NodePulls *node) {
        return node->trouble;
}

const char *__wrap_node_pulls_new_trouble(NodePulls *node) {
        bool was_shown = node->is_shown;

        node->is_shown = node->trouble != NULL;
        return was_shown ? NULL : node->trouble;
}

SessionFollow *__wrap_session_follow_free(SessionFollow *follow) {
        return NULL;
}

int __wrap_session_follow_check(SessionFollow *follow) {
        return 0;
}

sd_event *__wrap_session_event(const Session *session) {
        return NULL;
}

int __wrap_session_end_status(const Session *session) {
        return server.is_ended ? EXIT_STATUS_SIGNAL + 2 : 0;
}

bool __wrap_session_is_ended(const Session *session) {
        return false;
}

int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr) {
        return __wrap_session_list(session, path, on_item, userdata, reterr);
}

int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret) {
        json_object *pods = json_get(cluster.objects, "pods", json_type_array);

        for (size_t i = 0; i < n_watches; i++)
                for (size_t k = 0; k < json_object_array_length(pods); k++) {
                        json_object *pod = json_object_array_get_idx(pods, k);
                        const KubePath path = { .fields = watches[i].fields,
                                                .labels = watches[i].labels };
                        const KubeObject object = { .namespace =
                                                            object_text(pod, "metadata.namespace"),
                                                    .name = object_name(pod),
                                                    .json = pod };

                        if (cluster_is_chosen(pod, &path) &&
                            (!watches[i].path.namespace ||
                             strcmp(watches[i].path.namespace, object.namespace) == 0))
                                assert_ok(watches[i].on_object(&object, watches[i].userdata));
                }
        *ret = (SessionFollow *) &server;
        return 0;
}

/* The nodes that were asked answer. */
static void answer(const char *text) {
        cleanup(json_object_put_p) json_object *answers = parse("%s", text);

        for (size_t i = 0; i < server.n_nodes; i++) {
                NodePulls *node = server.nodes[i];
                json_object *found = json_object_object_get(answers, node->name);

                if (!node->is_asked || !found)
                        continue;
                json_object_put(node->answer);
                node->answer =
                        json_object_is_type(found, json_type_array) ? json_object_get(found) : NULL;
                free(node->trouble);
                node->trouble = node->answer ? NULL : strdup(json_object_get_string(found));
                node->is_asked = node->answer && server.row->flags.watch;
                assert_ok(node->options.on_change(node->options.userdata));
        }
}

int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr) {
        if (is_done(userdata) == 1)
                return 0;
        answer(server.row->answers);
        if (is_done(userdata) == 1)
                return 0;
        assert_true(server.row->flags.watch);
        if (server.row->later) {
                answer(server.row->later);
                assert_int_equal(is_done(userdata), 0);
        }
        server.is_ended = true;
        return error_set(reterr, ERROR_CANCELED, "interrupted");
}

TEST_ROWS(test_pulls, rows, name, const struct Row *row) {
        Flags flags = row->flags;
        Played played;

        memset(&server, 0, sizeof(server));
        server.row = row;
        flags.arguments = (char **) row->arguments;
        while (row->arguments[flags.n_arguments])
                flags.n_arguments++;
        cluster.refused = row->refused;
        PLAY(&played, objects, kubectl_pulls(NULL, &flags));
        assert_int_equal(server.n_nodes, 0);
        assert_string_equal(cluster.writes, row->writes);
        assert_string_equal(played.out.text, row->out);
        assert_string_equal(played.err.text, row->err);
        assert_int_equal(played.status, row->status);
}
