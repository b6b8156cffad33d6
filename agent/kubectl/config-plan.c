/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/config-plan.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/restart-image-plan.h"
#include "agent/kubectl/workload.h"

#define CLOCK_SEC 2     /* how far two readings of the server's clock may differ */
#define SETTLE_SEC 60   /* how long the start of a container may take to be seen */
#define FAILURE_SEC 600 /* as long as the kubelet remembers the failure of a container */
#define PODS_MAX 250    /* limit of pods in a run */
/* Limit of the variables, mounts and files of a pod, which each are compared with each other, and of its uses. */
#define PARTS_MAX 2000
#define NAME_SIZE_MAX ((size_t) 253) /* limit of the API server for names of objects */

DEFINE_CLEANUP(ConfigPod *, config_pod_free)

static size_t list_size(json_object *list) {
        return list ? json_object_array_length(list) : 0;
}

static bool is_true(json_object *object, const char *key) {
        return json_object_get_boolean(json_get(object, key, json_type_boolean));
}

/* The uses of a container */

typedef struct Uses {
        json_object *pod, *container;
        const char *namespace;
        json_object *list;
        json_object *hiding; /* names of variables, see find_hiding() */
        size_t *n;           /* uses of the pod, those beyond the limit as well */
} Uses;

/* Takes `more` over: the members that only this use has. */
static int add_use(const Uses *uses, bool is_secret, const char *name, bool is_optional,
                   json_object *more) {
        cleanup(json_object_put_p) json_object *use = more;
        cleanup(free_p) char *of = NULL;

        if (!name || !name[0] || strlen(name) > NAME_SIZE_MAX || ++*uses->n > PARTS_MAX)
                return 0;
        if (text_format(&of, "%s/%s/%s", is_secret ? "secret" : "configmap", uses->namespace,
                        name) < 0 ||
            patch_add_text(use, "of", of) < 0 ||
            (is_optional && patch_add_bool(use, "optional", true) < 0))
                return -ENOMEM;
        return patch_append(uses->list, take_ptr(use));
}

static json_object *of_key(const char *key) {
        return patch_wrap("key", json_object_new_string(key));
}

/* Removes the names of variables that are a part of this value: "$(NAME)", but not "$$(NAME)". */
static int remove_referenced(json_object *names, const char *value) {
        const char *end;

        for (const char *at = strchr(value, '$'); at && at[1]; at = strchr(end, '$')) {
                cleanup(free_p) char *name = NULL;

                end = at + 2;
                if (at[1] != '(')
                        continue;
                end = strchr(end, ')');
                if (!end)
                        break;
                name = strndup(at + 2, (size_t) (end - at - 2));
                if (!name)
                        return -ENOMEM;
                json_object_object_del(names, name);
        }
        return 0;
}

/* Makes the set of the variables whose former values are a part of no other variable: they hide those of the same name
 * that come before, or from envFrom. */
static json_object *find_hiding(json_object *env) {
        cleanup(json_object_put_p) json_object *names = json_object_new_object();

        for (size_t i = 0; i < list_size(env); i++) {
                const char *name = json_get_text(json_object_array_get_idx(env, i), "name");

                if (name && patch_add_null(names, name) < 0)
                        return NULL;
        }
        for (size_t i = 0; names && i < list_size(env); i++) {
                const char *value = json_get_text(json_object_array_get_idx(env, i), "value");

                if (value && remove_referenced(names, value) < 0)
                        return NULL;
        }
        return take_ptr(names);
}

/* A variable of the same name comes later, and this one is used nowhere. */
static bool is_hidden(const Uses *uses, json_object *env, size_t from, const char *name) {
        if (!json_object_object_get_ex(uses->hiding, name, NULL))
                return false;
        for (size_t i = from; i < list_size(env); i++)
                if (json_is(json_object_array_get_idx(env, i), "name", name))
                        return true;
        return false;
}

static int add_variables(const Uses *uses) {
        static const char *const references[] = { "configMapKeyRef", "secretKeyRef" };
        json_object *env = object_list(uses->container, "env");
        int r = 0;

        for (size_t i = 0; r >= 0 && i < list_size(env); i++) {
                json_object *variable = json_object_array_get_idx(env, i);
                json_object *source = json_get(variable, "valueFrom", json_type_object);
                const char *name = json_get_text(variable, "name");

                for (size_t kind = 0; r >= 0 && name && kind < 2; kind++) {
                        json_object *reference =
                                json_get(source, references[kind], json_type_object);
                        const char *key = json_get_filled(reference, "key");

                        if (key && !is_hidden(uses, env, i + 1, name))
                                r = add_use(uses, kind == 1, json_get_text(reference, "name"),
                                            is_true(reference, "optional"), of_key(key));
                }
        }
        return r;
}

