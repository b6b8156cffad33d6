/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the patches of pods and the restarts of containers, with a runtime and an API server that
 * do what the test says
 */

#include <json-c/json.h>
#include <time.h>

#include "agent/inplace/inplace.h"
#include "agent/kube/patch.h"
#include "agent/pod/env-hash.h"
#include "agent/pod/stop-journal.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/kubelet-lease.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/pod-server.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/sent-events.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

#define PATH "/api/v1/namespaces/default/pods/web/status"
#define GRACE 30
#define ID_A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define KEPT_MAX 512
#define DAY_SEC (24 * 60 * 60)

typedef struct Fixture {
        PodContext context;
        InPlace *meta;
        Stops *stops;
        Pods *pods;
        Kubelet *kubelet;
        KubeEvents *events;
        Log *log;
        char folder[32];
        ShownPod *pod; /* newest state of the pod */
        Metrics *metrics;
        unsigned n_changed;
        char stop_id[64];                                   /* see stop_id() */
        const char *annotation, *status, *reason, *message; /* as the server has them */
        const char *gate_status, *gate_reason, *gate_message;
        void *kept[KEPT_MAX]; /* until the end */
        size_t n_kept;
} Fixture;

static void *keep(Fixture *fixture, void *memory) {
        assert_non_null(memory);
        assert_true(fixture->n_kept < KEPT_MAX);
        fixture->kept[fixture->n_kept++] = memory;
        return memory;
}

static const char *keep_text(Fixture *fixture, const char *text) {
        return text ? keep(fixture, strdup(text)) : NULL;
}

/* Writes that were counted; result: "succeeded" or "failed". */
static int n_counted(const Fixture *fixture, const char *result) {
        char series[100];

        (void) snprintf(series, sizeof(series), "inplaced_pod_status_writes_total{result=\"%s\"}",
                        result);
        return (int) metric_value(fixture->metrics, series);
}

/* Stops that were asked for, and not withdrawn before they began. */
static int n_stops(const Fixture *fixture) {
        static const char *const results[] = { "stopped", "gone", "not-asked", "failed" };
        int n = (int) stops_n_running(fixture->stops);
        char series[100];

        for (size_t i = 0; i < 4; i++) {
                (void) snprintf(series, sizeof(series),
                                "inplaced_container_stops_total{cause=\"metadata\",result=\"%s\"}",
                                results[i]);
                n += (int) metric_value(fixture->metrics, series);
        }
        return n;
}

static void on_changed(void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_changed++;
}

static void turn(void) {
        pod_server_serve();
        fake_clock_turn(fake_kube.event);
}

static void begin_agent(Fixture *fixture) {
        const StopsOptions stops = {
                .event = fake_kube.event,
                .log = fixture->log,
                .metrics = fixture->metrics,
                .runtimes = (Runtimes *) &fake_runtime,
                .kubelet = fixture->kubelet,
                .events = fixture->events,
                .state_dir = fixture->folder,
        };
        fixture->context = (PodContext){
                .event = fake_kube.event,
                .log = fixture->log,
                .metrics = fixture->metrics,
                .client = &fake_kube,
                .events = fixture->events,
                .pods = fixture->pods,
                .runtimes = (Runtimes *) &fake_runtime,
                .on_changed = on_changed,
                .userdata = fixture,
        };

        assert_int_equal(stops_new(&stops, &fixture->stops), 0);
        fixture->context.stops = fixture->stops;
        assert_ok(inplace_new(&fixture->context, /* has_condition= */ true, &fixture->meta));
        turn();
}

static void end_agent(Fixture *fixture) {
        fixture->meta = inplace_free(fixture->meta);
        fixture->stops = stops_free(fixture->stops);
}

static int set_up_with(void **state, bool is_slow) {
        Fixture *fixture = calloc(1, sizeof(*fixture));

        fake_runtime_reset();
        sent_events_reset();
        pod_server_reset();
        pod_server.is_slow = is_slow;
        fake_kube_open();
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_INFO, &fixture->log));
        fixture->metrics = metrics_for_test();
        scratch_make(fixture->folder);
        fake_runtime.images[0] = (FakeImage){ "nginx:1", ID_A };
        fake_runtime.images[1] = (FakeImage){ "nginx:2", ID_B };
        fixture->events = events_of_agent();
        fixture->kubelet = kubelet_with_lease();
        assert_ok(pods_new(&(PodsOptions){ .client = &fake_kube, .node_name = "node-1" },
                           &fixture->pods));
        begin_agent(fixture);
        *state = fixture;
        return 0;
}

static int set_up(void **state) {
        return set_up_with(state, false);
}

static int tear_down(void **state) {
        Fixture *fixture = *state;

        end_agent(fixture);
        pods_free(fixture->pods);
        kubelet_free(fixture->kubelet);
        kube_events_free(fixture->events);
        metrics_free(fixture->metrics);
        log_free(fixture->log);
        assert_null(fake_runtime_find(NULL));
        fake_clock_done();
        fake_kube_close();
        scratch_remove(fixture->folder, "stops.json");
        while (fixture->n_kept > 0)
                free(fixture->kept[--fixture->n_kept]);
        free(fixture);
        return 0;
}

static uint32_t hash_of(const char *value) {
        EnvValue values[] = { { "VALUE", value } };
        uint32_t hash;

        assert_ok(env_hash(values, 1, &hash));
        return hash;
}

/* Computes the kubelet's hash of a container of that image, where it covers nothing else. */
static const char *kubelet_hash(Fixture *fixture, const char *name, const char *image) {
        char text[16];

        (void) snprintf(text, sizeof(text), "%x", (unsigned) plain_hash(name, image));
        return keep_text(fixture, text);
}

/* A container of the pod, whose VALUE is made from a label, unless that is NULL. */
static void fill_container(Fixture *fixture, ShownContainer *container, const char *name,
                           const char *id, const char *value) {
        char full_id[64];

        (void) snprintf(full_id, sizeof(full_id), "containerd://%s", id);
        *container = (ShownContainer){
                .name = name,
                .value = keep_text(fixture, value),
                .container_id = keep_text(fixture, full_id),
                .is_running = true,
        };
}

static const char *next_version(Fixture *fixture) {
        char version[16];

        (void) snprintf(version, sizeof(version), "%u", pod_server.version++);
        return keep_text(fixture, version);
}

static ShownPod *make_named_pod(Fixture *fixture, const char *name, const char *id,
                                const char *value) {
        ShownPod *pod = keep(fixture, calloc(1, sizeof(*pod)));

        *pod = (ShownPod){
                .name = keep_text(fixture, name),
                .uid = keep_text(fixture, name),
                .resource_version = next_version(fixture),
                .ip = "10.0.0.1",
                .grace_sec = GRACE,
                .is_kruise = true,
                .n_containers = 1,
        };
        fill_container(fixture, &pod->containers[0], "app", id, value);
        return pod;
}

/* Makes the next state of the pod, with the annotations that the server has. */
static ShownPod *make_pod(Fixture *fixture, const char *id, const char *value) {
        ShownPod *pod = make_named_pod(fixture, "web", id, value);

        pod->update = POD_UPDATE_RUNNING;
        pod->meta = fixture->annotation;
        pod->verified_status = fixture->status;
        pod->verified_reason = fixture->reason;
        pod->verified_message = fixture->message;
        return pod;
}

static ShownPod *next(Fixture *fixture, const char *id, const char *value) {
        return make_pod(fixture, id, value);
}

/* A pod of Kubernetes' own workloads, which asks for no restarts. */
static ShownPod *make_plain_pod(Fixture *fixture, const char *id, const char *value) {
        ShownPod *pod = make_pod(fixture, id, value);

        pod->is_kruise = false;
        pod->update = POD_UPDATE_NONE;
        return pod;
}

static FakeContainer model(const char *id, const char *value, int64_t created_at) {
        return (FakeContainer){
                .uid = "web",
                .pod = "web",
                .name = "app",
                .id = id,
                .image_ref = ID_A,
                .value = value,
                .hash = "1f",
                .restart_count = 1,
                .created_at = created_at,
                .is_running = true,
        };
}

/* The watch shows the pod like this. */
static void show(Fixture *fixture, ShownPod *pod) {
        fixture->pod = pod;
        pod_server_show(pod);
        turn();
}

/* There is a kubelet. */
static bool answer_lease(void) {
        if (!lease_call())
                return false;

        lease_answer(KUBELET_ALIVE);
        return true;
}

static void note_stop(Fixture *fixture) {
        for (size_t i = 0; i < fake_runtime.n_calls; i++) {
                const RpcCall *call = &fake_runtime.calls[fake_runtime.order[i]];

                if (strncmp(call->target, "id=", 3) == 0)
                        (void) snprintf(fixture->stop_id, sizeof(fixture->stop_id), "%s",
                                        call->target + 3);
        }
}

/* Lets the runtime answer all questions, and those that follow from the answers. */
static void run_runtime(Fixture *fixture) {
        turn();
        note_stop(fixture);
        while (fake_runtime_serve_questions() || answer_lease()) {
                turn();
                note_stop(fixture);
        }
}

/* And the runtime is quick. */
static void show_and_run(Fixture *fixture, ShownPod *pod) {
        show(fixture, pod);
        run_runtime(fixture);
}

/* Questions about the containers of pods; those of stops are about one container. */
static int n_lists(void) {
        int n = 0;

        for (size_t i = 0; i < fake_runtime.n_calls; i++) {
                const RpcCall *call = &fake_runtime.calls[fake_runtime.order[i]];

                n += strcmp(call->method, "ListContainers") == 0 &&
                     strncmp(call->target, LABEL_POD_UID, strlen(LABEL_POD_UID)) == 0;
        }
        return n;
}

static KubeCall *patch_call(void) {
        return fake_kube_find("PATCH", "/pods/");
}

/* Returns the body of the pending PATCH; NULL: there is none. */
static const char *patch(void) {
        return patch_call() ? patch_call()->request.body : NULL;
}

static void refuse_patch(int code) {
        assert_ok(fake_kube_answer_call(patch_call(), code, ""));
        turn();
}

static void take(Fixture *fixture, const char **text, json_object *object, const char *key) {
        json_object *value;

        if (json_object_object_get_ex(object, key, &value))
                *text = keep_text(fixture, json_object_get_string(value));
}

static void apply_condition(Fixture *fixture, json_object *condition) {
        json_object *type;
        bool is_gate;

        assert_true(json_object_object_get_ex(condition, "type", &type));
        is_gate = strcmp(json_object_get_string(type), GATE_CONDITION) == 0;
        take(fixture, is_gate ? &fixture->gate_status : &fixture->status, condition, "status");
        take(fixture, is_gate ? &fixture->gate_reason : &fixture->reason, condition, "reason");
        take(fixture, is_gate ? &fixture->gate_message : &fixture->message, condition, "message");
}

static void apply_patch(Fixture *fixture) {
        json_object *json = json_tokener_parse(patch()), *part;

        assert_non_null(json);
        assert_true(json_object_object_get_ex(json, "metadata", &part));
        if (json_object_object_get_ex(part, "annotations", &part))
                take(fixture, &fixture->annotation, part, POD_META_ANNOTATION);
        if (json_object_object_get_ex(json, "status", &part)) {
                assert_true(json_object_object_get_ex(part, "conditions", &part));
                for (size_t i = 0; i < json_object_array_length(part); i++)
                        apply_condition(fixture, json_object_array_get_idx(part, i));
        }
        json_object_put(json);
}

