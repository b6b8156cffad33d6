/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl inplace pulls
 *
 * Pods are watched also where the pulls are shown once: when the first answer is complete, it is known which nodes have
 * pods that wait for an image. Only the agents of these nodes are asked.
 */

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/clock.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/agents.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/node-pulls.h"
#include "agent/kubectl/pod-choice.h"
#include "agent/kubectl/pulls-plan.h"
#include "agent/view/changes.h"
#include "agent/view/output.h"
#include "agent/view/pulls-view.h"
#include "agent/view/terminal.h"

/* A pod that waits for an image, or has waited for one since the command began. */
typedef struct WaitingPod {
        char *name; /* "shop/web-0" */
        char *node;
        bool is_waiting;
} WaitingPod;

/* A node that is asked, or is to be. */
typedef struct Node {
        NodePulls *pulls;
        bool is_wanted;
        bool is_left_out; /* because too many are asked */
} Node;

typedef struct Pulls Pulls;

typedef struct Choice {
        Pulls *pulls;
        PodChoice pods;
        size_t n; /* pods so far */
} Choice;

struct Pulls {
        Session *session;
        const Flags *flags;
        Choice choices[SESSION_WATCHES_MAX];
        size_t n_choices;
        SessionFollow *follow;
        WaitingPod **pods; /* sorted */
        size_t n_pods;
        Node **nodes; /* sorted */
        size_t n_nodes;
        Agents agents;
        uint64_t agents_usec; /* when they were read; 0: not yet */
        PullsView *view;      /* NULL: documents, or names */
        Changes names;        /* names that were printed */
        bool are_nodes_named; /* their pulls are shown even if no pod waits */
        bool needs_agents, is_over, has_changed, has_begun;
        size_t n_left_out; /* nodes that the last line about it names */
};

static WaitingPod *waiting_pod_free(WaitingPod *pod) {
        free(pod->name);
        free(pod->node);
        free(pod);
        return NULL;
}

static Node *node_free(Node *node) {
        node_pulls_free(node->pulls);
        free(node);
        return NULL;
}

static void pulls_done(Pulls *pulls) {
        session_follow_free(pulls->follow);
        for (size_t i = 0; i < pulls->n_choices; i++)
                pod_choice_done(&pulls->choices[i].pods);
        for (size_t i = 0; i < pulls->n_pods; i++)
                waiting_pod_free(pulls->pods[i]);
        for (size_t i = 0; i < pulls->n_nodes; i++)
                node_free(pulls->nodes[i]);
        free(pulls->pods);
        free(pulls->nodes);
        agents_done(&pulls->agents);
        pulls_view_free(pulls->view);
        changes_done(&pulls->names);
}

static int compare_pod(const void *item, const void *key) {
        const WaitingPod *pod = item;

        return strcmp(pod->name, key);
}

static int compare_node(const void *item, const void *key) {
        const Node *node = item;

        return strcmp(node_pulls_name(node->pulls), key);
}

static int on_change(void *userdata) {
        Pulls *pulls = userdata;

        pulls->has_changed = true;
        return pulls->follow ? session_follow_check(pulls->follow) : 0;
}

static int want_node(Pulls *pulls, const char *name) {
        const NodePullsOptions options = { .event = session_event(pulls->session),
                                           .flags = pulls->flags,
                                           .node = name,
                                           .on_change = on_change,
                                           .userdata = pulls };
        Node *node;
        size_t at;

        if (sorted_find(pulls->nodes, pulls->n_nodes, compare_node, name, &at)) {
                pulls->nodes[at]->is_wanted = true;
                return 0;
        }

        node = calloc(1, sizeof(*node));
        if (!node)
                return -ENOMEM;
        node->is_wanted = true;
        if (node_pulls_new(&options, &node->pulls) < 0 ||
            sorted_insert(&pulls->nodes, &pulls->n_nodes, at, node) < 0) {
                node_free(node);
                return -ENOMEM;
        }
        return 0;
}