static int add_whole_objects(const Uses *uses) {
        static const char *const references[] = { "configMapRef", "secretRef" };
        json_object *sources = object_list(uses->container, "envFrom");
        int r = 0;

        for (size_t i = 0; r >= 0 && i < list_size(sources); i++) {
                json_object *source = json_object_array_get_idx(sources, i);

                for (size_t kind = 0; r >= 0 && kind < 2; kind++) {
                        json_object *reference =
                                json_get(source, references[kind], json_type_object);
                        cleanup(json_object_put_p) json_object *use = NULL;

                        if (!reference)
                                continue;
                        use = patch_wrap("prefix", json_object_new_string(
                                                           json_get_text(source, "prefix") ?: ""));
                        if (patch_add(use, "hidden", json_object_get(uses->hiding)) < 0)
                                return -ENOMEM;
                        r = add_use(uses, kind == 1, json_get_text(reference, "name"),
                                    is_true(reference, "optional"), take_ptr(use));
                }
        }
        return r;
}

/* Whether the file is the mount itself, or lies below it. */
static bool is_mounted(const char *path, const char *mounted) {
        size_t size = strlen(mounted);

        while (size > 0 && mounted[size - 1] == '/')
                size--;
        return strncmp(path, mounted, size) == 0 && (path[size] == '\0' || path[size] == '/');
}

/* sub_path: NULL: any file, as the path is made from variables. */
static int add_files(const Uses *uses, json_object *source, bool is_secret, const char *name,
                     const char *sub_path) {
        json_object *items = object_list(source, "items");
        bool is_optional = is_true(source, "optional");
        int r = 0;

        if (!items)
                return add_use(uses, is_secret, name, is_optional,
                               sub_path ? of_key(sub_path) : json_object_new_object());
        for (size_t i = 0; r >= 0 && i < list_size(items); i++) {
                json_object *item = json_object_array_get_idx(items, i);
                const char *key = json_get_filled(item, "key");
                const char *path = json_get_text(item, "path");

                if (key && path && (!sub_path || is_mounted(path, sub_path)))
                        r = add_use(uses, is_secret, name, is_optional, of_key(key));
        }
        return r;
}

static int add_source(const Uses *uses, json_object *source, const char *secret_key,
                      const char *sub_path) {
        json_object *config_map = json_get(source, "configMap", json_type_object);
        json_object *secret = json_get(source, "secret", json_type_object);
        int r = 0;

        if (config_map)
                r = add_files(uses, config_map, false, json_get_text(config_map, "name"), sub_path);
        if (r >= 0 && secret)
                r = add_files(uses, secret, true, json_get_text(secret, secret_key), sub_path);
        return r;
}

/* Adds only files that are mounted by themselves: the kubelet refreshes a whole volume. */
static int add_mounts(const Uses *uses) {
        json_object *mounts = object_list(uses->container, "volumeMounts");
        int r = 0;

        for (size_t i = 0; r >= 0 && i < list_size(mounts); i++) {
                json_object *mount = json_object_array_get_idx(mounts, i);
                const char *sub_path = json_get_filled(mount, "subPath");
                json_object *volume, *sources;

                if (!sub_path && !json_get_filled(mount, "subPathExpr"))
                        continue;
                volume = json_find(object_list(uses->pod, "spec.volumes"), "name",
                                   json_get_text(mount, "name") ?: "");
                r = add_source(uses, volume, "secretName", sub_path);
                sources = object_list(volume, "projected.sources");
                for (size_t j = 0; r >= 0 && j < list_size(sources); j++)
                        r = add_source(uses, json_object_array_get_idx(sources, j), "name",
                                       sub_path);
        }
        return r;
}

/* {container: [use]}, without containers that use nothing or run only once. Empty if there are too many. */
static int read_uses(json_object *pod, const char *namespace, json_object **ret) {
        cleanup(json_object_put_p) json_object *all = json_object_new_object();
        json_object *container;
        size_t n = 0;

        for (size_t i = 0; all && (container = template_container(pod, i)); i++) {
                cleanup(json_object_put_p) json_object *list = json_object_new_array();
                cleanup(json_object_put_p) json_object *hiding =
                        find_hiding(object_list(container, "env"));
                const Uses uses = { pod, container, namespace, list, hiding, &n };
                const char *name = json_get_filled(container, "name");

                if (!name || template_ends(pod, name))
                        continue;
                if (!list || !hiding || add_whole_objects(&uses) < 0 || add_variables(&uses) < 0 ||
                    add_mounts(&uses) < 0 ||
                    (list_size(list) > 0 && patch_add(all, name, take_ptr(list)) < 0))
                        return -ENOMEM;
        }
        if (n > PARTS_MAX) {
                json_object_put(all);
                all = json_object_new_object();
        }
        *ret = take_ptr(all);
        return *ret ? 0 : -ENOMEM;
}

