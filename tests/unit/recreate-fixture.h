/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A node and an API server for restart requests, both played by the test
 *
 * The server keeps requests as JSON, applies patches, and shows what changed; the runtime lists the
 * containers of one pod; stops only end when the test says so. To be included once, by a test that is
 * built without client.c, watch.c, discovery.c, pods.c and the stops.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/discovery.h"
#include "agent/pod/runtime-pods.h"
#include "agent/document/json-reader.h"
#include "agent/recreate/recreate-request.h"
#include "agent/recreate/recreate.h"
#include "cri/client.h"
#include "tests/unit/merge-patch.h"
#include "tests/unit/metric-value.h"

#define OBJECTS_MAX 8
#define TEXTS_MAX 256
#define CREATED_SEC 1769860800 /* 2026-01-31T12:00:00Z, when all requests were made */

struct KubeWatch {
        KubeWatchOptions options;
        char *selector;
        KubeWatchState state;
        Error error;
        bool is_loose;
};

struct KubeCall {
        KubeRequest request;
        sd_event_source *source;
};

struct KubeDiscovery {
        KubeDiscovered on_discovered;
        void *userdata;
        sd_event_source *source;
};

struct RpcCall {
        RpcDone done;
        void *userdata;
        sd_event_source *source;
};

struct Stop {
        StopOptions options;
        char *id, *owner, *cause;
        StopStep step;
        bool has_begun, was_answered, is_asked;
};

static struct Node {
        sd_event *event;
        Recreate *recreate;
        const char *served; /* version; NULL: none */
        KubeWatch *watches[2];
        json_object *objects[OBJECTS_MAX];
        size_t n_objects;
        int version, replied_version;
        const char *spoilt, *spoil; /* what is changed back before its answer, once, and how */
        KubeCall *answered;         /* unless it was dropped meanwhile */
        int next_code;              /* of the next patch; 0: as it should be */
        const char *refused;        /* in the text of what is always answered so; NULL: nothing */
        int refused_code;
        const char *pod_json;   /* what the server has of the pod */
        bool is_deaf;           /* the watch shows nothing */
        char *texts[TEXTS_MAX]; /* what was asked for: "PATCH path body" */
        size_t n_texts;
        unsigned n_discoveries, n_watches, n_warnings;
        int64_t server_sec; /* its time; 0: it does not say */

        Pod pod;
        PodContainer pod_containers[2];
        bool has_pod, are_pods_unknown;
        PodsWatcher *watcher;
        struct {
                const char *name, *id;
                bool is_running, is_created; /* and not begun */
                int64_t made_sec;            /* 0: long ago */
        } containers[4];
        size_t n_containers;
        unsigned n_lists, n_failing_lists; /* the next ones */
        bool is_runtime_away;
        const char *listed_namespace, *listed_pod; /* as the runtime has it; NULL: d, web */

        Stop *stops[4];
        size_t n_stops;
        const char *stopped_before; /* ID */
        Metrics *metrics;
} node;

static inline int on_late(sd_event_source *source, uint64_t usec, void *userdata) {
        *(bool *) userdata = true;
        return 0;
}

void log_write(Log *log, int level, const LogField *fields, const char *format, ...) {
        node.n_warnings += level == LOG_WARNING;
}

/* Until there is nothing to do at once. */
static inline void settle(void) {
        unsigned n = 0;
        int r;

        do {
                r = sd_event_run(node.event, 0);
                assert_true(n++ < 10000);
        } while (r > 0);
        assert_int_equal(r, 0);
}

static inline sd_event_source *defer(sd_event_handler_t handler, void *userdata) {
        sd_event_source *source;

        assert_true(sd_event_add_defer(node.event, &source, handler, userdata) >= 0);
        assert_true(sd_event_source_set_exit_on_failure(source, true) >= 0);
        return source;
}

static inline json_object *get_path(json_object *object, const char *path) {
        json_object *value = NULL;

        return json_pointer_get(object, path, &value) == 0 ? value : NULL;
}

static inline const char *get_text(json_object *object, const char *path) {
        return json_object_get_string(get_path(object, path)) ?: "";
}