static void accept_patch(Fixture *fixture) {
        char body[128];

        apply_patch(fixture);
        (void) snprintf(body, sizeof(body), "{\"metadata\":{\"resourceVersion\":\"%s\"}}",
                        next_version(fixture));
        assert_ok(fake_kube_answer_call(patch_call(), 200, body));
        turn();
}

static void pass(uint64_t usec) {
        fake_clock_pass(fake_kube.event, usec);
        turn();
}

/* The pod has not changed for a while, so that no kubelet can have an older state of it in hand. */
static void rest(void) {
        pass(2000000);
}

/* The agent sees the pod for the first time. */
static void show_first(Fixture *fixture) {
        fake_runtime.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
}

/* A pod that is verified, in whose environment is "1". */
static void settle(Fixture *fixture) {
        show_first(fixture);
        assert_contains(patch(), "\"Verified\"");
        accept_patch(fixture);
        assert_null(patch());
        rest();
}

/* And then its label changes to "2". */
static void settle_and_change(Fixture *fixture) {
        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
}

static void let_pass(Fixture *fixture) {
        fake_clock_skip(fake_kube.event);
        turn();
}

static void await_patch(Fixture *fixture) {
        while (!patch())
                let_pass(fixture);
}

/* Returns the ID of the container that the last stop asked the runtime about. */
static const char *stop_id(Fixture *fixture) {
        assert_true(stops_n_running(fixture->stops) > 0);
        run_runtime(fixture);
        return fixture->stop_id;
}

/* The question whether a stop is still needed. */
static KubeCall *check_call(void) {
        return fake_kube_find("GET", "/namespaces/default/pods/");
}

/* A stop comes to its check. */
static void check_stop(Fixture *fixture) {
        assert_true(stops_n_running(fixture->stops) > 0);
        run_runtime(fixture);
        assert_non_null(check_call());
}

static void refuse_check(int code) {
        assert_ok(fake_kube_answer_call(check_call(), code, ""));
        turn();
}

static void answer_check(Fixture *fixture, const ShownPod *live) {
        pod_server_answer(check_call(), live);
        run_runtime(fixture);
}

/* Ends the stop; its reason still holds, unless the stop is to end for that. */
static void end_stop(Fixture *fixture, StopResult result) {
        ShownPod live = *fixture->pod;
        FakeContainer *container;

        if (!fake_runtime_find("StopContainer"))
                check_stop(fixture);
        container = fake_runtime_container(fixture->stop_id);
        live.resource_version = NULL;
        if (result == STOP_NOT_REQUESTED)
                live.containers[0].value = "another";
        if (check_call())
                answer_check(fixture, &live);
        if (result == STOP_NOT_REQUESTED)
                return;

        if (result == STOP_GONE) {
                container->is_running = false;
                container->finished_at = 1;
        }
        for (size_t i = 0; i < 3 && result == STOP_FAILED; i++) {
                while (!fake_runtime_find("StopContainer"))
                        let_pass(fixture);
                fake_runtime_refuse("StopContainer", ERROR_INTERNAL, "because");
                run_runtime(fixture);
        }
        if (result != STOP_FAILED)
                assert_true(fake_runtime_serve("StopContainer"));
        run_runtime(fixture);
}

/* The container was stopped for that value, for the n-th time. */
static void assert_owner_of(Fixture *fixture, const char *id, const char *value, unsigned number) {
        char owner[64];

        (void) snprintf(owner, sizeof(owner), "metadata/%u/%u", (unsigned) hash_of(value), number);
        if (!stops_has_stopped(fixture->stops, owner, id))
                fail_msg("%s was not stopped for %s", id, owner);
}

/* Counts events about restarts, without those that a container is stopped. */
static int n_reports(void) {
        int n = 0;

        for (const char *at = sent_events_take(); (at = strstr(at, "Warning/InPlaceRestart")); at++)
                n++;
        return n;
}

static void assert_reported(const char *part) {
        if (!strstr(sent_events_take(), part))
                fail_msg("%s is not in %s", part, sent_events_take());
}

TEST_F(test_annotation, Fixture *fixture) {
        ShownPod *pod = make_pod(fixture, "c2", "1");
        char expected[512];
        const KubeRequest *request;

        /* Declared in another order than their statuses are in. */
        pod->n_containers = 2;
        pod->containers[0].status_index = 1;
        fill_container(fixture, &pod->containers[1], "abc", "c1", NULL);
        fake_runtime.containers[0] = model("c2", "1", 1);
        fake_runtime.containers[1] = model("c1", "", 1);
        fake_runtime.containers[1].name = "abc";
        show_and_run(fixture, pod);
        /* for the container with a VALUE */
        assert_int_equal(fake_runtime_n_asked("ContainerStatus"), 1);

        assert_non_null(patch_call());
        request = &patch_call()->request;
        assert_string_equal(request->path, PATH);
        assert_string_equal(request->accept, KUBE_METADATA_ONLY);
        assert_string_equal(request->content_type, KUBE_STRATEGIC_MERGE_PATCH);
        (void) snprintf(expected, sizeof(expected),
                        "{\"metadata\":{\"annotations\":{\"" POD_META_ANNOTATION
                        "\":\"{\\\"containers\\\":[{\\\"name\\\":\\\"abc\\\",\\\"containerID\\\":"
                        "\\\"containerd://c1\\\",\\\"restartCount\\\":1,\\\"hashes\\\":{"
                        "\\\"plainHash\\\":31,\\\"extractedEnvFromMetadataHash\\\":86995377}},"
                        "{\\\"name\\\":\\\"app\\\",\\\"containerID\\\":\\\"containerd://c2\\\","
                        "\\\"restartCount\\\":1,\\\"hashes\\\":{\\\"plainHash\\\":31,"
                        "\\\"extractedEnvFromMetadataHash\\\":%u}}]}\"},"
                        "\"uid\":\"web\"}",
                        (unsigned) hash_of("1"));
        assert_int_equal(strncmp(request->body, expected, strlen(expected)), 0);
        accept_patch(fixture);
        assert_int_equal(n_counted(fixture, "succeeded"), 1);
        assert_int_equal(inplace_count(fixture->meta, VERDICT_CURRENT), 2);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_CURRENT);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "abc"),
                         INPLACE_ENVIRONMENT_NONE);
}

/* The watch lags behind our own write; and a change without a difference costs nothing. */
TEST_F(test_own_write, Fixture *fixture) {
        ShownPod *old;

        show_first(fixture);
        old = next(fixture, "c1", "1");
        accept_patch(fixture);
        show(fixture, old);
        assert_null(patch());
        assert_null(fake_runtime_find(NULL));

        /* Another writer has removed it: the pod is newer than our write. */
        fixture->annotation = NULL;
        show_and_run(fixture, next(fixture, "c1", "1"));
        await_patch(fixture);
        assert_null(strstr(patch(), "conditions"));
        accept_patch(fixture);
}

/* So many writes in so many seconds, while another one changes the field back at once. */
static size_t count_writes(Fixture *fixture, void (*spoil)(Fixture *fixture, size_t n),
                           size_t n_seconds) {
        size_t n = 0;

        for (size_t i = 0; i < 20 * n_seconds; i++) {
                if (patch()) {
                        accept_patch(fixture);
                        spoil(fixture, ++n);
                        show_and_run(fixture, next(fixture, "c1", "1"));
                }
                pass(50000);
                assert_ok(inplace_kick(fixture->meta));
        }

        return n;
}

static void spoil_annotation(Fixture *fixture, size_t n) {
        fixture->annotation = "{}";
}

/* Another writer leaves our entry as it is, except for the part taken over from it, which differs
 * each time; so the written text differs, too. */
static void spoil_two(Fixture *fixture, size_t n) {
        char text[128];

        (void) snprintf(text, sizeof(text),
                        "{\"containers\":[{\"name\":\"app\",\"containerID\":\"containerd://c1\","
                        "\"hashes\":{\"plainHash\":%zu}}, {}, {\"name\":\"gone\"}]}",
                        n);
        fixture->annotation = keep_text(fixture, text);
}

static void spoil_condition(Fixture *fixture, size_t n) {
        fixture->status = n % 2 == 0 ? "False" : "Unknown";
}

/* Two writers of one field do not race: 0.25, 0.5, 1 … 32 s after the last time. */
static const struct Spoiler {
        const char *name;
        void (*spoil)(Fixture *fixture, size_t n);
} spoilers[] = {
        { "the annotation", spoil_annotation },
        { "the annotation and the condition", spoil_two },
        { "the condition", spoil_condition },
};

TEST_ROWS_F(test_another_writer, spoilers, name, const struct Spoiler *row, Fixture *fixture) {
        settle(fixture);
        row->spoil(fixture, 0);
        show_and_run(fixture, next(fixture, "c1", "1"));
        assert_in_range(count_writes(fixture, row->spoil, 60), 6, 8);
}

static const struct Former {
        const char *name, *hash, *image_ref;
        bool is_update;
} former_containers[] = {
        { "another image", "2e", ID_B, true },
        { "another image, the same hash", "1f", ID_B, false },
        { "the same image", "2e", ID_A, false },
};

/* An update that no run of the agent has seen; by the hash and the image of the container before. */
TEST_ROWS_F(test_updated_before, former_containers, name, const struct Former *row,
            Fixture *fixture) {
        ShownPod *pod = make_plain_pod(fixture, "c2", NULL);

        fake_runtime.containers[0] = model("c2", NULL, 2);
        fake_runtime.containers[1] = model("c1", NULL, 1);
        fake_runtime.containers[1].hash = row->hash;
        fake_runtime.containers[1].image_ref = row->image_ref;
        fake_runtime.containers[1].is_running = false;
        show_and_run(fixture, pod);
        assert_true(!!patch() == row->is_update);
        if (patch())
                assert_contains(patch(), "\"Verified\"");
}

/* The environment of such a pod is part of its condition as well. */
TEST_F(test_updated_with_an_environment, Fixture *fixture) {
        ShownPod *pod;

        fake_runtime.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, make_plain_pod(fixture, "c1", "1"));
        rest();
        pod = make_plain_pod(fixture, "c1", "1");
        pod->containers[0].image = "nginx:2";
        show_and_run(fixture, pod);
        assert_contains(patch(), "\"Restarting\"");
        accept_patch(fixture);

        fake_runtime.containers[1] = model("c2", "1", 2);
        fake_runtime.containers[1].image_ref = ID_B;
        pod = make_plain_pod(fixture, "c2", "1");
        pod->containers[0].image = "nginx:2";
        show_and_run(fixture, pod);
        assert_contains(patch(), "\"Verified\"");
        accept_patch(fixture);

        rest();
        pod = make_plain_pod(fixture, "c2", "2");
        pod->containers[0].image = "nginx:2";
        show_and_run(fixture, pod);
        assert_contains(patch(), "\"EnvironmentStale\"");
        assert_int_equal(n_stops(fixture), 0);
}