static int note_pod(Pulls *pulls, const char *name, json_object *pod) {
        const char *node = object_text(pod, "spec.nodeName");
        const bool is_waiting = pod_awaits_image(pod);
        WaitingPod *waiting;
        size_t at;

        if (sorted_find(pulls->pods, pulls->n_pods, compare_pod, name, &at)) {
                pulls->pods[at]->is_waiting = is_waiting;
                return text_set(&pulls->pods[at]->node, node);
        }
        if (!is_waiting)
                return 0;

        waiting = calloc(1, sizeof(*waiting));
        if (!waiting)
                return -ENOMEM;
        waiting->is_waiting = true;
        if (text_copy(name, &waiting->name) < 0 || text_copy(node, &waiting->node) < 0 ||
            sorted_insert(&pulls->pods, &pulls->n_pods, at, waiting) < 0) {
                waiting_pod_free(waiting);
                return -ENOMEM;
        }
        return 0;
}

static int on_pod(const KubeObject *object, void *userdata) {
        cleanup(free_p) char *name = NULL;
        Choice *choice = userdata;

        choice->n++;
        return text_format(&name, "%s/%s", object->namespace, object->name) < 0
                       ? -ENOMEM
                       : note_pod(choice->pulls, name, object->json);
}

static int on_pod_gone(const KubeObject *object, void *userdata) {
        cleanup(free_p) char *name = NULL;
        const Choice *choice = userdata;
        Pulls *pulls = choice->pulls;
        size_t at;

        if (text_format(&name, "%s/%s", object->namespace, object->name) < 0)
                return -ENOMEM;
        if (sorted_find(pulls->pods, pulls->n_pods, compare_pod, name, &at)) {
                waiting_pod_free(pulls->pods[at]);
                sorted_remove(pulls->pods, &pulls->n_pods, at);
        }
        return 0;
}

static bool has_all(const Pulls *pulls) {
        return pulls->are_nodes_named || pulls->flags->all_namespaces;
}

/* name: "shop/web-0" */
static bool is_chosen(const Pulls *pulls, json_object *name) {
        const char *text = json_object_get_string(name);
        size_t at;

        return has_all(pulls) ||
               (text && sorted_find(pulls->pods, pulls->n_pods, compare_pod, text, &at));
}

/* A pull of a node that was asked for pods is shown for a pod that was chosen, or if nothing tells for which one it is. */
static bool is_shown(const Pulls *pulls, json_object *pull) {
        json_object *pods = json_get(pull, "pods", json_type_array);
        size_t n = pods ? json_object_array_length(pods) : 0;

        for (size_t i = 0; i < n; i++)
                if (is_chosen(pulls, json_object_array_get_idx(pods, i)))
                        return true;
        return has_all(pulls) || (n == 0 && !pull_is_of_agent(pull));
}

/* Others may wait for the same pull. */
static int add_pods(const Pulls *pulls, json_object *pods, json_object *item) {
        json_object *chosen = json_object_new_array();
        int r = patch_add(item, "pods", chosen);

        for (size_t i = 0; r >= 0 && i < json_object_array_length(pods); i++) {
                json_object *name = json_object_array_get_idx(pods, i);

                if (name && is_chosen(pulls, name))
                        r = patch_append(chosen, json_object_get(name));
        }
        return r;
}

static int add_item(const Pulls *pulls, json_object *items, const char *node, json_object *pull) {
        cleanup(json_object_put_p) json_object *item =
                patch_wrap("node", json_object_new_string(node));
        json_object *pods = json_get(pull, "pods", json_type_array);
        int r = item ? 0 : -ENOMEM;

        json_object_object_foreach(pull, key, value) {
                if (r >= 0 && value)
                        r = value == pods ? add_pods(pulls, pods, item)
                                          : patch_add(item, key, json_object_get(value));
        }
        return r < 0 ? r : patch_append(items, take_ptr(item));
}

