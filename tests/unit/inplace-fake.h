/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A runtime, an API server, its pods and the stops, for tests that answer each question themselves
 *
 * Defines their functions, so nothing of cri, agent/rpc, agent/kube's client and agent/pod's stops and
 * pods is linked.
 */

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/kube/event.h"
#include "agent/kube/protobuf.h"
#include "agent/pod/env-hash.h"
#include "agent/pod/pod-spec.h"
#include "agent/pod/pods.h"
#include "agent/pod/runtime-pods.h"
#include "agent/pod/stops.h"
#include "cri/client.h"
#include "cri/runtimes.h"

#define N_CALLS 1024
#define N_MODELS 8
#define ID_A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* Containers and images, as the runtime has them. */
typedef struct ModelContainer {
        const char *pod_uid, *pod_name, *name, *id, *image, *image_ref, *value;
        const char *hash;
        int64_t created_at;
        bool is_running;
} ModelContainer;

typedef struct ModelImage {
        const char *reference, *id;
} ModelImage;

typedef enum CallKind {
        CALL_NONE,
        CALL_LIST,
        CALL_STATUS,
        CALL_IMAGE,
        CALL_GET,
        CALL_PATCH
} CallKind;

/* One question that waits for an answer. */
typedef struct Call {
        CallKind kind;
        char *text; /* uid, container's ID, reference, path */
        char *body;
        char *accept;
        char *content_type;
        RpcDone done;
        KubeReplied on_replied;
        void *userdata;
        bool is_open;
} Call;

typedef struct FakeStop {
        char *owner, *id, *cause;
        int (*on_check)(Stop *stop, void *userdata);
        int (*on_done)(const StopReport *report, void *userdata);
        void *userdata;
        bool is_init;
        int answer; /* -1: none yet */
        char *why_not;
        bool is_open;
} FakeStop;

typedef struct Fake {
        sd_event *event;
        ModelContainer containers[N_MODELS];
        ModelImage images[N_MODELS];
        bool is_away; /* the runtime */
        bool refuses_status;
        bool has_other_info; /* a verbose status has another entry before the one that counts, */
        bool lacks_info;     /* and lacks that */
        Call calls[N_CALLS];
        size_t n_calls, n_answered[CALL_PATCH + 1];
        FakeStop stops[32];
        size_t n_stops;
        char stopped_owner[64]; /* in an earlier run of the agent */
        const char *stopped_id;
        char forgotten[128]; /* "owner id" of the last that was */
        char events[16][512];
        size_t n_events;
        const Pod *pods[64];
        size_t n_pods;
        bool is_synced;
        PodsWatcher *watcher;
        Pod *live;      /* the answer to the next GET; taken over */
        bool needs_pod; /* an envelope is opened */
        uint64_t skipped_usec;
        uint64_t still_usec;    /* the clock stands there, but for what is skipped; 0: it goes */
        sd_event_source *timer; /* that was set last */
        uint64_t timer_usec;
} Fake;

static Fake fake;

static inline int fake_ask(Call call, void *ret) {
        assert_true(fake.n_calls < N_CALLS);
        call.is_open = true;
        fake.calls[fake.n_calls] = call;
        *(void **) ret = &fake.calls[fake.n_calls++];
        return 0;
}

RpcCall *rpc_call_unref(RpcCall *call) {
        if (call)
                ((Call *) call)->is_open = false;
        return NULL;
}

/* text: the UID that is asked for, or "". */
int cri_list_containers(RpcClient *client, const CriContainerFilter *filter, RpcDone done,
                        void *userdata, RpcCall **ret) {
        const char *uid = "";

        for (size_t i = 0; filter && i < filter->n_label_selector; i++)
                if (strcmp(filter->label_selector[i]->key, LABEL_POD_UID) == 0)
                        uid = filter->label_selector[i]->value;

        return fake_ask((Call){ .kind = CALL_LIST,
                                .text = strdup(uid),
                                .done = done,
                                .userdata = userdata },
                        ret);
}

