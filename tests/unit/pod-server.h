/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pods that a faked API server shows to the watch of the agent
 *
 * Behind fake-kube.h; the watch, and what reads the pods, is the real code. To be included once.
 */

#include "agent/pod/gate-spec.h"
#include "agent/pod/pod.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/pod-message.h"
#include "tests/unit/unit.h"

#define SHOWN_PODS_MAX 32
#define SHOWN_CONTAINERS_MAX 6
#define LABEL_OF_VALUE "value-of-"

/* Texts are borrowed; a comment names the value that NULL stands for. */
typedef struct ShownContainer {
        const char *name;
        const char *image;          /* "nginx:1" */
        const char *restart_policy; /* the pod's */
        const char *restart_rule;   /* action of its rule; it has none */
        /* value of VALUE, which is made from a label; no such variable */
        const char *value;
        bool is_env_overridden;  /* by another VALUE behind it */
        bool has_own_annotation; /* META is made from the annotation that the agent writes */
        PodContainerKind kind;
        bool has_no_status;
        int status_index;         /* index among the statuses of that kind */
        const char *container_id; /* "containerd://…"; none */
        const char *former_id;    /* none */
        int32_t restart_count;
        bool is_ready, is_running;
        int64_t started_at_sec; /* 0: long ago */
} ShownContainer;

typedef struct ShownPod {
        const char *namespace; /* "default" */
        const char *name;      /* "web" */
        const char *uid;       /* "uid-1" */
        const char *resource_version;
        const char *runtime_uid;    /* UID of a static pod at the runtime; the pod is not static */
        const char *ip;             /* none */
        const char *restart_policy; /* "Always" */
        int64_t grace_sec;
        bool is_deleted, is_finished, is_ready, is_kruise, has_kruise_gate;
        const char *kruise_message;
        bool has_gate;
        /* texts of the gate's condition; none */
        const char *gate_status, *gate_reason, *gate_message;
        PodUpdate update;
        const char *restart_on_metadata, *meta; /* annotations */
        const char *verified_status, *verified_reason, *verified_message;
        ShownContainer containers[SHOWN_CONTAINERS_MAX];
        size_t n_containers;
} ShownPod;

static struct {
        Bytes pods[SHOWN_PODS_MAX]; /* as they are on the wire, without an envelope */
        char names[SHOWN_PODS_MAX][64];
        size_t n_pods;
        unsigned version;
        bool is_slow;   /* a list is not complete yet */
        unsigned watch; /* the number of its call, which may have ended */
} pod_server;

static inline void pod_server_reset(void) {
        memset(&pod_server, 0, sizeof(pod_server));
        pod_server.version = 100;
}

static inline void shown_container_pack(const ShownContainer *from, PodMessage *to) {
        bool is_init = from->kind != POD_CONTAINER_MAIN;
        ContainerMessage *container =
                pod_message_add_container(to, is_init, from->name, from->image ?: "nginx:1");
        static char paths[POD_MESSAGE_PARTS][96], keys[POD_MESSAGE_PARTS][64];
        size_t i = to->n_containers - 1;

        container->container.restartpolicy =
                (char *) (from->kind == POD_CONTAINER_SIDECAR ? "Always" : from->restart_policy);
        if (from->restart_rule)
                container_message_add_rule(container, from->restart_rule);
        if (from->has_own_annotation)
                container_message_add_env(container, "META", NULL,
                                          "metadata.annotations['" POD_META_ANNOTATION "']");
        if (!from->value)
                return;

        snprintf(keys[i], sizeof(keys[i]), LABEL_OF_VALUE "%s", from->name);
        snprintf(paths[i], sizeof(paths[i]), "metadata.labels['%s']", keys[i]);
        pod_message_add_label(to, keys[i], from->value);
        container_message_add_env(container, "VALUE", NULL, paths[i]);
        if (from->is_env_overridden)
                container_message_add_env(container, "VALUE", "other", NULL);
}