static inline KubeObject as_shown(json_object *object) {
        return (KubeObject){
                .namespace = get_text(object, "/metadata/namespace"),
                .name = get_text(object, "/metadata/name"),
                .uid = get_text(object, "/metadata/uid"),
                .resource_version = get_text(object, "/metadata/resourceVersion"),
                .json = object,
        };
}

static inline bool is_selected(const KubeWatch *watch, json_object *object) {
        json_object *labels = get_path(object, "/metadata/labels");
        bool has_node = json_get_filled(labels, RECREATE_LABEL_NODE);

        return watch->is_loose ? !has_node
                               : has_node && json_is(labels, RECREATE_LABEL_ACTIVE, "true");
}

static inline void show_to(KubeWatch *watch, json_object *object, bool was_selected) {
        json_object *copy = copy_json(object);
        KubeObject shown = as_shown(copy);

        if (watch && is_selected(watch, object))
                assert_int_equal(watch->options.on_object(&shown, watch->options.userdata), 0);
        else if (watch && was_selected)
                assert_int_equal(watch->options.on_gone(&shown, watch->options.userdata), 0);
        json_object_put(copy);
}

static inline void show(json_object *object, const bool was_selected[2]) {
        for (size_t i = 0; i < 2 && !node.is_deaf; i++)
                show_to(node.watches[i], object, was_selected[i]);
}

static inline void set_version(json_object *object) {
        char text[16];

        (void) snprintf(text, sizeof(text), "%d", ++node.version);
        json_object_object_add(get_path(object, "/metadata"), "resourceVersion",
                               json_object_new_string(text));
}

/* JSON with single quotes. */
static inline json_object *parse_quoted(const char *text) {
        cleanup(free_p) char *copy = strdup(text);
        json_object *object;

        for (char *at = copy; *at; at++)
                if (*at == '\'')
                        *at = '"';
        object = json_tokener_parse(copy);
        assert_non_null(object);
        return object;
}

static inline json_object *create(const char *text) {
        static const bool unselected[2] = { false };
        json_object *object = parse_quoted(text);

        node.objects[node.n_objects++] = object;
        set_version(object);
        show(object, unselected);
        settle();
        return object;
}

static inline size_t find_object(const char *path) {
        size_t best = node.n_objects;

        for (size_t i = 0; i < node.n_objects; i++) {
                char part[64];

                (void) snprintf(part, sizeof(part), "/containerrecreaterequests/%s",
                                get_text(node.objects[i], "/metadata/name"));
                if (strstr(path, part))
                        best = i;
        }

        return best;
}

/* As another client would, or the agent. */
static inline void patch_object(json_object **object, json_object *patch) {
        bool was_selected[2];

        for (size_t i = 0; i < 2; i++)
                was_selected[i] = node.watches[i] && is_selected(node.watches[i], *object);
        *object = apply_merge_patch(*object, patch);
        set_version(*object);
        show(*object, was_selected);
}

static inline void patch_by_others(size_t i, const char *text) {
        json_object *patch = parse_quoted(text);

        patch_object(&node.objects[i], patch);
        json_object_put(patch);
        settle();
}

static inline void remove_object(size_t i) {
        KubeObject shown = as_shown(node.objects[i]);
        json_object *object = node.objects[i];

        node.objects[i] = node.objects[--node.n_objects];
        for (size_t k = 0; k < 2; k++)
                if (node.watches[k] && is_selected(node.watches[k], object))
                        node.watches[k]->options.on_gone(&shown, node.watches[k]->options.userdata);
        json_object_put(object);
        settle();
}

/* A JSON patch of tests and additions to what is there, as a merge patch; NULL: a test fails. */
static inline json_object *read_steps(json_object *steps, json_object *object) {
        json_object *patch = json_object_new_object();

        for (size_t i = 0; patch && i < json_object_array_length(steps); i++) {
                json_object *step = json_object_array_get_idx(steps, i);
                const char *path = get_text(step, "/path");
                bool is_test = strcmp(get_text(step, "/op"), "test") == 0;

                if (is_test && strcmp(get_text(step, "/value"), get_text(object, path)) != 0) {
                        json_object_put(patch);
                        return NULL;
                }
                if (!is_test && !get_path(patch, "/status"))
                        json_object_object_add(patch, "status", json_object_new_object());
                if (!is_test)
                        assert_int_equal(json_pointer_set(&patch, path,
                                                          copy_json(get_path(step, "/value"))),
                                         0);
        }

        return patch;
}

