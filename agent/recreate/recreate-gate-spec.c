/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/document/documents.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/recreate/recreate-json.h"
#include "agent/recreate/recreate-manage-spec.h"

#define GATE "KruisePodReady"
#define USER_AGENT "ContainerRecreateRequest"
#define WRITERS_MAX 1024

static struct json_object *find_condition(struct json_object *pod) {
        struct json_object *status = recreate_json_get(pod, "status", json_type_object);
        struct json_object *list = recreate_json_get(status, "conditions", json_type_array);

        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                struct json_object *item = json_object_array_get_idx(list, i);

                if (recreate_json_is(item, "type", GATE))
                        return item;
        }

        return NULL;
}

/* Whoever keeps the pod unready; NULL: that is no such list. */
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

/* Those who want the pod unready, without us; whether we were among them. */
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

                if (recreate_json_is(item, "userAgent", USER_AGENT) &&
                    recreate_json_is(item, "key", key)) {
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

/* The name in "NAMESPACE/NAME", if it is that of a request in this namespace. */
static const char *find_name(struct json_object *item, const char *namespace) {
        const char *key = recreate_json_text(item, "key");
        size_t size = strlen(namespace);

        return recreate_json_is(item, "userAgent", USER_AGENT) && key &&
                               strncmp(key, namespace, size) == 0 && key[size] == '/' &&
                               key[size + 1]
                       ? key + size + 1
                       : NULL;
}

int recreate_gate_requests(const Pod *pod, char ***ret) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        struct json_object *writers;
        char **names;
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
                names[n] = strdup(name);
                if (!names[n++]) {
                        recreate_gate_requests_free(names);
                        return -ENOMEM;
                }
        }

        *ret = names;
        return 0;
}

char **recreate_gate_requests_free(char **names) {
        for (size_t i = 0; names && names[i]; i++)
                free(names[i]);
        free(names);
        return NULL;
}

bool recreate_gate_may_be_of(const RecreateSpec *spec, const char *pod_name) {
        return spec->unready_sec >= 0 && spec->pod_name && strcmp(spec->pod_name, pod_name) == 0;
}

static int add_writer(struct json_object *list, const char *key) {
        cleanup(json_object_put_p) json_object *writer =
                patch_wrap("userAgent", json_object_new_string(USER_AGENT));

        if (!writer || patch_add_text(writer, "key", key) < 0)
                return -ENOMEM;

        return patch_append(list, take_ptr(writer));
}

static int make_gate(struct json_object *writers, int64_t now_sec, struct json_object **ret) {
        bool is_ready = json_object_array_length(writers) == 0;
        cleanup(json_object_put_p) json_object *gate =
                patch_wrap("type", json_object_new_string(GATE));
        const char *message = is_ready ? "" : recreate_json_body(writers);
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
        struct json_object *metadata = recreate_json_get(pod, "metadata", json_type_object);

        if (!guard)
                return -ENOMEM;

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
                const char *text = recreate_json_text(metadata, keys[i]);

                if (text && patch_add_text(guard, keys[i], text) < 0)
                        return -ENOMEM;
        }

        return patch_add(patch, "metadata", take_ptr(guard));
}

int recreate_manage_gate(struct json_object *pod, const RecreateSpec *spec, bool is_closed,
                         int64_t now_sec, struct json_object **ret) {
        cleanup(json_object_put_p) json_object *patch = json_object_new_object();
        cleanup(json_object_put_p) json_object *writers = json_object_new_array();
        cleanup(free_p) char *key = NULL;
        struct json_object *condition = find_condition(pod), *gate;
        bool is_listed;
        int r;

        if (!patch || !writers)
                return -ENOMEM;
        if (asprintf(&key, "%s/%s", spec->namespace, spec->name) < 0) {
                key = NULL;
                return -ENOMEM;
        }

        r = read_writers(recreate_json_text(condition, "message"), key, writers, &is_listed);
        if (r < 0)
                return r;
        if (is_listed == is_closed &&
            (!is_closed || recreate_json_is(condition, "status", "False"))) {
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
