/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-controller-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/document/documents.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

#define GATE "KruisePodReady"
#define USER_AGENT "ContainerRecreateRequest"
#define WRITERS_MAX 1024

/* {"metadata":{"resourceVersion":"7"}}; NULL: no memory. */
static struct json_object *new_patch(const char *version, struct json_object **ret_metadata) {
        struct json_object *metadata =
                patch_wrap("resourceVersion", json_object_new_string(version));
        struct json_object *patch = metadata ? patch_wrap("metadata", metadata) : NULL;

        *ret_metadata = metadata;
        return patch;
}

static int add_labels(struct json_object *metadata, const Pod *pod, const char *node_name) {
        cleanup(json_object_put_p) json_object *labels = json_object_new_object();

        if (patch_add_text(labels, RECREATE_LABEL_NODE, node_name) < 0 ||
            patch_add_text(labels, RECREATE_LABEL_ACTIVE, "true") < 0 ||
            patch_add_text(labels, RECREATE_LABEL_POD_UID, pod->uid) < 0 ||
            patch_add_text(labels, RECREATE_LABEL_MANAGED, "true") < 0)
                return -ENOMEM;

        return patch_add(metadata, "labels", take_ptr(labels));
}

static bool is_there(struct json_object *object, const char *key) {
        struct json_object *value;

        return json_object_object_get_ex(object, key, &value) && value;
}

static int add_strategy(struct json_object *spec, struct json_object *old, const Pod *pod) {
        cleanup(json_object_put_p) json_object *strategy = json_object_new_object();

        if (!strategy)
                return -ENOMEM;
        if (!is_there(old, "failurePolicy") &&
            patch_add_text(strategy, "failurePolicy", "Fail") < 0)
                return -ENOMEM;
        if (!is_there(old, "terminationGracePeriodSeconds") &&
            patch_add(strategy, "terminationGracePeriodSeconds",
                      json_object_new_int64(pod->grace_sec)) < 0)
                return -ENOMEM;

        return json_object_object_length(strategy) > 0
                       ? patch_add(spec, "strategy", take_ptr(strategy))
                       : 0;
}

/* Copies the container and adds its current state. */
static int make_container(struct json_object *old, const Pod *pod, struct json_object **ret) {
        cleanup(json_object_put_p) json_object *copy = json_object_new_object();
        cleanup(json_object_put_p) json_object *context = NULL;
        const char *name = json_get_filled(old, "name");
        const PodContainer *container = name ? pod_find(pod, name) : NULL;
        int r;

        if (!copy)
                return -ENOMEM;

        json_object_object_foreach(old, key, value) {
                /* An explicit null counts as absent. */
                r = value && strcmp(key, "statusContext") != 0
                            ? patch_add(copy, key, json_object_get(value))
                            : 0;
                if (r < 0)
                        return r;
        }

        if (container && container->container_id[0]) {
                context =
                        patch_wrap("containerID", json_object_new_string(container->container_id));
                if (patch_add(context, "restartCount",
                              json_object_new_int(container->restart_count)) < 0 ||
                    patch_add(copy, "statusContext", take_ptr(context)) < 0)
                        return -ENOMEM;
        }

        *ret = take_ptr(copy);
        return 0;
}

static int add_containers(struct json_object *spec, struct json_object *old, const Pod *pod) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        int r;

        if (!list)
                return -ENOMEM;

        for (size_t i = 0; i < json_object_array_length(old); i++) {
                struct json_object *item = json_object_array_get_idx(old, i), *made = NULL;

                r = json_object_is_type(item, json_type_object) ? make_container(item, pod, &made)
                                                                : 0;
                if (r < 0)
                        return r;
                /* An item that is no container stays as it is, even null. */
                if (json_object_array_add(list, made ?: json_object_get(item)) < 0) {
                        json_object_put(made ?: item);
                        return -ENOMEM;
                }
        }

        return patch_add(spec, "containers", take_ptr(list));
}

