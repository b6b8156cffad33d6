/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/workload.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/pod/gate-spec.h"

#define KRUISE_GROUP "apps.kruise.io"
#define INTEGER_MAX (INT64_C(1) << 53) /* as in other JSON readers */

static const struct {
        const char *names[4]; /* names that a person may use */
        const char *shown;
        const char *group;
        const char *resource;
} kinds[] = {
        [WORKLOAD_DEPLOYMENT] = { { "deployment", "deployments", "deploy", "deployment.apps" },
                                  "deployment.apps",
                                  "apps",
                                  "deployments" },
        [WORKLOAD_REPLICA_SET] = { { "replicaset", "replicasets", "rs", "replicaset.apps" },
                                   "replicaset.apps",
                                   "apps",
                                   "replicasets" },
        [WORKLOAD_STATEFUL_SET] = { { "statefulset", "statefulsets", "sts", "statefulset.apps" },
                                    "statefulset.apps",
                                    "apps",
                                    "statefulsets" },
        [WORKLOAD_DAEMON_SET] = { { "daemonset", "daemonsets", "ds", "daemonset.apps" },
                                  "daemonset.apps",
                                  "apps",
                                  "daemonsets" },
        [WORKLOAD_POD] = { { "pod", "pods", "po", "pod" }, "pod", NULL, "pods" },
        [WORKLOAD_CLONE_SET] = { { "cloneset", "clonesets", "clone", "cloneset.apps.kruise.io" },
                                 "cloneset.apps.kruise.io",
                                 KRUISE_GROUP,
                                 "clonesets" },
        [WORKLOAD_ADVANCED_STATEFUL_SET] = { { "asts", "statefulset.apps.kruise.io",
                                               "statefulsets.apps.kruise.io" },
                                             "statefulset.apps.kruise.io",
                                             KRUISE_GROUP,
                                             "statefulsets" },
        [WORKLOAD_ADVANCED_DAEMON_SET] = { { "ads", "daemonset.apps.kruise.io",
                                             "daemonsets.apps.kruise.io" },
                                           "daemonset.apps.kruise.io",
                                           KRUISE_GROUP,
                                           "daemonsets" },
};

#define N_NAMES (sizeof(kinds[0].names) / sizeof(kinds[0].names[0]))

static bool is_called(WorkloadKind kind, const char *text, size_t size) {
        for (size_t i = 0; i < N_NAMES && kinds[kind].names[i]; i++)
                if (strlen(kinds[kind].names[i]) == size &&
                    strncmp(kinds[kind].names[i], text, size) == 0)
                        return true;

        return false;
}

bool workload_kind_parse(const char *text, size_t size, WorkloadKind *ret) {
        for (WorkloadKind kind = 0; kind < _WORKLOAD_KIND_MAX; kind++)
                if (is_called(kind, text, size)) {
                        *ret = kind;
                        return true;
                }

        return false;
}

bool workload_is_kind(const char *text) {
        WorkloadKind ignored;

        return workload_kind_parse(text, strlen(text), &ignored);
}

/* Why a kind that people know is none that can be updated in place, and what to do; NULL: it is another. */
static const char *explain_kind(const char *text, size_t size) {
        static const struct {
                const char *name, *reason;
        } known[] = {
                { "job",
                  "the pods of a Job run to their end and are not updated in place; \"status "
                  "-l job-name=NAME\" shows them" },
                { "cronjob",
                  "its next Job has the images that \"kubectl set image\" sets; the pods of "
                  "a Job that runs are not updated in place" },
                { "node", "a node is no workload; \"images --nodes NAME\" shows what it has" },
        };

        size -= strcspn(text, "./") < size ? size - strcspn(text, "./") : 0; /* "job.batch" */
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                size_t length = strlen(known[i].name);

                if (strncmp(text, known[i].name, length) == 0 &&
                    (size == length || (size == length + 1 && text[length] == 's')))
                        return known[i].reason;
        }

        return NULL;
}

