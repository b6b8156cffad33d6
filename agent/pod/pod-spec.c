/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/pod-spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/repeat.h"
#include "agent/base/slice.h"
#include "agent/base/text.h"
#include "agent/kube/protobuf.h"
#include "agent/pod/env-hash.h"
#include "agent/pod/gate-spec.h"

#define NAME_SIZE_MAX ((size_t) 253)
#define TEXT_SIZE_MAX ((size_t) 4096)
/* Limit of all values of a pod's metadata in the environments of its containers, which may repeat a value
 * as often as they like. The kernel starts nothing with more than 6 MiB. */
#define ENV_SIZE_MAX ((size_t) 8 << 20)
#define KRUISE_GATE "KruisePodReady"
#define GRACE_SEC_DEFAULT 30
#define GRACE_SEC_MIN 1
#define GRACE_SEC_MAX ((int64_t) INT32_MAX)

typedef Kubernetes__V1__PodSpec SpecMessage;
typedef Kubernetes__V1__PodStatus StatusMessage;
typedef Kubernetes__V1__PodCondition ConditionMessage;
typedef Kubernetes__V1__ObjectMeta__LabelsEntry LabelMessage;
typedef Kubernetes__V1__ObjectMeta__AnnotationsEntry AnnotationMessage;

DEFINE_CLEANUP(Pod *, pod_free)

/* An unset text is NULL in a message, and "" in a Pod. */

static bool is_text(const char *text, const char *expected) {
        return text && strcmp(text, expected) == 0;
}

static bool has_text(const char *text) {
        return text && text[0];
}

/* Copies the text, unless it is longer than the limit, and frees the former *to. what: the subject
 * of the error. */
static int copy_text(const char *text, size_t size_max, const char *what, char **to,
                     Error *reterr) {
        if (text && strlen(text) > size_max)
                return error_set(reterr, ERROR_INVALID, "%s: has more than %zu bytes", what,
                                 size_max);

        return text_set(to, text ?: "");
}

/* Refuses a missing name as well. */
static int copy_name(const char *name, const char *what, char **to, Error *reterr) {
        if (!has_text(name))
                return error_set(reterr, ERROR_INVALID, "%s: is missing", what);

        return copy_text(name, NAME_SIZE_MAX, what, to, reterr);
}

/* Containers */

static int compare_labels(const void *a, const void *b) {
        const LabelMessage *left = *(LabelMessage *const *) a, *right = *(LabelMessage *const *) b;

        return strcmp(left->key ?: "", right->key ?: "");
}

static int compare_annotations(const void *a, const void *b) {
        const AnnotationMessage *left = *(AnnotationMessage *const *) a;
        const AnnotationMessage *right = *(AnnotationMessage *const *) b;

        return strcmp(left->key ?: "", right->key ?: "");
}

/* Sorts, since there may be thousands of entries and of variables that refer to them. */
static void sort_entries(const KubeObjectMeta *meta) {
        if (meta->n_labels > 1)
                qsort(meta->labels, meta->n_labels, sizeof(*meta->labels), compare_labels);
        if (meta->n_annotations > 1)
                qsort(meta->annotations, meta->n_annotations, sizeof(*meta->annotations),
                      compare_annotations);
}

static int compare_key(const char *text, Slice key) {
        int r = strncmp(text, key.data, key.size);

        return r != 0 ? r : text[key.size] != '\0';
}

/* Finds an entry by binary search. A missing one has the value "". */
static const char *find_entry(const KubeObjectMeta *meta, bool is_label, Slice key) {
        size_t first = 0, end = is_label ? meta->n_labels : meta->n_annotations;

        while (first < end) {
                size_t i = first + (end - first) / 2;
                const char *text = is_label ? meta->labels[i]->key : meta->annotations[i]->key;
                int r = compare_key(text ?: "", key);

                if (r == 0)
                        return (is_label ? meta->labels[i]->value : meta->annotations[i]->value)
                                       ?: "";
                if (r < 0)
                        first = i + 1;
                else
                        end = i;
        }

        return "";
}

