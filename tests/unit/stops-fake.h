/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A runtime, a kubelet, hooks and events that are a few functions, for test-stops.c
 *
 * Keeps what is asked, for the test to inspect and to answer. To be included once.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "agent/pod/hook.h"
#include "agent/pod/runtime-pods.h"
#include "agent/pod/stop-journal.h"
#include "agent/pod/stops.h"
#include "cri/client.h"
#include "tests/unit/still-clock.h"

#define FAKE_MAX 64
#define WAIT_USEC ((uint64_t) 60 * 1000000)

typedef enum CallKind { CALL_NONE, CALL_LIST, CALL_STATUS, CALL_SANDBOX, CALL_STOP } CallKind;

struct RpcCall {
        CallKind kind; /* NONE: free */
        char id[64];
        int64_t grace_sec;
        RpcDone done;
        void *userdata;
};

struct KubeletQuestion {
        KubeletAnswered on_answered; /* NULL: free */
        void *userdata;
};

struct Hook {
        bool is_running;
        char address[64];
        HandlerKind kind;
        const char *plain_host; /* of an answer without TLS */
        uint64_t timeout_usec;
        HookDone on_done;
        void *userdata;
};

static struct World {
        sd_event *event;
        bool has_runtime;
        RpcCall calls[FAKE_MAX];
        unsigned n_calls; /* since the start */
        KubeletQuestion questions[FAKE_MAX];
        unsigned n_questions;
        Hook hooks[4];
        unsigned n_hooks;
        char events[2048]; /* a line each */
} world;

static inline int fake_call(CallKind kind, const char *id, RpcDone done, void *userdata,
                            RpcCall **ret) {
        for (size_t i = 0; i < FAKE_MAX; i++)
                if (world.calls[i].kind == CALL_NONE) {
                        *ret = &world.calls[i];
                        **ret = (RpcCall){ .kind = kind, .done = done, .userdata = userdata };
                        snprintf((*ret)->id, sizeof((*ret)->id), "%s", id);
                        world.n_calls++;
                        return 0;
                }

        fail_msg("too many calls");
        return 0;
}

int cri_list_containers(RpcClient *client, const CriContainerFilter *filter, RpcDone done,
                        void *userdata, RpcCall **ret) {
        return fake_call(CALL_LIST, filter->id, done, userdata, ret);
}

int cri_container_status(RpcClient *client, const char *id, bool is_verbose, RpcDone done,
                         void *userdata, RpcCall **ret) {
        return fake_call(CALL_STATUS, id, done, userdata, ret);
}

int cri_sandbox_status(RpcClient *client, const char *id, RpcDone done, void *userdata,
                       RpcCall **ret) {
        return fake_call(CALL_SANDBOX, id, done, userdata, ret);
}

int cri_stop_container(RpcClient *client, const char *id, int64_t grace_sec, RpcDone done,
                       void *userdata, RpcCall **ret) {
        int r = fake_call(CALL_STOP, id, done, userdata, ret);

        (*ret)->grace_sec = grace_sec;
        return r;
}

RpcCall *rpc_call_unref(RpcCall *call) {
        if (call)
                call->kind = CALL_NONE;
        return NULL;
}

Runtime *runtimes_chosen(const Runtimes *runtimes) {
        return (Runtime *) &world;
}

size_t runtimes_count(const Runtimes *runtimes) {
        return 1;
}

Runtime *runtimes_get(const Runtimes *runtimes, size_t i) {
        return (Runtime *) &world;
}

const char *runtime_name(const Runtime *runtime) {
        return world.has_runtime ? "containerd" : "";
}

bool runtime_is_alive(const Runtime *runtime) {
        return world.has_runtime;
}

RpcClient *runtime_client(const Runtime *runtime) {
        return world.has_runtime ? (RpcClient *) &world : NULL;
}

int kubelet_ask(Kubelet *kubelet, KubeletAnswered on_answered, void *userdata,
                KubeletQuestion **ret) {
        *ret = &world.questions[world.n_questions++ % FAKE_MAX];
        **ret = (KubeletQuestion){ .on_answered = on_answered, .userdata = userdata };
        return 0;
}

KubeletQuestion *kubelet_question_free(KubeletQuestion *question) {
        if (question)
                question->on_answered = NULL;
        return NULL;
}

int hook_run(sd_event *event, const HandlerSpec *spec, const HookTarget *target,
             uint64_t timeout_usec, HookDone on_done, void *userdata, Hook **ret) {
        *ret = &world.hooks[world.n_hooks++ % 4];
        **ret = (Hook){
                .is_running = true,
                .kind = spec->kind,
                .timeout_usec = timeout_usec,
                .on_done = on_done,
                .userdata = userdata,
        };
        snprintf((*ret)->address, sizeof((*ret)->address), "%s", target->address ?: "-");
        return 0;
}

Hook *hook_free(Hook *hook) {
        if (hook)
                hook->is_running = false;
        return NULL;
}

int kube_event_send(KubeEvents *events, const KubeReference *object, const char *type,
                    const char *reason, const char *message) {
        size_t size = strlen(world.events);

        snprintf(world.events + size, sizeof(world.events) - size, "%s/%s %s/%s/%s/%s %s: %s\n",
                 type, reason, object->kind, object->namespace, object->name, object->uid,
                 object->field_path ?: "", message);
        return 0;
}

static inline int64_t now_sec(void) {
        return (int64_t) time(NULL);
}

