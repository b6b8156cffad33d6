/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pods as the API server sends them, for tests
 *
 * A PodMessage holds all of its parts itself: it must not be moved. Texts are borrowed.
 */

#include <stdbool.h>

#include "tests/unit/kube-message.h"

#define POD_MESSAGE_PARTS 16

typedef struct ContainerMessage {
        KubeContainer container;
        Kubernetes__V1__EnvVar env[POD_MESSAGE_PARTS], *env_list[POD_MESSAGE_PARTS];
        Kubernetes__V1__EnvVarSource sources[POD_MESSAGE_PARTS];
        Kubernetes__V1__ObjectFieldSelector fields[POD_MESSAGE_PARTS];
        Kubernetes__V1__ContainerRestartRule rules[POD_MESSAGE_PARTS];
        Kubernetes__V1__ContainerRestartRule *rule_list[POD_MESSAGE_PARTS];
} ContainerMessage;

typedef struct ContainerStatusMessage {
        KubeContainerStatus status;
        Kubernetes__V1__ContainerState state;
        Kubernetes__V1__ContainerStateRunning running;
        Kubernetes__V1__Time started_at;
} ContainerStatusMessage;

typedef struct PodMessage {
        KubePod pod;
        KubeObjectMeta meta;
        Kubernetes__V1__PodSpec spec;
        Kubernetes__V1__PodStatus status;
        Kubernetes__V1__ObjectMeta__LabelsEntry labels[POD_MESSAGE_PARTS];
        Kubernetes__V1__ObjectMeta__LabelsEntry *label_list[POD_MESSAGE_PARTS];
        Kubernetes__V1__ObjectMeta__AnnotationsEntry annotations[POD_MESSAGE_PARTS];
        Kubernetes__V1__ObjectMeta__AnnotationsEntry *annotation_list[POD_MESSAGE_PARTS];
        Kubernetes__V1__PodCondition conditions[POD_MESSAGE_PARTS];
        Kubernetes__V1__PodCondition *condition_list[POD_MESSAGE_PARTS];
        ContainerMessage containers[POD_MESSAGE_PARTS];
        KubeContainer *main_list[POD_MESSAGE_PARTS], *init_list[POD_MESSAGE_PARTS];
        ContainerStatusMessage statuses[POD_MESSAGE_PARTS];
        KubeContainerStatus *main_status_list[POD_MESSAGE_PARTS];
        KubeContainerStatus *init_status_list[POD_MESSAGE_PARTS];
        size_t n_containers, n_statuses;
} PodMessage;

static inline void pod_message_init(PodMessage *to, const char *namespace, const char *name,
                                    const char *uid, const char *version) {
        memset(to, 0, sizeof(*to));
        kubernetes__v1__pod__init(&to->pod);
        kubernetes__v1__object_meta__init(&to->meta);
        kubernetes__v1__pod_spec__init(&to->spec);
        kubernetes__v1__pod_status__init(&to->status);
        to->pod.metadata = &to->meta;
        to->pod.spec = &to->spec;
        to->pod.status = &to->status;
        to->meta.namespace_ = (char *) namespace;
        to->meta.name = (char *) name;
        to->meta.uid = (char *) uid;
        to->meta.resourceversion = (char *) version;
        to->meta.labels = to->label_list;
        to->meta.annotations = to->annotation_list;
        to->spec.containers = to->main_list;
        to->spec.initcontainers = to->init_list;
        to->status.containerstatuses = to->main_status_list;
        to->status.initcontainerstatuses = to->init_status_list;
        to->status.conditions = to->condition_list;
}

static inline void pod_message_add_label(PodMessage *to, const char *key, const char *value) {
        size_t i = to->meta.n_labels++;

        kubernetes__v1__object_meta__labels_entry__init(&to->labels[i]);
        to->labels[i].key = (char *) key;
        to->labels[i].value = (char *) value;
        to->label_list[i] = &to->labels[i];
}

static inline void pod_message_add_annotation(PodMessage *to, const char *key, const char *value) {
        size_t i = to->meta.n_annotations++;

        kubernetes__v1__object_meta__annotations_entry__init(&to->annotations[i]);
        to->annotations[i].key = (char *) key;
        to->annotations[i].value = (char *) value;
        to->annotation_list[i] = &to->annotations[i];
}

static inline Kubernetes__V1__PodCondition *
pod_message_add_condition(PodMessage *to, const char *type, const char *status) {
        size_t i = to->status.n_conditions++;

        kubernetes__v1__pod_condition__init(&to->conditions[i]);
        to->conditions[i].type = (char *) type;
        to->conditions[i].status = (char *) status;
        to->condition_list[i] = &to->conditions[i];
        return &to->conditions[i];
}

static inline ContainerMessage *pod_message_add_container(PodMessage *to, bool is_init,
                                                          const char *name, const char *image) {
        ContainerMessage *container = &to->containers[to->n_containers++];

        kubernetes__v1__container__init(&container->container);
        container->container.name = (char *) name;
        container->container.image = (char *) image;
        container->container.env = container->env_list;
        container->container.restartpolicyrules = container->rule_list;
        if (is_init)
                to->init_list[to->spec.n_initcontainers++] = &container->container;
        else
                to->main_list[to->spec.n_containers++] = &container->container;
        return container;
}

static inline void container_message_add_rule(ContainerMessage *to, const char *action) {
        size_t i = to->container.n_restartpolicyrules++;

        kubernetes__v1__container_restart_rule__init(&to->rules[i]);
        to->rules[i].action = (char *) action;
        to->rule_list[i] = &to->rules[i];
}

/* path: of a field; "": the value comes from elsewhere; NULL: it is here. */
static inline void container_message_add_env(ContainerMessage *to, const char *name,
                                             const char *value, const char *path) {
        size_t i = to->container.n_env++;

        kubernetes__v1__env_var__init(&to->env[i]);
        kubernetes__v1__env_var_source__init(&to->sources[i]);
        kubernetes__v1__object_field_selector__init(&to->fields[i]);
        to->env[i].name = (char *) name;
        to->env[i].value = (char *) value;
        to->fields[i].fieldpath = (char *) path;
        if (path)
                to->env[i].valuefrom = &to->sources[i];
        if (path && path[0])
                to->sources[i].fieldref = &to->fields[i];
        to->env_list[i] = &to->env[i];
}

/* started_at_sec 0: it does not run. */
static inline KubeContainerStatus *pod_message_add_status(PodMessage *to, bool is_init,
                                                          const char *name, const char *id,
                                                          int64_t started_at_sec) {
        ContainerStatusMessage *status = &to->statuses[to->n_statuses++];

        kubernetes__v1__container_status__init(&status->status);
        kubernetes__v1__container_state__init(&status->state);
        kubernetes__v1__container_state_running__init(&status->running);
        kubernetes__v1__time__init(&status->started_at);
        status->status.name = (char *) name;
        status->status.containerid = (char *) id;
        status->status.state = &status->state;
        status->running.startedat = &status->started_at;
        status->started_at.has_seconds = true;
        status->started_at.seconds = started_at_sec;
        if (started_at_sec > 0)
                status->state.running = &status->running;
        if (is_init)
                to->init_status_list[to->status.n_initcontainerstatuses++] = &status->status;
        else
                to->main_status_list[to->status.n_containerstatuses++] = &status->status;
        return &status->status;
}