/* False if the variable is not made from labels or annotations. */
static bool read_variable(const Kubernetes__V1__EnvVar *variable, const KubeObjectMeta *meta,
                          EnvValue *ret) {
        const Kubernetes__V1__EnvVarSource *source = variable->valuefrom;
        const char *name = variable->name ?: "";
        bool is_label;
        Slice key;

        if ((variable->value && variable->value[0]) || !source || !source->fieldref ||
            env_hash_skips(name) ||
            !env_hash_parse_field(source->fieldref->fieldpath ?: "", &is_label, &key))
                return false;

        *ret = (EnvValue){ .name = name, .value = find_entry(meta, is_label, key) };
        return true;
}

static bool is_own_annotation(const Kubernetes__V1__EnvVar *variable) {
        bool is_label;
        Slice key;

        return env_hash_parse_field(variable->valuefrom->fieldref->fieldpath, &is_label, &key) &&
               !is_label && compare_key(POD_META_ANNOTATION, key) == 0;
}

static int copy_env_names(PodContainer *container, const EnvValue *values, size_t n_values) {
        container->env_names = calloc(n_values + 1, sizeof(*container->env_names));
        if (!container->env_names)
                return -ENOMEM;

        for (size_t i = 0; i < n_values; i++) {
                container->env_names[i] = strdup(values[i].name);
                if (!container->env_names[i])
                        return -ENOMEM;
        }

        return 0;
}

typedef struct NamedVariable {
        const char *name;
        size_t index;
        bool is_ours;
} NamedVariable;

static int compare_variables(const void *a, const void *b) {
        const NamedVariable *left = a, *right = b;
        int r = strcmp(left->name, right->name);

        return r != 0 ? r : (left->index > right->index) - (left->index < right->index);
}

/* The last of several variables of one name wins. Sorts, since there may be thousands. */
static int is_any_overridden(const KubeContainer *message, const KubeObjectMeta *meta, bool *ret) {
        cleanup(free_p) NamedVariable *all = calloc(message->n_env + 1, sizeof(*all));
        EnvValue value;

        if (!all)
                return -ENOMEM;

        for (size_t i = 0; i < message->n_env; i++)
                all[i] = (NamedVariable){
                        .name = message->env[i]->name ?: "",
                        .index = i,
                        .is_ours = read_variable(message->env[i], meta, &value),
                };
        qsort(all, message->n_env, sizeof(*all), compare_variables);

        *ret = false;
        for (size_t i = 0; i + 1 < message->n_env; i++)
                if (all[i].is_ours && strcmp(all[i].name, all[i + 1].name) == 0)
                        *ret = true;

        return 0;
}

/* Takes the room that the value needs; false if there is too little, and then there is none left. */
static bool take_room(const char *value, size_t *room) {
        size_t size = strnlen(value, *room + 1);
        bool is_enough = size <= *room;

        *room -= is_enough ? size : *room;
        return is_enough;
}

/* A container whose values need more than the room counts as one without such variables. */
static int read_env(const KubeContainer *message, const KubeObjectMeta *meta, size_t *room,
                    PodContainer *container) {
        cleanup(free_p) EnvValue *values = NULL;
        size_t n_values = 0;
        bool has_room = true;
        int r;

        if (message->n_env > 0) {
                values = malloc(message->n_env * sizeof(*values));
                if (!values)
                        return -ENOMEM;
        }

        for (size_t i = 0; has_room && i < message->n_env; i++)
                if (read_variable(message->env[i], meta, &values[n_values])) {
                        has_room = take_room(values[n_values++].value, room);
                        container->is_env_own =
                                container->is_env_own || is_own_annotation(message->env[i]);
                }
        if (!has_room)
                n_values = 0;

        r = copy_env_names(container, values, n_values);
        if (r < 0)
                return r;

        r = n_values > 0 ? is_any_overridden(message, meta, &container->is_env_overridden) : 0;
        if (r < 0)
                return r;

        return env_hash(values, n_values, &container->env_hash);
}