TEST_F(test_not_for_everybody, Fixture *fixture) {
        ShownPod *pod = make_plain_pod(fixture, "c1", "2");

        fake_runtime.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, pod);
        assert_int_equal(fake_runtime_n_asked("ContainerStatus"), 0);
        assert_null(patch());
        assert_int_equal(n_stops(fixture), 0);
        assert_int_equal(inplace_count(fixture->meta, VERDICT_CURRENT), 1);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_NONE);

        /* It asks for it now. */
        rest();
        pod = make_plain_pod(fixture, "c1", "2");
        pod->restart_on_metadata = "true";
        show_and_run(fixture, pod);
        assert_int_equal(n_stops(fixture), 1);
        assert_contains(patch(), "\"Restarting\"");
}

/* It begins to ask for it while it is being inspected, which is not for its environment yet. */
TEST_F(test_asks_for_it_meanwhile, Fixture *fixture) {
        ShownPod *pod;

        fake_runtime.containers[0] = model("c1", "1", 1);
        for (size_t i = 0; i < 2; i++) {
                pod = make_plain_pod(fixture, "c1", "1");
                pod->restart_on_metadata = i == 0 ? NULL : "true";
                show(fixture, pod);
        }
        assert_int_equal(n_lists(), 1);
        run_runtime(fixture);
        assert_int_equal(fake_runtime_n_asked("ContainerStatus"), 1);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_CURRENT);
        accept_patch(fixture);

        rest();
        pod = make_plain_pod(fixture, "c1", "2");
        pod->restart_on_metadata = "true";
        show(fixture, pod);
        assert_int_equal(n_stops(fixture), 1);
}

/* A container whose environment is still unknown is no longer in the runtime. */
TEST_F(test_not_there_any_more, Fixture *fixture) {
        ShownPod *pod;

        pod = make_plain_pod(fixture, "c1", "1");
        fake_runtime.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, pod);
        fake_runtime.containers[0].id = NULL;
        show(fixture, make_pod(fixture, "c1", "1"));
        assert_int_equal(n_lists(), 1);
        run_runtime(fixture);
        while (n_lists() == 0)
                let_pass(fixture);
        run_runtime(fixture);

        /* The known part of its state is written; and once it has a successor, nothing waits. */
        assert_contains(patch(), "containerd://c1");
        accept_patch(fixture);
        fake_runtime.containers[0] = model("c2", "1", 2);
        show_and_run(fixture, make_pod(fixture, "c2", "1"));
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_CURRENT);
        assert_contains(patch(), "containerd://c2");
}

TEST_F(test_restart, Fixture *fixture) {
        ShownPod *live;

        settle_and_change(fixture);
        assert_contains(patch(), "\"False\",\"reason\":\"Restarting\"");
        assert_contains(patch(), "lastTransitionTime");
        assert_null(strstr(patch(), "annotations\":"));
        accept_patch(fixture);

        /* Not without a kubelet, nor without another look at the pod. */
        assert_string_equal(fake_runtime_find(NULL)->target, "id=c1");
        assert_true(fake_runtime_serve("ListContainers"));
        turn();
        assert_non_null(lease_call());
        assert_null(check_call());
        run_runtime(fixture);
        assert_string_equal(check_call()->request.path, "/api/v1/namespaces/default/pods/web");
        assert_string_equal(check_call()->request.accept, KUBE_PROTOBUF);
        assert_null(fake_runtime_find("StopContainer"));
        answer_check(fixture, make_pod(fixture, "c1", "2"));
        assert_string_equal(fake_runtime_find("StopContainer")->target, "c1");
        assert_reported("Normal/Killing Pod/default/web/web spec.containers{app}: Stopping "
                        "container app: its environment comes from labels or annotations that "
                        "have changed\n");

        /* Nothing is written while it is neither this nor that. */
        end_stop(fixture, STOP_STOPPED);
        assert_owner_of(fixture, "c1", "2", 1);
        live = next(fixture, "c1", "2");
        live->containers[0].is_running = false;
        show_and_run(fixture, live);
        assert_null(patch());

        fake_runtime.containers[1] = model("c2", "2", 2);
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_contains(patch(), "containerd://c2");
        assert_contains(patch(), "\"True\",\"reason\":\"Verified\"");
        accept_patch(fixture);
        assert_null(patch());
        assert_int_equal(n_stops(fixture), 1);
        assert_int_equal(n_reports(), 0);
        assert_int_equal(n_counted(fixture, "succeeded"), 3);
        assert_owner_of(fixture, "c1", "2", 1);
}

/* The stop is over, and so is its reason: the runtime is asked for the successor. */
static void stop_and_poll(Fixture *fixture) {
        settle_and_change(fixture);
        accept_patch(fixture);
        end_stop(fixture, STOP_STOPPED);
        assert_int_equal(n_lists(), 0);
        let_pass(fixture);
        assert_int_equal(n_lists(), 1);
        run_runtime(fixture);
        assert_null(patch());
        let_pass(fixture);
}

/* A successor's state is written before the pod's status names the successor. */
TEST_F(test_ahead_of_the_status, Fixture *fixture) {
        ShownPod *pod;

        stop_and_poll(fixture);
        fake_runtime.containers[1] = model("c2", "2", 2);
        run_runtime(fixture);
        assert_contains(patch(), "containerd://c2");
        assert_contains(patch(), "\"True\",\"reason\":\"Verified\"");
        accept_patch(fixture);

        /* Nor is anything more to be said by the time it does. */
        for (size_t i = 0; i < 3; i++) {
                pod = next(fixture, i < 2 ? "c1" : "c2", "2");
                pod->containers[0].is_running = i != 1;
                show_and_run(fixture, pod);
                assert_null(patch());
        }
        assert_int_equal(n_counted(fixture, "succeeded"), 3);
        assert_int_equal(n_stops(fixture), 1);

        /* And the runtime is not asked any more. */
        pass(1000000);
        assert_int_equal(n_lists(), 0);
}

/* A successor with the wrong environment is judged, and reported, once the pod's status names it. */
TEST_F(test_ahead_and_not_healed, Fixture *fixture) {
        stop_and_poll(fixture);
        fake_runtime.containers[1] = model("c2", "1", 2);
        run_runtime(fixture);
        assert_null(patch());
        pass(6000000);
        assert_ok(inplace_kick(fixture->meta));
        assert_int_equal(n_stops(fixture), 1);
        while (patch())
                accept_patch(fixture);
        assert_string_equal(fixture->reason, "Restarting");
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_int_equal(n_stops(fixture), 2);
        assert_string_equal(stop_id(fixture), "c2");
}

/* Not for ever, and not all the time: then the pod's status has to show it. */
TEST_F(test_polls_are_bounded, Fixture *fixture) {
        uint64_t began;

        stop_and_poll(fixture);
        began = fake_clock.now_usec;
        while (fake_clock.now_usec - began < 19000000) {
                run_runtime(fixture);
                pass(49999);
                assert_int_equal(n_lists(), 0);
                pass(1);
                assert_int_equal(n_lists(), 1);
        }
        while (fake_clock.now_usec - began < 21000000) {
                run_runtime(fixture);
                pass(50000);
        }
        run_runtime(fixture);
        pass(WAIT_USEC);
        assert_int_equal(n_lists(), 0);

        fake_runtime.containers[1] = model("c2", "2", 2);
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_contains(patch(), "containerd://c2");
}

TEST_F(test_sidecar, Fixture *fixture) {
        const char *values[] = { "1", "2" };

        fake_runtime.containers[0] = model("c1", "1", 1);
        for (size_t i = 0; i < 2; i++) {
                ShownPod *pod = make_pod(fixture, "c1", values[i]);

                pod->containers[0].kind = POD_CONTAINER_SIDECAR;
                show_and_run(fixture, pod);
                rest();
        }
        end_stop(fixture, STOP_STOPPED);
        assert_reported("Normal/Killing Pod/default/web/web spec.initContainers{app}");
}

/* Another variable of the name wins: the value would not arrive, however often the container is restarted. */
TEST_F(test_not_healed, Fixture *fixture) {
        ShownPod *pod;

        settle_and_change(fixture);
        accept_patch(fixture);
        end_stop(fixture, STOP_STOPPED);
        fake_runtime.containers[1] = model("c2", "odd", 2);
        pod = next(fixture, "c2", "2");
        pod->containers[0].is_env_overridden = true;
        show_and_run(fixture, pod);
        assert_int_equal(n_stops(fixture), 1);
        assert_int_equal(n_reports(), 1);
        assert_reported("Warning/InPlaceRestartFailed Pod/default/web/web spec.containers{app}: "
                        "Container app");
        assert_contains(patch(), "\"EnvironmentStale\"");
        accept_patch(fixture);

        /* The container is not stopped again until another value is asked for, nor in the next run
         * of the agent. */
        assert_owner_of(fixture, "c1", "2", 1);
        pod = next(fixture, "c2", "2");
        pod->containers[0].is_env_overridden = true;
        show_and_run(fixture, pod);
        pass(WAIT_USEC);
        assert_ok(inplace_kick(fixture->meta));
        assert_int_equal(n_stops(fixture), 1);
        assert_int_equal(n_reports(), 1);
        rest();
        show_and_run(fixture, next(fixture, "c2", "3"));
        assert_int_equal(n_stops(fixture), 2);
        assert_string_equal(stop_id(fixture), "c2");
}

/* The container is not stopped within so many seconds, but right after that. */
static void assert_pause(Fixture *fixture, unsigned seconds) {
        int n = n_stops(fixture);

        pass((uint64_t) seconds * 1000000 - 100000);
        assert_ok(inplace_kick(fixture->meta));
        assert_int_equal(n_stops(fixture), n);
        pass(200000);
        assert_ok(inplace_kick(fixture->meta));
        assert_int_equal(n_stops(fixture), n + 1);
}

/* The successor does not have the new value, so the kubelet has not learned of it: that happens four
 * times, and then there must be another reason. */
TEST_F(test_kubelet_was_late, Fixture *fixture) {
        static const unsigned pauses_sec[] = { 5, 15, 45 };
        static const char *const ids[] = { "c2", "c3", "c4", "c5" };

        settle_and_change(fixture);
        accept_patch(fixture);
        for (unsigned i = 0; i < 4; i++) {
                end_stop(fixture, STOP_STOPPED);
                assert_owner_of(fixture, i == 0 ? "c1" : ids[i - 1], "2", i + 1);
                fake_runtime.containers[0] = model(ids[i], "1", 2 + (int64_t) i);
                show_and_run(fixture, next(fixture, ids[i], "2"));
                assert_string_equal(fixture->reason, "Restarting");
                assert_int_equal(n_stops(fixture), i + 1);
                if (i == 3)
                        break;

                assert_int_equal(n_reports(), 0);
                assert_pause(fixture, pauses_sec[i]);
                assert_string_equal(stop_id(fixture), ids[i]);
                while (patch())
                        accept_patch(fixture);
        }

        assert_int_equal(n_reports(), 1);
        assert_reported("InPlaceRestartFailed");
        assert_contains(patch(), "EnvironmentStale");
        assert_owner_of(fixture, "c4", "2", 4);

        /* Another value is something else. */
        rest();
        show_and_run(fixture, next(fixture, "c5", "3"));
        assert_int_equal(n_stops(fixture), 5);
        end_stop(fixture, STOP_STOPPED);
        assert_owner_of(fixture, "c5", "3", 1);
}

