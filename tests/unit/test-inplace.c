/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is written to pods and which containers are restarted, with a runtime, an API server and stops
 * that do what the test says
 */

#include "tests/unit/inplace-fake.h"

#include <json-c/json.h>
#include <systemd/sd-event.h>

#include "agent/inplace/inplace.h"
#include "tests/unit/metric-value.h"

#define PATH "/api/v1/namespaces/default/pods/web/status"
#define GRACE 30
#define WAIT_USEC ((uint64_t) 60000000)

typedef struct Fixture {
        sd_event *event;
        InPlace *meta;
        Pod *pod; /* its newest state */
        Metrics *metrics;
        unsigned n_changed;
        unsigned version;
        char *annotation, *status, *reason, *message; /* as the server has them */
} Fixture;

/* Writes that were counted; result: "succeeded" or "failed". */
static int n_counted(const Fixture *fixture, const char *result) {
        char series[100];

        (void) snprintf(series, sizeof(series), "inplaced_pod_status_writes_total{result=\"%s\"}",
                        result);
        return (int) metric_value(fixture->metrics, series);
}

static void on_changed(void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_changed++;
}

static int set_up(void **state) {
        Fixture *fixture = calloc(1, sizeof(*fixture));
        InPlaceOptions options = {
                .has_condition = true,
                .metrics = metrics_for_test(),
                .on_changed = on_changed,
        };

        assert_true(sd_event_new(&fixture->event) >= 0);
        options.event = fake.event = fixture->event;
        options.userdata = fixture;
        fixture->metrics = options.metrics;
        fixture->version = 100;
        fake.is_synced = true;
        fake.images[0] = (ModelImage){ "nginx:1", ID_A };
        fake.images[1] = (ModelImage){ "nginx:2", ID_B };
        assert_int_equal(inplace_new(&options, &fixture->meta), 0);
        *state = fixture;
        return 0;
}

static int tear_down(void **state) {
        Fixture *fixture = *state;

        inplace_free(fixture->meta);
        fake_done();
        metrics_free(fixture->metrics);
        pod_free(fixture->pod);
        free(fixture->annotation);
        free(fixture->status);
        free(fixture->reason);
        free(fixture->message);
        sd_event_unref(fixture->event);
        free(fixture);
        return 0;
}

static uint32_t hash_of(const char *value) {
        EnvValue values[] = { { "VALUE", value } };
        uint32_t hash;

        assert_int_equal(env_hash(values, 1, &hash), 0);
        return hash;
}

static void set(char **text, const char *with) {
        free(*text);
        *text = with ? strdup(with) : NULL;
}

/* A container of the pod, whose VALUE is made from a label, unless that is NULL. */
static void fill_container(PodContainer *container, const char *name, const char *id,
                           const char *value) {
        char full_id[64];

        (void) snprintf(full_id, sizeof(full_id), "containerd://%s", id);
        *container = (PodContainer){
                .name = strdup(name),
                .image = strdup("nginx:1"),
                .comes_back = true,
                .restart_policy = strdup("Always"),
                .env_names = calloc(2, sizeof(char *)),
                .env_hash = value ? hash_of(value) : ENV_HASH_NONE,
                .container_id = strdup(full_id),
                .is_running = true,
        };
        if (value)
                container->env_names[0] = strdup("VALUE");
        assert_int_equal(plain_hash(name, "nginx:1", &container->plain_hash), 0);
}

static Pod *make_named_pod(Fixture *fixture, const char *name, const char *id, const char *value) {
        Pod *pod = calloc(1, sizeof(*pod));
        char version[16];

        (void) snprintf(version, sizeof(version), "%u", fixture->version++);
        pod->namespace = strdup("default");
        pod->name = strdup(name);
        pod->uid = strdup(name);
        pod->runtime_uid = strdup(name);
        pod->resource_version = strdup(version);
        pod->ip = strdup("10.0.0.1");
        pod->grace_sec = GRACE;
        pod->is_kruise = true;
        pod->n_containers = 1;
        pod->containers = calloc(2, sizeof(*pod->containers));
        fill_container(&pod->containers[0], "app", id, value);
        return pod;
}

static Pod *make_pod(Fixture *fixture, const char *id, const char *value) {
        Pod *pod = make_named_pod(fixture, "web", id, value);

        pod->update = POD_UPDATE_RUNNING;
        set(&pod->meta, fixture->annotation);
        set(&pod->verified_status, fixture->status);
        set(&pod->verified_reason, fixture->reason);
        set(&pod->verified_message, fixture->message);
        return pod;
}

static ModelContainer model(const char *id, const char *value, int64_t created_at) {
        return (ModelContainer){
                .pod_uid = "web",
                .pod_name = "web",
                .name = "app",
                .id = id,
                .image_ref = ID_A,
                .value = value,
                .hash = "1f",
                .created_at = created_at,
                .is_running = true,
        };
}

/* The watch shows the pod like this. */
static void show(Fixture *fixture, Pod *pod) {
        Pod *before = fixture->pod;

        fixture->pod = pod;
        assert_true(fake.watcher->on_pod(pod, before, fake.watcher->userdata) >= 0);
        pod_free(before);
}

/* And the runtime is quick. */
static void show_and_run(Fixture *fixture, Pod *pod) {
        show(fixture, pod);
        fake_run_runtime();
}

static void next_version(Fixture *fixture, char buffer[static 16]) {
        (void) snprintf(buffer, 16, "%u", fixture->version++);
}

static void take(char **text, json_object *object, const char *key) {
        json_object *value;

        if (json_object_object_get_ex(object, key, &value))
                set(text, json_object_get_string(value));
}

static void apply_patch(Fixture *fixture) {
        json_object *patch = json_tokener_parse(fake_patch()), *part;

        assert_non_null(patch);
        assert_true(json_object_object_get_ex(patch, "metadata", &part));
        if (json_object_object_get_ex(part, "annotations", &part))
                take(&fixture->annotation, part, POD_META_ANNOTATION);
        if (json_object_object_get_ex(patch, "status", &part)) {
                assert_true(json_object_object_get_ex(part, "conditions", &part));
                part = json_object_array_get_idx(part, 0);
                take(&fixture->status, part, "status");
                take(&fixture->reason, part, "reason");
                take(&fixture->message, part, "message");
        }
        json_object_put(patch);
}

static void accept_patch(Fixture *fixture) {
        char version[16];

        apply_patch(fixture);
        next_version(fixture, version);
        fake_reply_patch(version);
}

/* A pod that is verified, in whose environment is "1". */
/* The pod has not changed for a while, so that no kubelet can have an older state of it in hand. */
static void rest(void) {
        fake.skipped_usec += 2000000;
}

static void settle(Fixture *fixture) {
        fake.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        assert_non_null(strstr(fake_patch(), "\"Verified\""));
        accept_patch(fixture);
        assert_null(fake_patch());
        rest();
}

static void let_pass(Fixture *fixture) {
        fake_skip_to_timer(fixture->event);
        assert_true(sd_event_run(fixture->event, WAIT_USEC) > 0);
}

/* The next state of the pod, and of the server. */
static Pod *next(Fixture *fixture, const char *id, const char *value) {
        return make_pod(fixture, id, value);
}

static FakeStop *open_stop(void) {
        FakeStop *stop = &fake.stops[fake.n_stops - 1];

        assert_true(fake.n_stops > 0);
        assert_true(stop->is_open);
        return stop;
}

/* Asks the stop whether it is still needed. */
static void check_stop(FakeStop *stop) {
        assert_int_equal(stop->on_check((Stop *) stop, stop->userdata), 0);
}

static uint64_t now_of(Fixture *fixture) {
        uint64_t now;

        assert_true(sd_event_now(fixture->event, CLOCK_MONOTONIC, &now) >= 0);
        return now;
}