int cri_container_status(RpcClient *client, const char *id, bool is_verbose, RpcDone done,
                         void *userdata, RpcCall **ret) {
        assert_true(is_verbose);
        return fake_ask((Call){ .kind = CALL_STATUS,
                                .text = strdup(id),
                                .done = done,
                                .userdata = userdata },
                        ret);
}

int cri_image_status(RpcClient *client, const char *reference, RpcDone done, void *userdata,
                     RpcCall **ret) {
        return fake_ask((Call){ .kind = CALL_IMAGE,
                                .text = strdup(reference),
                                .done = done,
                                .userdata = userdata },
                        ret);
}

int kube_call(KubeClient *client, const KubeRequest *request, KubeCall **ret) {
        return fake_ask((Call){ .kind = strcmp(request->method, "GET") == 0 ? CALL_GET : CALL_PATCH,
                                .text = strdup(request->path),
                                .body = strdup(request->body ?: ""),
                                .accept = strdup(request->accept ?: ""),
                                .content_type = strdup(request->content_type ?: ""),
                                .on_replied = request->on_replied,
                                .userdata = request->userdata },
                        ret);
}

sd_event *kube_client_event(const KubeClient *client) {
        return fake.event;
}

KubeCall *kube_call_unref(KubeCall *call) {
        if (call)
                ((Call *) call)->is_open = false;
        return NULL;
}

int kube_event_send(KubeEvents *events, const KubeReference *object, const char *type,
                    const char *reason, const char *message) {
        assert_true(fake.n_events < 16);
        (void) snprintf(fake.events[fake.n_events++], sizeof(fake.events[0]), "%s %s %s %s", type,
                        reason, object->field_path, message);
        return 0;
}

RpcClient *runtimes_client(const Runtimes *runtimes) {
        return fake.is_away ? NULL : (RpcClient *) &fake;
}

int stops_add(Stops *stops, const StopOptions *options, Stop **ret) {
        FakeStop *stop = &fake.stops[fake.n_stops++];

        assert_true(fake.n_stops <= 32);
        assert_string_equal(options->runtime, "containerd");
        assert_true(options->needs_kubelet);
        *stop = (FakeStop){
                .owner = strdup(options->owner),
                .id = strdup(options->container_id),
                .cause = strdup(options->cause),
                .on_check = options->on_check,
                .on_done = options->on_done,
                .userdata = options->userdata,
                .is_init = options->is_init,
                .answer = -1,
                .is_open = true,
        };
        *ret = (Stop *) stop;
        return 0;
}

int stop_answer(Stop *stop, bool is_asked, const char *why_not) {
        FakeStop *answered = (FakeStop *) stop;

        assert_true(answered->is_open);
        assert_int_equal(answered->answer, -1);
        answered->answer = is_asked;
        answered->why_not = strdup(why_not ?: "");
        return 0;
}

void stop_leave(Stop *stop) {
        ((FakeStop *) stop)->is_open = false;
}

const char *stops_find_owner(const Stops *stops, const char *owner, const char *container_id) {
        size_t size = strlen(owner);

        return fake.stopped_id && strncmp(fake.stopped_owner, owner, size) == 0 &&
                               strcspn(fake.stopped_owner + size, "/") == 0 &&
                               strcmp(fake.stopped_id, container_id) == 0
                       ? fake.stopped_owner
                       : NULL;
}

int stops_forget(Stops *stops, const char *owner, const char *container_id) {
        (void) snprintf(fake.forgotten, sizeof(fake.forgotten), "%s %s", owner, container_id);
        return 0;
}

void pods_watch(Pods *pods, PodsWatcher *watcher) {
        fake.watcher = watcher;
}

void pods_unwatch(Pods *pods, PodsWatcher *watcher) {
        assert_ptr_equal(fake.watcher, watcher);
        fake.watcher = NULL;
}