static const struct LateValue {
        const char *name, *value;
} late_values[] = { { "by each change", "1" }, { "by the last of two", "3" } };

/* Once the kubelet has learned of it, the restart is like any other. */
TEST_ROWS_F(test_kubelet_was_late_once, late_values, name, const struct LateValue *row,
            Fixture *fixture) {
        settle_and_change(fixture);
        accept_patch(fixture);
        end_stop(fixture, STOP_STOPPED);
        fake_runtime.containers[0] = model("c2", row->value, 2);
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_pause(fixture, 5);
        while (patch())
                accept_patch(fixture);
        end_stop(fixture, STOP_STOPPED);
        fake_runtime.containers[0] = model("c3", "2", 3);
        show_and_run(fixture, next(fixture, "c3", "2"));
        accept_patch(fixture);
        assert_string_equal(fixture->reason, "Verified");
        assert_int_equal(n_reports(), 0);
        assert_int_equal(n_stops(fixture), 2);
}

/* A previous run of the agent has ended that container, as this owner, so long ago. */
static void stopped_ago(Fixture *fixture, const char *id, const char *owner, int64_t age_sec) {
        const StopRecord record = {
                .owner = (char *) owner,
                .container_id = (char *) id,
                .runtime = (char *) "containerd",
                .phase = STOP_PHASE_STOPPED,
                .changed_sec = (int64_t) time(NULL) - age_sec,
        };
        StopJournal *journal;

        end_agent(fixture);
        assert_ok(stop_journal_new(fixture->folder, &journal, NULL));
        assert_ok(stop_journal_set(journal, &record, NULL));
        stop_journal_free(journal);
        begin_agent(fixture);
}

static void stopped_as(Fixture *fixture, const char *id, const char *owner) {
        stopped_ago(fixture, id, owner, 0);
}

/* The age of the record of that container in the file; -1: there is none. */
static int64_t record_age_sec(const Fixture *fixture, const char *id) {
        StopJournal *journal;
        int64_t age_sec = -1;

        assert_ok(stop_journal_new(fixture->folder, &journal, NULL));
        for (size_t i = 0; i < stop_journal_count(journal); i++)
                if (strcmp(stop_journal_get(journal, i)->container_id, id) == 0)
                        age_sec = (int64_t) time(NULL) - stop_journal_get(journal, i)->changed_sec;
        stop_journal_free(journal);
        return age_sec;
}

/* The count goes on in the next run of the agent, and so does its end. */
static const struct Late {
        const char *name;
        unsigned number; /* number of the stop in the previous run */
} lates[] = { { "may be stopped again", 3 }, { "was the last", 4 } };

TEST_ROWS_F(test_late_in_a_previous_run, lates, name, const struct Late *row, Fixture *fixture) {
        ShownPod *pod = make_pod(fixture, "c4", "2");
        char owner[64];

        (void) snprintf(owner, sizeof(owner), "metadata/%u/%u", (unsigned) hash_of("2"),
                        row->number);
        stopped_as(fixture, "c3", owner);
        pod->containers[0].former_id = "containerd://c3";
        fake_runtime.containers[0] = model("c4", "1", 1);
        show_and_run(fixture, pod);
        assert_int_equal(n_stops(fixture), 0);
        assert_int_equal(n_reports(), row->number == 4);
        if (row->number == 3) {
                assert_pause(fixture, 45);
                end_stop(fixture, STOP_STOPPED);
                assert_owner_of(fixture, "c4", "2", 4);
        }
}

/* A later run of the agent does not know that it was stopped for that value. */
static void assert_forgotten(Fixture *fixture, const char *value, const char *id) {
        char owner[64];

        (void) snprintf(owner, sizeof(owner), "metadata/%u", (unsigned) hash_of(value));
        assert_null(stops_find_owner(fixture->stops, owner, id));
}

/* A previous run of the agent has ended that container, for the value, and for the last time. */
static void stopped_before(Fixture *fixture, const char *id, const char *value) {
        char owner[64];

        (void) snprintf(owner, sizeof(owner), "metadata/%u/4", (unsigned) hash_of(value));
        stopped_as(fixture, id, owner);
}

static void assert_remembered(Fixture *fixture, const char *id, const char *value) {
        char owner[64];

        (void) snprintf(owner, sizeof(owner), "metadata/%u", (unsigned) hash_of(value));
        assert_non_null(stops_find_owner(fixture->stops, owner, id));
}

/* Another value was asked for while it was restarted: which one it was to get is unknown. */
TEST_F(test_changed_meanwhile, Fixture *fixture) {
        settle_and_change(fixture);
        show(fixture, next(fixture, "c1", "3"));
        show(fixture, next(fixture, "c1", "2"));
        end_stop(fixture, STOP_STOPPED);
        fake_runtime.containers[1] = model("c2", "3", 2);
        rest();
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_int_equal(n_reports(), 0);
        assert_int_equal(n_stops(fixture), 2);
        assert_string_equal(stop_id(fixture), "c2");
        assert_forgotten(fixture, "2", "c1");
}

/* Whether the kubelet has reported the successor already, or not yet. */
TEST_F(test_stopped_in_a_previous_run, Fixture *fixture) {
        stopped_before(fixture, "c1", "2");
        fake_runtime.containers[0] = model("c2", "1", 1);
        for (size_t i = 0; i < 2; i++) {
                ShownPod *pod = make_pod(fixture, i ? "c2" : "c1", "2");

                pod->containers[0].former_id = i ? "containerd://c1" : "";
                show_and_run(fixture, pod);
        }

        assert_int_equal(n_stops(fixture), 0);
        assert_int_equal(n_reports(), 1);
        assert_reported("InPlaceRestartFailed");
}

/* It ends by itself, and the pod's status names its successor, before the runtime has said what it was. */
TEST_F(test_ends_while_it_is_inspected, Fixture *fixture) {
        ShownPod *pod = make_pod(fixture, "c2", "2");

        stopped_before(fixture, "c1", "2");
        pod->containers[0].former_id = "containerd://c1";
        fake_runtime.containers[0] = model("c2", "1", 1);
        show(fixture, pod);
        assert_true(fake_runtime_serve("ListContainers"));
        turn();

        fake_runtime.containers[0].is_running = false;
        fake_runtime.containers[1] = model("c3", "1", 2);
        pod = make_pod(fixture, "c3", "2");
        pod->containers[0].former_id = "containerd://c2";
        show_and_run(fixture, pod);
        assert_int_equal(n_stops(fixture), 0);
        assert_int_equal(n_reports(), 1);
        assert_remembered(fixture, "c2", "2");
}

/* The annotation keeps the predecessor, and for long: otherwise the kubelet alone remembers it. */
TEST_F(test_not_healed_in_a_previous_run, Fixture *fixture) {
        ShownPod *pod = make_pod(fixture, "c2", "2");

        stopped_before(fixture, "c1", "2");
        pod->meta = "{\"containers\":[{\"name\":\"app\",\"containerID\":\"containerd://c2\"}]}";
        pod->containers[0].former_id = "containerd://c1";
        fake_runtime.containers[0] = model("c2", "1", 1);
        show_and_run(fixture, pod);
        assert_int_equal(n_stops(fixture), 0);
        assert_int_equal(n_reports(), 1);

        /* Another value is something else. */
        rest();
        show_and_run(fixture, next(fixture, "c2", "3"));
        assert_int_equal(n_stops(fixture), 1);
}

/* The record that says so is kept for as long as it is needed, and written anew once a day. */
static const struct OldRecord {
        const char *name;
        int age_sec;
        bool is_renewed;
} old_records[] = {
        { "of almost a week ago", 6 * DAY_SEC, true },
        { "of today", DAY_SEC / 2, false },
};

TEST_ROWS_F(test_not_healed_for_long, old_records, name, const struct OldRecord *row,
            Fixture *fixture) {
        ShownPod *pod = make_pod(fixture, "c2", "2");
        char owner[64];

        (void) snprintf(owner, sizeof(owner), "metadata/%u/4", (unsigned) hash_of("2"));
        stopped_ago(fixture, "c1", owner, row->age_sec);
        pod->containers[0].former_id = "containerd://c1";
        fake_runtime.containers[0] = model("c2", "1", 1);
        show_and_run(fixture, pod);
        assert_int_equal(n_stops(fixture), 0);
        assert_int_equal(n_reports(), 1);
        assert_owner_of(fixture, "c1", "2", 4);
        if (row->is_renewed)
                assert_in_range(record_age_sec(fixture, "c1"), 0, 60);
        else
                assert_in_range(record_age_sec(fixture, "c1"), row->age_sec, row->age_sec + 60);
}

/* The container that was not healed ends by itself: the next run of the agent does not stop its successor. */
TEST_F(test_not_healed_and_crashed, Fixture *fixture) {
        ShownPod *pod = make_pod(fixture, "c2", "2");

        stopped_before(fixture, "c1", "2");
        pod->containers[0].former_id = "containerd://c1";
        fake_runtime.containers[0] = model("c2", "1", 1);
        show_and_run(fixture, pod);
        assert_int_equal(n_reports(), 1);

        fake_runtime.containers[0] = model("c3", "1", 2);
        for (size_t i = 0; i < 2; i++) {
                pod = next(fixture, "c3", "2");
                pod->containers[0].former_id = "containerd://c2";
                show_and_run(fixture, pod);
                rest();
                assert_int_equal(n_stops(fixture), 0);
                end_agent(fixture);
                begin_agent(fixture);
                run_runtime(fixture);
        }
        assert_remembered(fixture, "c2", "2");
        assert_forgotten(fixture, "2", "c1");
}

/* A field of the metadata may be asked for anew before the container is known. */
TEST_F(test_changed_in_this_run, Fixture *fixture) {
        stopped_before(fixture, "c1", "2");
        fake_runtime.containers[0] = model("c2", "1", 1);
        for (size_t i = 0; i < 2; i++) {
                ShownPod *pod = make_pod(fixture, "c2", i == 0 ? "3" : "2");

                pod->containers[0].former_id = "containerd://c1";
                show(fixture, pod);
        }
        rest();
        run_runtime(fixture);
        assert_int_equal(n_stops(fixture), 0);
        assert_int_equal(n_reports(), 1);
        assert_reported("InPlaceRestartFailed");
        assert_remembered(fixture, "c1", "2");
}

/* First the container itself is seen that was stopped in a previous run, and then its successor. */
TEST_F(test_stopped_is_still_the_newest, Fixture *fixture) {
        ShownPod *pod;

        stopped_before(fixture, "c1", "2");
        fake_runtime.containers[0] = model("c1", "1", 1);
        fake_runtime.containers[0].is_running = false;
        pod = make_pod(fixture, "c1", "2");
        pod->containers[0].is_running = false;
        show_and_run(fixture, pod);
        assert_int_equal(n_reports(), 0);

        rest();
        fake_runtime.containers[1] = model("c2", "1", 2);
        pod = make_pod(fixture, "c2", "2");
        pod->containers[0].former_id = "containerd://c1";
        show_and_run(fixture, pod);
        assert_int_equal(n_stops(fixture), 0);
        assert_int_equal(n_reports(), 1);
        assert_reported("InPlaceRestartFailed");
}