static inline void shown_status_pack(const ShownContainer *from, PodMessage *to,
                                     Kubernetes__V1__ContainerState *former,
                                     Kubernetes__V1__ContainerStateTerminated *terminated) {
        bool is_init = from->kind != POD_CONTAINER_MAIN;
        KubeContainerStatus *status =
                pod_message_add_status(to, is_init, from->name, from->container_id ?: "",
                                       from->is_running ? (from->started_at_sec ?: 1) : 0);

        status->has_ready = status->has_restartcount = true;
        status->ready = from->is_ready;
        status->restartcount = from->restart_count;
        if (!from->former_id)
                return;

        kubernetes__v1__container_state__init(former);
        kubernetes__v1__container_state_terminated__init(terminated);
        terminated->containerid = (char *) from->former_id;
        former->terminated = terminated;
        status->laststate = former;
}

static inline void shown_conditions_pack(const ShownPod *from, PodMessage *to) {
        Kubernetes__V1__PodCondition *condition;

        if (from->is_ready)
                pod_message_add_condition(to, "Ready", "True");
        if (from->update != POD_UPDATE_NONE)
                pod_message_add_condition(to, "InPlaceUpdateReady",
                                          from->update == POD_UPDATE_RUNNING ? "False" : "True");
        if (from->verified_status) {
                condition = pod_message_add_condition(to, POD_VERIFIED_CONDITION,
                                                      from->verified_status);
                condition->reason = (char *) from->verified_reason;
                condition->message = (char *) from->verified_message;
        }
        if (from->gate_status) {
                condition = pod_message_add_condition(to, GATE_CONDITION, from->gate_status);
                condition->reason = (char *) from->gate_reason;
                condition->message = (char *) from->gate_message;
        }
        if (from->kruise_message) {
                condition = pod_message_add_condition(to, "KruisePodReady", "False");
                condition->message = (char *) from->kruise_message;
        }
}

static inline void shown_annotations_pack(const ShownPod *from, PodMessage *to) {
        if (from->is_kruise)
                pod_message_add_annotation(to, "kruise.io/sidecarset-hash", "x");
        if (from->restart_on_metadata)
                pod_message_add_annotation(to, POD_RESTART_ANNOTATION, from->restart_on_metadata);
        if (from->meta)
                pod_message_add_annotation(to, POD_META_ANNOTATION, from->meta);
        if (from->runtime_uid) {
                pod_message_add_annotation(to, "kubernetes.io/config.mirror", from->runtime_uid);
                pod_message_add_annotation(to, "kubernetes.io/config.source", "file");
        }
}

/* The pod as it is on the wire, without an envelope. */
static inline void shown_pod_pack(const ShownPod *from, Bytes *to) {
        Kubernetes__V1__OwnerReference owner = KUBERNETES__V1__OWNER_REFERENCE__INIT;
        Kubernetes__V1__OwnerReference *owners[] = { &owner };
        Kubernetes__V1__PodReadinessGate gate = KUBERNETES__V1__POD_READINESS_GATE__INIT;
        Kubernetes__V1__PodReadinessGate *gates[] = { &gate };
        Kubernetes__V1__ContainerState former[SHOWN_CONTAINERS_MAX];
        Kubernetes__V1__ContainerStateTerminated terminated[SHOWN_CONTAINERS_MAX];
        Kubernetes__V1__Time deleted_at = KUBERNETES__V1__TIME__INIT;
        cleanup(free_p) PodMessage *message = calloc(1, sizeof(*message));
        char version[16];

        assert_non_null(message);
        snprintf(version, sizeof(version), "%u", pod_server.version++);
        pod_message_init(message, from->namespace ?: "default", from->name ?: "web",
                         from->uid ?: "uid-1", from->resource_version ?: version);
        message->spec.has_terminationgraceperiodseconds = true;
        message->spec.terminationgraceperiodseconds = from->grace_sec;
        message->spec.restartpolicy = (char *) (from->restart_policy ?: "Always");
        message->status.podip = (char *) (from->ip ?: "");
        message->status.phase = (char *) (from->is_finished ? "Succeeded" : "Running");
        if (from->is_deleted)
                message->meta.deletiontimestamp = &deleted_at;
        if (from->runtime_uid) {
                owner.kind = (char *) "Node";
                owner.apiversion = (char *) "v1";
                message->meta.ownerreferences = owners;
                message->meta.n_ownerreferences = 1;
        }
        if (from->has_kruise_gate || from->has_gate) {
                gate.conditiontype = (char *) (from->has_gate ? GATE_CONDITION : "KruisePodReady");
                message->spec.readinessgates = gates;
                message->spec.n_readinessgates = 1;
        }
        shown_annotations_pack(from, message);
        shown_conditions_pack(from, message);
        for (size_t i = 0; i < from->n_containers; i++)
                shown_container_pack(&from->containers[i], message);
        for (int index = 0; index < SHOWN_CONTAINERS_MAX; index++)
                for (size_t i = 0; i < from->n_containers; i++)
                        if (from->containers[i].status_index == index &&
                            !from->containers[i].has_no_status)
                                shown_status_pack(&from->containers[i], message, &former[i],
                                                  &terminated[i]);
        to->size = 0;
        bytes_pack(to, &message->pod);
}