static int add_items(const Pulls *pulls, const Node *node, json_object *items) {
        json_object *found = node_pulls_get(node->pulls);
        size_t n = found ? json_object_array_length(found) : 0;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++) {
                json_object *pull = json_object_array_get_idx(found, i);

                if (json_object_is_type(pull, json_type_object) && is_shown(pulls, pull))
                        r = add_item(pulls, items, node_pulls_name(node->pulls), pull);
        }
        return r;
}

/* The pods that wait, each once. */
static int print_names(Pulls *pulls, json_object *items) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(items); i++) {
                json_object *pods =
                        json_get(json_object_array_get_idx(items, i), "pods", json_type_array);
                size_t n = pods ? json_object_array_length(pods) : 0;

                for (size_t k = 0; r >= 0 && k < n; k++) {
                        const char *name =
                                json_object_get_string(json_object_array_get_idx(pods, k));

                        r = name ? changes_note(&pulls->names, name, "", 0) : 0;
                        if (r > 0)
                                r = print_safe("pod/%s", (strchr(name, '/') ?: name - 1) + 1);
                }
        }
        return r;
}

static int print_items(Pulls *pulls, json_object *items) {
        cleanup(json_object_put_p) json_object *tree = NULL;

        if (pulls->view)
                return pulls_view_show(pulls->view, items);
        if (pulls->flags->wants_names)
                return print_names(pulls, items);

        tree = patch_wrap("items", json_object_get(items));
        if (!tree)
                return -ENOMEM;
        if (pulls->has_begun && pulls->flags->format == OUTPUT_YAML)
                puts("---");
        return output_tree(pulls->flags->format, tree);
}

static void print_line(const Pulls *pulls, const char *text) {
        if (pulls->view)
                pulls_view_leave(pulls->view);
        complain("%s", text);
}

static void print_left_out(Pulls *pulls, size_t n) {
        char text[128];

        if (n > pulls->n_left_out) {
                (void) snprintf(
                        text, sizeof(text),
                        "%d nodes are followed at a time: %zu more are left out; choose with --nodes",
                        NODE_PULLS_MAX, n);
                print_line(pulls, text);
        }
        pulls->n_left_out = n;
}

static int show(Pulls *pulls) {
        cleanup(json_object_put_p) json_object *items = json_object_new_array();
        size_t n_left_out = 0;
        int r = items ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < pulls->n_nodes; i++) {
                const char *trouble = node_pulls_new_trouble(pulls->nodes[i]->pulls);

                if (trouble)
                        print_line(pulls, trouble);
                n_left_out += pulls->nodes[i]->is_left_out;
                r = add_items(pulls, pulls->nodes[i], items);
        }
        if (r < 0)
                return r;

        print_left_out(pulls, n_left_out);
        r = print_items(pulls, items);
        pulls->has_begun = true;
        pulls->has_changed = false;
        return r < 0 ? r : fflush(stdout) != 0 ? -errno : 0;
}

/* Wants the nodes of waiting pods, and forgets those that nothing waits on any more. */
static int choose_nodes(Pulls *pulls) {
        int r = 0;

        if (pulls->are_nodes_named)
                return 0;
        for (size_t i = 0; i < pulls->n_nodes; i++)
                pulls->nodes[i]->is_wanted = false;
        for (size_t i = 0; r >= 0 && i < pulls->n_pods; i++)
                if (pulls->pods[i]->is_waiting)
                        r = want_node(pulls, pulls->pods[i]->node);
        for (size_t i = pulls->n_nodes; pulls->flags->watch && i > 0; i--) {
                Node *node = pulls->nodes[i - 1];

                if (node->is_wanted || node_pulls_is_asked(node->pulls))
                        continue;
                pulls->has_changed = true;
                sorted_remove(pulls->nodes, &pulls->n_nodes, i - 1);
                node_free(node);
        }
        return r;
}