int recreate_controller_adopt(struct json_object *old, const char *version, const Pod *pod,
                              const char *node_name, bool has_begun, struct json_object **ret) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        struct json_object *containers = json_get(old, "containers", json_type_array);
        struct json_object *metadata, *spec = json_object_new_object();
        int r;

        patch = new_patch(version, &metadata);
        if (patch_add(patch, "spec", spec) < 0)
                return -ENOMEM;

        r = add_labels(metadata, pod, node_name);
        if (r >= 0)
                r = add_strategy(spec, json_get(old, "strategy", json_type_object), pod);
        if (r >= 0 && !has_begun && containers &&
            json_object_array_length(containers) <= RECREATE_CONTAINERS_MAX)
                r = add_containers(spec, containers, pod);
        if (r < 0)
                return r;

        *ret = take_ptr(patch);
        return 0;
}

static int make_drained(int64_t now_sec, struct json_object **ret) {
        cleanup(json_object_put_p) json_object *condition =
                patch_wrap("type", json_object_new_string(RECREATE_CONDITION_DRAINED));
        char time[RFC3339_SIZE];

        if (patch_add_text(condition, "status", "True") < 0 ||
            patch_add_text(condition, "lastTransitionTime", rfc3339_format(now_sec, time)) < 0 ||
            patch_add_text(condition, "reason", RECREATE_CONDITION_DRAINED) < 0)
                return -ENOMEM;

        *ret = take_ptr(condition);
        return 0;
}

/* The patch replaces the whole list, so it has to contain the conditions of others. */
static int make_conditions(struct json_object *old, int64_t now_sec, struct json_object **ret) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        struct json_object *ours;
        int r;

        if (!list)
                return -ENOMEM;

        for (size_t i = 0; old && i < json_object_array_length(old); i++) {
                struct json_object *item = json_object_array_get_idx(old, i);

                if (!item || json_is(item, "type", RECREATE_CONDITION_DRAINED))
                        continue;
                r = patch_append(list, json_object_get(item));
                if (r < 0)
                        return r;
        }
        r = make_drained(now_sec, &ours);
        if (r < 0)
                return r;
        r = patch_append(list, ours);
        if (r < 0)
                return r;

        *ret = take_ptr(list);
        return 0;
}

static int parse_conditions(const char *text, struct json_object **ret) {
        static const JsonLimits limits = { .size = INT_MAX, .depth = 128 }; /* limits of a watch */

        *ret = NULL;
        return text ? json_parse_any(text, strlen(text), limits, ret) : 0;
}

int recreate_controller_drain(const RecreateSpec *spec, RecreateDialect dialect, int64_t now_sec,
                              struct json_object **ret) {
        cleanup(json_object_put_p) json_object *patch = NULL, *old = NULL;
        struct json_object *metadata, *conditions;
        char time[RFC3339_SIZE];
        int r;

        patch = new_patch(spec->version, &metadata);
        if (!patch)
                return -ENOMEM;

        if (dialect == RECREATE_V1ALPHA1) {
                r = patch_add(metadata, "annotations",
                              patch_wrap(RECREATE_ANNOTATION_DRAINED,
                                         json_object_new_string(rfc3339_format(now_sec, time))));
        } else {
                r = parse_conditions(spec->conditions, &old);
                if (r >= 0)
                        r = make_conditions(old, now_sec, &conditions);
                if (r >= 0)
                        r = patch_add(patch, "status", patch_wrap("conditions", conditions));
        }
        if (r < 0)
                return r;

        *ret = take_ptr(patch);
        return 0;
}

/* A container without a context did not exist when the request was prepared. */
static bool runs_anew(const RecreateContainer *container, const PodContainer *in_pod) {
        return in_pod && in_pod->is_running && in_pod->container_id[0] &&
               (!container->context_id || strcmp(container->context_id, in_pod->container_id) != 0);
}

static int add_snapshot(struct json_object *list, const PodContainer *container) {
        cleanup(json_object_put_p) json_object *entry = json_object_new_object();

        if (patch_add_text(entry, "name", container->name) < 0 ||
            patch_add_bool(entry, "ready", container->is_ready) < 0 ||
            patch_add(entry, "restartCount", json_object_new_int(container->restart_count)) < 0 ||
            patch_add_text(entry, "containerID", container->container_id) < 0)
                return -ENOMEM;

        return patch_append(list, take_ptr(entry));
}