bool pods_are_synced(const Pods *pods) {
        return fake.is_synced;
}

size_t pods_count(const Pods *pods) {
        return fake.n_pods;
}

const Pod *pods_get(const Pods *pods, size_t i) {
        return fake.pods[i];
}

const Pod *pods_find(const Pods *pods, const char *namespace, const char *name) {
        for (size_t i = 0; i < fake.n_pods; i++)
                if (strcmp(fake.pods[i]->namespace, namespace) == 0 &&
                    strcmp(fake.pods[i]->name, name) == 0)
                        return fake.pods[i];

        return NULL;
}

int pod_spec_parse(const uint8_t *bytes, size_t size, Pod **ret, Error *reterr) {
        if (!fake.live)
                return error_set(reterr, ERROR_INVALID, "not a pod");

        *ret = take_ptr(fake.live);
        return 0;
}

/* The first open call of a kind; NULL: none. */
static inline Call *fake_find(CallKind kind) {
        for (size_t i = 0; i < fake.n_calls; i++)
                if (fake.calls[i].is_open && fake.calls[i].kind == kind)
                        return &fake.calls[i];

        return NULL;
}

static inline size_t fake_n_open(CallKind kind) {
        size_t n = 0;

        for (size_t i = 0; i < fake.n_calls; i++)
                n += fake.calls[i].is_open && fake.calls[i].kind == kind;
        return n;
}

typedef struct WireContainer {
        CriContainer container;
        Runtime__V1__ContainerMetadata metadata;
        CriImageSpec image;
        Runtime__V1__Container__LabelsEntry labels[4], *label_list[4];
        Runtime__V1__Container__AnnotationsEntry annotations[2], *annotation_list[2];
} WireContainer;

static inline void wire_container(const ModelContainer *model, WireContainer *wire) {
        const char *const labels[4][2] = {
                { LABEL_POD_NAME, model->pod_name },
                { LABEL_POD_NAMESPACE, "default" },
                { LABEL_POD_UID, model->pod_uid },
                { LABEL_CONTAINER_NAME, model->name },
        };
        const char *const annotations[2][2] = {
                { ANNOTATION_HASH, model->hash ?: "" },
                { ANNOTATION_RESTART_COUNT, "1" },
        };

        runtime__v1__container__init(&wire->container);
        runtime__v1__container_metadata__init(&wire->metadata);
        runtime__v1__image_spec__init(&wire->image);
        for (size_t i = 0; i < 4; i++) {
                runtime__v1__container__labels_entry__init(&wire->labels[i]);
                wire->labels[i].key = (char *) labels[i][0];
                wire->labels[i].value = (char *) labels[i][1];
                wire->label_list[i] = &wire->labels[i];
        }
        for (size_t i = 0; i < 2; i++) {
                runtime__v1__container__annotations_entry__init(&wire->annotations[i]);
                wire->annotations[i].key = (char *) annotations[i][0];
                wire->annotations[i].value = (char *) annotations[i][1];
                wire->annotation_list[i] = &wire->annotations[i];
        }

        wire->metadata.name = (char *) model->name;
        wire->image.image = (char *) (model->image ?: "");
        wire->container.id = (char *) model->id;
        wire->container.metadata = &wire->metadata;
        wire->container.image = &wire->image;
        wire->container.image_ref = (char *) (model->image_ref ?: ID_A);
        wire->container.created_at = model->created_at;
        wire->container.state = model->is_running ? RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING
                                                  : RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED;
        wire->container.labels = wire->label_list;
        wire->container.n_labels = 4;
        wire->container.annotations = wire->annotation_list;
        wire->container.n_annotations = 2;
}