static void test_annotation(void **state) {
        Fixture *fixture = *state;
        Pod *pod = make_pod(fixture, "c2", "1");
        char expected[512];
        Call *call;

        /* Declared in another order than their statuses are in. */
        pod->n_containers = 2;
        pod->containers[0].status_index = 1;
        fill_container(&pod->containers[1], "abc", "c1", NULL);
        fake.containers[0] = model("c2", "1", 1);
        fake.containers[1] = model("c1", "", 1);
        fake.containers[1].name = "abc";
        show_and_run(fixture, pod);
        assert_int_equal(fake.n_answered[CALL_LIST], 1);
        assert_int_equal(fake.n_answered[CALL_STATUS], 1);
        assert_int_equal(fake.n_answered[CALL_IMAGE], 1);

        call = fake_find(CALL_PATCH);
        assert_non_null(call);
        assert_string_equal(call->text, PATH);
        assert_string_equal(call->accept, KUBE_METADATA_ONLY);
        assert_string_equal(call->content_type, KUBE_STRATEGIC_MERGE_PATCH);
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
        assert_int_equal(strncmp(call->body, expected, strlen(expected)), 0);
        accept_patch(fixture);
        assert_int_equal(n_counted(fixture, "succeeded"), 1);
        assert_int_equal(inplace_count(fixture->meta, VERDICT_CURRENT), 2);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_CURRENT);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "abc"),
                         INPLACE_ENVIRONMENT_NONE);
}

/* The watch is behind our own write; and a change that is none costs nothing. */
static void test_own_write(void **state) {
        Fixture *fixture = *state;
        size_t n_calls;
        Pod *old;

        fake.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        old = next(fixture, "c1", "1");
        accept_patch(fixture);
        n_calls = fake.n_calls;
        show_and_run(fixture, old);
        assert_int_equal(fake.n_calls, n_calls);

        /* Another writer has removed it: the pod is newer than our write. */
        fixture->annotation = (free(fixture->annotation), NULL);
        show_and_run(fixture, next(fixture, "c1", "1"));
        while (!fake_patch())
                let_pass(fixture);
        assert_null(strstr(fake_patch(), "conditions"));
        accept_patch(fixture);
}

/* So many writes in so many seconds, while another one changes the field back at once. */
static size_t count_writes(Fixture *fixture, void (*spoil)(Fixture *fixture, size_t n),
                           size_t n_seconds) {
        size_t n = 0;

        for (size_t i = 0; i < 20 * n_seconds; i++) {
                if (fake_patch()) {
                        accept_patch(fixture);
                        spoil(fixture, ++n);
                        show_and_run(fixture, next(fixture, "c1", "1"));
                }
                fake.skipped_usec += 50000;
                assert_int_equal(inplace_kick(fixture->meta), 0);
        }

        return n;
}

static void spoil_annotation(Fixture *fixture, size_t n) {
        set(&fixture->annotation, "{}");
}

/* It leaves our entry as it is, but for what is taken over from it, which is another one each
 * time; so the text that is sent is, too. */
static void spoil_two(Fixture *fixture, size_t n) {
        char text[128];

        (void) snprintf(text, sizeof(text),
                        "{\"containers\":[{\"name\":\"app\",\"containerID\":\"containerd://c1\","
                        "\"hashes\":{\"plainHash\":%zu}}, {}, {\"name\":\"gone\"}]}",
                        n);
        set(&fixture->annotation, text);
}

static void spoil_condition(Fixture *fixture, size_t n) {
        set(&fixture->status, n % 2 == 0 ? "False" : "Unknown");
}

/* Two writers of one field do not race: 0.25, 0.5, 1 … 32 s after the last time. */
static void test_another_writer(void **state) {
        void (*const spoilers[])(Fixture * fixture, size_t n) = { spoil_annotation, spoil_two,
                                                                  spoil_condition };

        for (size_t i = 0; i < 3; i++) {
                Fixture *fixture = *state;
                size_t n;

                settle(fixture);
                spoilers[i](fixture, 0);
                show_and_run(fixture, next(fixture, "c1", "1"));
                n = count_writes(fixture, spoilers[i], 60);
                assert_in_range(n, 6, 8);
                assert_int_equal(tear_down(state), 0);
                assert_int_equal(set_up(state), 0);
        }
}

static void test_not_for_everybody(void **state) {
        Fixture *fixture = *state;
        Pod *pod = make_pod(fixture, "c1", "2");

        pod->is_kruise = false;
        pod->update = POD_UPDATE_NONE;
        fake.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, pod);
        assert_int_equal(fake.n_answered[CALL_STATUS], 0);
        assert_null(fake_patch());
        assert_int_equal(fake.n_stops, 0);
        assert_int_equal(inplace_count(fixture->meta, VERDICT_CURRENT), 1);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_NONE);

        /* It asks for it now. */
        rest();
        pod = make_pod(fixture, "c1", "2");
        pod->is_kruise = false;
        pod->update = POD_UPDATE_NONE;
        pod->restart_on_metadata = strdup("true");
        show_and_run(fixture, pod);
        assert_int_equal(fake.n_stops, 1);
        assert_non_null(strstr(fake_patch(), "\"Restarting\""));
}

/* It begins to ask for it while it is being inspected, which is not for its environment yet. */
static void test_asks_for_it_meanwhile(void **state) {
        Fixture *fixture = *state;
        Pod *pod;

        fake.containers[0] = model("c1", "1", 1);
        for (size_t i = 0; i < 2; i++) {
                pod = make_pod(fixture, "c1", "1");
                pod->is_kruise = false;
                pod->update = POD_UPDATE_NONE;
                pod->restart_on_metadata = i == 0 ? NULL : strdup("true");
                show(fixture, pod);
        }
        assert_int_equal(fake_n_open(CALL_LIST), 1);
        fake_run_runtime();
        assert_int_equal(fake.n_answered[CALL_STATUS], 1);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_CURRENT);
        accept_patch(fixture);

        rest();
        pod = make_pod(fixture, "c1", "2");
        pod->is_kruise = false;
        pod->update = POD_UPDATE_NONE;
        pod->restart_on_metadata = strdup("true");
        show(fixture, pod);
        assert_int_equal(fake.n_stops, 1);
}

/* Its environment is still to be found out, and the runtime has it no more. */
static void test_not_there_any_more(void **state) {
        Fixture *fixture = *state;
        size_t n_lists;
        Pod *pod;

        pod = make_pod(fixture, "c1", "1");
        pod->is_kruise = false;
        pod->update = POD_UPDATE_NONE;
        fake.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, pod);
        n_lists = fake.n_answered[CALL_LIST];
        fake.containers[0].id = NULL;
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        assert_int_equal(fake.n_answered[CALL_LIST], n_lists + 1);
        assert_null(fake_find(CALL_LIST));
        while (!fake_find(CALL_LIST))
                let_pass(fixture);
        fake_run_runtime();
        assert_int_equal(fake.n_answered[CALL_LIST], n_lists + 2);
        assert_null(fake_find(CALL_LIST));

        /* What is known of it is written; and once there is another one, nothing waits. */
        assert_non_null(strstr(fake_patch(), "containerd://c1"));
        accept_patch(fixture);
        fake.containers[0] = model("c2", "1", 2);
        show_and_run(fixture, make_pod(fixture, "c2", "1"));
        assert_int_equal(fake.n_answered[CALL_LIST], n_lists + 3);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_CURRENT);
        assert_non_null(strstr(fake_patch(), "containerd://c2"));
}

static void assert_owner(const FakeStop *stop, unsigned number) {
        char expected[64];

        (void) snprintf(expected, sizeof(expected), "metadata/%u/%u/%u", (unsigned) hash_of("2"),
                        (unsigned) hash_of("1"), number);
        assert_string_equal(stop->owner, expected);
}