/* Restarts all containers of the pod, or is of a newer kubelet. */
static bool has_other_rule(const KubeContainer *message) {
        for (size_t i = 0; i < message->n_restartpolicyrules; i++)
                if (!is_text(message->restartpolicyrules[i]->action, "Restart"))
                        return true;

        return false;
}

static int read_restart(const KubeContainer *message, const Kubernetes__V1__PodSpec *spec,
                        PodContainer *container, Error *reterr) {
        const char *policy = has_text(message->restartpolicy) ? message->restartpolicy
                             : has_text(spec->restartpolicy)  ? spec->restartpolicy
                                                              : "Always";

        if (container->kind == POD_CONTAINER_INIT && is_text(message->restartpolicy, "Always"))
                container->kind = POD_CONTAINER_SIDECAR;

        container->comes_back = container->kind != POD_CONTAINER_INIT &&
                                strcmp(policy, "Always") == 0 && !has_other_rule(message);
        container->rules_decide = message->n_restartpolicyrules > 0 && !container->comes_back;
        return copy_text(policy, NAME_SIZE_MAX, "restartPolicy", &container->restart_policy,
                         reterr);
}

static int copy_ids(const char *id, const char *former_id, PodContainer *container, Error *reterr) {
        int r;

        r = copy_text(id, TEXT_SIZE_MAX, "containerID", &container->container_id, reterr);
        if (r < 0)
                return r;

        return copy_text(former_id, TEXT_SIZE_MAX, "lastState.terminated.containerID",
                         &container->former_id, reterr);
}

static int read_container(const KubeContainer *message, const SpecMessage *spec,
                          PodContainer *container, Error *reterr) {
        int r;

        r = copy_name(message->name, "the name of a container", &container->name, reterr);
        if (r < 0)
                return r;

        r = copy_text(message->image, TEXT_SIZE_MAX, "image", &container->image, reterr);
        if (r < 0)
                return r;

        r = copy_ids(NULL, NULL, container, reterr);
        if (r < 0)
                return r;

        container->is_pulled_never = is_text(message->imagepullpolicy, "Never");
        container->plain_hash = plain_hash(container->name, container->image);
        return read_restart(message, spec, container, reterr);
}