static int read_status(json_object *pod, const char *container, json_object **ret) {
        json_object *found = container_status(pod, container);
        json_object *running = object_at(found, "state.running");
        json_object *last = object_at(found, "lastState.terminated");
        cleanup(json_object_put_p) json_object *status = json_object_new_object();

        if (patch_add_nonzero(status, "began", restart_image_began(pod, container)) < 0 ||
            patch_add_nonzero(status, "started", json_get_time(running, "startedAt")) < 0 ||
            patch_add_bool(status, "ready", is_true(found, "ready")) < 0 ||
            patch_add_nonzero(status, "last_started", json_get_time(last, "startedAt")) < 0 ||
            patch_add_nonzero(status, "last_ended", json_get_time(last, "finishedAt")) < 0)
                return -ENOMEM;
        *ret = take_ptr(status);
        return 0;
}

/* Names the workload for "kubectl inplace restart": a Deployment instead of its ReplicaSet. */
static int name_workload(json_object *pod, char **ret) {
        json_object *owner = object_controller(pod);
        const char *name = json_get_text(owner, "name") ?: "";
        size_t deployment_size = owner_deployment_size(pod);
        WorkloadKind kind;

        if (!workload_kind_of_owner(owner, &kind))
                return text_format(ret, "pod/%s", object_name(pod));
        if (kind == WORKLOAD_REPLICA_SET && deployment_size > 0)
                return text_format(ret, "%s/%.*s", workload_kind_to_string(WORKLOAD_DEPLOYMENT),
                                   (int) deployment_size, name);
        return text_format(ret, "%s/%s", workload_kind_to_string(kind), name);
}

/* Nothing says how many pods a controller of another kind can do without: they restart one after the other. */
static int name_group(json_object *pod, const char *namespace, const char *workload, char **ret) {
        json_object *owner = object_controller(pod);
        WorkloadKind kind;

        if (!owner || workload_kind_of_owner(owner, &kind))
                return text_format(ret, "%s %s", namespace, workload);
        return text_format(ret, "%s %s/%s", namespace, json_get_text(owner, "kind") ?: "",
                           json_get_text(owner, "name") ?: "");
}

static size_t count_items(json_object *source) {
        return list_size(object_list(source, "configMap.items")) +
               list_size(object_list(source, "secret.items"));
}

static size_t count_parts(json_object *pod) {
        json_object *volumes = object_list(pod, "spec.volumes"), *container;
        size_t n = list_size(volumes);

        for (size_t i = 0; i < list_size(volumes); i++) {
                json_object *volume = json_object_array_get_idx(volumes, i);
                json_object *sources = object_list(volume, "projected.sources");

                n += count_items(volume) + list_size(sources);
                for (size_t j = 0; j < list_size(sources); j++)
                        n += count_items(json_object_array_get_idx(sources, j));
        }
        for (size_t i = 0; (container = template_container(pod, i)); i++)
                n += 1 + list_size(object_list(container, "env")) +
                     list_size(object_list(container, "envFrom")) +
                     list_size(object_list(container, "volumeMounts"));
        return n;
}

static bool takes_part(json_object *pod) {
        json_object *annotations = object_at(pod, "metadata.annotations");
        const char *policy = object_text(pod, "spec.restartPolicy");

        return json_is(annotations, CONFIG_ANNOTATION, "true") && !object_is_deleted(pod) &&
               !pod_has_ended(pod) && (!policy || text_equal(policy, "Always")) &&
               object_name(pod) && object_text(pod, "metadata.namespace") &&
               count_parts(pod) <= PARTS_MAX;
}

int config_pod_new(json_object *json, ConfigPod **ret) {
        cleanup(config_pod_free_p) ConfigPod *pod = NULL;
        const char *namespace = object_text(json, "metadata.namespace");

        *ret = NULL;
        if (!takes_part(json))
                return 0;
        pod = calloc(1, sizeof(*pod));
        if (!pod || read_uses(json, namespace, &pod->uses) < 0)
                return -ENOMEM;
        if (json_object_object_length(pod->uses) == 0)
                return 0;
        pod->statuses = json_object_new_object();
        pod->served = json_object_new_object();
        if (!pod->served || name_workload(json, &pod->workload) < 0 ||
            name_group(json, namespace, pod->workload, &pod->group) < 0 ||
            text_format(&pod->key, "%s/%s", namespace, object_name(json)) < 0 ||
            text_copy(namespace, &pod->namespace) < 0 ||
            text_copy(object_name(json), &pod->name) < 0 ||
            text_copy(object_text(json, "metadata.uid"), &pod->uid) < 0)
                return -ENOMEM;
        json_object_object_foreach(pod->uses, container, unused) {
                json_object *status = NULL;

                (void) unused;
                if (read_status(json, container, &status) < 0 ||
                    patch_add(pod->statuses, container, status) < 0)
                        return -ENOMEM;
        }
        *ret = take_ptr(pod);
        return 0;
}