static void test_restart(void **state) {
        Fixture *fixture = *state;
        FakeStop *stop;
        Pod *live;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        stop = open_stop();
        assert_owner(stop, 1);
        assert_string_equal(stop->id, "c1");
        assert_false(stop->is_init);
        assert_string_equal(stop->cause, "Stopping container app: its environment comes from "
                                         "labels or annotations that have changed");
        assert_non_null(strstr(fake_patch(), "\"False\",\"reason\":\"Restarting\""));
        assert_non_null(strstr(fake_patch(), "lastTransitionTime"));
        assert_null(strstr(fake_patch(), "annotations\":"));
        accept_patch(fixture);

        check_stop(stop);
        assert_string_equal(fake_find(CALL_GET)->text, "/api/v1/namespaces/default/pods/web");
        assert_string_equal(fake_find(CALL_GET)->accept, KUBE_PROTOBUF);
        live = make_pod(fixture, "c1", "2");
        fake_reply_pod(live);
        assert_int_equal(stop->answer, true);

        /* Nothing is written while it is neither this nor that. */
        fake_end_stop(stop, STOP_STOPPED);
        live = next(fixture, "c1", "2");
        live->containers[0].is_running = false;
        fake.containers[0].is_running = false;
        show_and_run(fixture, live);
        assert_null(fake_patch());

        fake.containers[1] = model("c2", "2", 2);
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_non_null(strstr(fake_patch(), "containerd://c2"));
        assert_non_null(strstr(fake_patch(), "\"True\",\"reason\":\"Verified\""));
        accept_patch(fixture);
        assert_null(fake_patch());
        assert_int_equal(fake.n_stops, 1);
        assert_int_equal(fake.n_events, 0);
        assert_int_equal(n_counted(fixture, "succeeded"), 3);
        assert_string_equal(fake.forgotten, "");
}

/* The stop is over, and what it was for: the runtime is asked for the successor. */
static void stop_and_poll(Fixture *fixture) {
        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        accept_patch(fixture);
        fake_end_stop(open_stop(), STOP_STOPPED);
        fake.containers[0].is_running = false;
        assert_null(fake_find(CALL_LIST));
        let_pass(fixture);
        assert_int_equal(fake_n_open(CALL_LIST), 1);
        fake_run_runtime();
        assert_null(fake_patch());
        let_pass(fixture);
}

/* What is written of the successor does not wait for the pod's status to name it. */
static void test_ahead_of_the_status(void **state) {
        Fixture *fixture = *state;
        Pod *pod;

        stop_and_poll(fixture);
        fake.containers[1] = model("c2", "2", 2);
        fake_run_runtime();
        assert_non_null(strstr(fake_patch(), "containerd://c2"));
        assert_non_null(strstr(fake_patch(), "\"True\",\"reason\":\"Verified\""));
        accept_patch(fixture);

        /* Nor is anything more to be said by the time it does. */
        for (size_t i = 0; i < 3; i++) {
                pod = next(fixture, i < 2 ? "c1" : "c2", "2");
                pod->containers[0].is_running = i != 1;
                show_and_run(fixture, pod);
                assert_null(fake_patch());
        }
        assert_int_equal(n_counted(fixture, "succeeded"), 3);
        assert_int_equal(fake.n_stops, 1);
        fake.n_answered[CALL_LIST] = 0;
        let_pass(fixture);
        assert_null(fake_find(CALL_LIST));
}

/* Also what is wrong with it is decided, and reported, once the pod's status names it. */
static void test_ahead_and_not_healed(void **state) {
        Fixture *fixture = *state;

        stop_and_poll(fixture);
        fake.containers[1] = model("c2", "1", 2);
        fake_run_runtime();
        assert_null(fake_patch());
        fake.skipped_usec += 6000000;
        assert_int_equal(inplace_kick(fixture->meta), 0);
        assert_int_equal(fake.n_stops, 1);
        while (fake_patch())
                accept_patch(fixture);
        assert_string_equal(fixture->reason, "Restarting");
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_int_equal(fake.n_stops, 2);
        assert_string_equal(open_stop()->id, "c2");
}

/* Not for ever: then the pod's status has to show it. */
static void test_polls_are_bounded(void **state) {
        Fixture *fixture = *state;
        uint64_t began;

        stop_and_poll(fixture);
        began = now_of(fixture);
        fake.n_answered[CALL_LIST] = 0;
        while (now_of(fixture) - began < 21000000) {
                fake_run_runtime();
                let_pass(fixture);
        }
        assert_in_range(fake.n_answered[CALL_LIST], 350, 410);
        assert_null(fake_find(CALL_LIST));

        fake.containers[1] = model("c2", "2", 2);
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_non_null(strstr(fake_patch(), "containerd://c2"));
}

static void test_sidecar(void **state) {
        Fixture *fixture = *state;
        const char *values[] = { "1", "2" };

        fake.containers[0] = model("c1", "1", 1);
        for (size_t i = 0; i < 2; i++) {
                Pod *pod = make_pod(fixture, "c1", values[i]);

                pod->containers[0].kind = POD_CONTAINER_SIDECAR;
                show_and_run(fixture, pod);
                rest();
        }
        assert_true(open_stop()->is_init);
}

static void test_not_healed(void **state) {
        Fixture *fixture = *state;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        accept_patch(fixture);
        fake_end_stop(open_stop(), STOP_STOPPED);
        fake.containers[1] = model("c2", "odd", 2);
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_int_equal(fake.n_stops, 1);
        assert_int_equal(fake.n_events, 1);
        assert_non_null(strstr(fake.events[0],
                               "Warning InPlaceRestartFailed spec.containers{app} Container app"));
        assert_non_null(strstr(fake_patch(), "\"EnvironmentStale\""));
        accept_patch(fixture);

        /* Not again, until something else is asked for; also in the next run of the agent. */
        assert_string_equal(fake.forgotten, "");
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_int_equal(fake.n_stops, 1);
        assert_int_equal(fake.n_events, 1);
        rest();
        show_and_run(fixture, next(fixture, "c2", "3"));
        assert_int_equal(fake.n_stops, 2);
        assert_string_equal(open_stop()->id, "c2");
}

/* Nothing is stopped within so many seconds, but right after that. */
static void assert_pause(Fixture *fixture, unsigned seconds) {
        size_t n_stops = fake.n_stops;

        fake.skipped_usec += (uint64_t) seconds * 1000000 - 100000;
        assert_int_equal(inplace_kick(fixture->meta), 0);
        assert_int_equal(fake.n_stops, n_stops);
        fake.skipped_usec += 200000;
        assert_int_equal(inplace_kick(fixture->meta), 0);
        assert_int_equal(fake.n_stops, n_stops + 1);
}

/* The successor has exactly its predecessor's value, so the kubelet has not learned of the other
 * one: that happens four times, and then there must be something else. */
static void test_kubelet_was_late(void **state) {
        static const unsigned pauses_sec[] = { 5, 15, 45 };
        static const char *const ids[] = { "c2", "c3", "c4", "c5" };
        Fixture *fixture = *state;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        accept_patch(fixture);
        for (unsigned i = 0; i < 4; i++) {
                assert_owner(open_stop(), i + 1);
                fake_end_stop(open_stop(), STOP_STOPPED);
                fake.containers[0] = model(ids[i], "1", 2 + (int64_t) i);
                show_and_run(fixture, next(fixture, ids[i], "2"));
                assert_string_equal(fixture->reason, "Restarting");
                assert_int_equal(fake.n_stops, i + 1);
                if (i == 3)
                        break;

                assert_int_equal(fake.n_events, 0);
                assert_pause(fixture, pauses_sec[i]);
                assert_string_equal(open_stop()->id, ids[i]);
                while (fake_patch())
                        accept_patch(fixture);
        }

        assert_int_equal(fake.n_events, 1);
        assert_non_null(strstr(fake.events[0], "InPlaceRestartFailed"));
        assert_non_null(strstr(fake_patch(), "EnvironmentStale"));
        assert_string_equal(fake.forgotten, "");

        /* Another value is something else. */
        rest();
        show_and_run(fixture, next(fixture, "c5", "3"));
        assert_int_equal(fake.n_stops, 5);
        assert_non_null(strstr(open_stop()->owner, "/1"));
}