int workload_name_parse(const char *text, WorkloadKind *ret_kind, const char **ret_name,
                        Error *reterr) {
        const char *slash = strchr(text, '/'), *reason;

        if (!slash || slash[1] == '\0' || strchr(slash + 1, '/'))
                return error_set(reterr, ERROR_INVALID,
                                 "workload \"%s\": expected KIND/NAME, such as deployment/web",
                                 text);

        if (workload_kind_parse(text, (size_t) (slash - text), ret_kind)) {
                *ret_name = slash + 1;
                return 0;
        }

        reason = explain_kind(text, (size_t) (slash - text));
        if (reason)
                return error_set(reterr, ERROR_INVALID, "workload \"%s\": %s", text, reason);

        return error_set(
                reterr, ERROR_INVALID,
                "workload \"%s\": the kind is none of deployment, replicaset, statefulset, "
                "daemonset, pod, cloneset, statefulset.apps.kruise.io, daemonset.apps.kruise.io",
                text);
}

const char *workload_kind_to_string(WorkloadKind kind) {
        return kinds[kind].shown;
}

bool workload_is_of_kruise(WorkloadKind kind) {
        return text_equal(kinds[kind].group, KRUISE_GROUP);
}

KubePath workload_path(WorkloadKind kind, const char *namespace, const char *name) {
        return (KubePath){ .group = kinds[kind].group,
                           .version = workload_is_of_kruise(kind) ? NULL : "v1",
                           .namespace = namespace,
                           .resource = kinds[kind].resource,
                           .name = name };
}

json_object *object_at(json_object *object, const char *path) {
        char key[64];

        while (object && *path) {
                size_t size = strcspn(path, ".");

                if (size >= sizeof(key) || !json_object_is_type(object, json_type_object))
                        return NULL;
                memcpy(key, path, size);
                key[size] = '\0';
                object = json_object_object_get(object, key);
                path += size + (path[size] == '.' ? 1 : 0);
        }
        return object;
}

