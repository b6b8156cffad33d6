/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The probes of a node: one object of the API server, two probes of a container, and what is written
 */

#include <sys/random.h>

#include "agent/probe/probes.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/pod-server.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/sent-events.h"
#include "tests/unit/unit.h"

#define PROBE(name)                                                                     \
        "{'name':'m#" name "','containerName':'app','probe':{'exec':{'command':['" name \
        "']},'periodSeconds':3600}}"
#define OBJECT(version, probes)                                                            \
        "{'type':'ADDED','object':{'metadata':{'name':'node-1','uid':'n-1',"               \
        "'resourceVersion':'" version "'},'spec':{'podProbes':[{'name':'web','uid':'p-1'," \
        "'namespace':'d','probes':[" probes "]}]}}}"
#define LIST_END                                                          \
        "{'type':'BOOKMARK','object':{'metadata':{'resourceVersion':'2'," \
        "'annotations':{'k8s.io/initial-events-end':'true'}}}}"

/* Probes begin at once. */
ssize_t getrandom(void *buffer, size_t size, unsigned flags) {
        memset(buffer, 0, size);
        return (ssize_t) size;
}

static struct Fixture {
        PodContext context;
        Probes *probes;
        unsigned watch; /* the number of its call */
} f;

static void on_changed(void *userdata) {
}

/* Answers one question, if there is any. Returns whether there is. */
static bool serve(void) {
        KubeCall *call = fake_kube_find("GET", "/apis/apps.kruise.io");

        pod_server_serve();
        (void) sent_events_take();
        if (call && !strstr(call->request.path, "nodepodprobes")) {
                assert_ok(fake_kube_answer_call(call, 200,
                                                "{\"kind\":\"APIGroup\",\"resources\":["
                                                "{\"name\":\"nodepodprobes\"},"
                                                "{\"name\":\"nodepodprobes/status\"}]}"));
                return true;
        }
        if (call && call->number != f.watch && strstr(call->request.path, "watch=true")) {
                f.watch = call->number;
                assert_ok(fake_kube_accept(call));
                return true;
        }

        return fake_runtime_serve("ListContainers");
}

static void run(void) {
        if (!serve())
                assert_true(sd_event_run(f.context.event, WAIT_USEC) > 0);
}

static void show(const char *event) {
        cleanup(json_object_put_p) json_object *json = parse("%s", event);
        cleanup(free_p) char *line = NULL;

        assert_true(asprintf(&line, "%s\n", json_object_to_json_string(json)) > 0);
        assert_ok(fake_kube_send(fake_kube_call_of(f.watch), line, strlen(line)));
}

static const ShownPod pod = { .namespace = "d",
                              .uid = "p-1",
                              .containers = { { .name = "app", .container_id = "x://a1" } },
                              .n_containers = 1 };

static int set_up(void **state) {
        fake_runtime_reset();
        pod_server_reset();
        sent_events_reset();
        fake_kube_open();
        fake_runtime.containers[0] = (FakeContainer){
                .id = "a1", .name = "app", .namespace = "d", .uid = "p-1", .is_running = true
        };
        f = (struct Fixture){ .context = { .event = fake_kube.event,
                                           .client = &fake_kube,
                                           .runtimes = (Runtimes *) &fake_runtime,
                                           .metrics = metrics_for_test(),
                                           .events = events_of_agent(),
                                           .node_name = "node-1",
                                           .on_changed = on_changed } };
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.context.log));
        assert_ok(pods_new(&(PodsOptions){ .client = &fake_kube, .node_name = "node-1" },
                           &f.context.pods));
        pod_server_show(&pod);
        assert_ok(probes_new(&f.context, &f.probes));
        while (f.watch == 0)
                run();
        show(OBJECT("1", PROBE("a") "," PROBE("b")));
        show(LIST_END);
        while (fake_runtime_count("ExecSync") < 2)
                run();
        return 0;
}

static int tear_down(void **state) {
        assert_null(probes_free(f.probes));
        assert_int_equal(fake_runtime_n_calls(), 0);
        pods_free(f.context.pods);
        kube_events_free(f.context.events);
        metrics_free(f.context.metrics);
        log_free(f.context.log);
        fake_kube_close();
        return 0;
}

static void await_state(size_t i, ProbeState state) {
        const ProbeResult *result;

        while (!(result = probe_result(probes_get(f.probes, i))) || result->state != state)
                run();
}

/* Takes writes until one has these words. */
static const KubeRequest *await_write(const char *words) {
        KubeCall *call;

        while (!(call = fake_kube_find("PATCH", "/nodepodprobes/node-1/status")) ||
               !strstr(call->request.body, words))
                if (call)
                        assert_ok(fake_kube_answer_call(call, 200, "{}"));
                else
                        run();
        return &call->request;
}

TEST_SET_UP(test_results) {
        const KubeRequest *write;

        assert_int_equal(probes_count(f.probes), 2);
        fake_runtime_answer_exec(0, "fine", "");
        fake_runtime_answer_exec(1, "", "broken");
        await_state(0, PROBE_SUCCEEDED);
        await_state(1, PROBE_FAILED);
        write = await_write("\"fine\"");
        assert_contains(write->body, "\"podProbeStatuses\":[{\"namespace\":\"d\"");
        assert_contains(write->body, "\"Succeeded\"");
        assert_contains(write->body, "\"Failed\"");
        assert_contains(write->body, "\"broken\"");

        /* The container is gone, and so is what is known of it; the kubelet reports a change first. */
        fake_runtime.containers[0].id = NULL;
        pod_server_show(&pod);
        await_state(0, PROBE_UNKNOWN);
        assert_int_equal(probe_result(probes_get(f.probes, 1))->state, PROBE_UNKNOWN);
}

/* A probe that the object still names goes on. */
TEST_SET_UP(test_other_object) {
        const Probe *kept = probes_get(f.probes, 1);

        show(OBJECT("3", PROBE("b")));
        assert_int_equal(probes_count(f.probes), 1);
        assert_ptr_equal(probes_get(f.probes, 0), kept);
        assert_int_equal(fake_runtime_count("ExecSync"), 1);
        assert_string_equal(fake_runtime_find("ExecSync")->command, "b");
}

TEST_SET_UP(test_end) {
        assert_int_equal(fake_runtime_count("ExecSync"), 2);
        f.probes = probes_free(f.probes);
        assert_null(fake_runtime_find("ExecSync"));
}