static int read_containers(KubeContainer **messages, size_t n_messages, PodContainerKind kind,
                           const SpecMessage *spec, Pod *pod, Error *reterr) {
        for (size_t i = 0; i < n_messages; i++) {
                PodContainer *container = &pod->containers[pod->n_containers++];
                int r;

                *container = (PodContainer){ .kind = kind, .status_index = -1 };
                r = read_container(messages[i], spec, container, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_environments(const SpecMessage *spec, const KubeObjectMeta *meta, Pod *pod) {
        size_t room = ENV_SIZE_MAX, n_main = spec->n_containers;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < pod->n_containers; i++)
                r = read_env(i < n_main ? spec->containers[i] : spec->initcontainers[i - n_main],
                             meta, &room, &pod->containers[i]);

        return r;
}

static int compare_names(const void *a, const void *b) {
        const PodContainer *left = *(PodContainer *const *) a, *right = *(PodContainer *const *) b;

        return strcmp(left->name, right->name);
}

static int compare_word(const void *word, const void *container) {
        int r = compare_key((*(PodContainer *const *) container)->name, *(const Slice *) word);

        return (r < 0) - (r > 0);
}

/* Sorts, since there may be a thousand containers, and as many words as an annotation has room for. */
static int mark_restarts(Pod *pod) {
        static const char between[] = ", \t\r\n";
        cleanup(free_p) PodContainer **sorted = calloc(pod->n_containers + 1, sizeof(*sorted));
        const char *text = pod->restart_on_metadata;
        bool is_any = strcmp(text, "true") == 0;

        if (!sorted)
                return -ENOMEM;

        for (size_t i = 0; i < pod->n_containers; i++) {
                sorted[i] = &pod->containers[i];
                sorted[i]->restarts_on_metadata = is_any;
        }
        qsort(sorted, pod->n_containers, sizeof(*sorted), compare_names);

        for (text += strspn(text, between); *text; text += strspn(text, between)) {
                const Slice word = { .data = text, .size = strcspn(text, between) };
                PodContainer **found =
                        bsearch(&word, sorted, pod->n_containers, sizeof(*sorted), compare_word);

                if (found)
                        (*found)->restarts_on_metadata = true;
                text += word.size;
        }

        return 0;
}

/* Other reasons are of pauses or failures, such as ImagePullBackOff. */
static bool is_starting(const Kubernetes__V1__ContainerState *state) {
        const char *reason = state && state->waiting ? state->waiting->reason : NULL;

        return !state || (!state->running && !state->terminated &&
                          (!has_text(reason) || is_text(reason, "ContainerCreating") ||
                           is_text(reason, "PodInitializing")));
}

/* A policy that a newer kubelet knows may start it again. */
static bool stays_ended(const Kubernetes__V1__ContainerStateTerminated *ended,
                        const PodContainer *container) {
        if (!ended || container->rules_decide)
                return false;

        return strcmp(container->restart_policy, "Never") == 0 ||
               (strcmp(container->restart_policy, "OnFailure") == 0 && ended->exitcode == 0);
}

static int read_container_status(const KubeContainerStatus *status, int index,
                                 PodContainer *container, Error *reterr) {
        const Kubernetes__V1__ContainerStateRunning *running =
                status->state ? status->state->running : NULL;
        const Kubernetes__V1__ContainerStateTerminated *former =
                status->laststate ? status->laststate->terminated : NULL;

        container->status_index = index;
        container->restart_count = status->restartcount;
        container->is_ready = status->ready;
        container->is_running = running;
        container->is_started = running && (!status->has_started || status->started);
        container->has_ended = status->state && status->state->terminated;
        container->stays_ended = status->state && stays_ended(status->state->terminated, container);
        container->is_next = is_starting(status->state);
        container->started_at_sec = running && running->startedat ? running->startedat->seconds : 0;
        return copy_ids(status->containerid, former ? former->containerid : NULL, container,
                        reterr);
}

static PodContainer *find_container(Pod *pod, const char *name, bool is_main) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (is_text(name, pod->containers[i].name) &&
                    is_main == (pod->containers[i].kind == POD_CONTAINER_MAIN))
                        return &pod->containers[i];

        return NULL;
}

static int read_statuses(KubeContainerStatus **statuses, size_t n_statuses, bool is_main, Pod *pod,
                         Error *reterr) {
        for (size_t i = 0; i < n_statuses; i++) {
                PodContainer *container = find_container(pod, statuses[i]->name, is_main);
                int r;

                if (!container)
                        continue;

                r = read_container_status(statuses[i], (int) i, container, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int check_counts(size_t n_main, size_t n_init, Error *reterr) {
        if (n_main > POD_CONTAINERS_MAX || n_init > POD_CONTAINERS_MAX - n_main)
                return error_set(reterr, ERROR_INVALID, "it has more than %zu containers",
                                 POD_CONTAINERS_MAX);

        return 0;
}

/* The kubelet starts the init containers one after the other, then the others together. It waits until an init
 * container has ended, but for a sidecar only until that has started. */
static void mark_next(Pod *pod, size_t n_main) {
        bool is_free = !pod->is_deleted && !pod->is_finished;

        for (size_t i = 0; i < pod->n_containers; i++) {
                PodContainer *container = &pod->containers[(n_main + i) % pod->n_containers];

                container->is_next &= is_free;
                if (container->kind == POD_CONTAINER_INIT)
                        is_free &= container->has_ended;
                else if (container->kind == POD_CONTAINER_SIDECAR)
                        is_free &= container->is_started;
        }
}

/* Requires metadata and a spec. Sorts the metadata's labels and annotations. After an error, the
 * fields read before it are set. */
static int read_all_containers(const KubePod *message, Pod *pod, Error *reterr) {
        const Kubernetes__V1__PodSpec *spec = message->spec;
        int r;

        r = check_counts(spec->n_containers, spec->n_initcontainers, reterr);
        if (r < 0)
                return r;

        pod->containers =
                calloc(spec->n_containers + spec->n_initcontainers + 1, sizeof(*pod->containers));
        if (!pod->containers)
                return -ENOMEM;

        r = read_containers(spec->containers, spec->n_containers, POD_CONTAINER_MAIN, spec, pod,
                            reterr);
        if (r < 0)
                return r;

        r = read_containers(spec->initcontainers, spec->n_initcontainers, POD_CONTAINER_INIT, spec,
                            pod, reterr);
        if (r < 0)
                return r;

        sort_entries(message->metadata);
        r = read_environments(spec, message->metadata, pod);
        return r < 0 || !pod->restart_on_metadata ? r : mark_restarts(pod);
}

/* The last of two statuses with the same name counts. Statuses of containers that are not in the
 * spec are left out. */
static int read_container_statuses(const KubePod *message, Pod *pod, Error *reterr) {
        const Kubernetes__V1__PodStatus *status = message->status;
        int r;

        r = check_counts(status->n_containerstatuses, status->n_initcontainerstatuses, reterr);
        if (r < 0)
                return r;

        r = read_statuses(status->containerstatuses, status->n_containerstatuses, true, pod,
                          reterr);
        if (r < 0)
                return r;

        return read_statuses(status->initcontainerstatuses, status->n_initcontainerstatuses, false,
                             pod, reterr);
}

/* The pod itself */

/* NULL: it is no image, or one that the kubelet does not pull. */
static const char *find_volume_image(const Kubernetes__V1__Volume *volume) {
        const Kubernetes__V1__ImageVolumeSource *source =
                volume->volumesource ? volume->volumesource->image : NULL;

        if (!source || !has_text(source->reference) || is_text(source->pullpolicy, "Never") ||
            strlen(source->reference) > TEXT_SIZE_MAX)
                return NULL;

        return source->reference;
}

/* As many as containers at most; the rest is left out. */
static int read_volumes(const SpecMessage *spec, Pod *pod) {
        size_t n_found = 0, n = 0;

        for (size_t i = 0; i < spec->n_volumes && n_found < POD_CONTAINERS_MAX; i++)
                n_found += find_volume_image(spec->volumes[i]) != NULL;
        if (n_found == 0)
                return 0;

        pod->volume_images = calloc(n_found + 1, sizeof(*pod->volume_images));
        if (!pod->volume_images)
                return -ENOMEM;

        for (size_t i = 0; n < n_found; i++) {
                const char *image = find_volume_image(spec->volumes[i]);

                if (!image)
                        continue;
                pod->volume_images[n] = strdup(image);
                if (!pod->volume_images[n++])
                        return -ENOMEM;
        }

        return 0;
}

static int copy_annotation(const KubeObjectMeta *meta, const char *key, char **to, Error *reterr) {
        const char *note = kube_protobuf_annotation(meta, key);

        return note ? copy_text(note, POD_ANNOTATIONS_SIZE_MAX, key, to, reterr) : 0;
}

/* Old pods may have a negative grace period, which Kubernetes takes for the shortest. */
static int64_t read_grace(const SpecMessage *spec) {
        int64_t grace_sec = spec->terminationgraceperiodseconds;

        if (!spec->has_terminationgraceperiodseconds)
                return GRACE_SEC_DEFAULT;
        if (grace_sec < 0)
                return GRACE_SEC_MIN;

        return grace_sec < GRACE_SEC_MAX ? grace_sec : GRACE_SEC_MAX;
}

static void read_spec(const SpecMessage *spec, Pod *pod) {
        pod->grace_sec = read_grace(spec);
        for (size_t i = 0; i < spec->n_readinessgates; i++) {
                const char *type = spec->readinessgates[i]->conditiontype;

                if (is_text(type, KRUISE_GATE))
                        pod->has_kruise_gate = true;
                if (is_text(type, GATE_CONDITION))
                        pod->gate = POD_GATE_UNSET;
        }
}

static int read_verified(const ConditionMessage *condition, Pod *pod, Error *reterr) {
        int r;

        r = copy_text(condition->status, NAME_SIZE_MAX, POD_VERIFIED_CONDITION,
                      &pod->verified_status, reterr);
        if (r < 0)
                return r;

        r = copy_text(condition->reason, TEXT_SIZE_MAX, POD_VERIFIED_CONDITION,
                      &pod->verified_reason, reterr);
        if (r < 0)
                return r;

        return copy_text(condition->message, POD_ANNOTATIONS_SIZE_MAX, POD_VERIFIED_CONDITION,
                         &pod->verified_message, reterr);
}

/* A message that is too long counts as empty, so that the rest of the pod is still read. */
static int read_gate(const ConditionMessage *condition, Pod *pod, Error *reterr) {
        if (!is_text(condition->status, "False") || !has_text(condition->message) ||
            strlen(condition->message) > POD_ANNOTATIONS_SIZE_MAX)
                return 0;

        return copy_text(condition->message, POD_ANNOTATIONS_SIZE_MAX, KRUISE_GATE,
                         &pod->kruise_message, reterr);
}

/* A gate that another program closed stays POD_GATE_OTHER. */
static int read_own_gate(const ConditionMessage *condition, Pod *pod) {
        bool is_asked_for;
        int r;

        if (pod->gate == POD_GATE_NONE)
                return 0;

        pod->gate = POD_GATE_OTHER;
        pod->gate_digest = 0;
        if (!is_text(condition->status, "False") ||
            !is_text(condition->reason, GATE_REASON_UPDATE) || !condition->message ||
            strlen(condition->message) > POD_ANNOTATIONS_SIZE_MAX)
                return 0;

        r = gate_read(condition->message, pod, &is_asked_for);
        if (r < 0)
                return r;

        pod->gate = is_asked_for ? POD_GATE_UPDATING : POD_GATE_CLOSED;
        pod->gate_digest = repeat_digest(0, condition->message);
        return 0;
}

static int read_condition(const ConditionMessage *condition, Pod *pod, Error *reterr) {
        if (is_text(condition->type, "InPlaceUpdateReady"))
                pod->update =
                        is_text(condition->status, "False") ? POD_UPDATE_RUNNING : POD_UPDATE_READY;
        else if (is_text(condition->type, "Ready"))
                pod->is_ready = is_text(condition->status, "True");
        else if (is_text(condition->type, POD_VERIFIED_CONDITION))
                return read_verified(condition, pod, reterr);
        else if (is_text(condition->type, KRUISE_GATE))
                return read_gate(condition, pod, reterr);
        else if (is_text(condition->type, GATE_CONDITION))
                return read_own_gate(condition, pod);

        return 0;
}

static int read_status(const StatusMessage *status, Pod *pod, Error *reterr) {
        const char *ip = status->podip;
        int r;

        if (!has_text(ip) && status->n_podips > 0)
                ip = status->podips[0]->ip;
        r = copy_text(ip, NAME_SIZE_MAX, "podIP", &pod->ip, reterr);
        if (r < 0)
                return r;

        pod->is_finished = is_text(status->phase, "Succeeded") || is_text(status->phase, "Failed");
        for (size_t i = 0; i < status->n_conditions; i++) {
                r = read_condition(status->conditions[i], pod, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static bool is_of_kruise(const KubeObjectMeta *meta) {
        static const char group[] = "apps.kruise.io/";

        for (size_t i = 0; i < meta->n_ownerreferences; i++)
                if (meta->ownerreferences[i]->controller && meta->ownerreferences[i]->apiversion &&
                    strncmp(meta->ownerreferences[i]->apiversion, group, strlen(group)) == 0)
                        return true;

        return kube_protobuf_annotation(meta, "kruise.io/sidecarset-hash");
}

static bool is_of_node(const KubeObjectMeta *meta) {
        for (size_t i = 0; i < meta->n_ownerreferences; i++)
                if (is_text(meta->ownerreferences[i]->kind, "Node") &&
                    is_text(meta->ownerreferences[i]->apiversion, "v1"))
                        return true;

        return false;
}

/* The object is the mirror of a static pod, from a file or a URL. */
static bool is_mirror(const KubeObjectMeta *meta) {
        const char *source = kube_protobuf_annotation(meta, "kubernetes.io/config.source");

        return is_of_node(meta) && (is_text(source, "file") || is_text(source, "http"));
}

/* The API server's copy of a static pod has an UID of its own. */
static const char *find_runtime_uid(const KubeObjectMeta *meta) {
        const char *uid = kube_protobuf_annotation(meta, "kubernetes.io/config.mirror");

        return has_text(uid) && is_mirror(meta) ? uid : meta->uid;
}

static int read_names(const KubeObjectMeta *meta, Pod *pod, Error *reterr) {
        int r;

        r = copy_name(meta->namespace_, "metadata.namespace", &pod->namespace, reterr);
        if (r < 0)
                return r;

        r = copy_name(meta->name, "metadata.name", &pod->name, reterr);
        if (r < 0)
                return r;

        r = copy_name(meta->uid, "metadata.uid", &pod->uid, reterr);
        if (r < 0)
                return r;

        r = copy_name(find_runtime_uid(meta), "metadata.uid", &pod->runtime_uid, reterr);
        if (r < 0)
                return r;

        return copy_text(meta->resourceversion, NAME_SIZE_MAX, "metadata.resourceVersion",
                         &pod->resource_version, reterr);
}

/* "false" and a list without a container count as no annotation. */
static void drop_empty_annotation(Pod *pod) {
        const char *text = pod->restart_on_metadata;

        if (text && (strcmp(text, "false") == 0 || !text[strspn(text, ", \t\r\n")]))
                pod->restart_on_metadata = (free(pod->restart_on_metadata), NULL);
}

static int read_metadata(const KubeObjectMeta *meta, Pod *pod, Error *reterr) {
        int r;

        r = read_names(meta, pod, reterr);
        if (r < 0)
                return r;

        r = copy_annotation(meta, POD_RESTART_ANNOTATION, &pod->restart_on_metadata, reterr);
        if (r < 0)
                return r;

        drop_empty_annotation(pod);
        r = copy_annotation(meta, POD_META_ANNOTATION, &pod->meta, reterr);
        if (r < 0)
                return r;

        pod->is_deleted = meta->deletiontimestamp;
        pod->is_kruise = is_of_kruise(meta);
        return 0;
}

static int read_pod(const KubePod *message, Pod *pod, Error *reterr) {
        int r;

        if (!message->metadata || !message->spec)
                return error_set(reterr, ERROR_INVALID, "it has no %s",
                                 message->metadata ? "spec" : "metadata");

        r = read_metadata(message->metadata, pod, reterr);
        if (r < 0)
                return r;

        read_spec(message->spec, pod);
        r = read_volumes(message->spec, pod);
        if (r < 0)
                return r;

        r = read_all_containers(message, pod, reterr);
        if (r < 0)
                return r;
        if (!message->status)
                r = copy_text(NULL, 0, "podIP", &pod->ip, reterr);
        else
                r = read_status(message->status, pod, reterr)
                            ?: read_container_statuses(message, pod, reterr);
        mark_next(pod, message->spec->n_containers);
        return r;
}

int pod_spec_parse(const uint8_t *bytes, size_t size, Pod **ret, Error *reterr) {
        cleanup(kube_protobuf_free_p) ProtobufCMessage *message = NULL;
        cleanup(pod_free_p) Pod *pod = NULL;
        int r;

        r = kube_protobuf_unpack(&kubernetes__v1__pod__descriptor, bytes, size, &message, reterr);
        if (r < 0)
                return r;

        pod = malloc(sizeof(*pod));
        if (!pod)
                return -ENOMEM;

        *pod = (Pod){ .namespace = NULL };
        r = read_pod((const KubePod *) message, pod, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(pod);
        return 0;
}