ConfigPod *config_pod_free(ConfigPod *pod) {
        if (!pod)
                return NULL;
        free(pod->key);
        free(pod->namespace);
        free(pod->name);
        free(pod->uid);
        free(pod->workload);
        free(pod->group);
        json_object_put(pod->uses);
        json_object_put(pod->statuses);
        json_object_put(pod->served);
        free(pod);
        return NULL;
}

int config_pod_objects(const ConfigPod *pod, int (*on_object)(const char *of, void *userdata),
                       void *userdata) {
        int r = 0;

        json_object_object_foreach(pod->uses, container, list) {
                (void) container;
                for (size_t i = 0; r >= 0 && i < list_size(list); i++)
                        r = on_object(json_get_text(json_object_array_get_idx(list, i), "of"),
                                      userdata);
        }
        return r;
}

/* The ledger */

bool config_is_ledger(json_object *ledger) {
        if (!json_object_is_type(ledger, json_type_object))
                return false;
        json_object_object_foreach(ledger, of, entry) {
                (void) of;
                if (!json_object_is_type(entry, json_type_object))
                        return false;
                json_object_object_foreach(entry, key, item) {
                        (void) key;
                        if (!json_object_is_type(item, json_type_object))
                                return false;
                }
        }
        return true;
}

/* Includes the names, so that equal values do not have equal hashes. */
static int make_mac(const uint8_t secret[static SIPHASH_KEY_SIZE], const char *of, const char *key,
                    json_object *value, char **ret) {
        const char *text = json_object_get_string(value) ?: "";
        size_t of_size = strlen(of) + 1, key_size = strlen(key) + 1;
        size_t size = value ? (size_t) json_object_get_string_len(value) : 0;
        uint8_t *bytes = malloc(of_size + key_size + size);
        int r;

        if (!bytes)
                return -ENOMEM;
        memcpy(bytes, of, of_size);
        memcpy(bytes + of_size, key, key_size);
        memcpy(bytes + of_size + key_size, text, size);
        size += of_size + key_size;
        r = text_format(ret, "%016" PRIx64, siphash(secret, bytes, size));
        explicit_bzero(bytes, size);
        free(bytes);
        return r;
}

static int set_time(json_object *item, const char *key, int64_t now_sec) {
        return patch_add_nonzero(item, key, now_sec) < 0 ? -ENOMEM : 1;
}

static int note_gone(json_object *item, bool is_first, int64_t now_sec) {
        if (is_true(item, "gone"))
                return 0;
        if (patch_add_bool(item, "gone", true) < 0)
                return -ENOMEM;
        return is_first ? 1 : set_time(item, "toggled", now_sec);
}

/* Without "since" nothing says which containers were started with the value before. */
static int note_new_mac(json_object *item, const char *mac, const ConfigState *state) {
        if (!object_integer(item, "changed") &&
            (patch_add_text(item, "before", json_get_text(item, "mac") ?: "") < 0 ||
             patch_add_nonzero(item, "since", state->is_watched ? state->now_sec : 0) < 0))
                return -ENOMEM;
        return patch_add_text(item, "mac", mac) < 0 ? -ENOMEM
                                                    : set_time(item, "changed", state->now_sec);
}

/* is_first: the object was not known. */
static int note_key(json_object *entry, const char *key, const char *mac, bool is_first,
                    const ConfigState *state) {
        json_object *item = json_get(entry, key, json_type_object);
        int r = 0;

        if (!item) {
                item = patch_wrap("mac", json_object_new_string(mac));
                return patch_add(entry, key, item) < 0 ? -ENOMEM
                       : is_first                      ? 1
                                                       : set_time(item, "toggled", state->now_sec);
        }
        if (is_true(item, "gone")) {
                json_object_object_del(item, "gone");
                r = set_time(item, "toggled", state->now_sec);
        }
        if (r >= 0 && !json_is(item, "mac", mac))
                r = note_new_mac(item, mac, state);
        return r;
}