/* Once it has learned of it, everything is as after any other restart. */
static void test_kubelet_was_late_once(void **state) {
        Fixture *fixture = *state;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        accept_patch(fixture);
        fake_end_stop(open_stop(), STOP_STOPPED);
        fake.containers[0] = model("c2", "1", 2);
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_pause(fixture, 5);
        while (fake_patch())
                accept_patch(fixture);
        fake_end_stop(open_stop(), STOP_STOPPED);
        fake.containers[0] = model("c3", "2", 3);
        show_and_run(fixture, next(fixture, "c3", "2"));
        accept_patch(fixture);
        assert_string_equal(fixture->reason, "Verified");
        assert_int_equal(fake.n_events, 0);
        assert_int_equal(fake.n_stops, 2);
}

/* The count goes on in the next run of the agent, and so does its end. */
static void test_late_in_a_previous_run(void **state) {
        for (unsigned number = 3; number <= 4; number++) {
                Fixture *fixture = *state;
                Pod *pod = make_pod(fixture, "c4", "2");

                (void) snprintf(fake.stopped_owner, sizeof(fake.stopped_owner), "metadata/%u/%u/%u",
                                (unsigned) hash_of("2"), (unsigned) hash_of("1"), number);
                fake.stopped_id = "c3";
                set(&pod->containers[0].former_id, "containerd://c3");
                fake.containers[0] = model("c4", "1", 1);
                show_and_run(fixture, pod);
                assert_int_equal(fake.n_stops, 0);
                assert_int_equal(fake.n_events, number == 4);
                if (number == 3) {
                        assert_pause(fixture, 45);
                        assert_owner(open_stop(), 4);
                }
                assert_int_equal(tear_down(state), 0);
                assert_int_equal(set_up(state), 0);
        }
}

/* Then the value would not arrive, however often it is restarted. */
static void test_overridden_is_not_late(void **state) {
        Fixture *fixture = *state;
        Pod *pod;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        fake_end_stop(open_stop(), STOP_STOPPED);
        fake.containers[0] = model("c2", "1", 2);
        pod = next(fixture, "c2", "2");
        pod->containers[0].is_env_overridden = true;
        show_and_run(fixture, pod);
        assert_int_equal(fake.n_events, 1);
        fake.skipped_usec += WAIT_USEC;
        assert_int_equal(inplace_kick(fixture->meta), 0);
        assert_int_equal(fake.n_stops, 1);
}

static void assert_forgotten(const char *value, const char *id) {
        char expected[128];

        (void) snprintf(expected, sizeof(expected), "metadata/%u/%u/1 %s",
                        (unsigned) hash_of(value), (unsigned) hash_of("1"), id);
        assert_string_equal(fake.forgotten, expected);
}

/* A previous run of the agent has ended that container, for the value. */
static void stopped_before(const char *id, const char *value) {
        (void) snprintf(fake.stopped_owner, sizeof(fake.stopped_owner), "metadata/%u",
                        (unsigned) hash_of(value));
        fake.stopped_id = id;
}

/* Another value was asked for while it was restarted: which one it was to get is unknown. */
static void test_changed_meanwhile(void **state) {
        Fixture *fixture = *state;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        show(fixture, next(fixture, "c1", "3"));
        show(fixture, next(fixture, "c1", "2"));
        fake_end_stop(open_stop(), STOP_STOPPED);
        fake.containers[1] = model("c2", "3", 2);
        rest();
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_int_equal(fake.n_events, 0);
        assert_int_equal(fake.n_stops, 2);
        assert_string_equal(open_stop()->id, "c2");
        assert_forgotten("2", "c1");
}

/* Whether the kubelet has reported the successor already, or not yet. */
static void test_stopped_in_a_previous_run(void **state) {
        Fixture *fixture = *state;

        stopped_before("c1", "2");
        fake.containers[0] = model("c2", "1", 1);
        for (size_t i = 0; i < 2; i++) {
                Pod *pod = make_pod(fixture, i ? "c2" : "c1", "2");

                set(&pod->containers[0].former_id, i ? "containerd://c1" : "");
                show_and_run(fixture, pod);
        }

        assert_int_equal(fake.n_stops, 0);
        assert_int_equal(fake.n_events, 1);
        assert_non_null(strstr(fake.events[0], "InPlaceRestartFailed"));
}

/* In the annotation, and for long: nothing but the kubelet remembers the one before. */
static void test_not_healed_in_a_previous_run(void **state) {
        Fixture *fixture = *state;
        Pod *pod = make_pod(fixture, "c2", "2");

        stopped_before("c1", "2");
        set(&pod->meta,
            "{\"containers\":[{\"name\":\"app\",\"containerID\":\"containerd://c2\"}]}");
        set(&pod->containers[0].former_id, "containerd://c1");
        fake.containers[0] = model("c2", "1", 1);
        show_and_run(fixture, pod);
        assert_int_equal(fake.n_stops, 0);
        assert_int_equal(fake.n_events, 1);

        /* Another value is something else. */
        rest();
        show_and_run(fixture, next(fixture, "c2", "3"));
        assert_int_equal(fake.n_stops, 1);
}

/* What is asked for may change before anything is known of the container. */
static void test_changed_in_this_run(void **state) {
        Fixture *fixture = *state;

        stopped_before("c1", "2");
        fake.containers[0] = model("c2", "1", 1);
        for (size_t i = 0; i < 2; i++) {
                Pod *pod = make_pod(fixture, "c2", i == 0 ? "3" : "2");

                set(&pod->containers[0].former_id, "containerd://c1");
                show(fixture, pod);
        }
        rest();
        fake_run_runtime();
        assert_int_equal(fake.n_stops, 0);
        assert_int_equal(fake.n_events, 1);
        assert_non_null(strstr(fake.events[0], "InPlaceRestartFailed"));
        assert_string_equal(fake.forgotten, "");
}

/* First the container itself is seen that was stopped in a previous run, and then its successor. */
static void test_stopped_is_still_the_newest(void **state) {
        Fixture *fixture = *state;
        Pod *pod;

        stopped_before("c1", "2");
        fake.containers[0] = model("c1", "1", 1);
        fake.containers[0].is_running = false;
        pod = make_pod(fixture, "c1", "2");
        pod->containers[0].is_running = false;
        show_and_run(fixture, pod);
        assert_int_equal(fake.n_events, 0);

        rest();
        fake.containers[1] = model("c2", "1", 2);
        pod = make_pod(fixture, "c2", "2");
        set(&pod->containers[0].former_id, "containerd://c1");
        show_and_run(fixture, pod);
        assert_int_equal(fake.n_stops, 0);
        assert_int_equal(fake.n_events, 1);
        assert_non_null(strstr(fake.events[0], "InPlaceRestartFailed"));
}