static inline bool pod_server_is_watched(void) {
        return fake_kube_call_of(pod_server.watch);
}

static inline void pod_server_send(const char *type, const Bytes *raw) {
        Bytes frame = { .size = 0 };

        bytes_pack_pod_frame(&frame, type, raw);
        assert_ok(fake_kube_send(fake_kube_call_of(pod_server.watch), frame.data, frame.size));
}

/* Ends the list: all objects were shown. */
static inline void pod_server_complete(void) {
        Bytes raw = { .size = 0 };
        char version[16];

        snprintf(version, sizeof(version), "end:%u", pod_server.version);
        bytes_pack_object(&raw, "", "", "", version);
        pod_server_send("BOOKMARK", &raw);
}

/* Begins to answer a watch, if one waits for an answer. */
static inline void pod_server_serve(void) {
        KubeCall *call = fake_kube_find("GET", "/api/v1/pods?");

        if (!call || pod_server_is_watched())
                return;

        pod_server.watch = call->number;
        assert_ok(fake_kube_accept(call));
        for (size_t i = 0; i < pod_server.n_pods; i++)
                pod_server_send("ADDED", &pod_server.pods[i]);
        if (!pod_server.is_slow)
                pod_server_complete();
}

static inline size_t pod_server_find(const ShownPod *pod) {
        size_t i = 0;

        while (i < pod_server.n_pods && strcmp(pod_server.names[i], pod->name ?: "web") != 0)
                i++;
        return i;
}

/* The pod is there, or is like this now. */
static inline void pod_server_show(const ShownPod *pod) {
        size_t i = pod_server_find(pod);
        bool is_new = i == pod_server.n_pods;

        assert_true(i < SHOWN_PODS_MAX);
        pod_server.n_pods += is_new;
        snprintf(pod_server.names[i], sizeof(pod_server.names[i]), "%s", pod->name ?: "web");
        shown_pod_pack(pod, &pod_server.pods[i]);
        if (pod_server_is_watched())
                pod_server_send(is_new ? "ADDED" : "MODIFIED", &pod_server.pods[i]);
}

static inline void pod_server_hide(const ShownPod *pod) {
        size_t i = pod_server_find(pod);
        const Bytes gone = pod_server.pods[i];

        assert_true(i < pod_server.n_pods);
        pod_server.n_pods--;
        memmove(pod_server.pods + i, pod_server.pods + i + 1,
                (pod_server.n_pods - i) * sizeof(pod_server.pods[0]));
        memmove(pod_server.names + i, pod_server.names + i + 1,
                (pod_server.n_pods - i) * sizeof(pod_server.names[0]));
        if (pod_server_is_watched())
                pod_server_send("DELETED", &gone);
}

/* Answers a GET of a pod. */
static inline void pod_server_answer(KubeCall *call, const ShownPod *pod) {
        Bytes raw = { .size = 0 }, envelope = { .size = 0 };

        shown_pod_pack(pod, &raw);
        bytes_pack_envelope(&envelope, "Pod", &raw);
        assert_ok(fake_kube_reply(call, (KubeReply){ .code = 200,
                                                     .body = (char *) envelope.data,
                                                     .size = envelope.size }));
}
