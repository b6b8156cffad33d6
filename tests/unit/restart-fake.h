/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A runtime, stops, pods and a clock that do what a test of restarts says
 *
 * They take the place of cri/client.c, cri/runtimes.c, stops.c, pods.c, and of the clock and the timers
 * of libsystemd: what is defined in the program itself comes before what is in a library.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

#include "agent/base/cleanup.h"
#include "agent/restart/restart.h"
#include "agent/pod/runtime-pods.h"
#include "cri/client.h"

#define FAKE_STOPS_MAX 80
#define FAKE_CONTAINERS_MAX 80
#define FAKE_PODS_MAX 4

struct Stop {
        StopOptions options; /* its texts are owned */
        bool has_left;
};

struct RpcCall {
        RpcDone done;
        void *userdata;
        char *labels; /* "key=value key=value" */
};

typedef struct FakeContainer {
        char *id;
        const char *namespace;
        const char *pod;
        const char *uid;
        const char *name;
        unsigned restart_count;
        bool is_running;
} FakeContainer;

static struct FakeNode {
        sd_event *event;
        bool is_away;
        RpcCall *call; /* the one that runs; NULL: none */
        unsigned n_calls;
        Stop stops[FAKE_STOPS_MAX];
        size_t n_stops;
        const Pod *pods[FAKE_PODS_MAX];
        size_t n_pods;
        bool is_synced;
        PodsWatcher *watcher;
        uint64_t now_usec;
        sd_event_source *timer; /* the one that is set; NULL: none */
        uint64_t timer_usec;    /* for which it was set */
} fake;

RpcClient *runtimes_client(const Runtimes *runtimes) {
        return fake.is_away ? NULL : (RpcClient *) &fake;
}

Runtime *runtimes_chosen(const Runtimes *runtimes) {
        return (Runtime *) &fake;
}

const char *runtime_sentence(const Runtime *runtime) {
        return "nothing listens there";
}

int cri_list_containers(RpcClient *client, const CriContainerFilter *filter, RpcDone done,
                        void *userdata, RpcCall **ret) {
        RpcCall *call = calloc(1, sizeof(*call));
        size_t size;
        FILE *file;

        assert_true(!fake.call);
        *call = (RpcCall){ .done = done, .userdata = userdata };
        file = open_memstream(&call->labels, &size);
        for (size_t i = 0; filter && i < filter->n_label_selector; i++)
                fprintf(file, "%s%s=%s", i > 0 ? " " : "", filter->label_selector[i]->key,
                        filter->label_selector[i]->value);
        fclose(file);
        fake.call = *ret = call;
        fake.n_calls++;
        return 0;
}

RpcCall *rpc_call_unref(RpcCall *call) {
        if (!call)
                return NULL;

        assert_true(call == fake.call);
        fake.call = NULL;
        free(call->labels);
        free(call);
        return NULL;
}

int stops_add(Stops *stops, const StopOptions *options, Stop **ret) {
        Stop *stop = &fake.stops[fake.n_stops++];

        assert_true(fake.n_stops <= FAKE_STOPS_MAX);
        *stop = (Stop){ .options = *options };
        stop->options.container_id = strdup(options->container_id);
        stop->options.owner = strdup(options->owner);
        stop->options.cause = strdup(options->cause);
        stop->options.pod_address = options->pod_address ? strdup(options->pod_address) : NULL;
        *ret = stop;
        return 0;
}

void stop_leave(Stop *stop) {
        assert_true(!stop->has_left);
        stop->has_left = true;
}

bool pods_are_synced(const Pods *pods) {
        return fake.is_synced;
}

const Pod *pods_find(const Pods *pods, const char *namespace, const char *name) {
        for (size_t i = 0; i < fake.n_pods; i++)
                if (strcmp(fake.pods[i]->namespace, namespace) == 0 &&
                    strcmp(fake.pods[i]->name, name) == 0)
                        return fake.pods[i];

        return NULL;
}

void pods_watch(Pods *pods, PodsWatcher *watcher) {
        assert_true(!fake.watcher);
        fake.watcher = watcher;
}

void pods_unwatch(Pods *pods, PodsWatcher *watcher) {
        assert_true(fake.watcher == watcher);
        fake.watcher = NULL;
}

int sd_event_now(sd_event *event, clockid_t clock, uint64_t *ret) {
        *ret = fake.now_usec;
        return 0;
}

int sd_event_add_time_relative(sd_event *event, sd_event_source **ret, clockid_t clock,
                               uint64_t usec, uint64_t accuracy, sd_event_time_handler_t callback,
                               void *userdata) {
        int r = sd_event_add_time(event, ret, clock, UINT64_MAX, accuracy, callback, userdata);

        fake.timer = *ret;
        fake.timer_usec = usec;
        return r;
}