static inline int64_t now_nsec(void) {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void turn(void) {
        while (sd_event_run(world.event, 0) > 0)
                ;
}

static inline unsigned count_calls(CallKind kind) {
        unsigned n = 0;

        for (size_t i = 0; i < FAKE_MAX; i++)
                n += world.calls[i].kind == kind;
        return n;
}

/* The one call that runs, of that kind, once it does. */
static inline RpcCall *wait_for_call(CallKind kind) {
        while (count_calls(kind) == 0)
                assert_true(sd_event_run(world.event, WAIT_USEC) > 0);

        for (size_t i = 0; i < FAKE_MAX; i++)
                if (world.calls[i].kind == kind)
                        return &world.calls[i];
        return NULL;
}

static inline void answer(RpcCall *call, const void *reply) {
        assert_int_equal(call->done(reply, NULL, call->userdata), 0);
}

static inline void refuse(RpcCall *call, ErrorKind kind, const char *message) {
        Error error = { .kind = kind, .message = (char *) message };

        assert_int_equal(call->done(NULL, &error, call->userdata), 0);
}

#define RUNNING RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING
#define EXITED RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED

/* What the container's annotations say; NULL: nothing. */
static struct Annotations {
        const char *grace;
        const char *hook;
} annotations;

static inline void answer_list_as(Runtime__V1__ContainerState state, const char *id) {
        RpcCall *call = wait_for_call(CALL_LIST);
        Runtime__V1__Container__LabelsEntry label[4] = {
                RUNTIME__V1__CONTAINER__LABELS_ENTRY__INIT,
                RUNTIME__V1__CONTAINER__LABELS_ENTRY__INIT,
                RUNTIME__V1__CONTAINER__LABELS_ENTRY__INIT,
                RUNTIME__V1__CONTAINER__LABELS_ENTRY__INIT,
        };
        Runtime__V1__Container__LabelsEntry *labels[] = { &label[0], &label[1], &label[2],
                                                          &label[3] };
        Runtime__V1__Container__AnnotationsEntry annotation[2] = {
                RUNTIME__V1__CONTAINER__ANNOTATIONS_ENTRY__INIT,
                RUNTIME__V1__CONTAINER__ANNOTATIONS_ENTRY__INIT,
        };
        Runtime__V1__Container__AnnotationsEntry *its[] = { &annotation[0], &annotation[1] };
        const char *pairs[][2] = { { LABEL_POD_NAME, "web-0" },
                                   { LABEL_POD_NAMESPACE, "team" },
                                   { LABEL_POD_UID, "uid-1" },
                                   { LABEL_CONTAINER_NAME, "app" } };
        CriContainerList list = RUNTIME__V1__LIST_CONTAINERS_RESPONSE__INIT;
        CriContainer container = RUNTIME__V1__CONTAINER__INIT;
        CriContainer *containers[] = { &container };

        for (size_t i = 0; i < 4; i++) {
                label[i].key = (char *) pairs[i][0];
                label[i].value = (char *) pairs[i][1];
        }
        if (annotations.grace) {
                its[container.n_annotations]->key = (char *) ANNOTATION_TERMINATION_GRACE;
                its[container.n_annotations++]->value = (char *) annotations.grace;
        }
        if (annotations.hook) {
                its[container.n_annotations]->key = (char *) ANNOTATION_PRE_STOP;
                its[container.n_annotations++]->value = (char *) annotations.hook;
        }
        container.id = id ? (char *) id : call->id;
        container.pod_sandbox_id = (char *) "s1";
        container.state = state;
        container.n_labels = 4;
        container.labels = labels;
        container.annotations = its;
        list.n_containers = 1;
        list.containers = containers;
        answer(call, &list);
}

static inline void answer_list(Runtime__V1__ContainerState state) {
        answer_list_as(state, NULL);
}

static inline void answer_empty_list(void) {
        CriContainerList list = RUNTIME__V1__LIST_CONTAINERS_RESPONSE__INIT;

        answer(wait_for_call(CALL_LIST), &list);
}

static inline void answer_status(Runtime__V1__ContainerState state, int64_t finished_at) {
        CriContainerStatus reply = RUNTIME__V1__CONTAINER_STATUS_RESPONSE__INIT;
        Runtime__V1__ContainerStatus status = RUNTIME__V1__CONTAINER_STATUS__INIT;

        status.state = state;
        status.finished_at = finished_at;
        reply.status = &status;
        answer(wait_for_call(CALL_STATUS), &reply);
}

static inline void answer_stop(void) {
        answer(wait_for_call(CALL_STOP), &world);
}

static inline void answer_sandbox(const char *address) {
        CriSandboxStatus reply = RUNTIME__V1__POD_SANDBOX_STATUS_RESPONSE__INIT;
        Runtime__V1__PodSandboxStatus status = RUNTIME__V1__POD_SANDBOX_STATUS__INIT;
        Runtime__V1__PodSandboxNetworkStatus network =
                RUNTIME__V1__POD_SANDBOX_NETWORK_STATUS__INIT;

        network.ip = (char *) address;
        status.network = &network;
        reply.status = &status;
        answer(wait_for_call(CALL_SANDBOX), &reply);
}

/* The newest question. */
static inline void answer_kubelet(KubeletState state, const char *why) {
        KubeletQuestion *question = &world.questions[(world.n_questions - 1) % FAKE_MAX];

        assert_non_null(question->on_answered);
        assert_int_equal(question->on_answered(state, why, question->userdata), 0);
}

static inline Hook *the_hook(void) {
        Hook *hook = &world.hooks[(world.n_hooks - 1) % 4];

        assert_true(world.n_hooks > 0 && hook->is_running);
        return hook;
}

static inline int end_hook(const Error *error) {
        Hook *hook = the_hook();

        return hook->on_done(error, hook->plain_host, hook->userdata);
}