/* A key of both sections counts once: the API server refuses such an object. */
static int note_values(json_object *entry, bool is_first, const ConfigState *state) {
        json_object *const sections[] = { json_get(state->object, "data", json_type_object),
                                          json_get(state->object, "binaryData", json_type_object) };
        bool is_changed = false;

        for (size_t i = 0; i < 2; i++) {
                if (!sections[i])
                        continue;
                json_object_object_foreach(sections[i], key, value) {
                        bool is_noted = i > 0 && json_object_object_get_ex(sections[0], key, NULL);
                        cleanup(free_p) char *mac = NULL;
                        int r = 0;

                        if (key[0] && !is_noted && json_object_is_type(value, json_type_string))
                                r = make_mac(state->secret, state->of, key, value, &mac);
                        if (r >= 0 && mac)
                                r = note_key(entry, key, mac, is_first, state);
                        if (r < 0)
                                return r;
                        is_changed = is_changed || r > 0;
                }
        }
        return is_changed;
}

static int note_missing(json_object *entry, json_object *object, int64_t now_sec) {
        bool is_changed = false;

        json_object_object_foreach(entry, key, item) {
                int r = 0;

                if (key[0] &&
                    !json_object_object_get_ex(json_get(object, "data", json_type_object), key,
                                               NULL) &&
                    !json_object_object_get_ex(json_get(object, "binaryData", json_type_object),
                                               key, NULL))
                        r = note_gone(item, /* is_first= */ false, now_sec);
                if (r < 0)
                        return r;
                is_changed = is_changed || r > 0;
        }
        return is_changed;
}

int config_note(json_object *ledger, const ConfigState *state) {
        json_object *entry = json_get(ledger, state->of, json_type_object);
        bool is_first = !entry, is_changed = is_first;
        int r = 0;

        if (!entry && patch_add(ledger, state->of, entry = json_object_new_object()) < 0)
                return -ENOMEM;
        if (state->object || !json_get(entry, "", json_type_object))
                r = note_key(entry, "", "", is_first, state);
        if (!state->object)
                return r < 0 ? r
                             : note_gone(json_get(entry, "", json_type_object), is_first,
                                         state->now_sec);
        is_changed = is_changed || r > 0;
        if (r >= 0)
                r = note_values(entry, is_first, state);
        is_changed = is_changed || r > 0;
        if (r >= 0)
                r = note_missing(entry, state->object, state->now_sec);
        return r < 0 ? r : is_changed || r > 0;
}

static int measure(json_object *value, size_t *ret) {
        const char *text = json_to_text(value);

        if (!text)
                return -ENOMEM;
        *ret = strlen(text);
        return 0;
}

/* An object's part of the ledger's text. */
typedef struct Share {
        const char *of; /* NULL: it was removed */
        size_t size;
        json_object *sum; /* size of all objects of the namespace; borrowed */
} Share;

/* sums: {NAMESPACE: size} */
static int share_new(const char *of, json_object *entry, json_object *sums, Share *ret) {
        const char *slash = strchr(of, '/');
        const char *start = slash ? slash + 1 : of;
        cleanup(free_p) char *namespace = strndup(start, strcspn(start, "/"));
        json_object *sum = namespace ? json_get(sums, namespace, json_type_int) : NULL;
        size_t size;

        if (!namespace || measure(entry, &size) < 0)
                return -ENOMEM;
        if (!sum && patch_add(sums, namespace, sum = json_object_new_int64(0)) < 0)
                return -ENOMEM;
        *ret = (Share){ .of = of, .size = strlen(of) + size, .sum = sum };
        (void) json_object_int_inc(sum, (int64_t) ret->size);
        return 0;
}

static bool is_larger(const Share *a, const Share *b) {
        int64_t sum = json_object_get_int64(a->sum), other = json_object_get_int64(b->sum);

        return sum != other ? sum > other : a->size > b->size;
}

static Share *find_largest(Share *shares, size_t n_shares) {
        Share *found = NULL;

        for (size_t i = 0; i < n_shares; i++)
                if (shares[i].of && (!found || is_larger(&shares[i], found)))
                        found = &shares[i];
        return found;
}

int config_trim(json_object *ledger, size_t size_max, json_object *removed) {
        cleanup(json_object_put_p) json_object *sums = NULL;
        cleanup(free_p) Share *shares = NULL;
        size_t size, n_shares = 0;
        Share *share;

        if (measure(ledger, &size) < 0)
                return -ENOMEM;
        if (size <= size_max)
                return 0;
        sums = json_object_new_object();
        shares = calloc((size_t) json_object_object_length(ledger), sizeof(*shares));
        if (!sums || !shares)
                return -ENOMEM;
        json_object_object_foreach(ledger, of, entry) {
                if (share_new(of, entry, sums, &shares[n_shares++]) < 0)
                        return -ENOMEM;
        }
        while (size > size_max && (share = find_largest(shares, n_shares))) {
                if (patch_append(removed, json_object_new_string(share->of)) < 0)
                        return -ENOMEM;
                json_object_object_del(ledger, share->of);
                (void) json_object_int_inc(share->sum, -(int64_t) share->size);
                size -= share->size;
                share->of = NULL;
        }
        return 0;
}

