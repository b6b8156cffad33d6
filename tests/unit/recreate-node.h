/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A node on which the agent serves restart requests, with a faked API server and runtime
 *
 * The server keeps requests as JSON, applies patches, and shows what changed; the runtime has the containers
 * of one pod. The test decides when a call is answered. To be included once.
 */

#include <time.h>

#include "agent/document/json-reader.h"
#include "agent/recreate/recreate-request.h"
#include "agent/recreate/recreate.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/kubelet-lease.h"
#include "tests/unit/merge-patch.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/pod-server.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/sent-events.h"
#include "tests/unit/unit.h"

#define OBJECTS_MAX 8
#define TEXTS_MAX 256
#define CREATED_SEC 1769860800 /* 2026-01-31T12:00:00Z, when all requests were made */
#define KIND "/apis/apps.kruise.io"

static struct Node {
        PodContext context;
        Recreate *recreate;
        Stops *stops;
        Pods *pods;
        Kubelet *kubelet;
        KubeEvents *events;
        Log *log;
        Metrics *metrics;
        char folder[32];

        const char *served; /* served version; NULL: none */
        /* numbers of the watches: of requests for this node, and of requests without a controller */
        unsigned watches[2];
        unsigned n_watches; /* watches so far */
        bool is_broken;     /* there is no such kind, whatever version is served */
        bool is_slow;       /* the watches have not completed their lists yet */
        bool is_deaf;       /* the watches show nothing */
        unsigned n_discoveries, n_leases;
        json_object *objects[OBJECTS_MAX];
        size_t n_objects;
        int version, replied_version;
        /* value that is reverted once before the answer, and the patch that reverts it */
        const char *spoilt, *spoil;
        int next_code; /* code of the answer to the next patch; 0: as it should be */
        /* text of patches that are always answered with refused_code; NULL: none */
        const char *refused;
        int refused_code;
        const char *pod_json;   /* the pod as the server has it */
        char *texts[TEXTS_MAX]; /* requests: "PATCH path body" */
        size_t n_texts;

        ShownPod pod;
        size_t n_containers;      /* containers of the runtime */
        unsigned n_failing_lists; /* next lists that fail */
        char ids[8][40];
} node;

static inline json_object *get_path(json_object *object, const char *path) {
        json_object *value = NULL;

        return json_pointer_get(object, path, &value) == 0 ? value : NULL;
}

static inline const char *get_text(json_object *object, const char *path) {
        return json_object_get_string(get_path(object, path)) ?: "";
}

static inline KubeCall *watch_call(size_t watch) {
        return fake_kube_call_of(node.watches[watch]);
}

/* The server's watches */

static inline bool is_selected(size_t watch, json_object *object) {
        json_object *labels = get_path(object, "/metadata/labels");
        bool has_node = json_get_filled(labels, RECREATE_LABEL_NODE);

        return watch == 1 ? !has_node : has_node && json_is(labels, RECREATE_LABEL_ACTIVE, "true");
}

static inline void send_event(size_t watch, const char *type, json_object *object) {
        cleanup(free_p) char *line = NULL;

        assert_true(asprintf(&line, "{\"type\":\"%s\",\"object\":%s}\n", type,
                             json_to_text(object)) > 0);
        if (watch_call(watch))
                assert_ok(fake_kube_send(watch_call(watch), line, strlen(line)));
}

/* Ends the list: all objects were shown. */
static inline void send_end(size_t watch) {
        cleanup(json_object_put_p) json_object *end =
                parse("{'metadata':{'annotations':{'k8s.io/initial-events-end':'true'}}}");
        char version[16];

        (void) snprintf(version, sizeof(version), "%d", node.version);
        json_object_object_add(get_path(end, "/metadata"), "resourceVersion",
                               json_object_new_string(version));
        send_event(watch, "BOOKMARK", end);
}

static inline void begin_watch(KubeCall *call) {
        size_t watch = strstr(call->request.path, "labelSelector=%21crr") ? 1 : 0;

        if (node.is_broken) {
                assert_ok(fake_kube_answer_call(call, 404, "{}"));
                return;
        }

        assert_null(watch_call(watch));
        node.watches[watch] = call->number;
        node.n_watches++;
        assert_ok(fake_kube_accept(call));
        for (size_t i = 0; i < node.n_objects; i++)
                if (is_selected(watch, node.objects[i]))
                        send_event(watch, "ADDED", node.objects[i]);
        if (!node.is_slow)
                send_end(watch);
}