const char *object_text(json_object *object, const char *path) {
        json_object *value = object_at(object, path);

        return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

int64_t object_integer(json_object *object, const char *path) {
        json_object *value = object_at(object, path);

        int64_t number =
                json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : 0;

        if (number > INTEGER_MAX)
                return INTEGER_MAX;
        return number < -INTEGER_MAX ? -INTEGER_MAX : number;
}

json_object *object_list(json_object *object, const char *path) {
        json_object *value = object_at(object, path);

        return json_object_is_type(value, json_type_array) ? value : NULL;
}

const char *object_annotation(json_object *object, const char *key) {
        return json_get_text(object_at(object, "metadata.annotations"), key);
}

static json_object *annotation_of(json_object *object, const char *key) {
        return json_get(object_at(object, "metadata.annotations"), key, json_type_string);
}

json_object *object_annotation_json(json_object *object, const char *key) {
        json_object *json;

        (void) json_parse_inner(annotation_of(object, key), &json);
        return json_object_is_type(json, json_type_object) ? json : NULL;
}

int object_parse_notes(json_object *object) {
        static const char *const keys[] = { ROLLOUT_POD_ANNOTATION, RESTART_ANNOTATION,
                                            KRUISE_STATE_ANNOTATION };
        json_object *gate =
                json_find(object_list(object, "status.conditions"), "type", GATE_CONDITION);
        json_object *ignored;
        int r = json_parse_inner(json_get(gate, "message", json_type_string), &ignored);

        for (size_t i = 0; r >= 0 && i < sizeof(keys) / sizeof(keys[0]); i++)
                r = json_parse_inner(annotation_of(object, keys[i]), &ignored);
        return r;
}

bool list_has_text(json_object *list, const char *text) {
        for (size_t i = 0; list && i < json_object_array_length(list); i++)
                if (text_equal(json_object_get_string(json_object_array_get_idx(list, i)), text))
                        return true;

        return false;
}

const char *object_name(json_object *object) {
        const char *name = object_text(object, "metadata.name");

        return name ? name : "";
}

bool object_is_observed(json_object *object) {
        return object_integer(object, "status.observedGeneration") >=
               object_integer(object, "metadata.generation");
}

int64_t budget_allowed(json_object *budget) {
        return object_is_observed(budget) ? object_integer(budget, "status.disruptionsAllowed") : 0;
}

bool budget_covers(json_object *budget, json_object *pod) {
        return selector_matches(object_at(budget, "spec.selector"),
                                object_at(pod, "metadata.labels"));
}

KubePath budgets_path(const char *namespace) {
        return (KubePath){ .group = "policy",
                           .version = "v1",
                           .namespace = namespace,
                           .resource = "poddisruptionbudgets" };
}

json_object *object_controller(json_object *object) {
        json_object *owners =
                json_get(object_at(object, "metadata"), "ownerReferences", json_type_array);

        for (size_t i = 0; owners && i < json_object_array_length(owners); i++) {
                json_object *owner = json_object_array_get_idx(owners, i);

                if (json_object_get_boolean(json_get(owner, "controller", json_type_boolean)))
                        return owner;
        }
        return NULL;
}

const char *object_owner(json_object *object) {
        return json_get_text(object_controller(object), "uid");
}

bool workload_kind_of_owner(json_object *owner, WorkloadKind *ret) {
        const char *version = json_get_text(owner, "apiVersion") ?: "";
        const char *kind = json_get_text(owner, "kind") ?: "";
        size_t size = strcspn(version, "/");

        for (WorkloadKind i = 0; i < _WORKLOAD_KIND_MAX; i++)
                if (kinds[i].group && strlen(kinds[i].group) == size &&
                    strncmp(kinds[i].group, version, size) == 0 &&
                    strncasecmp(kinds[i].resource, kind, strlen(kind)) == 0 &&
                    strcmp(kinds[i].resource + strlen(kind), "s") == 0) {
                        *ret = i;
                        return true;
                }

        return false;
}

size_t owner_deployment_size(json_object *object) {
        const char *name = json_get_text(object_controller(object), "name") ?: "";
        const char *hash = object_text(object, "metadata.labels.pod-template-hash");
        size_t size = strlen(name), hash_size = hash ? strlen(hash) : 0;

        return hash && size > hash_size + 1 && strcmp(name + size - hash_size, hash) == 0 &&
                               name[size - hash_size - 1] == '-'
                       ? size - hash_size - 1
                       : 0;
}

int object_refuse_owned(json_object *object, Error *reterr) {
        json_object *owner = object_controller(object);
        const char *name = json_get_text(owner, "name") ?: "";
        size_t deployment_size = owner_deployment_size(object);
        WorkloadKind kind;

        if (!owner)
                return 0;
        if (deployment_size > 0)
                return error_set(reterr, ERROR_INVALID,
                                 "a ReplicaSet of deployment.apps/%.*s owns it: update that",
                                 (int) deployment_size, name);
        if (workload_kind_of_owner(owner, &kind))
                return error_set(reterr, ERROR_INVALID, "%s/%s owns it: update that",
                                 kinds[kind].shown, name);

        return error_set(reterr, ERROR_INVALID,
                         "%s \"%s\" owns it, whose pods cannot be updated in place: set the image "
                         "there, for pods that are made later",
                         json_get_text(owner, "kind") ?: "a controller", name);
}

bool object_is_deleted(json_object *object) {
        return object_text(object, "metadata.deletionTimestamp") != NULL;
}

bool pod_has_ended(json_object *pod) {
        const char *phase = object_text(pod, "status.phase");

        return text_equal(phase, "Failed") || text_equal(phase, "Succeeded");
}

json_object *object_template(json_object *object) {
        json_object *template = object_at(object, "data.spec.template");

        if (!template)
                template = object_at(object, "spec.template");
        return template ? template : object;
}

json_object *template_container(json_object *template, size_t i) {
        static const char *const lists[] = { "spec.containers", "spec.initContainers" };

        for (size_t n = 0; n < sizeof(lists) / sizeof(lists[0]); n++) {
                json_object *list = object_list(template, lists[n]);
                size_t length = list ? json_object_array_length(list) : 0;

                if (i < length)
                        return json_object_array_get_idx(list, i);
                i -= length;
        }
        return NULL;
}

json_object *template_find_container(json_object *template, const char *name) {
        return json_find(object_at(template, "spec.containers"), "name", name)
                       ?: json_find(object_at(template, "spec.initContainers"), "name", name);
}

json_object *container_status(json_object *pod, const char *container) {
        return json_find(object_at(pod, "status.containerStatuses"), "name", container)
                       ?: json_find(object_at(pod, "status.initContainerStatuses"), "name",
                                    container);
}

/* As the kubelet writes it: "back-off 2m40s restarting failed container" */
int64_t container_backoff_sec(json_object *status) {
        const char *at = strstr(object_text(status, "state.waiting.message") ?: "", "back-off ");
        int64_t sum = 0;

        for (at = at ? at + strlen("back-off ") : ""; isdigit((unsigned char) *at);) {
                char *unit;
                int64_t number = strtoll(at, &unit, 10);

                if ((*unit != 'm' && *unit != 's') || number > 3600)
                        return 0;
                sum += *unit == 'm' ? 60 * number : number;
                at = unit + 1;
        }
        return sum;
}

const char *template_image(json_object *template, const char *container) {
        return json_get_text(template_find_container(template, container), "image");
}

int template_name_containers(json_object *template, char **ret) {
        json_object *list = object_list(template, "spec.containers");
        size_t size = 0;
        FILE *stream = text_open(ret, &size);

        if (!stream)
                return -ENOMEM;
        for (size_t i = 0; list && i < json_object_array_length(list); i++)
                (void) fprintf(stream, "%s%s", i == 0 ? "" : ", ",
                               json_get_text(json_object_array_get_idx(list, i), "name") ?: "");
        return text_close(stream, ret);
}

const char *volume_image(json_object *volume) {
        return json_get_filled(json_get(volume, "image", json_type_object), "reference");
}

const char *template_pulled_volume(json_object *template) {
        json_object *volumes = object_list(template, "spec.volumes");

        for (size_t i = 0; volumes && i < json_object_array_length(volumes); i++) {
                json_object *volume = json_object_array_get_idx(volumes, i);

                if (volume_image(volume) &&
                    json_is(object_at(volume, "image"), "pullPolicy", "Always"))
                        return json_get_text(volume, "name") ?: "";
        }
        return NULL;
}

static bool continues_reference(const char *end) {
        if (*end == '.' || *end == ':')
                end++;
        return isalnum((unsigned char) *end) || (*end && strchr("_-@/", *end));
}

bool message_is_about_image(const char *message, const char *image) {
        for (const char *at = image[0] ? strstr(message, image) : NULL; at;
             at = strstr(at + 1, image)) {
                bool is_begun = at > message && continues_reference(at - 1);

                if (!is_begun && !continues_reference(at + strlen(image)))
                        return true;
        }
        return false;
}

bool message_is_about_volume(const char *message, json_object *template) {
        json_object *volumes = object_list(template, "spec.volumes");

        for (size_t i = 0; volumes && i < json_object_array_length(volumes); i++) {
                const char *image = volume_image(json_object_array_get_idx(volumes, i));

                if (image && message_is_about_image(message, image))
                        return true;
        }
        return false;
}

int template_refuse_container(json_object *template, const char *container, Error *reterr) {
        json_object *volume = json_find(object_list(template, "spec.volumes"), "name", container);
        cleanup(free_p) char *names = NULL;

        if (template_name_containers(template, &names) < 0)
                return -ENOMEM;
        if (volume_image(volume))
                return error_set(reterr, ERROR_INVALID,
                                 "\"%s\" is a volume with the image %s: the volumes of a pod "
                                 "cannot change; change the template, and let its controller "
                                 "replace the pods",
                                 container, volume_image(volume));
        return error_set(reterr, ERROR_NOT_FOUND,
                         "there is no container \"%s\"; the workload has %s", container, names);
}

const char *image_short(const char *image) {
        const char *slash = strrchr(image, '/');

        return slash ? slash + 1 : image;
}

bool container_running_image(json_object *status, ImageRef *ret) {
        static const char scheme[] = "docker-pullable://"; /* cri-dockerd has it */
        const char *id = json_get_text(status, "imageID") ?: "";

        if (strncmp(id, scheme, strlen(scheme)) == 0)
                id += strlen(scheme);
        return image_ref_parse(id, SHORT_NAMES_HUB, ret, NULL) >= 0 && ret->digest[0];
}

size_t image_name_size(const char *image) {
        size_t size = strcspn(image, "@");

        for (size_t i = size; i > 0 && image[i - 1] != '/'; i--)
                if (image[i - 1] == ':')
                        return i - 1;

        return size;
}

int pod_spec_add_secrets(json_object *spec, json_object *names) {
        json_object *secrets = json_get(spec, "imagePullSecrets", json_type_array);
        int r = 0;

        for (size_t i = 0; r >= 0 && secrets && i < json_object_array_length(secrets); i++) {
                const char *name = json_get_filled(json_object_array_get_idx(secrets, i), "name");

                r = name ? patch_add_null(names, name) : 0;
        }
        return r;
}

int pod_spec_add_volume_images(json_object *spec, json_object *images) {
        json_object *volumes = json_get(spec, "volumes", json_type_array);
        int r = 0;

        for (size_t i = 0; r >= 0 && volumes && i < json_object_array_length(volumes); i++) {
                const char *image = volume_image(json_object_array_get_idx(volumes, i));

                r = image ? patch_add_null(images, image) : 0;
        }
        return r;
}

bool template_ends(json_object *template, const char *container) {
        json_object *found =
                json_find(object_at(template, "spec.initContainers"), "name", container);

        return found && !json_is(found, "restartPolicy", "Always");
}

static int set_all(json_object *template, json_object *image, json_object *images) {
        json_object *container;
        int r = 0;

        for (size_t i = 0; r >= 0 && (container = template_container(template, i)); i++) {
                const char *name = json_get_text(container, "name");

                r = name ? patch_add(images, name, json_object_get(image)) : 0;
        }
        return r;
}

int template_expand_images(json_object *template, json_object *images, json_object **ret) {
        cleanup(json_object_put_p) json_object *expanded = json_object_new_object();
        int r = expanded ? 0 : -ENOMEM;

        json_object_object_foreach(images, container, image) {
                if (r >= 0)
                        r = strcmp(container, "*") == 0
                                    ? set_all(template, image, expanded)
                                    : patch_add(expanded, container, json_object_get(image));
        }
        if (r < 0)
                return r;

        *ret = take_ptr(expanded);
        return 0;
}

/* The container's entry in an annotation; NULL: it has none. */
static json_object *find_note(json_object *template, const char *annotation,
                              const char *container) {
        return json_get(object_annotation_json(template, annotation), container, json_type_object);
}

const char *template_written_image(json_object *template, const char *container) {
        const char *image = template_image(template, container);
        json_object *entry = find_note(template, RESTART_ANNOTATION, container);

        return image && json_is(entry, "as", image) ? json_get_filled(entry, "image") ?: image
                                                    : image;
}

/* The digest of a restart is known to be the written image's, and not that of the image before an update. */
static bool is_true_spelling(json_object *pod, const char *container, const char *written) {
        json_object *entry = find_note(pod, RESTART_ANNOTATION, container);
        json_object *former = find_note(pod, ROLLOUT_POD_ANNOTATION, container);
        const char *before = json_get_text(former, "image");
        const char *ran = json_get_text(entry, "ran");

        if (!before || strchr(written, '@') || strcmp(before, written) == 0)
                return true;
        return ran && !json_is(former, "id", ran);
}

bool template_has_images(json_object *template, json_object *images) {
        json_object_object_foreach(images, container, image) {
                const char *expected = json_object_get_string(image);
                const char *written = template_written_image(template, container);

                if (text_equal(template_image(template, container), expected))
                        continue;
                if (!text_equal(written, expected) ||
                    !is_true_spelling(template, container, written))
                        return false;
        }
        return true;
}

json_object *template_image_patch(json_object *template, json_object *images) {
        cleanup(json_object_put_p) json_object *patch = json_object_new_object();

        json_object_object_foreach(images, container, image) {
                bool is_init =
                        !json_find(object_at(template, "spec.containers"), "name", container);
                const char *key = is_init ? "initContainers" : "containers";
                json_object *list = json_get(patch, key, json_type_array);
                json_object *entry = patch_wrap("name", json_object_new_string(container));

                if (!list && patch_add(patch, key, list = json_object_new_array()) < 0) {
                        json_object_put(entry);
                        return NULL;
                }
                if (patch_append(list, entry) < 0 ||
                    patch_add(entry, "image", json_object_get(image)) < 0)
                        return NULL;
        }
        return take_ptr(patch);
}

/* The field differs on purpose, or comes from a controller or from how a revision is stored. */
static bool is_ignored(const char *path, const char *key) {
        if (strcmp(key, "image") == 0)
                return strncmp(path, "spec.containers[", 16) == 0 ||
                       strncmp(path, "spec.initContainers[", 20) == 0;
        if (strcmp(key, "pod-template-hash") == 0)
                return strcmp(path, "metadata.labels") == 0;

        return *path == '\0' && strcmp(key, "$patch") == 0;
}

static int compare_values(json_object *a, json_object *b, const char *path, char **ret);

/* Compares members that `b` has as well only if is_all: the other way round they have been compared. */
static int compare_members(json_object *a, json_object *b, bool is_all, const char *path,
                           char **ret) {
        int r = 0;

        json_object_object_foreach(a, key, value) {
                cleanup(free_p) char *inner = NULL;
                json_object *other = json_object_object_get(b, key);

                if ((other && !is_all) || json_object_equal(value, other) || is_ignored(path, key))
                        continue;
                if (text_format(&inner, "%s%s%s", path, *path ? "." : "", key) < 0)
                        return -ENOMEM;
                r = compare_values(value, other, inner, ret);
                if (r < 0 || *ret)
                        return r;
        }
        return 0;
}

static int compare_items(json_object *a, json_object *b, const char *path, char **ret) {
        int r = 0;

        if (json_object_array_length(a) != json_object_array_length(b))
                return text_copy(path, ret);

        for (size_t i = 0; i < json_object_array_length(a) && r == 0 && !*ret; i++) {
                cleanup(free_p) char *inner = NULL;

                if (text_format(&inner, "%s[%zu]", path, i) < 0)
                        return -ENOMEM;
                r = compare_values(json_object_array_get_idx(a, i), json_object_array_get_idx(b, i),
                                   inner, ret);
        }
        return r;
}

static int compare_values(json_object *a, json_object *b, const char *path, char **ret) {
        int r;

        if (!a && !b)
                return 0;
        if (json_object_get_type(a) != json_object_get_type(b))
                return text_copy(path, ret);
        if (json_object_is_type(a, json_type_array))
                return compare_items(a, b, path, ret);
        if (!json_object_is_type(a, json_type_object))
                return json_object_equal(a, b) ? 0 : text_copy(path, ret);

        r = compare_members(a, b, /* is_all= */ true, path, ret);
        if (r < 0 || *ret)
                return r;
        return compare_members(b, a, /* is_all= */ false, path, ret);
}

int template_compare(json_object *a, json_object *b, char **ret) {
        cleanup(free_p) char *found = NULL;
        int r = compare_values(a, b, "", &found);

        if (r >= 0)
                *ret = take_ptr(found);
        return r;
}

/* "a" of "a=b" or of "a in (b,c)" */
static void add_requirement(FILE *stream, json_object *requirement, bool *is_first) {
        const char *key = json_get_text(requirement, "key");
        const char *operation = json_get_text(requirement, "operator");
        json_object *values = json_get(requirement, "values", json_type_array);

        if (!key || !operation)
                return;
        (void) fprintf(stream, "%s%s%s", *is_first ? "" : ",",
                       strcmp(operation, "DoesNotExist") == 0 ? "!" : "", key);
        *is_first = false;
        if (!values || json_object_array_length(values) == 0)
                return;
        (void) fprintf(stream, " %s (", strcmp(operation, "In") == 0 ? "in" : "notin");
        for (size_t i = 0; i < json_object_array_length(values); i++)
                (void) fprintf(stream, "%s%s", i == 0 ? "" : ",",
                               json_object_get_string(json_object_array_get_idx(values, i)));
        (void) fputc(')', stream);
}

int selector_format(json_object *selector, char **ret) {
        json_object *labels = json_get(selector, "matchLabels", json_type_object);
        json_object *list = json_get(selector, "matchExpressions", json_type_array);
        cleanup(free_p) char *text = NULL;
        size_t size = 0;
        bool is_first = true;
        FILE *stream = text_open(&text, &size);

        if (!stream)
                return -ENOMEM;
        if (labels) {
                json_object_object_foreach(labels, key, value) {
                        (void) fprintf(stream, "%s%s=%s", is_first ? "" : ",", key,
                                       json_object_get_string(value));
                        is_first = false;
                }
        }
        for (size_t i = 0; list && i < json_object_array_length(list); i++)
                add_requirement(stream, json_object_array_get_idx(list, i), &is_first);
        if (text_close(stream, &text) < 0)
                return -ENOMEM;

        *ret = take_ptr(text);
        return 0;
}

static bool requirement_matches(json_object *requirement, json_object *labels) {
        const char *key = json_get_text(requirement, "key");
        const char *value = key ? json_get_text(labels, key) : NULL;
        bool is_listed =
                value && list_has_text(json_get(requirement, "values", json_type_array), value);

        if (json_is(requirement, "operator", "In"))
                return is_listed;
        if (json_is(requirement, "operator", "NotIn"))
                return !is_listed;
        if (json_is(requirement, "operator", "Exists"))
                return value != NULL;
        return json_is(requirement, "operator", "DoesNotExist") && !value;
}

bool selector_matches(json_object *selector, json_object *labels) {
        json_object *equal = json_get(selector, "matchLabels", json_type_object);
        json_object *list = json_get(selector, "matchExpressions", json_type_array);

        if (!selector)
                return false;
        if (equal) {
                json_object_object_foreach(equal, key, value) {
                        if (!text_equal(json_get_text(labels, key), json_object_get_string(value)))
                                return false;
                }
        }
        for (size_t i = 0; list && i < json_object_array_length(list); i++)
                if (!requirement_matches(json_object_array_get_idx(list, i), labels))
                        return false;

        return true;
}

int share_parse(const char *text, int64_t whole, ShareRounding rounding, int64_t *ret,
                Error *reterr) {
        char *end = NULL;
        long number;

        errno = 0;
        number = strtol(text, &end, 10);
        if (errno != 0 || end == text || number < 0 || number > INT32_MAX ||
            (strcmp(end, "") != 0 && strcmp(end, "%") != 0) || (*end == '%' && number > 100))
                return error_set(reterr, ERROR_INVALID,
                                 "\"%s\": expected a number, or a percentage such as 25%%", text);

        if (*end == '%')
                number = (long) ((whole * number + (rounding == SHARE_ROUNDED_UP ? 99 : 0)) / 100);
        *ret = number;
        return 0;
}