/* Whatever is changed through the API server: the kubelet makes it from its file again. */
static void test_static_pod(void **state) {
        Fixture *fixture = *state;
        Pod *pod;

        fake.containers[0] = model("c1", "1", 1);
        fake.containers[0].pod_uid = "of-its-file";
        for (size_t i = 0; i < 2; i++) {
                pod = make_pod(fixture, "c1", i == 0 ? "1" : "2");
                set(&pod->runtime_uid, "of-its-file");
                show_and_run(fixture, pod);
                if (i == 0)
                        accept_patch(fixture);
                rest();
        }
        assert_int_equal(fake.n_stops, 0);
        assert_int_equal(fake.n_events, 1);
        assert_string_equal(fake.events[0],
                            "Warning InPlaceRestartSkipped spec.containers{app} Container app is "
                            "not restarted although its labels or annotations have changed: the "
                            "pod is static, so its file on the node decides on its environment");
        assert_non_null(strstr(fake_patch(), "\"CannotRestart\""));
        assert_non_null(strstr(fake_patch(), "since the pod is static"));
}

static void test_skipped(void **state) {
        Fixture *fixture = *state;
        Pod *pod;

        settle(fixture);
        for (size_t i = 0; i < 2; i++) {
                pod = next(fixture, "c1", "2");
                pod->containers[0].comes_back = false;
                set(&pod->containers[0].restart_policy, "Never");
                show(fixture, pod);
        }
        assert_int_equal(fake.n_stops, 0);
        assert_int_equal(fake.n_events, 1);
        assert_non_null(strstr(fake.events[0], "Warning InPlaceRestartSkipped"));
        assert_non_null(strstr(fake.events[0], "(restart policy Never)"));
        assert_non_null(strstr(fake_patch(), "\"CannotRestart\""));
}

static void test_outside_an_update(void **state) {
        Fixture *fixture = *state;
        Pod *pod;

        settle(fixture);
        pod = next(fixture, "c1", "2");
        pod->update = POD_UPDATE_READY;
        show(fixture, pod);
        assert_int_equal(fake.n_stops, 0);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_STALE);
}

static void test_checked_before(void **state) {
        static const struct {
                const char *uid, *id, *value, *image;
                bool is_deleted, is_idle, is_not_running;
                const char *why_not;
        } cases[] = {
                { .uid = "other", .why_not = "another pod has its name now" },
                { .id = "c2", .why_not = "a different container runs, or none" },
                { .is_not_running = true, .why_not = "a different container runs, or none" },
                { .value = "1", .why_not = "the pod's labels or annotations have changed again" },
                { .image = "nginx:2", .why_not = "its image has changed as well" },
                { .is_deleted = true, .why_not = "the pod is being deleted, or has finished" },
                { .is_idle = true, .why_not = "the pod does not ask for restarts any more" },
        };
        Fixture *fixture = *state;

        settle(fixture);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char value[] = { (char) ('a' + i), '\0' };
                Pod *live = make_pod(fixture, cases[i].id ?: "c1", cases[i].value ?: value);
                FakeStop *stop;

                rest();
                show(fixture, next(fixture, "c1", value));

                stop = open_stop();
                live->is_deleted = cases[i].is_deleted;
                live->update = cases[i].is_idle ? POD_UPDATE_READY : POD_UPDATE_RUNNING;
                live->containers[0].is_running = !cases[i].is_not_running;
                set(&live->containers[0].image, cases[i].image ?: "nginx:1");
                if (cases[i].uid)
                        set(&live->uid, cases[i].uid);
                check_stop(stop);
                fake_reply_pod(live);
                assert_int_equal(stop->answer, false);
                assert_string_equal(stop->why_not, cases[i].why_not);
                fake_end_stop(stop, STOP_NOT_ASKED);
                assert_int_equal(fake.n_stops, i + 1);
        }
}

static void test_check_without_server(void **state) {
        Fixture *fixture = *state;
        FakeStop *stop;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        stop = open_stop();
        check_stop(stop);
        fake_reply(CALL_GET, 0, ERROR_UNAVAILABLE, "");
        assert_int_equal(stop->answer, -1);
        assert_null(fake_find(CALL_GET));
        while (!fake_find(CALL_GET))
                let_pass(fixture);

        /* The server is known to answer. */
        fake_reply(CALL_GET, 403, ERROR_DENIED, "");
        assert_int_equal(inplace_kick(fixture->meta), 0);
        fake_reply(CALL_GET, 404, ERROR_NOT_FOUND, "");
        assert_int_equal(stop->answer, false);
        assert_string_equal(stop->why_not, "the pod is gone");
}

/* The pod is over while the server is away: also then the stop gets its answer. */
static void test_finished_while_checked(void **state) {
        Fixture *fixture = *state;
        Pod *pod;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        check_stop(open_stop());
        fake_reply(CALL_GET, 0, ERROR_UNAVAILABLE, "");
        pod = next(fixture, "c1", "2");
        pod->is_finished = true;
        show(fixture, pod);
        while (!fake_find(CALL_GET))
                let_pass(fixture);
        pod = make_pod(fixture, "c1", "2");
        pod->is_finished = true;
        fake_reply_pod(pod);
        assert_int_equal(open_stop()->answer, false);
}

static void test_flapping(void **state) {
        Fixture *fixture = *state;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        assert_int_equal(fake.n_stops, 1);
        fake_end_stop(open_stop(), STOP_NOT_ASKED);
        for (size_t i = 0; i < 20; i++)
                show(fixture, next(fixture, "c1", i % 2 == 0 ? "3" : "4"));
        assert_int_equal(fake.n_stops, 1);
        while (fake.n_stops == 1)
                let_pass(fixture);
        assert_int_equal(fake.n_stops, 2);
        assert_true(strtoul(open_stop()->owner + strlen("metadata/"), NULL, 10) == hash_of("4"));
}

/* The gate is shut, and the metadata changed right after that. */
static void shut_and_change(Fixture *fixture) {
        Pod *pod = next(fixture, "c1", "1");

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
        assert_int_equal(fake.n_stops, 0);
}

/* The kubelet may still act on the state in which the gate was shut, until its status shows that it has. */
static void test_kubelet_is_behind(void **state) {
        Fixture *fixture = *state;

        shut_and_change(fixture);
        show(fixture, next(fixture, "c1", "2"));
        assert_int_equal(fake.n_stops, 1);
}

static void test_kubelet_does_not_say(void **state) {
        Fixture *fixture = *state;

        shut_and_change(fixture);
        while (fake.n_stops == 0)
                let_pass(fixture);
}

/* A stop begins when that much has passed, and not before. */
static void assert_stops_after(Fixture *fixture, uint64_t usec) {
        fake.skipped_usec += usec - 1;
        assert_int_equal(inplace_kick(fixture->meta), 0);
        assert_int_equal(fake.n_stops, 0);
        fake.skipped_usec++;
        assert_int_equal(inplace_kick(fixture->meta), 0);
        assert_int_equal(fake.n_stops, 1);
}

static void test_pace_of_a_kubelet_behind(void **state) {
        fake.still_usec = 1000000000;
        shut_and_change(*state);
        assert_stops_after(*state, 1500000);
}

static void test_left_to_the_kubelet(void **state) {
        Fixture *fixture = *state;
        Pod *pod;

        settle(fixture);
        pod = next(fixture, "c1", "2");
        set(&pod->containers[0].image, "nginx:2");
        show_and_run(fixture, pod);
        assert_int_equal(fake.n_stops, 0);
        assert_non_null(strstr(fake_patch(), "\"Restarting\""));
        accept_patch(fixture);

        fake.containers[1] = model("c2", "2", 2);
        fake.containers[1].image_ref = ID_B;
        pod = next(fixture, "c2", "2");
        set(&pod->containers[0].image, "nginx:2");
        show_and_run(fixture, pod);
        assert_int_equal(fake.n_stops, 0);
        assert_non_null(strstr(fake_patch(), "\"Verified\""));
        assert_non_null(strstr(fake_patch(), "app runs sha256:bbbbbbbbbbbb"));
        accept_patch(fixture);
}