/* A static pod is not restarted for a change through the API server: the kubelet makes it from its
 * file again. */
TEST_F(test_static_pod, Fixture *fixture) {
        ShownPod *pod;

        fake_runtime.containers[0] = model("c1", "1", 1);
        fake_runtime.containers[0].uid = "of-its-file";
        for (size_t i = 0; i < 2; i++) {
                pod = make_pod(fixture, "c1", i == 0 ? "1" : "2");
                pod->runtime_uid = "of-its-file";
                show_and_run(fixture, pod);
                if (i == 0)
                        accept_patch(fixture);
                rest();
        }
        assert_int_equal(n_stops(fixture), 0);
        assert_int_equal(n_reports(), 1);
        assert_reported("Warning/InPlaceRestartSkipped Pod/default/web/web spec.containers{app}: "
                        "Container app is not restarted although its labels or annotations have "
                        "changed: the pod is static, so its file on the node decides on its "
                        "environment\n");
        assert_contains(patch(), "\"CannotRestart\"");
        assert_contains(patch(), "since the pod is static");
}

/* The container's environment has the annotation that the agent writes after each restart: it would
 * restart for ever. */
TEST_F(test_own_annotation, Fixture *fixture) {
        ShownPod *pod;

        fake_runtime.containers[0] = model("c1", "1", 1);
        for (size_t i = 0; i < 3; i++) {
                pod = make_pod(fixture, "c1", i < 2 ? "1" : "2");
                pod->containers[0].has_own_annotation = true;
                show_and_run(fixture, pod);
                if (i == 0) {
                        assert_contains(patch(), "\"Verified\"");
                        assert_contains(patch(), POD_META_ANNOTATION);
                }
                if (i == 1) {
                        assert_contains(patch(), "\"CannotRestart\"");
                        assert_contains(patch(),
                                        "has an annotation that changes with each restart");
                }
                if (patch())
                        accept_patch(fixture);
                rest();
                assert_int_equal(n_stops(fixture), 0);
                assert_int_equal(n_reports(), i);
        }
        assert_reported("Warning/InPlaceRestartSkipped Pod/default/web/web spec.containers{app}: "
                        "Container app is not restarted although its labels or annotations have "
                        "changed: its environment has the annotation " POD_META_ANNOTATION
                        ", which changes with each restart\n");
}

TEST_F(test_skipped, Fixture *fixture) {
        ShownPod *pod;

        settle(fixture);
        for (size_t i = 0; i < 2; i++) {
                pod = next(fixture, "c1", "2");
                pod->containers[0].restart_policy = "Never";
                pod->containers[0].restart_policy = "Never";
                show(fixture, pod);
        }
        assert_int_equal(n_stops(fixture), 0);
        assert_int_equal(n_reports(), 1);
        assert_reported("Warning/InPlaceRestartSkipped");
        assert_reported("(restart policy Never)");
        assert_contains(patch(), "\"CannotRestart\"");
}

TEST_F(test_outside_an_update, Fixture *fixture) {
        ShownPod *pod;

        settle(fixture);
        pod = next(fixture, "c1", "2");
        pod->update = POD_UPDATE_READY;
        show(fixture, pod);
        assert_int_equal(n_stops(fixture), 0);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_STALE);
}

static const struct Withdrawal {
        const char *uid, *id, *value, *image;
        bool is_deleted, is_idle, is_not_running;
        const char *why_not;
} withdrawals[] = {
        { .uid = "other", .why_not = "another pod has its name now" },
        { .id = "c2", .why_not = "a different container runs, or none" },
        { .is_not_running = true, .why_not = "a different container runs, or none" },
        { .value = "1", .why_not = "the pod's labels or annotations have changed again" },
        { .image = "nginx:2", .why_not = "its image has changed as well" },
        { .is_deleted = true, .why_not = "the pod is being deleted, or has finished" },
        { .is_idle = true, .why_not = "the pod does not ask for restarts any more" },
};

TEST_ROWS_F(test_checked_before, withdrawals, why_not, const struct Withdrawal *row,
            Fixture *fixture) {
        Stderr captured;
        char expected[128];
        ShownPod *live;

        settle_and_change(fixture);
        live = make_pod(fixture, row->id ?: "c1", row->value ?: "2");
        live->is_deleted = row->is_deleted;
        live->update = row->is_idle ? POD_UPDATE_READY : POD_UPDATE_RUNNING;
        live->containers[0].is_running = !row->is_not_running;
        live->containers[0].image = row->image;
        live->uid = row->uid ?: live->uid;
        check_stop(fixture);
        stderr_pipe(&captured);
        answer_check(fixture, live);
        (void) snprintf(expected, sizeof(expected), "is not stopped after all: %s.", row->why_not);
        assert_contains(stderr_restore(&captured), expected);
        assert_int_equal(fake_runtime_n_asked("StopContainer"), 0);
        assert_int_equal(stops_n_running(fixture->stops), 0);
}

/* It may be back soon. */
TEST_F(test_check_without_server, Fixture *fixture) {
        uint64_t began;

        settle_and_change(fixture);
        check_stop(fixture);
        refuse_check(0);
        assert_int_equal(stops_n_running(fixture->stops), 1);
        assert_null(check_call());
        began = fake_clock.now_usec;
        while (!check_call())
                let_pass(fixture);
        assert_in_range(fake_clock.now_usec - began, 1, 10 * SEC);

        /* The server is known to answer. */
        refuse_check(403);
        assert_ok(inplace_kick(fixture->meta));
        turn();
        refuse_check(404);
        assert_int_equal(stops_n_running(fixture->stops), 0);
        assert_int_equal(fake_runtime_n_asked("StopContainer"), 0);
}

/* The pod ends while the server is away: the stop gets its answer nevertheless. */
TEST_F(test_finished_while_checked, Fixture *fixture) {
        ShownPod *pod;

        settle_and_change(fixture);
        check_stop(fixture);
        refuse_check(0);
        pod = next(fixture, "c1", "2");
        pod->is_finished = true;
        show(fixture, pod);
        while (!check_call())
                let_pass(fixture);
        pod = make_pod(fixture, "c1", "2");
        pod->is_finished = true;
        answer_check(fixture, pod);
        assert_int_equal(stops_n_running(fixture->stops), 0);
        assert_int_equal(fake_runtime_n_asked("StopContainer"), 0);
}

TEST_F(test_flapping, Fixture *fixture) {
        settle_and_change(fixture);
        assert_int_equal(n_stops(fixture), 1);
        end_stop(fixture, STOP_NOT_REQUESTED);
        for (size_t i = 0; i < 20; i++)
                show(fixture, next(fixture, "c1", i % 2 == 0 ? "3" : "4"));
        assert_int_equal(n_stops(fixture), 1);
        while (n_stops(fixture) == 1)
                let_pass(fixture);
        assert_int_equal(n_stops(fixture), 2);
        end_stop(fixture, STOP_STOPPED);
        assert_remembered(fixture, "c1", "4");
}

/* The gate is shut, and the metadata changed right after that. */
static void shut_and_change(Fixture *fixture) {
        ShownPod *pod = next(fixture, "c1", "1");

        settle(fixture);
        pod->update = POD_UPDATE_READY;
        pod->is_ready = true;
        show(fixture, pod);
        rest();
        pod = next(fixture, "c1", "1");
        pod->is_ready = true;
        show(fixture, pod);
        pod = next(fixture, "c1", "2");
        pod->is_ready = true;
        show(fixture, pod);
        assert_int_equal(n_stops(fixture), 0);
}

/* The kubelet may still act on the state in which the gate was shut, until its status shows that it has. */
TEST_F(test_kubelet_is_behind, Fixture *fixture) {
        shut_and_change(fixture);
        show(fixture, next(fixture, "c1", "2"));
        assert_int_equal(n_stops(fixture), 1);
}

TEST_F(test_kubelet_does_not_say, Fixture *fixture) {
        shut_and_change(fixture);
        while (n_stops(fixture) == 0)
                let_pass(fixture);
}

/* A stop begins when that much has passed, and not before. */
static void assert_stops_after(Fixture *fixture, uint64_t usec) {
        pass(usec - 1);
        assert_ok(inplace_kick(fixture->meta));
        assert_int_equal(n_stops(fixture), 0);
        pass(1);
        assert_ok(inplace_kick(fixture->meta));
        assert_int_equal(n_stops(fixture), 1);
}

TEST_F(test_pace_of_a_kubelet_behind, Fixture *fixture) {
        shut_and_change(fixture);
        assert_stops_after(fixture, 1500000);
}

TEST_F(test_left_to_the_kubelet, Fixture *fixture) {
        ShownPod *pod;

        settle(fixture);
        pod = next(fixture, "c1", "2");
        pod->containers[0].image = "nginx:2";
        show_and_run(fixture, pod);
        assert_int_equal(n_stops(fixture), 0);
        assert_contains(patch(), "\"Restarting\"");
        accept_patch(fixture);

        fake_runtime.containers[1] = model("c2", "2", 2);
        fake_runtime.containers[1].image_ref = ID_B;
        pod = next(fixture, "c2", "2");
        pod->containers[0].image = "nginx:2";
        show_and_run(fixture, pod);
        assert_int_equal(n_stops(fixture), 0);
        assert_contains(patch(), "\"Verified\"");
        assert_contains(patch(), "app runs sha256:bbbbbbbbbbbb");
        accept_patch(fixture);
}

/* Which may take its grace period and 15 seconds more, but no longer than a day. */
static const struct KubeletPace {
        const char *name;
        int64_t grace_sec;
        uint64_t wait_sec;
} kubelet_paces[] = {
        { "half a minute", 30, 45 },          { "no grace", 0, 15 },
        { "less than none", -7, 16 },         { "a day", 86400, 86415 },
        { "more than a day", 864000, 86415 },
};

TEST_ROWS_F(test_pace_of_the_kubelets_restart, kubelet_paces, name, const struct KubeletPace *row,
            Fixture *fixture) {
        ShownPod *pod;

        settle(fixture);
        pod = next(fixture, "c1", "2");
        pod->containers[0].image = "nginx:2";
        pod->grace_sec = row->grace_sec;
        show_and_run(fixture, pod);
        assert_int_equal(n_stops(fixture), 0);
        accept_patch(fixture);
        assert_stops_after(fixture, row->wait_sec * 1000000);
}

/* The kubelet's hash is known to cover name and image alone, by the pod's second container. The
 * hash of the first one is of another image. */
static ShownPod *make_hashed_pod(Fixture *fixture, const char *value) {
        ShownPod *pod = make_pod(fixture, "c1", value);

        pod->n_containers = 2;
        fill_container(fixture, &pod->containers[1], "log", "d1", NULL);
        pod->containers[1].image = "nginx:2";
        pod->containers[1].status_index = 1;
        fake_runtime.images[2] = (FakeImage){ "nginx:0", ID_A };
        fake_runtime.containers[0] = model("c1", "1", 1);
        fake_runtime.containers[0].hash = kubelet_hash(fixture, "app", "nginx:0");
        fake_runtime.containers[1] = model("d1", "", 1);
        fake_runtime.containers[1].name = "log";
        fake_runtime.containers[1].image_ref = ID_B;
        fake_runtime.containers[1].hash = kubelet_hash(fixture, "log", "nginx:2");
        return pod;
}