/* After trouble, a node's agent may have become another pod. */
static bool knows_agent(const Pulls *pulls, const Node *node, uint64_t now_usec) {
        return pulls->agents_usec > 0 &&
               (!node_pulls_trouble(node->pulls) || now_usec - pulls->agents_usec < USEC_PER_SEC);
}

static int ask_node(Pulls *pulls, Node *node, uint64_t now_usec) {
        const NodeAgent *agent = agents_find(&pulls->agents, node_pulls_name(node->pulls));

        if (!knows_agent(pulls, node, now_usec)) {
                pulls->needs_agents = true;
                return 0;
        }
        return node_pulls_ask(node->pulls, agent ? agent->pod : NULL,
                              pulls->agents.error.kind == ERROR_NONE
                                      ? NULL
                                      : error_message(&pulls->agents.error),
                              now_usec);
}

static int ask_nodes(Pulls *pulls, bool *ret_has_answers) {
        const uint64_t now_usec = clock_monotonic_usec();
        size_t n_asked = 0;
        int r = 0;

        *ret_has_answers = true;
        for (size_t i = 0; i < pulls->n_nodes; i++)
                n_asked += node_pulls_is_asked(pulls->nodes[i]->pulls);
        for (size_t i = 0; r >= 0 && i < pulls->n_nodes; i++) {
                Node *node = pulls->nodes[i];
                const bool is_asked = node_pulls_is_asked(node->pulls);
                const bool is_due = node->is_wanted && node_pulls_is_due(node->pulls, now_usec);

                node->is_left_out = is_due && !is_asked && n_asked >= NODE_PULLS_MAX;
                if (is_due && !node->is_left_out) {
                        r = ask_node(pulls, node, now_usec);
                        n_asked += !is_asked;
                }
                if (node->is_wanted && (is_due || node_pulls_is_asked(node->pulls)))
                        *ret_has_answers = false;
        }
        return r;
}

/* 1: the agents are to be read, or all was shown. */
static int on_turn(void *userdata) {
        Pulls *pulls = userdata;
        bool has_answers;
        int r = choose_nodes(pulls);

        if (r >= 0)
                r = ask_nodes(pulls, &has_answers);
        if (r < 0 || pulls->needs_agents)
                return r < 0 ? r : 1;
        if (pulls->flags->watch)
                return pulls->has_changed || !pulls->has_begun ? show(pulls) : 0;

        pulls->is_over = has_answers;
        return has_answers;
}

static int follow(Pulls *pulls, Error *reterr) {
        const char *namespace =
                pulls->flags->all_namespaces ? NULL : session_namespace(pulls->session);
        SessionWatch watches[SESSION_WATCHES_MAX];
        int r;

        for (size_t i = 0; i < pulls->n_choices; i++)
                watches[i] = (SessionWatch){
                        .path = { .version = "v1", .namespace = namespace, .resource = "pods" },
                        .fields = pulls->choices[i].pods.fields,
                        .labels = pulls->choices[i].pods.labels,
                        .on_object = on_pod,
                        .on_gone = on_pod_gone,
                        .userdata = &pulls->choices[i],
                };
        r = session_follow_new(pulls->session, watches, pulls->n_choices, pulls, &pulls->follow);
        while (r >= 0 && !pulls->is_over) {
                r = session_follow_wait(pulls->follow, on_turn, NULL, pulls, reterr);
                if (r < 0 || !pulls->needs_agents)
                        continue;
                agents_done(&pulls->agents);
                r = agents_read_pods(pulls->session, pulls->flags->agent_namespace, &pulls->agents,
                                     reterr);
                pulls->agents_usec = clock_monotonic_usec();
                pulls->needs_agents = false;
        }
        return r;
}

static int on_node(json_object *node, void *userdata) {
        return want_node(userdata, object_name(node));
}