static inline int serve_patch(const KubeRequest *request, size_t i) {
        cleanup(json_object_put_p) json_object *body = json_tokener_parse(request->body);
        bool has_steps = strcmp(request->content_type, KUBE_JSON_PATCH) == 0;
        cleanup(json_object_put_p) json_object *patch =
                has_steps ? read_steps(body, node.objects[i]) : json_object_get(body);
        const char *version = get_text(patch, "/metadata/resourceVersion");

        if (version[0] &&
            strcmp(version, get_text(node.objects[i], "/metadata/resourceVersion")) != 0)
                return 409;
        if (!patch)
                return 422;

        patch_object(&node.objects[i], patch);
        node.replied_version = node.version;
        if (node.spoil && strstr(request->body, node.spoilt)) {
                json_object *spoil = parse_quoted(take_ptr(node.spoil));

                patch_object(&node.objects[i], spoil);
                json_object_put(spoil);
        }
        return 200;
}

static inline bool is_refused(const KubeRequest *request) {
        cleanup(free_p) char *text = NULL;

        assert_true(asprintf(&text, "%s %s %s", request->method, request->path, request->body) > 0);
        return node.refused && strstr(text, node.refused);
}

static inline ErrorKind kind_of(int code) {
        switch (code) {
        case 403: return ERROR_DENIED;
        case 404: return ERROR_NOT_FOUND;
        case 409: return ERROR_CONFLICT;
        case 422: return ERROR_INVALID;
        default: return ERROR_UNAVAILABLE;
        }
}

static inline int on_called(sd_event_source *source, void *userdata) {
        KubeCall *call = userdata;
        const KubeRequest request = call->request;
        size_t i = find_object(call->request.path);
        const char *object = strcmp(request.method, "GET") != 0 ? NULL
                             : i < node.n_objects               ? json_to_text(node.objects[i])
                                                                : node.pod_json;
        char body[4096];
        int code = is_refused(&request) ? node.refused_code : node.next_code;
        cleanup(error_done) Error error = ERROR_INIT;

        (void) snprintf(body, sizeof(body), "%s", object ?: "{}");
        node.answered = call;
        node.next_code = 0;
        if (!code && strcmp(request.method, "PATCH") == 0 && i < node.n_objects)
                code = serve_patch(&request, i);
        else if (!code && i >= node.n_objects && strstr(request.path, "/containerrecreate"))
                code = 404;
        if (!node.answered)
                return 0; /* what the watch has shown meanwhile was enough */
        if (code == 200)
                (void) snprintf(body, sizeof(body), "{\"metadata\":{\"resourceVersion\":\"%d\"}}",
                                node.replied_version);
        if (code >= 300)
                (void) error_set(&error, kind_of(code), "code %d", code);
        return request.on_replied(&(KubeReply){ .code = code, .body = body, .size = strlen(body) },
                                  code >= 300 ? &error : NULL, request.userdata);
}

int kube_call(KubeClient *client, const KubeRequest *request, KubeCall **ret) {
        KubeCall *call = calloc(1, sizeof(*call));

        call->request = *request;
        call->request.path = strdup(request->path);
        call->request.body = strdup(request->body ?: "");
        call->source = defer(on_called, call);
        assert_true(node.n_texts < TEXTS_MAX);
        assert_true(asprintf(&node.texts[node.n_texts++], "%s %s %s", request->method,
                             request->path, call->request.body) > 0);
        *ret = call;
        return 0;
}

KubeCall *kube_call_unref(KubeCall *call) {
        if (!call)
                return NULL;

        if (node.answered == call)
                node.answered = NULL;
        sd_event_source_disable_unref(call->source);
        free((char *) call->request.path);
        free((char *) call->request.body);
        free(call);
        return NULL;
}

sd_event *kube_client_event(const KubeClient *client) {
        return node.event;
}

