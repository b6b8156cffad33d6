/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/container-spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/slice.h"
#include "agent/pod/env-hash.h"
#include "agent/pod/spec-text.h"

typedef Kubernetes__V1__ObjectMeta__LabelsEntry LabelMessage;
typedef Kubernetes__V1__ObjectMeta__AnnotationsEntry AnnotationMessage;

static int compare_labels(const void *a, const void *b) {
        const LabelMessage *left = *(LabelMessage *const *) a, *right = *(LabelMessage *const *) b;

        return strcmp(left->key ?: "", right->key ?: "");
}

static int compare_annotations(const void *a, const void *b) {
        const AnnotationMessage *left = *(AnnotationMessage *const *) a;
        const AnnotationMessage *right = *(AnnotationMessage *const *) b;

        return strcmp(left->key ?: "", right->key ?: "");
}

/* There may be thousands, and as many variables that ask for one. */
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

/* The entries are sorted. What is not there has the value "". */
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

/* Of several variables of one name the last one wins. There may be thousands. */
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

static int read_env(const KubeContainer *message, const KubeObjectMeta *meta,
                    PodContainer *container) {
        cleanup(free_p) EnvValue *values = NULL;
        size_t n_values = 0;
        int r;

        if (message->n_env > 0) {
                values = malloc(message->n_env * sizeof(*values));
                if (!values)
                        return -ENOMEM;
        }

        for (size_t i = 0; i < message->n_env; i++)
                if (read_variable(message->env[i], meta, &values[n_values]))
                        n_values++;

        r = copy_env_names(container, values, n_values);
        if (r < 0)
                return r;

        r = n_values > 0 ? is_any_overridden(message, meta, &container->is_env_overridden) : 0;
        if (r < 0)
                return r;

        return env_hash(values, n_values, &container->env_hash);
}

/* What else a rule may ask for, only the kubelet can tell. */
static bool has_unknown_rule(const KubeContainer *message) {
        for (size_t i = 0; i < message->n_restartpolicyrules; i++)
                if (!spec_is_text(message->restartpolicyrules[i]->action, "Restart"))
                        return true;

        return false;
}

static int read_restart(const KubeContainer *message, const Kubernetes__V1__PodSpec *spec,
                        PodContainer *container, Error *reterr) {
        const char *policy = spec_has_text(message->restartpolicy) ? message->restartpolicy
                             : spec_has_text(spec->restartpolicy)  ? spec->restartpolicy
                                                                   : "Always";

        if (container->kind == POD_CONTAINER_INIT && spec_is_text(message->restartpolicy, "Always"))
                container->kind = POD_CONTAINER_SIDECAR;

        container->comes_back = container->kind != POD_CONTAINER_INIT &&
                                strcmp(policy, "Always") == 0 && !has_unknown_rule(message);
        return spec_copy_text(policy, SPEC_NAME_SIZE_MAX, "restartPolicy",
                              &container->restart_policy, reterr);
}

static int copy_ids(const char *id, const char *former_id, PodContainer *container, Error *reterr) {
        int r;

        r = spec_copy_text(id, SPEC_TEXT_SIZE_MAX, "containerID", &container->container_id, reterr);
        if (r < 0)
                return r;

        return spec_copy_text(former_id, SPEC_TEXT_SIZE_MAX, "lastState.terminated.containerID",
                              &container->former_id, reterr);
}

static int read_container(const KubeContainer *message, const KubePod *pod, PodContainer *container,
                          Error *reterr) {
        int r;

        r = spec_copy_name(message->name, "the name of a container", &container->name, reterr);
        if (r < 0)
                return r;

        r = spec_copy_text(message->image, SPEC_TEXT_SIZE_MAX, "image", &container->image, reterr);
        if (r < 0)
                return r;

        r = copy_ids(NULL, NULL, container, reterr);
        if (r < 0)
                return r;

        r = read_restart(message, pod->spec, container, reterr);
        if (r < 0)
                return r;

        r = plain_hash(container->name, container->image, &container->plain_hash);
        if (r < 0)
                return r;

        return read_env(message, pod->metadata, container);
}

static int read_containers(KubeContainer **messages, size_t n_messages, PodContainerKind kind,
                           const KubePod *message, Pod *pod, Error *reterr) {
        for (size_t i = 0; i < n_messages; i++) {
                PodContainer *container = &pod->containers[pod->n_containers++];
                int r;

                *container = (PodContainer){ .kind = kind, .status_index = -1 };
                r = read_container(messages[i], message, container, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
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
        container->started_at_sec = running && running->startedat ? running->startedat->seconds : 0;
        return copy_ids(status->containerid, former ? former->containerid : NULL, container,
                        reterr);
}

static PodContainer *find_container(Pod *pod, const char *name, bool is_main) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (spec_is_text(name, pod->containers[i].name) &&
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

int container_spec_read(const KubePod *message, Pod *pod, Error *reterr) {
        const Kubernetes__V1__PodSpec *spec = message->spec;
        int r;

        r = check_counts(spec->n_containers, spec->n_initcontainers, reterr);
        if (r < 0)
                return r;

        pod->containers =
                calloc(spec->n_containers + spec->n_initcontainers + 1, sizeof(*pod->containers));
        if (!pod->containers)
                return -ENOMEM;

        sort_entries(message->metadata);
        r = read_containers(spec->containers, spec->n_containers, POD_CONTAINER_MAIN, message, pod,
                            reterr);
        if (r < 0)
                return r;

        return read_containers(spec->initcontainers, spec->n_initcontainers, POD_CONTAINER_INIT,
                               message, pod, reterr);
}

int container_spec_read_status(const KubePod *message, Pod *pod, Error *reterr) {
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