/* The kubelet stops the containers that it replaces one after the other. */
TEST_F(test_pace_of_two_restarts, Fixture *fixture) {
        ShownPod *pod;

        show_and_run(fixture, make_hashed_pod(fixture, "1"));
        accept_patch(fixture);
        rest();
        pod = make_hashed_pod(fixture, "2");
        pod->containers[1].image = "nginx:0";
        show_and_run(fixture, pod);
        while (patch())
                accept_patch(fixture);
        assert_stops_after(fixture, (2 * GRACE + 15) * (uint64_t) 1000000);
}

/* The condition shows what the kubelet will restart. */
TEST_F(test_kubelets_hash, Fixture *fixture) {
        ShownPod *pod;

        show_and_run(fixture, make_hashed_pod(fixture, "1"));
        accept_patch(fixture);
        rest();
        show_and_run(fixture, make_hashed_pod(fixture, "2"));
        assert_int_equal(n_stops(fixture), 0);
        while (patch())
                accept_patch(fixture);
        pass(10000000);
        assert_int_equal(n_stops(fixture), 0);

        /* It will not, though the image is another one than at first. */
        pod = make_hashed_pod(fixture, "3");
        pod->containers[0].image = "nginx:0";
        show_and_run(fixture, pod);
        rest();
        assert_int_equal(n_stops(fixture), 1);
}

/* A different hash alone may come from an older kubelet; but where the image differs, too, the
 * kubelet will restart the container. */
TEST_F(test_kubelets_hash_alone, Fixture *fixture) {
        show_and_run(fixture, make_hashed_pod(fixture, "1"));
        accept_patch(fixture);
        assert_string_equal(fixture->reason, "Verified");
        show_and_run(fixture, make_hashed_pod(fixture, "1"));
        assert_null(patch());

        fake_runtime.images[0].id = ID_B;
        assert_ok(inplace_image_changed(fixture->meta, "docker.io/library/nginx:1"));
        run_runtime(fixture);
        accept_patch(fixture);
        assert_string_equal(fixture->reason, "Restarting");
        assert_int_equal(n_stops(fixture), 0);
}

/* Another client has moved the tag: within five and a half minutes that is seen. */
TEST_F(test_refresh, Fixture *fixture) {
        uint64_t began;

        show_first(fixture);
        accept_patch(fixture);
        for (size_t i = 0; i < 2; i++) {
                began = fake_clock.now_usec;
                while (!fake_runtime_find("ImageStatus"))
                        let_pass(fixture);
                assert_null(fake_runtime_find("ListContainers"));
                assert_in_range(fake_clock.now_usec - began, 299900000, 331000000);
                fake_runtime.images[0].id = i == 0 ? ID_A : ID_B;
                run_runtime(fixture);
        }
        accept_patch(fixture);
        assert_string_equal(fixture->reason, "ImageStale");
}

TEST_F(test_image_moved, Fixture *fixture) {
        settle(fixture);
        fake_runtime.images[0].id = ID_B;
        assert_ok(inplace_image_changed(fixture->meta, "docker.io/library/nginx:9"));
        assert_null(fake_runtime_find("ImageStatus"));
        assert_ok(inplace_image_changed(fixture->meta, "docker.io/library/nginx:1"));
        run_runtime(fixture);
        assert_int_equal(inplace_count(fixture->meta, VERDICT_STALE), 1);
        assert_contains(patch(), "\"ImageStale\"");
        assert_contains(patch(), "container app runs sha256:aaaaaaaaaaaa… and its "
                                 "reference nginx:1 is sha256:bbbbbbbbbbbb…");
        assert_int_equal(n_stops(fixture), 0);
}

/* Refuses all writes, together or alone; returns how many. */
static size_t refuse_all(int code) {
        size_t n = 0;

        for (; patch(); n++)
                refuse_patch(code);
        return n;
}

TEST_F(test_write_failures, Fixture *fixture) {
        show_first(fixture);
        refuse_patch(404);
        assert_null(patch());
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_ok(inplace_kick(fixture->meta));
        assert_null(patch());

        pass(WAIT_USEC); /* longer than any pause */
        show_and_run(fixture, next(fixture, "c1", "1"));

        /* Refusals that concern this pod alone. */
        refuse_patch(409);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_null(patch());
        assert_ok(inplace_kick(fixture->meta));
        assert_int_equal(refuse_all(422), 3);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_ok(inplace_kick(fixture->meta));
        await_patch(fixture);

        refuse_patch(503);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_UNAVAILABLE);
        await_patch(fixture);
        assert_int_equal(refuse_all(403), 2);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_DENIED);
        assert_ok(inplace_kick(fixture->meta));
        accept_patch(fixture);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_DENIED);
        accept_patch(fixture);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_null(patch());
        assert_int_equal(n_counted(fixture, "failed"), 8);
        assert_int_equal(n_counted(fixture, "succeeded"), 2);
}

/* Another writer was quicker: the pause ends when the server is known to answer. */
TEST_F(test_conflict, Fixture *fixture) {
        show_first(fixture);
        refuse_patch(409);
        pass(1000000);
        assert_null(patch());
        assert_ok(inplace_kick(fixture->meta));
        assert_non_null(patch());
        accept_patch(fixture);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
}

/* A right that is granted later is used within half a minute, also while other events come. */
TEST_F(test_granted_later, Fixture *fixture) {
        show_first(fixture);
        for (size_t i = 0; i < 5; i++) {
                uint64_t began = fake_clock.now_usec;

                assert_true(refuse_all(403) > 0);
                assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_DENIED);
                show_and_run(fixture, next(fixture, "c1", "1"));
                assert_null(patch());
                await_patch(fixture);
                if (i == 0)
                        assert_in_range(fake_clock.now_usec - began, 14900000, 30100000);
        }

        for (size_t i = 0; i < 2; i++) {
                await_patch(fixture);
                accept_patch(fixture);
        }
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_non_null(fixture->annotation);
        assert_string_equal(fixture->reason, "Verified");
}

static const struct RefusedPart {
        const char *refused;
        int code;
        ErrorKind kind;
} refused_parts[] = {
        { "annotations", 403, ERROR_DENIED },
        { "annotations", 422, ERROR_INVALID },
        { "conditions", 403, ERROR_DENIED },
        { "conditions", 422, ERROR_INVALID },
};

/* If one of the two writes is refused, the other one is made; and the refused one, too, once it is
 * accepted, without any report. */
TEST_ROWS_F(test_one_is_refused, refused_parts, refused, const struct RefusedPart *row,
            Fixture *fixture) {
        bool is_first = strcmp(row->refused, "annotations") == 0;

        show_first(fixture);
        for (size_t k = 0; k < 3; k++) {
                assert_non_null(patch());
                if (strstr(patch(), row->refused))
                        refuse_patch(row->code);
                else
                        accept_patch(fixture);
        }
        assert_null(patch());
        assert_int_equal(n_counted(fixture, "succeeded"), 1);
        assert_int_equal(n_counted(fixture, "failed"), 2);
        assert_true(is_first == !fixture->annotation);
        assert_true(is_first == !!fixture->status);
        assert_int_equal(inplace_error(fixture->meta)->kind,
                         row->kind == ERROR_DENIED ? ERROR_DENIED : ERROR_NONE);

        /* Not soon, but it is tried again. */
        pass(14000000);
        show_and_run(fixture, next(fixture, "c1", "1"));
        assert_null(patch());
        await_patch(fixture);
        accept_patch(fixture);
        assert_non_null(fixture->annotation);
        assert_string_equal(fixture->status, "True");
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);

        /* From then on they go together again. */
        fixture->annotation = NULL;
        fixture->status = NULL;
        pass(WAIT_USEC);
        show_and_run(fixture, next(fixture, "c1", "1"));
        assert_contains(patch(), "annotations");
        assert_contains(patch(), "conditions");
        accept_patch(fixture);
}

/* Refusals of a pod's write, and their outcome: the pod is never written again. */
TEST_F(test_refused_and_over, Fixture *fixture) {
        ShownPod *other = make_named_pod(fixture, "other", "d1", NULL), *pod;

        /* It is gone, but not the only one. */
        fake_runtime.containers[0] = model("c1", "1", 1);
        fake_runtime.containers[1] = model("d1", "", 1);
        fake_runtime.containers[1].uid = fake_runtime.containers[1].pod = "other";
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        pod_server_show(other);
        run_runtime(fixture);
        refuse_all(403);
        fixture->n_changed = 0;
        pod_server_hide(fixture->pod);
        turn();
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_DENIED);
        assert_int_equal(fixture->n_changed, 0);
        pod_server_hide(other);
        turn();
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_int_equal(fixture->n_changed, 1);

        /* It has finished, is gone for the server, or another writer has written it. */
        for (unsigned i = 0; i < 3; i++) {
                pod = next(fixture, "c1", "1");
                pod->meta = NULL;
                pass(WAIT_USEC); /* longer than any pause */
                show_and_run(fixture, pod);
                if (i == 2)
                        apply_patch(fixture);
                refuse_all(403);
                assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_DENIED);
                fixture->n_changed = 0;
                if (i == 1) {
                        assert_ok(inplace_kick(fixture->meta));
                        refuse_patch(404);
                } else {
                        pod = next(fixture, "c1", "1");
                        pod->is_finished = i == 0;
                        show_and_run(fixture, pod);
                }
                assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
                assert_true(fixture->n_changed > 0);
        }
        assert_int_equal(n_counted(fixture, "succeeded"), 0);
}

TEST_F(test_runtime_in_trouble, Fixture *fixture) {
        fake_runtime.containers[0] = model("c1", "1", 1);
        fake_runtime.is_away = true;
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        assert_null(fake_runtime_find(NULL));

        fake_runtime.is_away = false;
        fake_runtime.refuses_status = true;
        assert_ok(inplace_runtime_changed(fixture->meta));
        run_runtime(fixture);
        assert_int_equal(fake_runtime_n_asked("ContainerStatus"), 1);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_UNKNOWN);
        assert_contains(patch(), "plainHash\\\":31}");
        accept_patch(fixture);
        show_and_run(fixture, next(fixture, "c1", "2"));
        assert_int_equal(fake_runtime_n_asked("ContainerStatus"), 1);
        assert_int_equal(n_stops(fixture), 0);

        fake_runtime.refuses_status = false;
        while (fake_runtime_n_asked("ContainerStatus") == 1) {
                let_pass(fixture);
                run_runtime(fixture);
        }
        while (n_stops(fixture) == 0)
                let_pass(fixture);
}

/* The runtime's info about a container lacks the environment. */
static const struct Info {
        const char *name;
        bool has_other;
} infos[] = { { "none", false }, { "without the environment", true } };