static inline void show(json_object *object, const bool was_selected[2]) {
        for (size_t i = 0; i < 2 && !node.is_deaf; i++) {
                if (is_selected(i, object))
                        send_event(i, was_selected[i] ? "MODIFIED" : "ADDED", object);
                else if (was_selected[i])
                        send_event(i, "DELETED", object);
        }
}

static inline void set_version(json_object *object) {
        char text[16];

        (void) snprintf(text, sizeof(text), "%d", ++node.version);
        json_object_object_add(get_path(object, "/metadata"), "resourceVersion",
                               json_object_new_string(text));
}

/* The server's objects */

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
                was_selected[i] = is_selected(i, *object);
        *object = apply_merge_patch(*object, patch);
        set_version(*object);
        show(*object, was_selected);
}

/* Turns a JSON patch of tests and additions into a merge patch of the object; NULL: a test fails. */
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
                        assert_ok(json_pointer_set(&patch, path,
                                                   copy_json(get_path(step, "/value"))));
        }

        return patch;
}

static inline int serve_patch(const KubeRequest *request, size_t i) {
        cleanup(json_object_put_p) json_object *body = json_tokener_parse(request->body);
        bool has_steps = strcmp(request->content_type, KUBE_JSON_PATCH) == 0;
        bool is_spoilt = node.spoil && strstr(request->body, node.spoilt);
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
        if (is_spoilt) {
                json_object *spoil = parse("%s", take_ptr(node.spoil));

                patch_object(&node.objects[i], spoil);
                json_object_put(spoil);
        }
        return 200;
}

static inline bool is_refused(const char *text) {
        return node.refused && strstr(text, node.refused);
}

/* A request that reads or writes one object. */
static inline void serve_object(KubeCall *call) {
        const KubeRequest *request = &call->request;
        unsigned number = call->number;
        size_t i = find_object(request->path);
        const char *object = strcmp(request->method, "GET") != 0 ? NULL
                             : i < node.n_objects                ? json_to_text(node.objects[i])
                                                                 : node.pod_json;
        char *text, body[4096];
        int code;

        assert_true(node.n_texts < TEXTS_MAX);
        assert_true(asprintf(&text, "%s %s %s", request->method, request->path,
                             request->body ?: "") > 0);
        node.texts[node.n_texts++] = text;
        code = is_refused(text) ? node.refused_code : node.next_code;
        node.next_code = 0;
        (void) snprintf(body, sizeof(body), "%s", object ?: "{}");
        if (!code && strcmp(request->method, "PATCH") == 0 && i < node.n_objects) {
                code = serve_patch(request, i);
                if (code == 200)
                        (void) snprintf(body, sizeof(body),
                                        "{\"metadata\":{\"resourceVersion\":\"%d\"}}",
                                        node.replied_version);
        } else if (!code && i >= node.n_objects && strstr(request->path, "/containerrecreate")) {
                code = 404;
        }

        /* The watch may have shown enough meanwhile. */
        if (fake_kube_call_of(number))
                assert_ok(fake_kube_answer_call(call, code ?: 200, body));
}

/* Answers whether there is the group, and which kinds a version has. */
static inline void serve_discovery(KubeCall *call) {
        static const char body[] = "{\"resources\":[{\"name\":\"containerrecreaterequests\"},"
                                   "{\"name\":\"containerrecreaterequests/status\"}]}";
        bool is_group = strcmp(call->request.path, KIND) == 0;
        bool is_there = node.served && (is_group || strstr(call->request.path, node.served));

        node.n_discoveries += is_group;
        assert_ok(fake_kube_answer_call(call, is_there ? 200 : 404, body));
}

/* Answers that the kubelet is alive. */
static inline void serve_lease(void) {
        node.n_leases++;
        lease_answer(KUBELET_ALIVE);
}

static inline void serve_call(KubeCall *call) {
        const char *path = call->request.path;

        if (strstr(path, "watch=true"))
                begin_watch(call);
        else if (call == lease_call())
                serve_lease();
        else if (strstr(path, "/events"))
                (void) sent_events_take();
        else if (strncmp(path, KIND, strlen(KIND)) == 0 && !strstr(path, "/namespaces/"))
                serve_discovery(call);
        else
                serve_object(call);
}