/* Which may take its grace period and 15 seconds more, but no longer than a day. */
static void test_pace_of_the_kubelets_restart(void **state) {
        static const struct {
                int64_t grace_sec;
                uint64_t wait_sec;
        } rows[] = {
                { 30, 45 }, { 0, 15 }, { -7, 15 }, { 86400, 86415 }, { 864000, 86415 },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                Fixture *fixture;
                Pod *pod;

                assert_int_equal(set_up(state), 0);
                fixture = *state;
                fake.still_usec = 1000000000;
                settle(fixture);
                pod = next(fixture, "c1", "2");
                set(&pod->containers[0].image, "nginx:2");
                pod->grace_sec = rows[i].grace_sec;
                show_and_run(fixture, pod);
                assert_int_equal(fake.n_stops, 0);
                accept_patch(fixture);
                assert_stops_after(fixture, rows[i].wait_sec * 1000000);
                assert_int_equal(tear_down(state), 0);
        }
}

/* The hash of a kubelet that covers name and image alone shows what it will restart. */
static void test_kubelets_hash(void **state) {
        Fixture *fixture = *state;
        Pod *pod = make_pod(fixture, "c1", "1");
        char hash[16];

        (void) snprintf(hash, sizeof(hash), "%x", (unsigned) pod->containers[0].plain_hash);
        fake.containers[0] = model("c1", "1", 1);
        fake.containers[0].hash = hash;
        show_and_run(fixture, pod);
        accept_patch(fixture);

        pod = next(fixture, "c1", "2");
        pod->containers[0].plain_hash++;
        show_and_run(fixture, pod);
        assert_int_equal(fake.n_stops, 0);
        show_and_run(fixture, next(fixture, "c1", "3"));
        while (fake.n_stops == 0)
                let_pass(fixture);
        assert_int_equal(fake.n_stops, 1);
}

/* Its hash alone may be that of an older kubelet; but where the image is not the right one either,
 * it will restart the container. */
static void test_kubelets_hash_alone(void **state) {
        Fixture *fixture = *state;
        Pod *pod = make_pod(fixture, "c1", "1");
        char hash[16];

        (void) snprintf(hash, sizeof(hash), "%x", (unsigned) pod->containers[0].plain_hash);
        fake.containers[0] = model("c1", "1", 1);
        fake.containers[0].hash = hash;
        show_and_run(fixture, pod);
        accept_patch(fixture);
        assert_string_equal(fixture->reason, "Verified");

        pod = next(fixture, "c1", "1");
        pod->containers[0].plain_hash++;
        show_and_run(fixture, pod);
        assert_null(fake_patch());

        fake.images[0].id = ID_B;
        assert_int_equal(inplace_image_changed(fixture->meta, "docker.io/library/nginx:1"), 0);
        fake_run_runtime();
        accept_patch(fixture);
        assert_string_equal(fixture->reason, "Restarting");
        assert_int_equal(fake.n_stops, 0);
}

/* Another client has moved the tag: within five and a half minutes that is seen. */
static void test_refresh(void **state) {
        Fixture *fixture = *state;
        uint64_t began;

        fake.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        accept_patch(fixture);
        for (size_t i = 0; i < 2; i++) {
                began = now_of(fixture);
                while (!fake_find(CALL_IMAGE))
                        let_pass(fixture);
                assert_null(fake_find(CALL_LIST));
                assert_in_range(now_of(fixture) - began, 299900000, 331000000);
                fake.images[0].id = i == 0 ? ID_A : ID_B;
                fake_run_runtime();
        }
        accept_patch(fixture);
        assert_string_equal(fixture->reason, "ImageStale");
}

static void test_image_moved(void **state) {
        Fixture *fixture = *state;

        settle(fixture);
        fake.images[0].id = ID_B;
        assert_int_equal(inplace_image_changed(fixture->meta, "docker.io/library/nginx:9"), 0);
        assert_null(fake_find(CALL_IMAGE));
        assert_int_equal(inplace_image_changed(fixture->meta, "docker.io/library/nginx:1"), 0);
        fake_run_runtime();
        assert_int_equal(inplace_count(fixture->meta, VERDICT_STALE), 1);
        assert_non_null(strstr(fake_patch(), "\"ImageStale\""));
        assert_non_null(strstr(fake_patch(), "container app runs sha256:aaaaaaaaaaaa… and its "
                                             "reference nginx:1 is sha256:bbbbbbbbbbbb…"));
        assert_int_equal(fake.n_stops, 0);
}

/* Whatever is sent, together or alone; returns how many. */
static size_t refuse_all(int code, ErrorKind kind) {
        size_t n = 0;

        for (; fake_patch(); n++)
                fake_reply(CALL_PATCH, code, kind, "");
        return n;
}

static void test_write_failures(void **state) {
        Fixture *fixture = *state;

        fake.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        fake_reply(CALL_PATCH, 404, ERROR_NOT_FOUND, "");
        assert_null(fake_patch());
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_int_equal(inplace_kick(fixture->meta), 0);
        assert_null(fake_patch());

        fake.skipped_usec += WAIT_USEC; /* longer than any pause */
        show_and_run(fixture, next(fixture, "c1", "1"));

        /* What concerns this pod alone. */
        fake_reply(CALL_PATCH, 409, ERROR_CONFLICT, "");
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_null(fake_patch());
        assert_int_equal(inplace_kick(fixture->meta), 0);
        assert_int_equal(refuse_all(422, ERROR_INVALID), 3);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_int_equal(inplace_kick(fixture->meta), 0);
        while (!fake_patch())
                let_pass(fixture);

        fake_reply(CALL_PATCH, 503, ERROR_UNAVAILABLE, "");
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_UNAVAILABLE);
        while (!fake_patch())
                let_pass(fixture);
        assert_int_equal(refuse_all(403, ERROR_DENIED), 2);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_DENIED);
        assert_int_equal(inplace_kick(fixture->meta), 0);
        accept_patch(fixture);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_DENIED);
        accept_patch(fixture);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_null(fake_patch());
        assert_int_equal(n_counted(fixture, "failed"), 8);
        assert_int_equal(n_counted(fixture, "succeeded"), 2);
}

/* A right that is granted later is made use of within half a minute, whatever happens meanwhile. */
static void test_granted_later(void **state) {
        Fixture *fixture = *state;

        fake.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        for (size_t i = 0; i < 5; i++) {
                uint64_t began = now_of(fixture);

                assert_true(refuse_all(403, ERROR_DENIED) > 0);
                assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_DENIED);
                show_and_run(fixture, next(fixture, "c1", "1"));
                assert_null(fake_patch());
                while (!fake_patch())
                        let_pass(fixture);
                if (i == 0)
                        assert_in_range(now_of(fixture) - began, 14900000, 30100000);
        }

        for (size_t i = 0; i < 2; i++) {
                while (!fake_patch())
                        let_pass(fixture);
                accept_patch(fixture);
        }
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_non_null(fixture->annotation);
        assert_string_equal(fixture->reason, "Verified");
}

/* Whichever of the two is refused, the other one is written; and the refused one, too, once it is
 * accepted, without any report. */