bool kube_client_is_in_trouble(const KubeClient *client) {
        return false;
}

bool kube_client_server_usec(const KubeClient *client, int64_t *ret) {
        *ret = node.server_sec * 1000000;
        return node.server_sec > 0;
}

const Error *kube_client_trouble(const KubeClient *client) {
        return NULL;
}

int kube_watch_new(const KubeWatchOptions *options, KubeWatch **ret) {
        KubeWatch *watch = calloc(1, sizeof(*watch));

        node.n_watches++;
        watch->options = *options;
        watch->selector = strdup(options->selector);
        watch->is_loose = strstr(watch->selector, "=%21crr");
        assert_null(node.watches[watch->is_loose]);
        node.watches[watch->is_loose] = watch;
        *ret = watch;
        return 0;
}

KubeWatch *kube_watch_free(KubeWatch *watch) {
        if (!watch)
                return NULL;

        node.watches[watch->is_loose] = NULL;
        error_done(&watch->error);
        free(watch->selector);
        free(watch);
        return NULL;
}

int kube_watch_begin_again(KubeWatch *watch, const char *version) {
        node.n_watches++;
        node.watches[watch->is_loose] = watch;
        return 0;
}

void kube_watch_stop(KubeWatch *watch) {
        node.watches[watch->is_loose] = NULL;
        watch->state = KUBE_WATCH_LISTING;
        error_done(&watch->error);
}

int kube_watch_relist(KubeWatch *watch) {
        return 0;
}

KubeWatchState kube_watch_state(const KubeWatch *watch) {
        return watch->state;
}

const Error *kube_watch_error(const KubeWatch *watch) {
        return &watch->error;
}

int kube_watch_kick(KubeWatch *watch) {
        return 0;
}

static inline int on_discovery(sd_event_source *source, void *userdata) {
        KubeDiscovery *discovery = userdata;

        return discovery->on_discovered(node.served, NULL, discovery->userdata);
}

int kube_discover(KubeClient *client, const char *group, const char *const *versions,
                  const char *resource, KubeDiscovered on_discovered, void *userdata,
                  KubeDiscovery **ret) {
        KubeDiscovery *discovery = calloc(1, sizeof(*discovery));

        node.n_discoveries++;
        discovery->on_discovered = on_discovered;
        discovery->userdata = userdata;
        discovery->source = defer(on_discovery, discovery);
        *ret = discovery;
        return 0;
}

KubeDiscovery *kube_discovery_free(KubeDiscovery *discovery) {
        if (!discovery)
                return NULL;

        sd_event_source_disable_unref(discovery->source);
        free(discovery);
        return NULL;
}

void pods_watch(Pods *pods, PodsWatcher *watcher) {
        node.watcher = watcher;
}

void pods_unwatch(Pods *pods, PodsWatcher *watcher) {
        node.watcher = NULL;
}

bool pods_are_synced(const Pods *pods) {
        return !node.are_pods_unknown;
}

const Pod *pods_find(const Pods *pods, const char *namespace, const char *name) {
        return node.has_pod && strcmp(name, node.pod.name) == 0 &&
                               strcmp(namespace, node.pod.namespace) == 0
                       ? &node.pod
                       : NULL;
}

size_t pods_count(const Pods *pods) {
        return node.has_pod;
}

const Pod *pods_get(const Pods *pods, size_t i) {
        return &node.pod;
}

size_t runtimes_count(const Runtimes *runtimes) {
        return 1;
}

Runtime *runtimes_get(const Runtimes *runtimes, size_t i) {
        return (Runtime *) &node;
}

Runtime *runtimes_chosen(const Runtimes *runtimes) {
        return (Runtime *) &node;
}

bool runtimes_are_settled(const Runtimes *runtimes) {
        return true;
}

const char *runtime_name(const Runtime *runtime) {
        return "containerd";
}

RpcClient *runtime_client(const Runtime *runtime) {
        return node.is_runtime_away ? NULL : (RpcClient *) &node;
}