int recreate_controller_snapshot(const RecreateSpec *spec, const Pod *pod,
                                 struct json_object **ret) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        int r;

        if (!list)
                return -ENOMEM;

        for (size_t i = 0; i < spec->n_containers; i++) {
                const PodContainer *container = pod_find(pod, spec->containers[i].name);

                r = runs_anew(&spec->containers[i], container) ? add_snapshot(list, container) : 0;
                if (r < 0)
                        return r;
        }

        *ret = json_object_array_length(list) > 0 ? take_ptr(list) : NULL;
        return 0;
}

int recreate_controller_unlabel(const RecreateSpec *spec, struct json_object **ret) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(json_object_put_p) json_object *labels = json_object_new_object();
        struct json_object *metadata;

        patch = new_patch(spec->version, &metadata);
        if (!patch || patch_add_null(labels, RECREATE_LABEL_ACTIVE) < 0 ||
            patch_add(metadata, "labels", take_ptr(labels)) < 0)
                return -ENOMEM;

        *ret = take_ptr(patch);
        return 0;
}

/* The pod's readiness gate */

static struct json_object *find_condition(struct json_object *pod) {
        struct json_object *status = json_get(pod, "status", json_type_object);
        struct json_object *list = json_get(status, "conditions", json_type_array);

        return json_find(list, "type", GATE);
}

/* Returns the list of writers that keep the pod unready; NULL: the message has none. */
static struct json_object *get_writers(const Documents *documents) {
        return documents->n_items == 1 && json_object_is_type(documents->items[0], json_type_array)
                       ? documents->items[0]
                       : NULL;
}

static int parse_writers(const char *message, Documents *ret) {
        cleanup(error_done) Error ignored = ERROR_INIT;
        int r;

        r = message ? documents_parse(message, strlen(message), ret, &ignored) : 0;
        return r < 0 && ignored.kind == ERROR_NONE ? r : 0;
}

static size_t count_writers(struct json_object *writers) {
        size_t n = writers ? json_object_array_length(writers) : 0;

        return n < WRITERS_MAX ? n : WRITERS_MAX;
}

/* Copies the writers that keep the pod unready, except this request; *ret_is_listed: it was among
 * them. */
static int read_writers(const char *message, const char *key, struct json_object *list,
                        bool *ret_is_listed) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        struct json_object *writers;
        bool is_listed = false;
        int r;

        r = parse_writers(message, &documents);
        if (r < 0)
                return r;

        writers = get_writers(&documents);
        for (size_t i = 0; i < count_writers(writers); i++) {
                struct json_object *item = json_object_array_get_idx(writers, i);

                if (json_is(item, "userAgent", USER_AGENT) && json_is(item, "key", key)) {
                        is_listed = true;
                        continue;
                }
                r = item ? patch_append(list, json_object_get(item)) : 0;
                if (r < 0)
                        return r;
        }

        *ret_is_listed = is_listed;
        return 0;
}

/* Returns the name in "NAMESPACE/NAME", if the namespace is this one. */
static const char *find_name(struct json_object *item, const char *namespace) {
        const char *key = json_get_filled(item, "key");
        size_t size = strlen(namespace);

        return json_is(item, "userAgent", USER_AGENT) && key &&
                               strncmp(key, namespace, size) == 0 && key[size] == '/' &&
                               key[size + 1]
                       ? key + size + 1
                       : NULL;
}

int recreate_gate_requests(const Pod *pod, char ***ret) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(texts_free_p) char **names = NULL;
        struct json_object *writers;
        size_t n = 0;
        int r;

        r = parse_writers(pod->kruise_message, &documents);
        if (r < 0)
                return r;

        writers = get_writers(&documents);
        names = calloc(count_writers(writers) + 1, sizeof(names[0]));
        if (!names)
                return -ENOMEM;

        for (size_t i = 0; i < count_writers(writers); i++) {
                const char *name = find_name(json_object_array_get_idx(writers, i), pod->namespace);

                if (!name)
                        continue;
                if (text_copy(name, &names[n++]) < 0)
                        return -ENOMEM;
        }

        *ret = take_ptr(names);
        return 0;
}