static void test_one_is_refused(void **state) {
        static const struct {
                const char *refused;
                int code;
                ErrorKind kind;
        } cases[] = {
                { "annotations", 403, ERROR_DENIED },
                { "annotations", 422, ERROR_INVALID },
                { "conditions", 403, ERROR_DENIED },
                { "conditions", 422, ERROR_INVALID },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                Fixture *fixture = *state;
                bool is_first = strcmp(cases[i].refused, "annotations") == 0;

                fake.containers[0] = model("c1", "1", 1);
                show_and_run(fixture, make_pod(fixture, "c1", "1"));
                for (size_t k = 0; k < 3; k++) {
                        assert_non_null(fake_patch());
                        if (strstr(fake_patch(), cases[i].refused))
                                fake_reply(CALL_PATCH, cases[i].code, cases[i].kind, "");
                        else
                                accept_patch(fixture);
                }
                assert_null(fake_patch());
                assert_int_equal(n_counted(fixture, "succeeded"), 1);
                assert_int_equal(n_counted(fixture, "failed"), 2);
                assert_true(is_first == !fixture->annotation);
                assert_true(is_first == !!fixture->status);
                assert_int_equal(inplace_error(fixture->meta)->kind,
                                 cases[i].kind == ERROR_DENIED ? ERROR_DENIED : ERROR_NONE);

                /* Not soon, but it is tried again. */
                fake.skipped_usec += 14000000;
                show_and_run(fixture, next(fixture, "c1", "1"));
                assert_null(fake_patch());
                while (!fake_patch())
                        let_pass(fixture);
                accept_patch(fixture);
                assert_non_null(fixture->annotation);
                assert_string_equal(fixture->status, "True");
                assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);

                /* From then on they go together again. */
                set(&fixture->annotation, NULL);
                set(&fixture->status, NULL);
                fake.skipped_usec += WAIT_USEC;
                show_and_run(fixture, next(fixture, "c1", "1"));
                assert_non_null(strstr(fake_patch(), "annotations"));
                assert_non_null(strstr(fake_patch(), "conditions"));
                accept_patch(fixture);
                assert_int_equal(tear_down(state), 0);
                assert_int_equal(set_up(state), 0);
        }
}

/* A pod whose write was refused, and what becomes of it: it is never written again. */
static void test_refused_and_over(void **state) {
        Fixture *fixture = *state;
        Pod *other = make_named_pod(fixture, "other", "d1", NULL), *pod;

        /* It is gone, but not the only one. */
        fake.containers[0] = model("c1", "1", 1);
        fake.containers[1] = model("d1", "", 1);
        fake.containers[1].pod_uid = fake.containers[1].pod_name = "other";
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        assert_int_equal(fake.watcher->on_pod(other, NULL, fake.watcher->userdata), 0);
        fake_run_runtime();
        refuse_all(403, ERROR_DENIED);
        fixture->n_changed = 0;
        assert_int_equal(fake.watcher->on_gone(fixture->pod, fake.watcher->userdata), 0);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_DENIED);
        assert_int_equal(fixture->n_changed, 0);
        assert_int_equal(fake.watcher->on_gone(other, fake.watcher->userdata), 0);
        assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_NONE);
        assert_int_equal(fixture->n_changed, 1);
        pod_free(other);

        /* It has finished, is gone for the server, or another writer has written it. */
        for (unsigned i = 0; i < 3; i++) {
                pod = next(fixture, "c1", "1");
                set(&pod->meta, NULL);
                fake.skipped_usec += WAIT_USEC; /* longer than any pause */
                show_and_run(fixture, pod);
                if (i == 2)
                        apply_patch(fixture);
                refuse_all(403, ERROR_DENIED);
                assert_int_equal(inplace_error(fixture->meta)->kind, ERROR_DENIED);
                fixture->n_changed = 0;
                if (i == 1) {
                        assert_int_equal(inplace_kick(fixture->meta), 0);
                        fake_reply(CALL_PATCH, 404, ERROR_NOT_FOUND, "");
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

static void test_runtime_in_trouble(void **state) {
        Fixture *fixture = *state;

        fake.containers[0] = model("c1", "1", 1);
        fake.is_away = true;
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        assert_int_equal(fake.n_calls, 0);

        fake.is_away = false;
        fake.refuses_status = true;
        assert_int_equal(inplace_runtime_changed(fixture->meta), 0);
        fake_run_runtime();
        assert_int_equal(fake.n_answered[CALL_STATUS], 1);
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_UNKNOWN);
        assert_non_null(strstr(fake_patch(), "plainHash\\\":31}"));
        accept_patch(fixture);
        show_and_run(fixture, next(fixture, "c1", "2"));
        assert_int_equal(fake.n_answered[CALL_STATUS], 1);
        assert_int_equal(fake.n_stops, 0);

        fake.refuses_status = false;
        while (fake.n_answered[CALL_STATUS] == 1) {
                let_pass(fixture);
                fake_run_runtime();
        }
        while (fake.n_stops == 0)
                let_pass(fixture);
}

/* What the runtime says of a container has no environment in it. */
static void test_no_info(void **state) {
        for (unsigned i = 0; i < 2; i++) {
                Fixture *fixture = *state;
                Pod *pod;

                fake.lacks_info = true;
                fake.has_other_info = i == 1;
                fake.containers[0] = model("c1", "1", 1);
                show_and_run(fixture, make_pod(fixture, "c1", "1"));
                assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                                 INPLACE_ENVIRONMENT_UNKNOWN);
                accept_patch(fixture);
                assert_null(strstr(fixture->annotation, "extractedEnvFromMetadataHash"));

                /* So nothing is restarted for it. */
                rest();
                show_and_run(fixture, next(fixture, "c1", "2"));
                assert_int_equal(fake.n_stops, 0);

                /* It is asked again, after a while. */
                fake.n_answered[CALL_STATUS] = 0;
                pod = next(fixture, "c1", "1");
                show_and_run(fixture, pod);
                assert_int_equal(fake.n_answered[CALL_STATUS], 0);
                fake.lacks_info = false;
                while (fake.n_answered[CALL_STATUS] == 0) {
                        let_pass(fixture);
                        fake_run_runtime();
                }
                assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                                 INPLACE_ENVIRONMENT_CURRENT);
                while (fake_patch())
                        accept_patch(fixture);
                assert_non_null(strstr(fixture->annotation, "extractedEnvFromMetadataHash"));
                assert_int_equal(tear_down(state), 0);
                assert_int_equal(set_up(state), 0);
        }
}

static void test_stop_fails(void **state) {
        Fixture *fixture = *state;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        fake_end_stop(open_stop(), STOP_FAILED);
        assert_int_equal(fake.n_stops, 1);
        assert_int_equal(fake.n_events, 1);
        assert_non_null(strstr(fake.events[0], "Cannot stop container app, trying again: because"));
        show(fixture, next(fixture, "c1", "2"));
        assert_int_equal(fake.n_stops, 1);
}

/* It ended by itself: that says nothing about its successor. */
static void test_stop_comes_too_late(void **state) {
        Fixture *fixture = *state;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        fake_end_stop(open_stop(), STOP_GONE);
        show(fixture, next(fixture, "c1", "2"));
        assert_int_equal(fake.n_stops, 1);
        fake.containers[1] = model("c2", "1", 2);
        rest();
        show_and_run(fixture, next(fixture, "c2", "2"));
        assert_int_equal(fake.n_stops, 2);
        assert_int_equal(fake.n_events, 0);
        assert_forgotten("2", "c1");
}

/* Two that are restarted together are written together. */
static void test_together(void **state) {
        Fixture *fixture = *state;
        const char *values[] = { "1", "2", "2", "2" };
        const char *first[] = { "c1", "c1", "c2", "c2" }, *second[] = { "d1", "d1", "d1", "d2" };
        const unsigned n_written[] = { 1, 2, 2, 3 };

        for (size_t i = 0; i < 4; i++) {
                Pod *pod = make_pod(fixture, first[i], values[i]);

                rest();
                pod->n_containers = 2;
                fill_container(&pod->containers[1], "log", second[i], values[i]);
                pod->containers[1].status_index = 1;
                fake.containers[0] = model(first[i], values[i], (int64_t) i);
                fake.containers[1] = model(second[i], i == 2 ? "1" : values[i], (int64_t) i);
                fake.containers[1].name = "log";
                show_and_run(fixture, pod);
                if (fake_patch())
                        accept_patch(fixture);
                assert_int_equal(n_counted(fixture, "succeeded"), n_written[i]);
                if (i == 1) {
                        fake_end_stop(&fake.stops[0], STOP_STOPPED);
                        fake_end_stop(&fake.stops[1], STOP_STOPPED);
                }
        }
        assert_int_equal(fake.n_stops, 2);
}