static inline int on_list(sd_event_source *source, void *userdata) {
        static const Error silence = { .kind = ERROR_UNAVAILABLE, .message = (char *) "silent" };
        struct Made {
                CriContainer container;
                Runtime__V1__Container__LabelsEntry labels[4];
                Runtime__V1__Container__LabelsEntry *label_list[4];
                Runtime__V1__ContainerMetadata metadata;
        } made[4] = { 0 };
        CriContainer *containers[4];
        CriContainerList list = { .containers = containers, .n_containers = node.n_containers };
        RpcCall *call = userdata;

        if (node.n_failing_lists > 0) {
                node.n_failing_lists--;
                return call->done(NULL, &silence, call->userdata);
        }

        for (size_t i = 0; i < node.n_containers; i++) {
                const char *const labels[4][2] = {
                        { LABEL_POD_NAME, node.listed_pod ?: "web" },
                        { LABEL_POD_NAMESPACE, node.listed_namespace ?: "d" },
                        { LABEL_POD_UID, "p-1" },
                        { LABEL_CONTAINER_NAME, node.containers[i].name },
                };

                for (size_t k = 0; k < 4; k++) {
                        made[i].labels[k].key = (char *) labels[k][0];
                        made[i].labels[k].value = (char *) labels[k][1];
                        made[i].label_list[k] = &made[i].labels[k];
                }
                made[i].container.id = (char *) node.containers[i].id;
                made[i].container.pod_sandbox_id = (char *) "s";
                made[i].container.metadata = &made[i].metadata;
                made[i].container.image_ref = (char *) "";
                made[i].container.image_id = (char *) "";
                made[i].metadata.name = (char *) node.containers[i].name;
                made[i].container.labels = made[i].label_list;
                made[i].container.n_labels = 4;
                made[i].container.created_at =
                        node.containers[i].made_sec * 1000000000 + (int64_t) (1000 + i);
                made[i].container.state = node.containers[i].is_running
                                                  ? RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING
                                          : node.containers[i].is_created
                                                  ? RUNTIME__V1__CONTAINER_STATE__CONTAINER_CREATED
                                                  : RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED;
                containers[i] = &made[i].container;
        }

        return call->done(&list, NULL, call->userdata);
}

int cri_list_containers(RpcClient *client, const CriContainerFilter *filter, RpcDone done,
                        void *userdata, RpcCall **ret) {
        RpcCall *call = calloc(1, sizeof(*call));

        assert_int_equal(filter->n_label_selector, 1);
        assert_string_equal(filter->label_selector[0]->key, LABEL_POD_UID);
        assert_string_equal(filter->label_selector[0]->value, "p-1");
        node.n_lists++;
        call->done = done;
        call->userdata = userdata;
        call->source = defer(on_list, call);
        *ret = call;
        return 0;
}

RpcCall *rpc_call_unref(RpcCall *call) {
        if (!call)
                return NULL;

        sd_event_source_disable_unref(call->source);
        free(call);
        return NULL;
}

int stops_add(Stops *stops, const StopOptions *options, Stop **ret) {
        Stop *stop = calloc(1, sizeof(*stop));

        stop->options = *options;
        stop->id = strdup(options->container_id);
        stop->owner = strdup(options->owner);
        stop->cause = strdup(options->cause);
        node.stops[node.n_stops++] = stop;
        *ret = stop;
        return 0;
}

static inline void stop_forget(Stop *stop) {
        for (size_t i = 0; i < node.n_stops; i++)
                if (node.stops[i] == stop)
                        node.stops[i] = node.stops[--node.n_stops];
        free(stop->cause);
        free(stop->owner);
        free(stop->id);
        free(stop);
}

int stop_answer(Stop *stop, bool is_asked, const char *why_not) {
        stop->was_answered = true;
        stop->is_asked = is_asked;
        return 0;
}

void stop_leave(Stop *stop) {
        stop_forget(stop);
}

StopStep stop_step(const Stop *stop) {
        return stop->step;
}

bool stop_has_begun(const Stop *stop) {
        return stop->has_begun;
}

bool stops_has_stopped(const Stops *stops, const char *owner, const char *container_id) {
        return node.stopped_before && strcmp(node.stopped_before, container_id) == 0;
}