static int name_nodes(Pulls *pulls, Error *reterr) {
        const KubePath path = { .version = "v1",
                                .resource = "nodes",
                                .labels = pulls->flags->selector };
        cleanup(free_p) char *names = NULL;
        char *rest;
        int r = text_copy(pulls->flags->nodes, &names);

        if (!names)
                return r < 0 ? r
                             : session_list_metadata(pulls->session, &path, on_node, pulls, reterr);

        rest = names;
        for (char *name; r >= 0 && (name = strsep(&rest, ","));)
                if (name[0])
                        r = want_node(pulls, name);
        return r;
}

static int choose_pods(Pulls *pulls, Error *reterr) {
        const size_t n = (size_t) pulls->flags->n_arguments;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < (n > 0 ? n : 1); i++) {
                Choice *choice = &pulls->choices[pulls->n_choices++];

                choice->pulls = pulls;
                r = n > 0 ? pod_choice_of_name(pulls->session, pulls->flags->arguments[i],
                                               &choice->pods, reterr)
                          : pod_choice_of_labels(/* selector= */ NULL, &choice->pods);
        }
        return r;
}

/* Complains of what failed, and returns the exit status. */
static int finish(Pulls *pulls) {
        size_t n_failed = 0, n_answered = 0;
        int r;

        for (size_t i = 0; i < pulls->n_choices; i++)
                if (pulls->choices[i].n == 0 && pulls->choices[i].pods.fields) {
                        complain("pods \"%s\" not found in namespace %s",
                                 pulls->choices[i].pods.name, session_namespace(pulls->session));
                        n_failed++;
                }
        if (pulls->are_nodes_named && pulls->n_nodes == 0) {
                if (pulls->flags->selector)
                        complain("no node has the labels \"%s\"; see: kubectl get nodes",
                                 pulls->flags->selector);
                else
                        complain("--nodes names no node");
                n_failed++;
        }
        for (size_t i = 0; i < pulls->n_nodes; i++) {
                n_failed += node_pulls_trouble(pulls->nodes[i]->pulls) != NULL;
                n_answered += node_pulls_get(pulls->nodes[i]->pulls) != NULL;
        }

        r = show(pulls);
        if (r < 0)
                return r;
        return exit_status_of(n_failed > 0, n_answered > 0);
}

static bool check(const Flags *flags) {
        const bool has_nodes = flags->nodes || flags->selector;

        if (flags->nodes && flags->selector)
                complain("--nodes and a selector exclude each other");
        else if (has_nodes && (flags->n_arguments > 0 || flags->all_namespaces))
                complain("nodes exclude names of pods and --all-namespaces");
        else if (flags->all_namespaces && flags->n_arguments > 0)
                complain("a name and --all-namespaces exclude each other");
        else if (flags->n_arguments > SESSION_WATCHES_MAX)
                complain("there may be up to %d names: ask for the others by another command",
                         SESSION_WATCHES_MAX);
        else
                return true;

        return false;
}

int kubectl_pulls(Session *session, const Flags *flags) {
        cleanup(pulls_done) Pulls pulls = { .session = session,
                                            .flags = flags,
                                            .are_nodes_named = flags->nodes || flags->selector };
        cleanup(error_done) Error error = ERROR_INIT;
        int r = 0;

        if (!check(flags))
                return EXIT_STATUS_USAGE;

        if (!output_is_document(flags->format) && !flags->wants_names)
                r = pulls_view_new(flags->format, flags->watch, /* has_nodes= */ true, &pulls.view);
        if (r >= 0)
                r = pulls.are_nodes_named ? name_nodes(&pulls, &error)
                                          : choose_pods(&pulls, &error);
        if (r >= 0)
                r = follow(&pulls, &error);
        if (r >= 0 && error.kind == ERROR_NONE)
                return finish(&pulls);
        if (flags->watch && session_end_status(session) > 0)
                return session_end_status(session);

        return session_fail(session, r, &error);
}