bool recreate_gate_may_be_of(const RecreateSpec *spec, const char *pod_name) {
        return !spec->status.is_completed && spec->unready_sec >= 0 && spec->pod_name &&
               strcmp(spec->pod_name, pod_name) == 0;
}

static int add_writer(struct json_object *list, const char *key) {
        cleanup(json_object_put_p) json_object *writer =
                patch_wrap("userAgent", json_object_new_string(USER_AGENT));

        if (patch_add_text(writer, "key", key) < 0)
                return -ENOMEM;

        return patch_append(list, take_ptr(writer));
}

static int make_gate(struct json_object *writers, int64_t now_sec, struct json_object **ret) {
        bool is_ready = json_object_array_length(writers) == 0;
        cleanup(json_object_put_p) json_object *gate =
                patch_wrap("type", json_object_new_string(GATE));
        const char *message = is_ready ? "" : json_to_text(writers);
        char time[RFC3339_SIZE];

        if (!gate || !message || patch_add_text(gate, "status", is_ready ? "True" : "False") < 0 ||
            patch_add_text(gate, "lastTransitionTime", rfc3339_format(now_sec, time)) < 0 ||
            patch_add_text(gate, "message", message) < 0)
                return -ENOMEM;

        *ret = take_ptr(gate);
        return 0;
}

static int add_gate(struct json_object *patch, struct json_object *gate) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        if (!list) {
                json_object_put(gate);
                return -ENOMEM;
        }
        if (patch_append(list, gate) < 0)
                return -ENOMEM;

        return patch_add(patch, "status", patch_wrap("conditions", take_ptr(list)));
}

static int add_guard(struct json_object *patch, struct json_object *pod) {
        static const char *const keys[] = { "uid", "resourceVersion" };
        cleanup(json_object_put_p) json_object *guard = json_object_new_object();
        struct json_object *metadata = json_get(pod, "metadata", json_type_object);

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
                if (patch_add_filled(guard, keys[i], json_get_filled(metadata, keys[i])) < 0)
                        return -ENOMEM;

        return patch_add(patch, "metadata", take_ptr(guard));
}

int recreate_controller_gate(struct json_object *pod, const RecreateSpec *spec, bool is_closed,
                             int64_t now_sec, struct json_object **ret) {
        cleanup(json_object_put_p) json_object *patch = json_object_new_object();
        cleanup(json_object_put_p) json_object *writers = json_object_new_array();
        cleanup(free_p) char *key = NULL;
        struct json_object *condition = find_condition(pod), *gate;
        bool is_listed;
        int r;

        if (!patch || !writers)
                return -ENOMEM;
        if (text_format(&key, "%s/%s", spec->namespace, spec->name) < 0)
                return -ENOMEM;

        r = read_writers(json_get_filled(condition, "message"), key, writers, &is_listed);
        if (r < 0)
                return r;
        if (is_listed == is_closed && (!is_closed || json_is(condition, "status", "False"))) {
                *ret = NULL;
                return 0;
        }

        r = is_closed ? add_writer(writers, key) : 0;
        if (r >= 0)
                r = make_gate(writers, now_sec, &gate);
        if (r >= 0)
                r = add_gate(patch, gate);
        if (r >= 0)
                r = add_guard(patch, pod);
        if (r < 0)
                return r;

        *ret = take_ptr(patch);
        return 0;
}

int recreate_controller_remnant(const Pod *pod, const char *name, RecreateSpec **ret) {
        RecreateSpec *spec;

        spec = malloc(sizeof(*spec));
        if (!spec)
                return -ENOMEM;

        *spec = (RecreateSpec){
                .namespace = strdup(pod->namespace),
                .name = strdup(name),
                .version = strdup(""),
                .pod_uid = strdup(pod->uid),
                .pod_name = strdup(pod->name),
                .is_managed = true,
                .grace_sec = -1,
                .deadline_sec = -1,
                .ttl_sec = -1,
        };
        if (text_format(&spec->uid, "%s/%s/%s", pod->uid, pod->namespace, name) < 0 ||
            !spec->namespace || !spec->name || !spec->version || !spec->pod_uid ||
            !spec->pod_name) {
                recreate_spec_free(spec);
                return -ENOMEM;
        }

        *ret = spec;
        return 0;
}
