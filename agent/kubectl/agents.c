/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/agents.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/text.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/workload.h"
#include "agent/image/image-ref.h"

#define AGENT_LABELS "app.kubernetes.io/name=inplaced"
#define AGENT_CONTAINER "inplaced"
#define AGENT_NAMESPACE "inplaced" /* where the manifests put it */
#define AGENT_MANAGER "inplaced"   /* name of the agent's writes in managedFields */
#define AGENT_VERSION_ANNOTATION "inplaced.io/agent-version"
#define AGENT_VERSION_MAX 64
#define AGENT_ANSWER_SEC 10

static void node_agent_free(NodeAgent *agent) {
        if (!agent)
                return;

        free(agent->node);
        free(agent->pod);
        free(agent->version);
        free(agent->trouble);
        free(agent);
}

void agents_done(Agents *agents) {
        for (size_t i = 0; i < agents->n_items; i++)
                node_agent_free(agents->items[i]);
        free(agents->items);
        error_done(&agents->error);
        *agents = AGENTS_INIT;
}

static int compare(const void *item, const void *key) {
        const NodeAgent *agent = item;

        return strcmp(agent->node, key);
}

const NodeAgent *agents_find(const Agents *agents, const char *node) {
        size_t at;

        return sorted_find(agents->items, agents->n_items, compare, node, &at) ? agents->items[at]
                                                                               : NULL;
}

static int agents_obtain(Agents *agents, const char *node, NodeAgent **ret) {
        NodeAgent *agent;
        size_t at;

        if (sorted_find(agents->items, agents->n_items, compare, node, &at)) {
                *ret = agents->items[at];
                return 0;
        }

        agent = calloc(1, sizeof(*agent));
        if (!agent)
                return -ENOMEM;
        if (text_copy(node, &agent->node) < 0 ||
            sorted_insert(&agents->items, &agents->n_items, at, agent) < 0) {
                free(agent->node);
                free(agent);
                return -ENOMEM;
        }

        *ret = agent;
        return 0;
}

/* The tag of its image; one of a digest alone says nothing. */
static int read_version(json_object *pod, NodeAgent *agent) {
        const char *image =
                json_get_text(json_find(object_at(pod, "spec.containers"), "name", AGENT_CONTAINER),
                              "image");
        const char *at = image ? strchr(image, '@') : NULL;
        cleanup(free_p) char *name =
                image ? strndup(image, at ? (size_t) (at - image) : strlen(image)) : NULL;
        ImageRef ref;

        if (!image)
                return 0;
        if (!name)
                return -ENOMEM;
        if (image_ref_parse(name, SHORT_NAMES_HUB, &ref, NULL) < 0 ||
            (at && !strchr(strrchr(name, '/') ?: name, ':')))
                return 0;

        return text_set(&agent->version, ref.tag);
}

/* Reads what the kubelet reports of the agent's container, else of the pod. */
static int read_trouble(json_object *pod, NodeAgent *agent) {
        json_object *status =
                json_find(object_at(pod, "status.containerStatuses"), "name", AGENT_CONTAINER);
        json_object *condition = json_find(object_at(pod, "status.conditions"), "type", "Ready");
        json_object *waiting = object_at(status, "state.waiting");
        json_object *last = object_at(status, "lastState.terminated");
        const char *reason =
                json_get_filled(waiting, "reason") ?: json_get_filled(condition, "reason");
        const char *message = json_get_filled(last, "message") ?: json_get_filled(waiting, "message")
                                      ?: json_get_filled(condition, "message");

        agent->is_ready = json_is(condition, "status", "True");
        if (agent->is_ready)
                return 0;

        free(take_ptr(agent->trouble));
        if (text_format(&agent->trouble, "%s%s%s", reason ?: "it is not ready", message ? ": " : "",
                        message ?: "") < 0)
                return -ENOMEM;

        return 0;
}

/* Any user can label a pod of theirs: no pod takes the place of one in the agents' own namespace. */
static bool is_outranked(const NodeAgent *agent, const char *name) {
        const char *home = AGENT_NAMESPACE "/";

        return agent->pod && strncmp(agent->pod, home, strlen(home)) == 0 &&
               strncmp(name, home, strlen(home)) != 0;
}

/* While one pod replaces another, a node may have two: the pod that is not being deleted counts. */
static int on_pod(json_object *pod, void *userdata) {
        const char *node = json_get_filled(object_at(pod, "spec"), "nodeName");
        Agents *agents = userdata;
        cleanup(free_p) char *name = NULL;
        NodeAgent *agent;
        int r;

        if (!node || object_is_deleted(pod))
                return 0;

        r = agents_obtain(agents, node, &agent);
        if (r < 0)
                return r;
        if (text_format(&name, "%s/%s", object_text(pod, "metadata.namespace") ?: "",
                        object_name(pod)) < 0)
                return -ENOMEM;
        if (is_outranked(agent, name))
                return 0;

        agent->has_pod = true;
        free(agent->pod);
        agent->pod = take_ptr(name);
        r = read_version(pod, agent);
        return r < 0 ? r : read_trouble(pod, agent);
}

/* Time of the last write: of the agent to the status, or of any client to the rest. */
static int64_t written_at(json_object *object, bool is_status) {
        json_object *fields = object_at(object, "metadata.managedFields");
        size_t n =
                json_object_is_type(fields, json_type_array) ? json_object_array_length(fields) : 0;
        int64_t latest = 0;

        for (size_t i = 0; i < n; i++) {
                json_object *entry = json_object_array_get_idx(fields, i);
                int64_t time = json_get_time(entry, "time");

                if (json_is(entry, "subresource", "status") == is_status &&
                    (!is_status || json_is(entry, "manager", AGENT_MANAGER)) && time > latest)
                        latest = time;
        }

        return latest;
}