static void test_many(void **state) {
        Fixture *fixture = *state;
        Pod *pods[20];
        size_t n = sizeof(pods) / sizeof(pods[0]);

        for (size_t i = 0; i < n; i++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "web-%zu", i);
                pods[i] = make_named_pod(fixture, name, "c1", NULL);
                pods[i]->meta = strdup("{}");
                assert_int_equal(fake.watcher->on_pod(pods[i], NULL, fake.watcher->userdata), 0);
        }
        assert_int_equal(fake_n_open(CALL_LIST), 8);
        for (size_t i = 0; i < n; i++) {
                fake.containers[0] = model("c1", "", 1);
                for (size_t k = 0; k < n; k++)
                        if (fake_find(CALL_LIST) &&
                            strcmp(pods[k]->uid, fake_find(CALL_LIST)->text) == 0)
                                fake.containers[0].pod_uid = fake.containers[0].pod_name =
                                        pods[k]->uid;
                assert_int_equal(fake_answer_list(fake_find(CALL_LIST)), 0);
                assert_true(fake_answer_image(fake_find(CALL_IMAGE)) == 0);
        }
        assert_int_equal(fake_n_open(CALL_PATCH), 8);
        for (size_t i = 0; i < n; i++)
                accept_patch(fixture);
        assert_null(fake_patch());
        assert_int_equal(n_counted(fixture, "succeeded"), n);
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(fake.watcher->on_gone(pods[i], fake.watcher->userdata), 0);
                pod_free(pods[i]);
        }
        assert_int_equal(inplace_count(fixture->meta, VERDICT_CURRENT), 0);
}

/* With everything under way. */
static void test_gone(void **state) {
        Fixture *fixture = *state;

        settle(fixture);
        show(fixture, next(fixture, "c1", "2"));
        check_stop(open_stop());
        assert_int_equal(inplace_image_changed(fixture->meta, "docker.io/library/nginx:1"), 0);
        assert_non_null(fake_find(CALL_PATCH));
        assert_non_null(fake_find(CALL_GET));
        assert_non_null(fake_find(CALL_IMAGE));
        assert_int_equal(fake.watcher->on_gone(fixture->pod, fake.watcher->userdata), 0);
        assert_null(fake_find(CALL_PATCH));
        assert_null(fake_find(CALL_GET));
        assert_null(fake_find(CALL_IMAGE));
        assert_false(fake.stops[0].is_open);
}

/* Its UID alone does not make a container one of this pod. */
static void test_another_pods_container(void **state) {
        Fixture *fixture = *state;

        fake.containers[0] = model("c1", "1", 1);
        fake.containers[0].pod_name = "etcd-0";
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        assert_null(fake_patch()); /* unlike in settle() */
        assert_int_equal(inplace_environment(fixture->meta, "default", "web", "web", "app"),
                         INPLACE_ENVIRONMENT_UNKNOWN);
}

static void test_environment_of_another_pod(void **state) {
        static const struct {
                const char *namespace, *pod, *uid;
                InPlaceEnvironment environment;
        } pods[] = {
                { "default", "web", "web", INPLACE_ENVIRONMENT_CURRENT },
                { "default", "etcd-0", "web", INPLACE_ENVIRONMENT_NONE },
                { "kube-system", "web", "web", INPLACE_ENVIRONMENT_NONE },
                { "default", "web", "u", INPLACE_ENVIRONMENT_NONE },
        };
        Fixture *fixture = *state;

        settle(fixture);
        for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++)
                assert_int_equal(inplace_environment(fixture->meta, pods[i].namespace, pods[i].pod,
                                                     pods[i].uid, "app"),
                                 pods[i].environment);
}

static void show_running(Fixture *fixture, bool is_running) {
        Pod *pod = next(fixture, "c1", "1");

        fake.containers[0].is_running = pod->containers[0].is_running = is_running;
        show_and_run(fixture, pod);
}

static const char *patch_after(Fixture *fixture, unsigned msec) {
        fake.skipped_usec += (uint64_t) msec * 1000;
        assert_int_equal(inplace_kick(fixture->meta), 0);
        return fake_patch();
}

/* A container that does not run is reported after ten seconds, not before, and as soon as it runs
 * again; from then on the time begins anew. */
static void test_not_running(void **state) {
        Fixture *fixture = *state;

        settle(fixture);
        for (size_t i = 0; i < 2; i++) {
                show_running(fixture, false);
                assert_null(fake_patch());
                assert_null(patch_after(fixture, 9800));
                show_running(fixture, true);
                assert_null(fake_patch());
                rest();
        }

        show_running(fixture, false);
        assert_null(patch_after(fixture, 9800));
        assert_non_null(patch_after(fixture, 300));
        assert_non_null(strstr(fake_patch(), "\"NotRunning\""));
        assert_non_null(strstr(fake_patch(), "\"False\""));
        accept_patch(fixture);
        assert_null(patch_after(fixture, 20000));

        show_running(fixture, true);
        assert_non_null(strstr(fake_patch(), "\"Verified\""));
        accept_patch(fixture);
}

static void test_first_list(void **state) {
        Fixture *fixture = *state;

        fake.is_synced = false;
        fake.containers[0] = model("c1", "1", 1);
        show_and_run(fixture, make_pod(fixture, "c1", "1"));
        while (!fake_patch())
                let_pass(fixture);
        accept_patch(fixture);
}

int main(void) {
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
                TEST(test_annotation),
                TEST(test_own_write),
                TEST(test_not_for_everybody),
                TEST(test_asks_for_it_meanwhile),
                TEST(test_not_there_any_more),
                TEST(test_restart),
                TEST(test_ahead_of_the_status),
                TEST(test_ahead_and_not_healed),
                TEST(test_polls_are_bounded),
                TEST(test_sidecar),
                TEST(test_not_healed),
                TEST(test_not_healed_in_a_previous_run),
                TEST(test_kubelet_was_late),
                TEST(test_kubelet_was_late_once),
                TEST(test_late_in_a_previous_run),
                TEST(test_overridden_is_not_late),
                TEST(test_changed_meanwhile),
                TEST(test_stopped_in_a_previous_run),
                TEST(test_changed_in_this_run),
                TEST(test_stopped_is_still_the_newest),
                TEST(test_static_pod),
                TEST(test_skipped),
                TEST(test_outside_an_update),
                TEST(test_checked_before),
                TEST(test_check_without_server),
                TEST(test_finished_while_checked),
                TEST(test_flapping),
                TEST(test_kubelet_is_behind),
                TEST(test_kubelet_does_not_say),
                TEST(test_pace_of_a_kubelet_behind),
                TEST(test_left_to_the_kubelet),
                cmocka_unit_test(test_pace_of_the_kubelets_restart),
                TEST(test_kubelets_hash),
                TEST(test_kubelets_hash_alone),
                TEST(test_refresh),
                TEST(test_no_info),
                TEST(test_image_moved),
                TEST(test_write_failures),
                TEST(test_granted_later),
                TEST(test_one_is_refused),
                TEST(test_another_writer),
                TEST(test_refused_and_over),
                TEST(test_runtime_in_trouble),
                TEST(test_stop_fails),
                TEST(test_stop_comes_too_late),
                TEST(test_together),
                TEST(test_many),
                TEST(test_gone),
                TEST(test_first_list),
                TEST(test_not_running),
                TEST(test_another_pods_container),
                TEST(test_environment_of_another_pod),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