static inline int fake_answer_list(Call *call) {
        WireContainer wires[N_MODELS];
        CriContainer *list[N_MODELS];
        CriContainerList reply = RUNTIME__V1__LIST_CONTAINERS_RESPONSE__INIT;

        for (size_t i = 0; i < N_MODELS; i++) {
                const ModelContainer *model = &fake.containers[i];

                if (!model->id || (call->text[0] && strcmp(model->pod_uid, call->text) != 0))
                        continue;

                wire_container(model, &wires[reply.n_containers]);
                list[reply.n_containers] = &wires[reply.n_containers].container;
                reply.n_containers++;
        }

        reply.containers = list;
        return call->done(&reply, NULL, call->userdata);
}

static inline int fake_refuse(Call *call, ErrorKind kind) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) error_set(&error, kind, "no");
        return call->done(NULL, &error, call->userdata);
}

static inline int fake_answer_status(Call *call) {
        Runtime__V1__ContainerStatusResponse__InfoEntry entries[2], *list[2];
        CriContainerStatus reply = RUNTIME__V1__CONTAINER_STATUS_RESPONSE__INIT;
        char info[256] = "{}";

        if (fake.refuses_status)
                return fake_refuse(call, ERROR_INTERNAL);

        for (size_t i = 0; i < N_MODELS; i++)
                if (fake.containers[i].id && strcmp(fake.containers[i].id, call->text) == 0)
                        (void) snprintf(info, sizeof(info),
                                        "{\"runtimeSpec\":{\"process\":{\"env\":[\"VALUE=%s\"]}}}",
                                        fake.containers[i].value);

        for (size_t i = 0; i < 2; i++) {
                if (i == 0 ? !fake.has_other_info : fake.lacks_info)
                        continue;

                runtime__v1__container_status_response__info_entry__init(&entries[i]);
                entries[i].key = (char *) (i == 0 ? "other" : "info");
                entries[i].value = (char *) (i == 0 ? "{}" : info);
                list[reply.n_info++] = &entries[i];
        }

        reply.info = list;
        return call->done(&reply, NULL, call->userdata);
}

static inline int fake_answer_image(Call *call) {
        CriImage image = RUNTIME__V1__IMAGE__INIT;
        CriImageStatus reply = RUNTIME__V1__IMAGE_STATUS_RESPONSE__INIT;

        for (size_t i = 0; i < N_MODELS; i++)
                if (fake.images[i].reference && strcmp(fake.images[i].reference, call->text) == 0) {
                        image.id = (char *) fake.images[i].id;
                        reply.image = &image;
                }

        return call->done(&reply, NULL, call->userdata);
}

/* Answers the runtime's open calls, and those that follow, from what it has. */
static inline void fake_run_runtime(void) {
        for (size_t i = 0; i < fake.n_calls; i++) {
                Call *call = &fake.calls[i];
                int r = 0;

                if (!call->is_open || call->kind > CALL_IMAGE)
                        continue;

                fake.n_answered[call->kind]++;
                if (call->kind == CALL_LIST)
                        r = fake_answer_list(call);
                else if (call->kind == CALL_STATUS)
                        r = fake_answer_status(call);
                else
                        r = fake_answer_image(call);
                assert_true(r >= 0);
                assert_false(call->is_open);
        }
}

/* The body of a PATCH that the API server is to answer; NULL: there is none. */
static inline const char *fake_patch(void) {
        Call *call = fake_find(CALL_PATCH);

        return call ? call->body : NULL;
}

static inline void fake_reply(CallKind kind, int code, ErrorKind error_kind, const char *body) {
        cleanup(error_done) Error error = ERROR_INIT;
        const KubeReply reply = { .code = code, .body = body, .size = strlen(body) };
        Call *call = fake_find(kind);

        assert_non_null(call);
        fake.n_answered[kind]++;
        if (error_kind != ERROR_NONE)
                (void) error_set(&error, error_kind, "refused with %d", code);
        assert_true(call->on_replied(&reply, error_kind != ERROR_NONE ? &error : NULL,
                                     call->userdata) >= 0);
}