/* It comes to its check; whether it may go on. */
static inline bool stop_begin(Stop *stop) {
        assert_int_equal(stop->options.on_check(stop, stop->options.userdata), 0);
        settle();
        assert_true(stop->was_answered);
        if (stop->is_asked)
                stop->step = STOP_STEP_HOOK;
        stop->has_begun = stop->is_asked;
        return stop->is_asked;
}

static inline void stop_end(Stop *stop, StopResult result, const char *message) {
        const StopReport report = { .result = result, .message = message };
        const StopOptions options = stop->options;

        for (size_t i = 0; result == STOP_STOPPED && i < node.n_containers; i++)
                if (strcmp(node.containers[i].id, stop->id) == 0)
                        node.containers[i].is_running = false;
        assert_int_equal(options.on_done(&report, options.userdata), 0);
        stop_forget(stop);
        settle();
}

/* The kubelet starts the container again, and says that it is ready. */
static inline void come_back(size_t i, const char *id) {
        node.containers[node.n_containers].name = node.pod_containers[i].name;
        node.containers[node.n_containers].id = id;
        node.containers[node.n_containers++].is_running = true;
        free(node.pod_containers[i].container_id);
        assert_true(asprintf(&node.pod_containers[i].container_id, "containerd://%s", id) > 0);
        node.pod_containers[i].is_ready = node.pod_containers[i].is_running = true;
        assert_int_equal(node.watcher->on_pod(&node.pod, &node.pod, node.watcher->userdata), 0);
        settle();
}

static inline void on_nothing(void *userdata) {
}

/* Requests whose end was counted; result: "succeeded" or "failed". */
static inline int n_completed(const char *result) {
        char series[100];

        (void) snprintf(series, sizeof(series), "inplaced_recreate_requests_total{result=\"%s\"}",
                        result);
        return (int) metric_value(node.metrics, series);
}

static inline void begin_agent(void) {
        const RecreateOptions options = {
                .event = node.event,
                .node_name = "node-1",
                .metrics = node.metrics,
                .on_changed = on_nothing,
        };

        assert_int_equal(recreate_new(&options, &node.recreate), 0);
        settle();
}

/* Dies, and is started again: what the server and the runtime have is all there is. */
static inline void restart_agent(void) {
        static const bool unselected[2] = { false };

        node.recreate = recreate_free(node.recreate);
        begin_agent();
        for (size_t i = 0; i < node.n_objects; i++)
                show(node.objects[i], unselected);
        settle();
}

static inline int set_up(void **state) {
        static const char *const names[] = { "app", "side" };
        static const char *const ids[] = { "a1", "s1" };

        memset(&node, 0, sizeof(node));
        node.metrics = metrics_for_test();
        node.served = "v1beta1";
        node.server_sec = CREATED_SEC + 1000;
        node.has_pod = true;
        node.pod = (Pod){
                .namespace = (char *) "d",
                .name = (char *) "web",
                .uid = (char *) "p-1",
                .runtime_uid = (char *) "p-1",
                .ip = (char *) "10.0.0.1",
                .grace_sec = 30,
                .containers = node.pod_containers,
                .n_containers = 2,
        };
        for (size_t i = 0; i < 2; i++) {
                node.pod_containers[i].name = (char *) names[i];
                node.pod_containers[i].comes_back = true;
                node.pod_containers[i].is_ready = node.pod_containers[i].is_running = true;
                assert_true(asprintf(&node.pod_containers[i].container_id, "containerd://%s",
                                     ids[i]) > 0);
                node.containers[i].name = names[i];
                node.containers[i].id = ids[i];
                node.containers[i].is_running = true;
        }
        node.n_containers = 2;
        assert_true(sd_event_new(&node.event) >= 0);
        begin_agent();
        return 0;
}

static inline int tear_down(void **state) {
        recreate_free(node.recreate);
        metrics_free(node.metrics);
        while (node.n_stops > 0)
                stop_forget(node.stops[0]);
        for (size_t i = 0; i < node.n_objects; i++)
                json_object_put(node.objects[i]);
        for (size_t i = 0; i < node.n_texts; i++)
                free(node.texts[i]);
        for (size_t i = 0; i < 2; i++)
                free(node.pod_containers[i].container_id);
        sd_event_unref(node.event);
        return 0;
}