static int64_t latest(json_object *item) {
        int64_t changed = object_integer(item, "changed");
        int64_t toggled = object_integer(item, "toggled");

        return changed > toggled ? changed : toggled;
}

static bool has_changes(json_object *entry) {
        json_object_object_foreach(entry, key, item) {
                (void) key;
                if (latest(item) > 0)
                        return true;
        }
        return false;
}

bool config_has_changes(json_object *ledger) {
        json_object_object_foreach(ledger, of, entry) {
                (void) of;
                if (has_changes(entry))
                        return true;
        }
        return false;
}

bool config_is_changing(json_object *entry) {
        return entry && !is_true(json_get(entry, "", json_type_object), "gone") &&
               has_changes(entry);
}

/* Returns whether anything has changed. */
static bool settle_key(json_object *entry, const char *key, json_object *item, bool is_named) {
        static const char *const parts[] = { "changed", "toggled", "before", "since" };

        if (!is_true(item, "gone"))
                for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                        json_object_object_del(item, parts[i]);
        else if (key[0] && !is_named)
                json_object_object_del(entry, key);
        else
                return false;
        return true;
}

/* An object that is gone keeps its changes, and so does a key that containers name: who needs it is restarted when it is
 * back. */
int config_settle(json_object *ledger, const ConfigPlan *plan, int64_t delay_sec, int64_t now_sec) {
        bool is_changed = false;

        json_object_object_foreach(ledger, of, entry) {
                json_object *named = json_get(plan->named, of, json_type_object);

                if (json_object_object_get_ex(plan->pending, of, NULL) ||
                    is_true(json_get(entry, "", json_type_object), "gone"))
                        continue;
                json_object_object_foreach(entry, key, item) {
                        bool is_named = json_object_object_get_ex(named, key, NULL);

                        if (latest(item) > 0 && now_sec > latest(item) + delay_sec + SETTLE_SEC &&
                            settle_key(entry, key, item, is_named))
                                is_changed = true;
                }
        }
        return is_changed;
}

/* The plan */

/* The latest change that a container does not have. */
typedef struct Change {
        int64_t sec; /* 0: there is none */
        const char *of, *key;
} Change;

static void take_later(Change *change, int64_t sec, const char *of, const char *key) {
        if (sec > change->sec)
                *change = (Change){ .sec = sec, .of = of, .key = key };
}

/* It is no change if the value is again as it was when the container was started. */
static int64_t value_changed(json_object *item, int64_t started_sec, int64_t delay_sec) {
        bool is_as_before = text_equal(json_get_text(item, "mac"), json_get_text(item, "before"));

        return is_as_before && started_sec + delay_sec < object_integer(item, "since")
                       ? 0
                       : object_integer(item, "changed");
}

/* Whether a later source of the same container has a variable of this name. */
static bool has_later(json_object *uses, size_t from, json_object *ledger, const char *name) {
        for (size_t i = from; i < list_size(uses); i++) {
                json_object *use = json_object_array_get_idx(uses, i);
                json_object *entry = json_get(ledger, json_get_text(use, "of"), json_type_object);
                const char *prefix = json_get_text(use, "prefix");
                size_t size = prefix ? strlen(prefix) : 0;
                json_object *item;

                if (!prefix || strncmp(name, prefix, size) != 0 || !name[size])
                        continue;
                item = json_get(entry, name + size, json_type_object);
                if (item && !is_true(item, "gone"))
                        return true;
        }
        return false;
}

/* *ret: another variable hides the one of this key. */
static int is_overridden(json_object *uses, size_t i, json_object *ledger, const char *key,
                         bool *ret) {
        json_object *use = json_object_array_get_idx(uses, i);
        const char *prefix = json_get_text(use, "prefix");
        cleanup(free_p) char *name = NULL;

        *ret = false;
        if (!prefix)
                return 0;
        if (text_format(&name, "%s%s", prefix, key) < 0)
                return -ENOMEM;
        *ret = json_object_object_get_ex(json_get(use, "hidden", json_type_object), name, NULL) ||
               has_later(uses, i + 1, ledger, name);
        return 0;
}