static inline void fake_reply_patch(const char *version) {
        char body[128];

        (void) snprintf(body, sizeof(body), "{\"metadata\":{\"resourceVersion\":\"%s\"}}", version);
        fake_reply(CALL_PATCH, 200, ERROR_NONE, body);
}

/* An envelope with something in it; what it is, pod_spec_parse() makes up. */
static inline void fake_reply_pod(Pod *live) {
        cleanup(error_done) Error error = ERROR_INIT;
        KubeEnvelope envelope = KUBERNETES__V1__UNKNOWN__INIT;
        char body[256] = "k8s";
        uint8_t raw[] = { 10, 0 };
        KubeReply reply = { .code = 200, .body = body };
        Call *call = fake_find(CALL_GET);

        assert_non_null(call);
        envelope.raw = (ProtobufCBinaryData){ .len = sizeof(raw), .data = raw };
        reply.size = 4 + protobuf_c_message_pack(&envelope.base, (uint8_t *) body + 4);
        pod_free(fake.live);
        fake.live = live;
        assert_true(call->on_replied(&reply, NULL, call->userdata) >= 0);
}

/* The clock of the loop, which tests can put forward. A timer that runs already is not changed. */
int sd_event_now(sd_event *event, clockid_t clock, uint64_t *ret) {
        int (*now)(sd_event *, clockid_t, uint64_t *) = dlsym(RTLD_NEXT, "sd_event_now");
        int r;

        r = now(event, clock, ret);
        if (fake.still_usec > 0)
                *ret = fake.still_usec;
        *ret += fake.skipped_usec;
        return r;
}

int sd_event_add_time(sd_event *event, sd_event_source **ret, clockid_t clock, uint64_t usec,
                      uint64_t accuracy, sd_event_time_handler_t handler, void *userdata) {
        int (*add_time)(sd_event *, sd_event_source **, clockid_t, uint64_t, uint64_t,
                        sd_event_time_handler_t, void *) = dlsym(RTLD_NEXT, "sd_event_add_time");
        int r;

        r = add_time(event, ret, clock, usec > fake.skipped_usec ? usec - fake.skipped_usec : 0,
                     accuracy, handler, userdata);
        fake.timer = *ret;
        fake.timer_usec = usec;
        return r;
}

int sd_event_source_set_time(sd_event_source *source, uint64_t usec) {
        int (*set_time)(sd_event_source *, uint64_t) = dlsym(RTLD_NEXT, "sd_event_source_set_time");

        fake.timer = source;
        fake.timer_usec = usec;
        return set_time(source, usec > fake.skipped_usec ? usec - fake.skipped_usec : 0);
}

/* Puts the clock forward to the time of the timer that was set last. */
static inline void fake_skip_to_timer(sd_event *event) {
        uint64_t now;

        assert_non_null(fake.timer);
        assert_true(sd_event_now(event, CLOCK_MONOTONIC, &now) >= 0);
        if (fake.timer_usec > now)
                fake.skipped_usec += fake.timer_usec - now;
        assert_true(sd_event_source_set_time(fake.timer, fake.timer_usec) >= 0);
}

static inline void fake_end_stop(FakeStop *stop, StopResult result) {
        const StopReport report = { .result = result, .message = "because" };

        assert_true(stop->is_open);
        stop->is_open = false;
        assert_true(stop->on_done(&report, stop->userdata) >= 0);
}

static inline void fake_done(void) {
        for (size_t i = 0; i < fake.n_calls; i++) {
                assert_false(fake.calls[i].is_open);
                free(fake.calls[i].text);
                free(fake.calls[i].body);
                free(fake.calls[i].accept);
                free(fake.calls[i].content_type);
        }
        for (size_t i = 0; i < fake.n_stops; i++) {
                assert_false(fake.stops[i].is_open);
                free(fake.stops[i].owner);
                free(fake.stops[i].id);
                free(fake.stops[i].cause);
                free(fake.stops[i].why_not);
        }
        pod_free(fake.live);
        fake = (Fake){ .is_synced = false };
}