TEST_ROWS_F(test_no_info, infos, name, const struct Info *row, Fixture *fixture) {
        unsigned n_asked;
        ShownPod *pod;

        fake_runtime.lacks_info = true;
        fake_runtime.has_other_info = row->has_other;
        show_first(fixture);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_UNKNOWN);
        accept_patch(fixture);
        assert_null(strstr(fixture->annotation, "extractedEnvFromMetadataHash"));

        /* The container is therefore not restarted. */
        rest();
        show_and_run(fixture, next(fixture, "c1", "2"));
        assert_int_equal(n_stops(fixture), 0);

        /* The runtime is asked again, after a while. */
        n_asked = fake_runtime_n_asked("ContainerStatus");
        pod = next(fixture, "c1", "1");
        show_and_run(fixture, pod);
        assert_int_equal(fake_runtime_n_asked("ContainerStatus"), n_asked);
        fake_runtime.lacks_info = false;
        while (fake_runtime_n_asked("ContainerStatus") == n_asked) {
                let_pass(fixture);
                run_runtime(fixture);
        }
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_CURRENT);
        while (patch())
                accept_patch(fixture);
        assert_contains(fixture->annotation, "extractedEnvFromMetadataHash");
}

/* Nor is it about a successor, for which the environment of the container before does not count. */
TEST_F(test_no_info_about_the_successor, Fixture *fixture) {
        settle(fixture);
        fake_runtime.lacks_info = true;
        fake_runtime.containers[0].is_running = false;
        fake_runtime.containers[1] = model("c2", "2", 2);
        show_and_run(fixture, next(fixture, "c2", "2"));
        rest();
        run_runtime(fixture);
        assert_int_equal(n_stops(fixture), 0);
        await_patch(fixture);
        accept_patch(fixture);
        assert_contains(fixture->annotation, "containerd://c2");
        assert_null(strstr(fixture->annotation, "extractedEnvFromMetadataHash"));
}

TEST_F(test_stop_fails, Fixture *fixture) {
        settle_and_change(fixture);
        end_stop(fixture, STOP_FAILED);
        assert_int_equal(n_stops(fixture), 1);
        assert_int_equal(n_reports(), 1);
        assert_reported("Cannot stop container app, trying again: because");
        show(fixture, next(fixture, "c1", "2"));
        assert_int_equal(n_stops(fixture), 1);
}

/* The container ended by itself: that says nothing about its successor. */
TEST_F(test_stop_comes_too_late, Fixture *fixture) {
        settle_and_change(fixture);
        end_stop(fixture, STOP_GONE);
        show(fixture, next(fixture, "c1", "2"));
        assert_int_equal(n_stops(fixture), 1);
        fake_runtime.containers[1] = model("c2", "1", 2);
        rest();
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_int_equal(n_stops(fixture), 2);
        assert_int_equal(n_reports(), 0);
        assert_forgotten(fixture, "2", "c1");
}

/* Two that are restarted together are written together. */
TEST_F(test_together, Fixture *fixture) {
        const char *values[] = { "1", "2", "2", "2" };
        const char *first[] = { "c1", "c1", "c2", "c2" }, *second[] = { "d1", "d1", "d1", "d2" };
        const unsigned n_written[] = { 1, 2, 2, 3 };

        for (size_t i = 0; i < 4; i++) {
                ShownPod *pod = make_pod(fixture, first[i], values[i]);

                rest();
                pod->n_containers = 2;
                fill_container(fixture, &pod->containers[1], "log", second[i], values[i]);
                pod->containers[1].status_index = 1;
                fake_runtime.containers[0] = model(first[i], values[i], (int64_t) i);
                fake_runtime.containers[1] =
                        model(second[i], i == 2 ? "1" : values[i], (int64_t) i);
                fake_runtime.containers[1].name = "log";
                show_and_run(fixture, pod);
                if (patch())
                        accept_patch(fixture);
                assert_int_equal(n_counted(fixture, "succeeded"), n_written[i]);
                if (i == 1) {
                        end_stop(fixture, STOP_STOPPED);
                        end_stop(fixture, STOP_STOPPED);
                }
        }
        assert_int_equal(n_stops(fixture), 2);
}

TEST_F(test_many, Fixture *fixture) {
        ShownPod *pods[20];
        size_t n = N_ELEMENTS(pods), n_patches = 0;

        for (size_t i = 0; i < n; i++) {
                char name[16], id[16];

                (void) snprintf(name, sizeof(name), "web-%zu", i);
                (void) snprintf(id, sizeof(id), "c%zu", i);
                pods[i] = make_named_pod(fixture, name, id, NULL);
                pods[i]->meta = "{}";
                fake_runtime.containers[i] = model(keep_text(fixture, id), "", 1);
                fake_runtime.containers[i].uid = fake_runtime.containers[i].pod = pods[i]->name;
                show(fixture, pods[i]);
        }
        assert_int_equal(n_lists(), 8);
        run_runtime(fixture);
        for (size_t i = 0; i < fake_kube.n_calls; i++)
                n_patches += strcmp(fake_kube.calls[i]->request.method, "PATCH") == 0;
        assert_int_equal(n_patches, 8);
        for (size_t i = 0; i < n; i++)
                accept_patch(fixture);
        assert_null(patch());
        assert_int_equal(n_counted(fixture, "succeeded"), n);
        assert_int_equal(inplace_count(fixture->meta, VERDICT_CURRENT), n);
        for (size_t i = 0; i < n; i++)
                pod_server_hide(pods[i]);
        turn();
        assert_int_equal(inplace_count(fixture->meta, VERDICT_CURRENT), 0);
}

#define DIGEST_A "nginx@sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define DIGEST_B "nginx@sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"

/* Runtimes say in several ways what a container runs. Where they do not, the pod gets no first condition. */
static const struct Running {
        const char *name, *image_ref;
        Verdict verdict;
        const char *reason; /* NULL: no condition is written */
} running_rows[] = {
        { "an image ID", ID_A, VERDICT_CURRENT, "Verified" },
        { "an image ID as CRI-O writes it", &ID_A[sizeof("sha256")], VERDICT_CURRENT, "Verified" },
        { "a digest of the image", DIGEST_A, VERDICT_CURRENT, "Verified" },
        { "a digest of another image", DIGEST_B, VERDICT_STALE, "ImageStale" },
        { "a digest that the runtime does not have any more", "nginx@" ID_A, VERDICT_UNKNOWN,
          NULL },
        { "nothing", "", VERDICT_UNKNOWN, NULL },
};

TEST_ROWS_F(test_running_image, running_rows, name, const struct Running *row, Fixture *fixture) {
        fake_runtime.images[2] = (FakeImage){ DIGEST_A, ID_A };
        fake_runtime.images[3] = (FakeImage){ DIGEST_B, ID_B };
        fake_runtime.containers[0] = model("c1", "1", 1);
        fake_runtime.containers[0].image_ref = row->image_ref;
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        accept_patch(fixture);
        rest();
        assert_null(patch());
        assert_int_equal(inplace_count(fixture->meta, row->verdict), 1);
        if (row->reason)
                assert_string_equal(fixture->reason, row->reason);
        else
                assert_null(fixture->reason);
}

/* The runtime fails once as it is asked for an image: the log says why, and the agent soon asks again. */
static const struct ImageFailsRow {
        const char *name, *image_ref;
        unsigned n_before; /* number of images that it knows first */
} image_fails_rows[] = {
        { "the image of the pod", ID_A, 0 },
        { "the image of the container", DIGEST_A, 1 },
};

TEST_ROWS_F(test_image_fails, image_fails_rows, name, const struct ImageFailsRow *row,
            Fixture *fixture) {
        uint64_t began_usec = fake_clock.now_usec;
        Stderr captured;

        fake_runtime.images[2] = (FakeImage){ DIGEST_A, ID_A };
        fake_runtime.containers[0] = model("c1", "1", 1);
        fake_runtime.containers[0].image_ref = row->image_ref;
        show(fixture, make_pod(fixture, "c1", "1"));
        while (fake_runtime_serve("ListContainers") || fake_runtime_serve("ContainerStatus"))
                turn();
        for (unsigned i = 0; i < row->n_before; i++)
                assert_true(fake_runtime_serve("ImageStatus"));
        stderr_pipe(&captured);
        fake_runtime_refuse("ImageStatus", ERROR_INTERNAL, "no");
        assert_contains(stderr_restore(&captured),
                        "Cannot inspect all containers of pod \"default/web\", trying again: no.");
        accept_patch(fixture);
        assert_null(fixture->reason);
        while (!fake_runtime_find("ListContainers"))
                let_pass(fixture);
        run_runtime(fixture);
        accept_patch(fixture);
        assert_string_equal(fixture->reason, "Verified");
        assert_in_range(fake_clock.now_usec - began_usec, 0, 60 * SEC);
}

/* With everything under way. */
TEST_F(test_gone, Fixture *fixture) {
        settle_and_change(fixture);
        check_stop(fixture);
        assert_ok(inplace_image_changed(fixture->meta, "docker.io/library/nginx:1"));
        assert_non_null(patch_call());
        assert_non_null(check_call());
        assert_non_null(fake_runtime_find("ImageStatus"));
        pod_server_hide(fixture->pod);
        turn();
        assert_null(patch_call());
        assert_null(check_call());
        assert_null(fake_runtime_find("ImageStatus"));
        assert_int_equal(stops_n_running(fixture->stops), 0);
}

/* A pod of the same UID has another list of containers: none of the former knowledge is used. */
TEST_F(test_another_list_of_containers, Fixture *fixture) {
        ShownPod *pod;

        settle(fixture);
        pod = next(fixture, "c1", "1");
        pod->n_containers = 2;
        fill_container(fixture, &pod->containers[1], "proxy", "d1", NULL);
        fake_runtime.containers[1] = model("d1", NULL, 1);
        fake_runtime.containers[1].name = "proxy";
        show_and_run(fixture, pod);
        assert_int_equal(inplace_count(fixture->meta, VERDICT_CURRENT), 2);
        await_patch(fixture);
        assert_contains(patch(), "containerd://d1");
}

/* A container with this pod's UID, but another pod's name, is not this pod's. */
TEST_F(test_another_pods_container, Fixture *fixture) {
        fake_runtime.containers[0] = model("c1", "1", 1);
        fake_runtime.containers[0].pod = "etcd-0";
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        assert_null(patch()); /* unlike in settle() */
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_UNKNOWN);
}

static const struct EnvironmentOfAnotherPodRow {
        const char *namespace, *pod, *uid;
        InPlaceEnvironment environment;
} environment_of_another_pod_rows[] = {
        { "default", "web", "web", INPLACE_ENVIRONMENT_CURRENT },
        { "default", "etcd-0", "web", INPLACE_ENVIRONMENT_NONE },
        { "kube-system", "web", "web", INPLACE_ENVIRONMENT_NONE },
        { "default", "web", "u", INPLACE_ENVIRONMENT_NONE },
};

TEST_ROWS_F(test_environment_of_another_pod, environment_of_another_pod_rows, namespace,
            const struct EnvironmentOfAnotherPodRow *row, Fixture *fixture) {
        settle(fixture);
        assert_int_equal(inplace_environment(fixture->meta, row->namespace, row->pod, row->uid,
                                             "app"),
                         row->environment);
}

static void show_running(Fixture *fixture, bool is_running) {
        ShownPod *pod = next(fixture, "c1", "1");

        fake_runtime.containers[0].is_running = pod->containers[0].is_running = is_running;
        show_and_run(fixture, pod);
}