/* It is gone, and the container would not start again without it. */
static bool is_lacking(json_object *use, json_object *ledger) {
        json_object *entry = json_get(ledger, json_get_text(use, "of"), json_type_object);
        const char *wanted = json_get_text(use, "key");

        if (is_true(use, "optional"))
                return false;
        return is_true(json_get(entry, "", json_type_object), "gone") ||
               (wanted && is_true(json_get(entry, wanted, json_type_object), "gone"));
}

/* All that it needs is there: a restart for a change of something else would be the end of it as well. */
static bool can_start(json_object *uses, json_object *ledger) {
        for (size_t i = 0; i < list_size(uses); i++)
                if (is_lacking(json_object_array_get_idx(uses, i), ledger))
                        return false;
        return true;
}

/* Without what it needs, a container would not start again. */
static int find_use_change(json_object *uses, size_t i, json_object *ledger, int64_t started_sec,
                           int64_t delay_sec, Change *change) {
        json_object *use = json_object_array_get_idx(uses, i);
        const char *of = json_get_text(use, "of"), *wanted = json_get_text(use, "key");
        json_object *entry = json_get(ledger, of, json_type_object);
        json_object *whole = json_get(entry, "", json_type_object);
        bool is_optional = is_true(use, "optional");

        if (!entry || is_lacking(use, ledger))
                return 0;
        if (is_optional)
                take_later(change, object_integer(whole, "toggled"), of, "");
        json_object_object_foreach(entry, key, item) {
                bool is_hidden = true;
                int r = 0;

                if (key[0] && latest(item) > 0 && (!wanted || text_equal(key, wanted)))
                        r = is_overridden(uses, i, ledger, key, &is_hidden);
                if (r < 0)
                        return r;
                if (is_hidden)
                        continue;
                take_later(change, value_changed(item, started_sec, delay_sec), of, key);
                if (!wanted || is_optional)
                        take_later(change, object_integer(item, "toggled"), of, key);
        }
        return 0;
}

static int find_change(json_object *uses, json_object *ledger, int64_t started_sec,
                       int64_t delay_sec, Change *ret) {
        int r = 0;

        *ret = (Change){ .sec = 0 };
        for (size_t i = 0; r >= 0 && i < list_size(uses); i++)
                r = find_use_change(uses, i, ledger, started_sec, delay_sec, ret);
        return r;
}

/* A container that was started since the change is not ready, or has failed a short while ago. */
static bool is_failing(json_object *status, int64_t fresh_sec, int64_t now_sec) {
        int64_t started = object_integer(status, "started");

        return (started >= fresh_sec && !is_true(status, "ready")) ||
               (object_integer(status, "last_started") >= fresh_sec &&
                object_integer(status, "last_ended") + FAILURE_SEC > now_sec);
}

static int describe(const Change *change, char **ret) {
        const char *kind = strncmp(change->of, "secret/", 7) == 0 ? "Secret" : "ConfigMap";
        const char *name = strrchr(change->of, '/') + 1;

        return change->key[0] ? text_format(ret, "key \"%s\" of %s \"%s\"", change->key, kind, name)
                              : text_format(ret, "%s \"%s\"", kind, name);
}

/* Makes the pod's group if there is none yet. */
static int find_group(json_object *groups, const ConfigPod *pod, json_object **ret) {
        *ret = json_get(groups, pod->group, json_type_object);
        if (*ret)
                return 0;
        *ret = json_object_new_object();
        return patch_add(groups, pod->group, *ret) < 0 ||
                               patch_add_text(*ret, "namespace", pod->namespace) < 0 ||
                               patch_add(*ret, "pods", json_object_new_array()) < 0
                       ? -ENOMEM
                       : 0;
}

/* A pod whose other containers are to be restarted waits for the next run, and so does one that no run can have beside the
 * first. */
static int add_pod(json_object *groups, const ConfigPod *pod, const char *containers,
                   const Change *change) {
        cleanup(free_p) char *cause = NULL;
        json_object *group, *pods;

        if (find_group(groups, pod, &group) < 0 ||
            (change->sec > object_integer(group, "newest") &&
             patch_add_nonzero(group, "newest", change->sec) < 0))
                return -ENOMEM;
        pods = object_list(group, "pods");
        if (list_size(pods) > 0 &&
            (!json_is(group, "workload", pod->workload) ||
             !json_is(group, "containers", containers) || list_size(pods) >= PODS_MAX))
                return 0;
        if (patch_append(pods, json_object_new_string(pod->name)) < 0)
                return -ENOMEM;
        if (change->sec <= object_integer(group, "changed"))
                return 0;
        return describe(change, &cause) < 0 ||
                               patch_add_text(group, "workload", pod->workload) < 0 ||
                               patch_add_text(group, "containers", containers) < 0 ||
                               patch_add_text(group, "cause", cause) < 0 ||
                               patch_add_nonzero(group, "changed", change->sec) < 0
                       ? -ENOMEM
                       : 0;
}