/* Any user who may write NodeImages may have written it: a text that can be no version counts as none. */
static const char *version_of(json_object *object) {
        static const char characters[] =
                "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+~-";
        const char *version = json_get_filled(object_at(object, "metadata.annotations"),
                                              AGENT_VERSION_ANNOTATION);

        return version && strlen(version) <= AGENT_VERSION_MAX &&
                               strspn(version, characters) == strlen(version)
                       ? version
                       : NULL;
}

static bool is_taken_up(json_object *status, const char *tag, int64_t version) {
        json_object *found = json_find(json_get(status, "tags", json_type_array), "tag", tag);

        return found && json_get_integer(found, "version") == version;
}

static bool has_open_request(json_object *object) {
        json_object *images = object_at(object, "spec.images");
        json_object *statuses = object_at(object, "status.imageStatuses");

        if (!json_object_is_type(images, json_type_object))
                return false;

        json_object_object_foreach(images, name, image) {
                json_object *status = json_get(statuses, name, json_type_object);
                json_object *tags = json_get(image, "tags", json_type_array);

                for (size_t i = 0; tags && i < json_object_array_length(tags); i++) {
                        json_object *tag = json_object_array_get_idx(tags, i);

                        if (!is_taken_up(status, json_get_text(tag, "tag"),
                                         json_get_integer(tag, "version")))
                                return true;
                }
        }
        return false;
}

/* An agent that has written since the request has seen it, and leaves out only invalid entries. All times are the server's. */
static bool is_silent(json_object *object, int64_t wrote_at, int64_t now_sec) {
        int64_t asked_at = written_at(object, /* is_status= */ false);

        return asked_at > wrote_at && now_sec - asked_at > AGENT_ANSWER_SEC &&
               has_open_request(object);
}

typedef struct Reading {
        const Session *session;
        Agents *agents;
} Reading;

/* Is called after on_pod(): the version that a pod names has precedence. */
static int on_node_image(json_object *object, void *userdata) {
        const Reading *reading = userdata;
        int64_t wrote_at = written_at(object, /* is_status= */ true);
        NodeAgent *agent;
        int r;

        if (wrote_at == 0)
                return 0;

        r = agents_obtain(reading->agents, object_name(object), &agent);
        if (r < 0)
                return r;

        agent->wrote_at = wrote_at;
        agent->is_silent = is_silent(object, wrote_at, session_server_sec(reading->session));
        return agent->has_pod ? 0 : text_set(&agent->version, version_of(object));
}

/* Leaves unknown what the user may not read, or what need not be known, and keeps the first reason. */
static int note_missing(const Reading *reading, bool is_needed, int r, Error *error,
                        Error *reterr) {
        Agents *agents = reading->agents;

        if (error->kind == ERROR_NONE)
                return r;
        if (error->kind != ERROR_DENIED && error->kind != ERROR_NOT_FOUND &&
            (is_needed || session_is_ended(reading->session)))
                return error_copy(reterr, error);
        if (agents->error.kind == ERROR_NONE)
                (void) error_copy(&agents->error, error);

        return 0;
}

int agents_read(Session *session, const char *node_image_version, bool must_answer, Agents *ret,
                Error *reterr) {
        cleanup(agents_done) Agents agents = AGENTS_INIT;
        cleanup(error_done) Error pods_error = ERROR_INIT;
        cleanup(error_done) Error images_error = ERROR_INIT;
        const KubePath pods = { .version = "v1", .resource = "pods", .labels = AGENT_LABELS };
        const KubePath images = { .group = "apps.kruise.io",
                                  .version = node_image_version,
                                  .resource = "nodeimages" };
        Reading reading = { .session = session, .agents = &agents };
        int r;

        r = session_list(session, &pods, on_pod, &agents, &pods_error);
        r = note_missing(&reading, must_answer, r, &pods_error, reterr);
        if (r < 0)
                return r;

        if (node_image_version) {
                r = (must_answer ? session_list : session_list_metadata)(session, &images,
                                                                         on_node_image, &reading,
                                                                         &images_error);
                r = note_missing(&reading, must_answer, r, &images_error, reterr);
                if (r < 0)
                        return r;
        }

        *ret = agents;
        agents = AGENTS_INIT;
        return 0;
}

int agents_read_pods(Session *session, const char *namespace, Agents *ret, Error *reterr) {
        cleanup(agents_done) Agents agents = AGENTS_INIT;
        KubePath path = {
                .version = "v1", .namespace = namespace, .resource = "pods", .labels = AGENT_LABELS
        };
        int r;

        r = session_list(session, &path, on_pod, &agents, &agents.error);
        if (agents.error.kind == ERROR_DENIED && !namespace) {
                error_done(&agents.error);
                path.namespace = AGENT_NAMESPACE;
                r = session_list(session, &path, on_pod, &agents, &agents.error);
        }
        if (agents.error.kind != ERROR_NONE && agents.error.kind != ERROR_DENIED)
                return error_copy(reterr, &agents.error);
        if (r < 0 && agents.error.kind == ERROR_NONE)
                return r;

        *ret = agents;
        agents = AGENTS_INIT;
        return 0;
}

const char *node_agent_describe(const NodeAgent *agent, char *buffer, size_t size) {
        if (!agent)
                return "-";
        if (!agent->has_pod)
                return agent->version ?: "yes";

        (void) snprintf(buffer, size, "%s%s", agent->version ?: "yes",
                        agent->is_ready ? "" : " (not ready)");
        return buffer;
}