static const char *patch_after(Fixture *fixture, unsigned msec) {
        pass((uint64_t) msec * 1000);
        assert_ok(inplace_kick(fixture->meta));
        return patch();
}

/* A container that does not run is reported after ten seconds, not before, and as soon as it runs
 * again; from then on the time begins anew. */
TEST_F(test_not_running, Fixture *fixture) {
        settle(fixture);
        for (size_t i = 0; i < 2; i++) {
                show_running(fixture, false);
                assert_null(patch());
                assert_null(patch_after(fixture, 9800));
                show_running(fixture, true);
                assert_null(patch());
                rest();
        }

        show_running(fixture, false);
        assert_null(patch_after(fixture, 9800));
        assert_non_null(patch_after(fixture, 300));
        assert_contains(patch(), "\"NotRunning\"");
        assert_contains(patch(), "\"False\"");
        accept_patch(fixture);
        assert_null(patch_after(fixture, 20000));

        show_running(fixture, true);
        assert_contains(patch(), "\"Verified\"");
        accept_patch(fixture);
}

TEST_F(test_first_list, Fixture *fixture) {
        pod_server.is_slow = true;
        show_first(fixture);
        await_patch(fixture);
        accept_patch(fixture);
}

/* A pod of a workload that OpenKruise does not know, with the gate as the server has it. */
static ShownPod *make_gated_pod(Fixture *fixture, const char *id, const char *image) {
        ShownPod *pod = make_named_pod(fixture, "web", id, NULL);

        pod->is_kruise = false;
        pod->containers[0].image = image;
        pod->has_gate = true;
        pod->gate_status = fixture->gate_status;
        pod->gate_reason = fixture->gate_reason;
        pod->gate_message = fixture->gate_message;
        pod->verified_status = fixture->status;
        pod->verified_reason = fixture->reason;
        pod->verified_message = fixture->message;
        return pod;
}

static bool patch_opens(const char *reason) {
        char text[64];

        (void) snprintf(text, sizeof(text), "\"status\":\"True\",\"reason\":\"%s\"", reason);
        return patch() && strstr(patch(), GATE_CONDITION) && strstr(patch(), text);
}

static void close_gate(Fixture *fixture, const char *reason, const char *image) {
        char text[64];

        (void) snprintf(text, sizeof(text), "{\"images\":{\"app\":\"%s\"}}", image);
        fixture->gate_status = "False";
        fixture->gate_reason = reason;
        fixture->gate_message = keep_text(fixture, text);
}

/* Opens when all containers run, under the version of the pod in which they do; and only once. */
TEST_F(test_gate_opens, Fixture *fixture) {
        ShownPod *pod = make_gated_pod(fixture, "c1", "nginx:1");
        char guard[64];

        fake_runtime.containers[0] = model("c1", NULL, 1);
        pod->containers[0].is_running = false;
        show_and_run(fixture, pod);
        assert_null(patch());

        pod = make_gated_pod(fixture, "c1", "nginx:1");
        show_and_run(fixture, pod);
        assert_true(patch_opens(GATE_REASON_STARTED));
        (void) snprintf(guard, sizeof(guard), "\"resourceVersion\":\"%s\"", pod->resource_version);
        assert_contains(patch(), guard);
        assert_null(strstr(patch(), POD_VERIFIED_CONDITION));
        accept_patch(fixture);
        assert_null(patch_after(fixture, 10000));

        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:1"));
        assert_null(patch_after(fixture, 10000));
        assert_int_equal(n_counted(fixture, "succeeded"), 1);
}

/* A gate that is closed between a state of the pod and the write that follows from it stays closed. */
TEST_F(test_gate_is_guarded, Fixture *fixture) {
        fake_runtime.containers[0] = model("c1", NULL, 1);
        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:1"));
        assert_true(patch_opens(GATE_REASON_STARTED));
        refuse_patch(409);
        assert_null(patch());
        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:1"));
        assert_ok(inplace_kick(fixture->meta));
        assert_null(patch());
        pass(KUBE_PATCH_CONFLICT_USEC);
        assert_true(patch_opens(GATE_REASON_STARTED));
        refuse_patch(409);

        close_gate(fixture, GATE_REASON_UPDATE, "nginx:2");
        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:1"));
        assert_null(patch_after(fixture, 10000));
}

/* From closing to opening: the agent may be restarted at any point. */
TEST_F(test_gate_of_an_update, Fixture *fixture) {
        fake_runtime.containers[0] = model("c1", NULL, 1);
        close_gate(fixture, GATE_REASON_UPDATE, "nginx:2");
        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:1"));
        assert_null(patch());

        /* The images are patched: the old container still runs. */
        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:2"));
        assert_false(patch_opens(GATE_REASON_UPDATED));
        assert_contains(patch(), "\"Restarting\"");
        accept_patch(fixture);
        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:2"));

        /* The successor runs, and the pod's status does not name it yet. */
        end_agent(fixture);
        fake_runtime.containers[0].is_running = false;
        fake_runtime.containers[1] = model("c2", NULL, 2);
        fake_runtime.containers[1].image_ref = ID_B;
        begin_agent(fixture);
        run_runtime(fixture);
        rest();
        assert_false(patch_opens(GATE_REASON_UPDATED));
        if (patch())
                accept_patch(fixture);

        show_and_run(fixture, make_gated_pod(fixture, "c2", "nginx:2"));
        assert_true(patch_opens(GATE_REASON_UPDATED));
        assert_string_equal(fixture->status, "True");
}

/* An update that is given up is one to the images that the pod has. */
TEST_F(test_gate_of_an_update_undone, Fixture *fixture) {
        fake_runtime.containers[0] = model("c1", NULL, 1);
        close_gate(fixture, GATE_REASON_UPDATE, "nginx:2");
        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:1"));
        assert_null(patch());
        close_gate(fixture, GATE_REASON_UPDATE, "nginx:1");
        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:1"));
        assert_true(patch_opens(GATE_REASON_UPDATED));
}

/* Each update that closes the gate opens it without a pause: only the same one again has to wait. */
TEST_F(test_gate_of_several_updates, Fixture *fixture) {
        fake_runtime.containers[0] = model("c1", NULL, 1);
        for (int i = 0; i < 4; i++) {
                char text[96];

                close_gate(fixture, GATE_REASON_UPDATE, "nginx:1");
                (void) snprintf(text, sizeof(text),
                                "{\"since\":\"2026-11-22T20:15:0%dZ\","
                                "\"images\":{\"app\":\"nginx:1\"}}",
                                i < 3 ? i : 2);
                fixture->gate_message = keep_text(fixture, text);
                show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:1"));
                assert_int_equal(patch_opens(GATE_REASON_UPDATED), i < 3);
                if (patch())
                        accept_patch(fixture);
        }
}

/* The tag of the other container has moved on the node, which is no matter of this update. */
TEST_F(test_gate_beside_a_moved_tag, Fixture *fixture) {
        ShownPod *pod;

        fake_runtime.containers[0] = model("c1", NULL, 1);
        fake_runtime.containers[0].image_ref = ID_B;
        fake_runtime.containers[1] = model("d1", NULL, 1);
        fake_runtime.containers[1].name = "proxy";
        fake_runtime.containers[1].image_ref = ID_B;
        close_gate(fixture, GATE_REASON_UPDATE, "nginx:2");
        pod = make_gated_pod(fixture, "c1", "nginx:2");
        pod->n_containers = 2;
        fill_container(fixture, &pod->containers[1], "proxy", "d1", NULL);
        pod->containers[1].image = "nginx:1";
        show_and_run(fixture, pod);
        assert_true(patch_opens(GATE_REASON_UPDATED));
        assert_contains(patch(), "\"ImageStale\"");
}

static ShownPod *make_gated_pair(Fixture *fixture, const char *id, bool is_other_running) {
        ShownPod *pod = make_gated_pod(fixture, id, "nginx:2");

        pod->n_containers = 2;
        fill_container(fixture, &pod->containers[1], "proxy", "d1", NULL);
        pod->containers[1].image = "nginx:1";
        pod->containers[1].is_running = is_other_running;
        return pod;
}

static void run_gated_pair(Fixture *fixture, const char *id, const char *image) {
        fake_runtime.containers[0] = model(id, NULL, 1);
        fake_runtime.containers[0].hash = kubelet_hash(fixture, "app", image);
        fake_runtime.containers[1] = model("d1", NULL, 1);
        fake_runtime.containers[1].name = "proxy";
        fake_runtime.containers[1].hash = kubelet_hash(fixture, "proxy", "nginx:1");
        close_gate(fixture, GATE_REASON_UPDATE, "nginx:2");
}

/* The tag of the updated container moves while another container keeps the gate closed: the kubelet has made the
 * first one for this update anyway. */
TEST_F(test_gate_of_a_moved_tag, Fixture *fixture) {
        run_gated_pair(fixture, "c2", "nginx:2");
        fake_runtime.containers[0].image_ref = ID_B;
        show_and_run(fixture, make_gated_pair(fixture, "c2", false));

        fake_runtime.images[1].id = ID_A;
        assert_ok(inplace_image_changed(fixture->meta, "docker.io/library/nginx:2"));
        run_runtime(fixture);
        accept_patch(fixture);
        assert_string_equal(fixture->reason, "ImageStale");

        show_and_run(fixture, make_gated_pair(fixture, "c2", true));
        assert_true(patch_opens(GATE_REASON_UPDATED));
}

/* Both tags are of one image, and the agent starts while the kubelet still stops the old container. */
TEST_F(test_gate_of_the_same_image, Fixture *fixture) {
        fake_runtime.images[1].id = ID_A;
        run_gated_pair(fixture, "c1", "nginx:1");
        show_and_run(fixture, make_gated_pair(fixture, "c1", true));
        assert_false(patch_opens(GATE_REASON_UPDATED));
        accept_patch(fixture);

        run_gated_pair(fixture, "c2", "nginx:2");
        show_and_run(fixture, make_gated_pair(fixture, "c2", true));
        assert_true(patch_opens(GATE_REASON_UPDATED));
}

/* The same where no other container tells what the kubelet hashes. */
TEST_F(test_gate_of_the_same_image_alone, Fixture *fixture) {
        fake_runtime.images[1].id = ID_A;
        run_gated_pair(fixture, "c1", "nginx:1");
        fake_runtime.containers[0].image = "nginx:1";
        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:2"));
        assert_false(patch_opens(GATE_REASON_UPDATED));
        accept_patch(fixture);

        run_gated_pair(fixture, "c2", "nginx:2");
        show_and_run(fixture, make_gated_pod(fixture, "c2", "nginx:2"));
        assert_true(patch_opens(GATE_REASON_UPDATED));
}

TEST_F(test_gate_of_another, Fixture *fixture) {
        fake_runtime.containers[0] = model("c1", NULL, 1);
        close_gate(fixture, "Drained", "nginx:1");
        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:1"));
        assert_null(patch_after(fixture, 10000));

        /* The condition is gone. */
        fixture->gate_status = NULL;
        show_and_run(fixture, make_gated_pod(fixture, "c1", "nginx:1"));
        assert_true(patch_opens(GATE_REASON_STARTED));
}