static int mark_waiting(json_object *groups, const ConfigPod *pod) {
        json_object *group;

        return find_group(groups, pod, &group) < 0 ? -ENOMEM : patch_add_bool(group, "waits", true);
}

static int mark_pending(json_object *pending, json_object *uses) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < list_size(uses); i++)
                r = patch_add_bool(pending, json_get_text(json_object_array_get_idx(uses, i), "of"),
                                   true);
        return r;
}

/* Notes the keys that a container names. */
static int mark_named(json_object *named, json_object *uses) {
        for (size_t i = 0; i < list_size(uses); i++) {
                json_object *use = json_object_array_get_idx(uses, i);
                const char *of = json_get_text(use, "of"), *key = json_get_text(use, "key");
                json_object *keys = json_get(named, of, json_type_object);

                if (!key)
                        continue;
                if (!keys && patch_add(named, of, keys = json_object_new_object()) < 0)
                        return -ENOMEM;
                if (patch_add_bool(keys, key, true) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int append_name(char **names, const char *name) {
        char *longer = NULL;

        if (text_format(&longer, "%s%s%s", *names ?: "", *names ? "," : "", name) < 0)
                return -ENOMEM;
        free(*names);
        *names = longer;
        return 0;
}

/* A restart that has begun is as good as a start: its kubelet knows the change. */
static bool is_stale(const ConfigPod *pod, const char *container, const Change *change,
                     int64_t delay_sec) {
        json_object *status = json_get(pod->statuses, container, json_type_object);
        int64_t started = object_integer(status, "started");

        return started > 0 && started < change->sec + delay_sec &&
               object_integer(status, "began") < change->sec + delay_sec &&
               object_integer(pod->served, container) < change->sec;
}

static int plan_pod(const ConfigPod *pod, json_object *ledger, int64_t delay_sec, int64_t now_sec,
                    const ConfigPlan *plan) {
        cleanup(free_p) char *names = NULL;
        Change newest = { .sec = 0 };
        int r = 0;

        json_object_object_foreach(pod->uses, container, uses) {
                json_object *status = json_get(pod->statuses, container, json_type_object);
                int64_t started = object_integer(status, "started");
                Change change;

                if (find_change(uses, ledger, started ?: now_sec, delay_sec, &change) < 0 ||
                    mark_named(plan->named, uses) < 0)
                        return -ENOMEM;
                if (change.sec == 0)
                        continue;
                if (is_failing(status, change.sec + delay_sec, now_sec))
                        r = mark_waiting(plan->groups, pod);
                if (r >= 0 && is_stale(pod, container, &change, delay_sec)) {
                        r = mark_pending(plan->pending, uses);
                        if (r >= 0 && now_sec > change.sec + delay_sec + CLOCK_SEC &&
                            can_start(uses, ledger)) {
                                r = append_name(&names, container);
                                take_later(&newest, change.sec, change.of, change.key);
                        }
                }
                if (r < 0)
                        return r;
        }
        return names ? add_pod(plan->groups, pod, names, &newest) : 0;
}

static bool is_ready(const ConfigPod *pod) {
        json_object_object_foreach(pod->statuses, container, status) {
                (void) container;
                if (!is_true(status, "ready"))
                        return false;
        }
        return true;
}

/* Plans the pods that are not ready first: they need no budget, and the change may be what they wait for. */
int config_plan(ConfigPod *const *pods, size_t n_pods, json_object *ledger, int64_t delay_sec,
                int64_t now_sec, ConfigPlan *ret) {
        int r = 0;

        *ret = (ConfigPlan){ .groups = json_object_new_object(),
                             .pending = json_object_new_object(),
                             .named = json_object_new_object() };
        if (!ret->groups || !ret->pending || !ret->named)
                r = -ENOMEM;
        for (int ready = 0; ready < 2; ready++)
                for (size_t i = 0; r >= 0 && i < n_pods; i++)
                        if (is_ready(pods[i]) == ready)
                                r = plan_pod(pods[i], ledger, delay_sec, now_sec, ret);
        if (r < 0)
                config_plan_done(ret);
        return r;
}

void config_plan_done(ConfigPlan *plan) {
        json_object_put(plan->groups);
        json_object_put(plan->pending);
        json_object_put(plan->named);
        *plan = (ConfigPlan){ .groups = NULL };
}