static inline void add_container(const char *name, const char *id) {
        fake_runtime.containers[node.n_containers] = (FakeContainer){
                .id = id,
                .name = name,
                .namespace = "d",
                .uid = "p-1",
                .created_at = 1000 + (int64_t) node.n_containers,
                .is_running = true,
        };
        node.n_containers++;
}

static inline void name_container(size_t i, const char *id) {
        (void) snprintf(node.ids[node.n_containers], sizeof(node.ids[0]), "containerd://%s", id);
        node.pod.containers[i].container_id = node.ids[node.n_containers];
        node.pod.containers[i].is_ready = node.pod.containers[i].is_running = true;
}

static inline void on_nothing(void *userdata) {
}

/* The agent begins, and has no answer yet. */
static inline void start_agent(void) {
        const StopsOptions stops = {
                .event = fake_kube.event,
                .runtimes = (Runtimes *) &fake_runtime,
                .kubelet = node.kubelet,
                .events = node.events,
                .metrics = node.metrics,
                .state_dir = node.folder,
        };
        node.context = (PodContext){
                .event = fake_kube.event,
                .log = node.log,
                .client = &fake_kube,
                .runtimes = (Runtimes *) &fake_runtime,
                .node_name = "node-1",
                .metrics = node.metrics,
                .on_changed = on_nothing,
        };

        assert_int_equal(stops_new(&stops, &node.stops), 0);
        assert_ok(pods_new(&(PodsOptions){ .client = &fake_kube, .node_name = "node-1" },
                           &node.pods));
        node.context.stops = node.stops;
        node.context.pods = node.pods;
        assert_ok(recreate_new(&node.context, &node.recreate));
}

static inline void end_agent(void) {
        node.recreate = recreate_free(node.recreate);
        node.pods = pods_free(node.pods);
        node.stops = stops_free(node.stops);
}

/* A node with one pod of two containers, and without an agent so far. */
static inline void node_open(int log_level) {
        static const char *const names[] = { "app", "side" };
        static const char *const ids[] = { "a1", "s1" };

        memset(&node, 0, sizeof(node));
        fake_runtime_reset();
        pod_server_reset();
        sent_events_reset();
        fake_kube_open();
        fake_kube.server_usec = (int64_t) (CREATED_SEC + 1000) * 1000000;
        scratch_make(node.folder);
        assert_ok(log_new(LOG_FORMAT_TEXT, log_level, &node.log));
        node.metrics = metrics_for_test();
        node.served = "v1beta1";
        node.pod = (ShownPod){
                .namespace = "d", .uid = "p-1", .ip = "10.0.0.1", .grace_sec = 30, .n_containers = 2
        };
        for (size_t i = 0; i < 2; i++) {
                node.pod.containers[i].name = names[i];
                name_container(i, ids[i]);
                add_container(names[i], ids[i]);
        }
        pod_server_show(&node.pod);
        node.kubelet = kubelet_with_lease();
        node.events = events_of_agent();
}

static inline void node_close(void) {
        end_agent();
        kubelet_free(node.kubelet);
        kube_events_free(node.events);
        metrics_free(node.metrics);
        log_free(node.log);
        for (size_t i = 0; i < node.n_objects; i++)
                json_object_put(node.objects[i]);
        for (size_t i = 0; i < node.n_texts; i++)
                free(node.texts[i]);
        assert_null(fake_runtime_find(NULL));
        fake_clock_done();
        fake_kube_close();
        scratch_remove(node.folder, "stops.json");
}

#define LABELS                                                                        \
        "'crr.apps.kruise.io/node-name':'node-1','crr.apps.kruise.io/active':'true'," \
        "'crr.apps.kruise.io/pod-uid':'p-1'"

static inline const char *phase(size_t i) {
        return get_text(node.objects[i], "/status/phase");
}

/* "Recreating! Pending", the mark for what was killed. */
static inline const char *states(size_t i) {
        static char text[256];
        json_object *list = get_path(node.objects[i], "/status/containerRecreateStates");

        text[0] = '\0';
        for (size_t k = 0; list && k < json_object_array_length(list); k++) {
                json_object *state = json_object_array_get_idx(list, k);

                if (k > 0)
                        strcat(text, " ");
                strcat(text, get_text(state, "/phase"));
                if (get_path(state, "/isKilled"))
                        strcat(text, "!");
        }
        return text;
}