int sd_event_source_set_time_relative(sd_event_source *source, uint64_t usec) {
        fake.timer_usec = usec;
        return sd_event_source_set_time(source, UINT64_MAX);
}

/* Lets the time pass, and the timer go off in the end. */
static inline void fake_pass(uint64_t usec) {
        fake.now_usec += usec;
        assert_true(sd_event_source_set_time(fake.timer, 0) >= 0);
        assert_true(sd_event_run(fake.event, 0) > 0);
}

static inline void fake_set_up(void) {
        memset(&fake, 0, sizeof(fake));
        assert_true(sd_event_new(&fake.event) >= 0);
}

static inline void fake_forget_stops(void) {
        for (size_t i = 0; i < fake.n_stops; i++) {
                free((char *) fake.stops[i].options.container_id);
                free((char *) fake.stops[i].options.owner);
                free((char *) fake.stops[i].options.cause);
                free((char *) fake.stops[i].options.pod_address);
        }
        fake.n_stops = 0;
}

static inline void fake_tear_down(void) {
        fake_forget_stops();
        fake.event = sd_event_unref(fake.event);
        assert_true(!fake.call && !fake.watcher);
}

/* One label or annotation of a container. */
typedef Runtime__V1__Container__LabelsEntry FakeLabel;
typedef Runtime__V1__Container__AnnotationsEntry FakeAnnotation;

typedef struct FakeList {
        CriContainerList list;
        CriContainer *pointers[FAKE_CONTAINERS_MAX];
        CriContainer containers[FAKE_CONTAINERS_MAX];
        Runtime__V1__ContainerMetadata metadata[FAKE_CONTAINERS_MAX];
        FakeLabel labels[FAKE_CONTAINERS_MAX][4];
        FakeLabel *label_pointers[FAKE_CONTAINERS_MAX][4];
        FakeAnnotation annotations[FAKE_CONTAINERS_MAX];
        FakeAnnotation *annotation_pointers[FAKE_CONTAINERS_MAX];
        char counts[FAKE_CONTAINERS_MAX][12];
} FakeList;

static inline void fake_list_add(FakeList *list, const FakeContainer *from) {
        const char *pairs[4][2] = {
                { LABEL_POD_NAMESPACE, from->namespace ?: "default" },
                { LABEL_POD_NAME, from->pod ?: "web" },
                { LABEL_POD_UID, from->uid ?: "uid-1" },
                { LABEL_CONTAINER_NAME, from->name },
        };
        size_t n = list->list.n_containers++;
        CriContainer *container = &list->containers[n];

        assert_true(n < FAKE_CONTAINERS_MAX);
        list->pointers[n] = container;
        runtime__v1__container__init(container);
        runtime__v1__container_metadata__init(&list->metadata[n]);
        container->id = from->id;
        container->metadata = &list->metadata[n];
        container->metadata->name = (char *) from->name;
        container->created_at = 1000 + (int64_t) n;
        container->state = from->is_running ? RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING
                                            : RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED;
        for (size_t i = 0; i < 4; i++) {
                runtime__v1__container__labels_entry__init(&list->labels[n][i]);
                list->labels[n][i].key = (char *) pairs[i][0];
                list->labels[n][i].value = (char *) pairs[i][1];
                list->label_pointers[n][i] = &list->labels[n][i];
        }
        container->labels = list->label_pointers[n];
        container->n_labels = 4;

        runtime__v1__container__annotations_entry__init(&list->annotations[n]);
        snprintf(list->counts[n], sizeof(list->counts[n]), "%u", from->restart_count);
        list->annotations[n].key = (char *) ANNOTATION_RESTART_COUNT;
        list->annotations[n].value = list->counts[n];
        list->annotation_pointers[n] = &list->annotations[n];
        container->annotations = &list->annotation_pointers[n];
        container->n_annotations = 1;
}

/* Answers the call; the list ends with a container without a name. The memory is gone then. */
static inline int fake_list(const FakeContainer *containers) {
        cleanup(free_p) FakeList *list = calloc(1, sizeof(*list));
        RpcCall *call = fake.call;

        assert_true(call);
        runtime__v1__list_containers_response__init(&list->list);
        list->list.containers = list->pointers;
        for (; containers->name; containers++)
                fake_list_add(list, containers);
        return call->done(&list->list, NULL, call->userdata);
}

static inline int fake_refuse(ErrorKind kind, const char *message) {
        const Error error = { .kind = kind, .message = (char *) message };

        assert_true(fake.call);
        return fake.call->done(NULL, &error, fake.call->userdata);
}
