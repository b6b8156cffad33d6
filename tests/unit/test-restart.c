/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Restarts that a local caller requests, with a runtime and an API server that answer what the test says
 */

#include "agent/restart/restart-find.h"
#include "agent/restart/restart.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/kubelet-lease.h"
#include "tests/unit/pod-server.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/sent-events.h"
#include "tests/unit/unit.h"

#define INSPECT_USEC ((uint64_t) 250 * 1000)
#define MINUTE_USEC ((uint64_t) 60 * 1000000)
#define LEASE_USEC ((uint64_t) 500 * 1000) /* so long the kubelet is known to be there */
#define EXEC_HOOK "{\"exec\":{\"command\":[\"bye\"]}}"
#define TCP_HOOK "{\"tcpSocket\":{\"port\":1}}" /* a port on which no server listens */
#define LIST(...) ((const FakeContainer[]){ __VA_ARGS__, { .name = NULL } })

/* Reports so far, a line for each. */
static struct Reported {
        char text[4096];
        bool has_ended;
        ErrorKind kind;
        char message[256];
        Restart *restart;
} reported;

static int on_news(const RestartNews *news, void *userdata) {
        static const char *const phases[] = { "waiting", "stopping", "stopped", "running",
                                              "failed" };
        size_t size = strlen(reported.text);

        assert_false(reported.has_ended);
        snprintf(reported.text + size, sizeof(reported.text) - size, "%s/%s/%s %s%s %s>%s %s\n",
                 news->namespace, news->pod, news->container, phases[news->phase],
                 news->is_final ? "!" : "", news->old_id, news->new_id, news->message);
        return 0;
}

static int on_end(const Error *error, void *userdata) {
        assert_false(reported.has_ended);
        reported.has_ended = true;
        if (error) {
                reported.kind = error->kind;
                snprintf(reported.message, sizeof(reported.message), "%s", error_message(error));
        }
        reported.restart = restart_free(reported.restart);
        return 0;
}

static struct {
        Stops *stops;
        Pods *pods;
        Kubelet *kubelet;
        KubeEvents *events;
        char folder[32];
        ShownPod pod;
} world;

static const RestartOptions plain_options = {
        .owner = "request/1",
        .namespace = "",
        .pod = "web",
        .container = "",
        .reason = "",
        .grace_sec = STOP_GRACE_OF_POD,
        .on_news = on_news,
        .on_end = on_end,
};

static void turn(void) {
        pod_server_serve();
        fake_clock_turn(fake_kube.event);
}

static void start(const RestartOptions *options) {
        RestartOptions copy = *options;

        copy.event = fake_kube.event;
        copy.runtimes = (Runtimes *) &fake_runtime;
        copy.stops = world.stops;
        memset(&reported, 0, sizeof(reported));
        assert_ok(restart_new(&copy, &reported.restart));
        assert_false(reported.has_ended); /* not from within */
        turn();
}

static void assert_reported(const char *text) {
        assert_string_equal(reported.text, text);
        reported.text[0] = '\0';
}

/* The runtime has these containers, the younger ones last. */
static void have(const FakeContainer *containers) {
        memset(fake_runtime.containers, 0, sizeof(fake_runtime.containers));
        for (size_t i = 0; containers[i].name; i++) {
                assert_true(i < FAKE_CONTAINERS_MAX);
                fake_runtime.containers[i] = containers[i];
                fake_runtime.containers[i].created_at = 1000 + (int64_t) i;
        }
}

/* Finds the question about the containers of pods; NULL: there is none. */
static RpcCall *list_call(void) {
        for (size_t i = 0; i < fake_runtime.n_calls; i++) {
                RpcCall *call = &fake_runtime.calls[fake_runtime.order[i]];

                if (strcmp(call->method, "ListContainers") == 0 &&
                    strncmp(call->target, "id=", 3) != 0)
                        return call;
        }

        return NULL;
}

/* The runtime has these, and says so when the restart asks for them. */
static void list(const FakeContainer *containers) {
        RpcCall *call = list_call();

        have(containers);
        assert_non_null(call);
        assert_ok(fake_runtime_serve_list(call));
        turn();
}

static int compare_texts(const void *a, const void *b) {
        return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static void start_on(const RestartOptions *options, const FakeContainer *containers) {
        start(options);
        list(containers);
}

/* The containers whose stop begins, sorted: "id id". */
static const char *stopping(void) {
        const char *ids[FAKE_RUNTIME_CALLS_MAX];
        static char text[1024];
        size_t n = 0;

        for (size_t i = 0; i < FAKE_RUNTIME_CALLS_MAX; i++)
                if (fake_runtime.calls[i].is_running &&
                    strncmp(fake_runtime.calls[i].target, "id=", 3) == 0)
                        ids[n++] = fake_runtime.calls[i].target + 3;
        qsort(ids, n, sizeof(ids[0]), compare_texts);
        text[0] = '\0';
        for (size_t i = 0; i < n; i++) {
                if (i > 0)
                        strcat(text, " ");
                strcat(text, ids[i]);
        }
        return text;
}

/* Lets such a stop go on until the container's hook runs, or it is stopped. Returns whether that
 * took a kubelet. */
static bool begin_stop(const char *id) {
        bool needs_kubelet;
        char target[64];
        RpcCall *call = NULL;

        (void) snprintf(target, sizeof(target), "id=%s", id);
        for (size_t i = 0; i < FAKE_RUNTIME_CALLS_MAX; i++)
                if (fake_runtime.calls[i].is_running &&
                    strcmp(fake_runtime.calls[i].target, target) == 0)
                        call = &fake_runtime.calls[i];
        if (!call)
                fail_msg("%s is not stopped, but %s", id, stopping());

        fake_clock_pass(fake_kube.event, LEASE_USEC);
        assert_ok(fake_runtime_serve_list(call));
        turn();
        needs_kubelet = lease_call();
        if (needs_kubelet)
                lease_answer(KUBELET_ALIVE);
        turn();
        return needs_kubelet;
}

/* STOPPED, GONE or FAILED. */
static bool end_stop(const char *id, StopResult result) {
        bool needs_kubelet = begin_stop(id);
        FakeContainer *container = fake_runtime_container(id);

        if (result == STOP_GONE) {
                container->is_running = false;
                container->finished_at = 1;
        }
        for (size_t i = 0; i < 3 && result == STOP_FAILED; i++) {
                while (!fake_runtime_find("StopContainer")) {
                        fake_clock_skip(fake_kube.event);
                        turn();
                }
                fake_runtime_refuse("StopContainer", ERROR_INTERNAL, "the runtime said no");
                assert_true(fake_runtime_serve("ContainerStatus"));
                turn();
        }
        if (result != STOP_FAILED) {
                assert_string_equal(fake_runtime_find("StopContainer")->target, id);
                assert_true(fake_runtime_serve("StopContainer"));
                assert_true(fake_runtime_serve("ContainerStatus"));
        }
        turn();
        return needs_kubelet;
}

static void assert_killed(const char *path, const char *cause) {
        char expected[256];

        (void) snprintf(expected, sizeof(expected),
                        "Normal/Killing Pod/default/web/uid-1 spec.%s: %s", path, cause);
        if (!strstr(sent_events_take(), expected))
                fail_msg("%s is not in %s", expected, sent_events_take());
}

static int set_up(void **state) {
        StopsOptions options = { .state_dir = world.folder };

        memset(&world, 0, sizeof(world));
        fake_runtime_reset();
        pod_server_reset();
        sent_events_reset();
        fake_kube_open();
        scratch_make(world.folder);
        world.kubelet = kubelet_with_lease();
        world.events = events_of_agent();
        options.event = fake_kube.event;
        options.runtimes = (Runtimes *) &fake_runtime;
        options.kubelet = world.kubelet;
        options.events = world.events;
        assert_int_equal(stops_new(&options, &world.stops), 0);
        assert_ok(pods_new(&(PodsOptions){ .client = &fake_kube, .node_name = "node-1" },
                           &world.pods));
        return 0;
}

static int tear_down(void **state) {
        reported.restart = restart_free(reported.restart);
        stops_free(world.stops);
        scratch_remove(world.folder, "stops.json");
        pods_free(world.pods);
        kubelet_free(world.kubelet);
        kube_events_free(world.events);
        assert_null(fake_runtime_find(NULL));
        fake_clock_done();
        fake_kube_close();
        return 0;
}

TEST_F(test_nonsense_is_refused, void *state) {
        char *long_reason = calloc(1, 258);
        const struct {
                RestartQuestion question;
                const char *part; /* part of the message; NULL: it is fine */
        } rows[] = {
                { { "", "web", "", "", -1 }, NULL },
                { { "team", "web-0", "app", "new \xc3\xa4 secret", 0 }, NULL },
                { { "", "", "", "", -1 }, "the request names no pod" },
                { { "", "Web", "", "", -1 }, "\"Web\" cannot be the name of a pod" },
                { { "a b", "web", "", "", -1 }, "\"a b\" cannot be the name of a namespace" },
                { { "", "web", "../x", "", -1 }, "\"../x\" cannot be the name of a container" },
                { { "", "web", "", "one\ntwo", -1 }, "more than one line" },
                { { "", "web", "", "\x1b[2J", -1 }, "more than one line" },
                { { "", "web", "", "\x7f", -1 }, "more than one line" },
                { { "", "web", "", long_reason, -1 }, "more than 256 bytes" },
                { { "", "web", "", "", -2 }, "grace period" },
                { { "", "web", "", "", 24 * 3600 }, NULL },
                { { "", "web", "", "", 24 * 3600 + 1 }, "grace period" },
        };

        memset(long_reason, 'x', 257);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(error_done) Error error = ERROR_INIT;
                int r = restart_question_check(&rows[i].question, &error);

                assert_int_equal(r < 0, rows[i].part != NULL);
                if (!rows[i].part)
                        continue;
                assert_int_equal(error.kind, ERROR_INVALID);
                if (!strstr(error_message(&error), rows[i].part))
                        fail_msg("'%s' does not say %s", error_message(&error), rows[i].part);
        }

        free(long_reason);
}

TEST_F(test_nonsense_asks_no_runtime, void *state) {
        RestartOptions options = plain_options;

        options.reason = "one\ntwo";
        start(&options);
        assert_true(reported.has_ended);
        assert_int_equal(reported.kind, ERROR_INVALID);
        assert_int_equal(fake_runtime.n_begun, 0);
}

TEST_F(test_without_a_runtime, void *state) {
        fake_runtime.is_away = true;
        start(&plain_options);
        assert_int_equal(reported.kind, ERROR_UNAVAILABLE);
        assert_string_equal(reported.message, "nothing listens there");

        fake_runtime.is_away = false;
        start(&plain_options);
        fake_runtime_refuse("ListContainers", ERROR_UNAVAILABLE, "Socket closed");
        assert_int_equal(reported.kind, ERROR_UNAVAILABLE);
        assert_string_equal(reported.message, "the runtime cannot be asked: Socket closed");
        assert_int_equal(stops_n_running(world.stops), 0);
}

#define ENDED                                                                                \
        ": it has ended; if it is to run again, the kubelet starts it, at the latest after " \
        "its pause of 5 minutes"

TEST_F(test_nothing_runs, void *state) {
        RestartOptions options = plain_options;

        start(&options);
        assert_string_equal(list_call()->target, "io.kubernetes.pod.name=web");
        list(LIST({ "old", .name = "app" }));
        assert_int_equal(reported.kind, ERROR_NOT_FOUND);
        assert_string_equal(reported.message, "no container of pod web runs on this node" ENDED);

        options.namespace = "default";
        options.container = "db";
        start(&options);
        assert_string_equal(list_call()->target, "io.kubernetes.pod.name=web "
                                                 "io.kubernetes.pod.namespace=default");
        list(LIST({ "1", .name = "app", .is_running = true }));
        assert_int_equal(reported.kind, ERROR_NOT_FOUND);
        assert_string_equal(reported.message, "no container db of pod web runs on this node");

        start(&options);
        list(LIST({ "1", .name = "app", .is_running = true }, { "old", .name = "db" }));
        assert_int_equal(reported.kind, ERROR_NOT_FOUND);
        assert_string_equal(reported.message, "no container db of pod web runs on this node" ENDED);
        assert_int_equal(stops_n_running(world.stops), 0);
}

TEST_F(test_several_namespaces, void *state) {
        RestartOptions options = plain_options;

        start(&options);
        list(LIST({ "1", .namespace = "a", .uid = "u1", .name = "app", .is_running = true },
                  { "2", .namespace = "b", .uid = "u2", .name = "app", .is_running = true }));
        assert_int_equal(reported.kind, ERROR_INVALID);
        assert_string_equal(reported.message,
                            "there are pods web in the namespaces \"a\" and \"b\"; "
                            "name one of these namespaces");
        assert_int_equal(stops_n_running(world.stops), 0);

        options.namespace = "b";
        start(&options);
        list(LIST({ "1", .namespace = "a", .uid = "u1", .name = "app", .is_running = true },
                  { "2", .namespace = "b", .uid = "u2", .name = "app", .is_running = true }));
        assert_string_equal(stopping(), "2");
}

TEST_F(test_too_many_containers, void *state) {
        FakeContainer containers[RESTART_CONTAINERS_MAX + 2] = { { .name = NULL } };
        char names[RESTART_CONTAINERS_MAX + 1][8];

        for (size_t i = 0; i <= RESTART_CONTAINERS_MAX; i++) {
                snprintf(names[i], sizeof(names[i]), "c%zu", i);
                containers[i] =
                        (FakeContainer){ .id = names[i], .name = names[i], .is_running = true };
        }

        start(&plain_options);
        list(containers);
        assert_int_equal(reported.kind, ERROR_INVALID);
        assert_int_equal(stops_n_running(world.stops), 0);

        containers[RESTART_CONTAINERS_MAX].name = NULL;
        start(&plain_options);
        list(containers);
        assert_int_equal(stops_n_running(world.stops), RESTART_CONTAINERS_MAX);
}

/* The newest container of each name is stopped, unless it has ended. */
TEST_F(test_all_that_run_are_stopped, void *state) {
        RestartOptions options = plain_options;

        options.reason = "new secret";
        options.grace_sec = 7;
        start(&options);
        list(LIST({ "app-0", .name = "app" },
                  { "app-1", .name = "app", .pre_stop = EXEC_HOOK, .is_running = true },
                  { "db-0", .name = "db", .pre_stop = EXEC_HOOK, .is_running = true },
                  { "log-0", .name = "log" }));
        assert_reported("default/web/app waiting app-1> \ndefault/web/db waiting db-0> \n");
        assert_string_equal(stopping(), "app-1 db-0");

        /* This stop needs no kubelet either. */
        assert_false(begin_stop("app-1"));
        assert_reported("default/web/app stopping app-1> its preStop hook\n");
        assert_int_equal(fake_runtime_find("ExecSync")->timeout_sec, 7);
        assert_killed("containers{app}",
                      "Stopping container app: requested on the node: new secret\n");
        fake_runtime_answer_exec(0, "", "");
        turn();
        assert_string_equal(fake_runtime_find("StopContainer")->target, "app-1");
        assert_int_equal(fake_runtime_find("StopContainer")->timeout_sec, 7);
        assert_reported("default/web/app stopping app-1> \n");

        /* The other container ends by itself. */
        assert_false(begin_stop("db-0"));
        fake_runtime_answer_exec(1, "", "");
        turn();
        fake_runtime_container("db-0")->is_running = false;
        fake_runtime_container("db-0")->finished_at = 1;
        fake_runtime_container("app-1")->is_running = false;
        fake_runtime_container("app-1")->finished_at = INT64_MAX;
        fake_runtime_answer("StopContainer", &fake_runtime, NULL);
        assert_true(fake_runtime_serve("ContainerStatus"));
        assert_false(reported.has_ended);
        fake_runtime_answer("StopContainer", &fake_runtime, NULL);
        assert_true(fake_runtime_serve("ContainerStatus"));
        assert_reported("default/web/db stopping db-0> its preStop hook\n"
                        "default/web/db stopping db-0> \n"
                        "default/web/app stopped! app-1> \n"
                        "default/web/db stopped! db-0> it had ended already; Exec lifecycle hook "
                        "([bye]): the command exited with status 1\n");
        assert_true(reported.has_ended);
        assert_int_equal(reported.kind, ERROR_NONE);
        assert_true(stops_has_stopped(world.stops, "request/1", "app-1"));
        assert_false(stops_has_stopped(world.stops, "request/1", "db-0"));
}

/* While the runtime is away it waits. */
TEST_F(test_the_runtime_goes_away, void *state) {
        start(&plain_options);
        list(LIST({ "1", .name = "app", .is_running = true }));
        reported.text[0] = '\0';
        fake_runtime.is_away = true;
        fake_runtime_refuse("ListContainers", ERROR_UNAVAILABLE, "Socket closed");
        assert_reported("default/web/app waiting 1> the container runtime does not answer\n");
        fake_runtime.is_away = false;
        assert_int_equal(stops_runtime_changed(world.stops), 0);
        turn();
        end_stop("1", STOP_STOPPED);
        assert_reported("default/web/app waiting 1> \n"
                        "default/web/app stopping 1> \n"
                        "default/web/app stopped! 1> \n");
}

TEST_F(test_a_stop_that_fails, void *state) {
        RestartOptions options = plain_options;

        options.must_wait = true;
        start(&options);
        list(LIST({ "1", .name = "app", .is_running = true }));
        assert_true(end_stop("1", STOP_FAILED));
        assert_killed("containers{app}", "Stopping container app: requested on the node\n");
        assert_reported("default/web/app waiting 1> \n"
                        "default/web/app stopping 1> \n"
                        "default/web/app stopping 1> the runtime said no\n"
                        "default/web/app failed! 1> the runtime said no\n");
        assert_true(reported.has_ended);
        assert_int_equal(reported.kind, ERROR_NONE);
}

static void start_waiting(const RestartOptions *options, const FakeContainer *containers) {
        start(options);
        list(containers);
        for (; containers->name; containers++)
                end_stop(containers->id, STOP_STOPPED);
        assert_false(reported.has_ended);
        reported.text[0] = '\0';
}

static void pass(uint64_t usec) {
        fake_clock_pass(fake_kube.event, usec);
        turn();
}

/* Without an API server the runtime is asked until another container runs. */
TEST_F(test_waits_for_the_runtime, void *state) {
        RestartOptions options = plain_options;

        options.must_wait = true;
        start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
        pass(INSPECT_USEC - 1);
        assert_null(list_call());
        pass(1);
        list(LIST({ "1", .name = "app", .is_running = true })); /* not known to have ended */
        pass(INSPECT_USEC - 1);
        assert_null(list_call());
        pass(1);
        fake_runtime_refuse("ListContainers", ERROR_UNAVAILABLE, "Socket closed");
        fake_runtime.is_away = true;
        pass(INSPECT_USEC);
        assert_null(list_call());
        fake_runtime.is_away = false;
        pass(INSPECT_USEC);
        pass(INSPECT_USEC); /* still the same call */
        assert_int_equal(fake_runtime_count("ListContainers"), 1);
        list(LIST({ "1", .name = "app" }, { "2", .name = "app" }));
        pass(INSPECT_USEC);
        list(LIST({ "9", .uid = "other", .name = "app", .is_running = true }));
        pass(INSPECT_USEC);
        assert_reported("");
        list(LIST({ "1", .name = "app" }, { "3", .name = "app", .is_running = true }));
        assert_reported("default/web/app running! 1>3 \n");
        assert_true(reported.has_ended);
}

TEST_F(test_waits_as_long_as_asked, void *state) {
        static const struct {
                int64_t seconds;
                const char *words;
        } rows[] = {
                { 1, "1 s" },       { 119, "119 s" },        { 120, "2 minutes" },
                { 1801, "1801 s" }, { 7200, "120 minutes" }, { INT32_MAX, "2147483647 s" },
        };
        RestartOptions options = plain_options;

        options.must_wait = true;
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char expected[128];

                options.wait_sec = rows[i].seconds;
                start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
                fake_clock_jump(fake_kube.event, (uint64_t) rows[i].seconds * 1000000 - 1);
                assert_reported("");
                pass(INSPECT_USEC);
                snprintf(expected, sizeof(expected),
                         "default/web/app failed! 1> it did not run again within %s\n",
                         rows[i].words);
                assert_reported(expected);
                assert_true(reported.has_ended);
                assert_int_equal(stops_forget(world.stops, "request/1", "1"), 0);
        }
}

TEST_F(test_waits_no_longer_than_bearable, void *state) {
        RestartOptions options = plain_options;

        options.must_wait = true;
        start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
        pass(10 * MINUTE_USEC - 1);
        assert_reported("");
        pass(1);
        assert_reported("default/web/app failed! 1> it did not run again within 10 minutes\n");
        assert_true(reported.has_ended);
        assert_int_equal(reported.kind, ERROR_NONE);
}

/* A pod of the API server, with a main container, one that is not started again, a sidecar and an init
 * container. is_synced: the watch has shown all that there is. */
static ShownContainer *know_as(bool is_synced) {
        static const ShownPod pod = {
                .uid = "api-uid",
                .runtime_uid = "uid-1",
                .ip = "127.0.0.1",
                .containers = { { .name = "app" },
                                { .name = "job", .restart_policy = "Never" },
                                { .name = "side", .kind = POD_CONTAINER_SIDECAR },
                                { .name = "init",
                                  .restart_policy = "Never",
                                  .kind = POD_CONTAINER_INIT } },
                .n_containers = 4,
        };

        pod_server.is_slow = !is_synced;
        world.pod = pod;
        pod_server_show(&world.pod);
        turn();
        return world.pod.containers;
}

static ShownContainer *know(void) {
        return know_as(true);
}

/* The pod has changed. */
static void change(void) {
        pod_server_show(&world.pod);
        turn();
}

static void know_uid(const char *runtime_uid) {
        world.pod.runtime_uid = runtime_uid;
        change();
}

static RestartOptions cluster_options(bool must_wait) {
        RestartOptions options = plain_options;

        options.pods = world.pods;
        options.must_wait = must_wait;
        return options;
}

/* A hook goes to the address that the API server has of the pod. */
TEST_F(test_init_containers_are_left_alone_unless_named, void *state) {
        const FakeContainer *containers =
                LIST({ "a", .name = "app", .pre_stop = TCP_HOOK, .is_running = true },
                     { "i", .name = "init", .is_running = true },
                     { "s", .name = "side", .is_running = true });
        RestartOptions options = cluster_options(false);

        know();
        start_on(&options, containers);
        assert_string_equal(stopping(), "a");
        assert_true(end_stop("a", STOP_STOPPED));
        assert_int_equal(fake_runtime_n_asked("PodSandboxStatus"), 0);
        assert_killed("containers{app}", "Stopping container app");
        assert_string_equal(stopping(), "s");
        assert_true(end_stop("s", STOP_STOPPED));
        assert_killed("initContainers{side}", "Stopping container side");
        assert_true(reported.has_ended);

        options.container = "init";
        start_on(&options, containers);
        assert_string_equal(stopping(), "i");
        end_stop("i", STOP_STOPPED);
        assert_killed("initContainers{init}", "Stopping container init");
}

/* A debug container is in no spec the agent knows, and nothing starts it again. */
TEST_F(test_debug_containers_are_left_alone_unless_named, void *state) {
        const FakeContainer *containers = LIST({ "a", .name = "app", .is_running = true },
                                               { "d", .name = "debugger", .is_running = true });
        RestartOptions options = cluster_options(true);

        know();
        start_on(&options, containers);
        assert_string_equal(stopping(), "a");
        reported.restart = restart_free(reported.restart);
        assert_string_equal(stopping(), "");

        start(&options);
        list(LIST({ "d", .name = "debugger", .is_running = true }));
        assert_int_equal(reported.kind, ERROR_NOT_FOUND);
        assert_string_equal(stopping(), "");

        options.container = "debugger";
        start_on(&options, containers);
        assert_string_equal(stopping(), "d");
        reported.text[0] = '\0';
        assert_false(end_stop("d", STOP_STOPPED));
        assert_reported(
                "default/web/debugger stopping d> \n"
                "default/web/debugger stopped! d> nothing starts it again: it is not in the "
                "pod's spec, as debug containers are not\n");
        assert_true(reported.has_ended);

        /* Where nothing more is known of the pod, all containers are meant. */
        know_uid("uid-2");
        options.container = "";
        start_on(&options, containers);
        assert_string_equal(stopping(), "a d");
}

static const ShownPod with_sidecars = {
        .uid = "api-uid",
        .runtime_uid = "uid-1",
        .ip = "127.0.0.1",
        .containers = { { .name = "app" },
                        { .name = "db" },
                        { .name = "first", .kind = POD_CONTAINER_SIDECAR },
                        { .name = "prepare", .kind = POD_CONTAINER_INIT },
                        { .name = "second", .kind = POD_CONTAINER_SIDECAR } },
        .n_containers = 5,
};

static const FakeContainer runs_with_sidecars[] = {
        { "1", .name = "first", .is_running = true },
        { "2", .name = "second", .pre_stop = TCP_HOOK, .is_running = true },
        { "a", .name = "app", .is_running = true },
        { "d", .name = "db", .is_running = true },
        { .name = NULL },
};

static void start_with_sidecars(const char *container) {
        RestartOptions options = cluster_options(false);

        world.pod = with_sidecars;
        change();
        options.container = container;
        start(&options);
        list(runs_with_sidecars);
}

/* A container has its turn after any end of those before, and in any order of the runtime's list. */
TEST_F(test_sidecars_come_last, void *state) {
        start_with_sidecars("");
        assert_string_equal(stopping(), "a d");
        assert_reported(
                "default/web/app waiting a> \n"
                "default/web/db waiting d> \n"
                "default/web/first waiting 1> it is stopped after the containers that it serves\n"
                "default/web/second waiting 2> it is stopped after the containers that it "
                "serves\n");
        end_stop("d", STOP_STOPPED);
        assert_string_equal(stopping(), "a");
        end_stop("a", STOP_FAILED);
        assert_string_equal(stopping(), "2");
        assert_true(end_stop("2", STOP_GONE));
        assert_int_equal(fake_runtime_n_asked("PodSandboxStatus"), 0);
        assert_killed("initContainers{second}", "Stopping container second");
        assert_string_equal(stopping(), "1");
        assert_false(reported.has_ended);
        end_stop("1", STOP_STOPPED);
        assert_true(reported.has_ended);
}

/* A container that is named alone waits for no other. */
TEST_F(test_a_sidecar_alone, void *state) {
        start_with_sidecars("first");
        assert_string_equal(stopping(), "1");
        end_stop("1", STOP_STOPPED);
        assert_true(reported.has_ended);
        assert_string_equal(stopping(), "");
}

/* The caller goes while a sidecar has its turn: stops that have not begun are dropped. */
TEST_F(test_freed_before_a_sidecar, void *state) {
        start_with_sidecars("");
        end_stop("a", STOP_STOPPED);
        reported.restart = restart_free(reported.restart);
        assert_int_equal(stops_n_running(world.stops), 0);
        turn();
        assert_string_equal(stopping(), "");
}

/* While the API server is away, its last answer counts, as long as that pod is here. */
TEST_F(test_knows_what_was_known_last, void *state) {
        const FakeContainer *containers = LIST({ "i", .name = "init", .is_running = true },
                                               { "j", .name = "job", .is_running = true },
                                               { "s", .name = "side", .is_running = true },
                                               { "x", .name = "debug", .is_running = true });
        RestartOptions options = cluster_options(false);

        know_as(false);
        assert_false(pods_are_synced(world.pods));
        start_on(&options, containers);
        assert_string_equal(stopping(), "j");
        reported.text[0] = '\0';
        assert_false(end_stop("j", STOP_STOPPED));
        assert_string_equal(stopping(), "s");
        assert_reported("default/web/job stopping j> \n"
                        "default/web/job stopped! j> nothing starts it again: restartPolicy Never\n"
                        "default/web/side waiting s> \n");
        assert_true(end_stop("s", STOP_STOPPED));
        assert_true(reported.has_ended);

        know_uid("uid-0");
        start_on(&options, containers);
        assert_string_equal(stopping(), "i j s x");
}

TEST_F(test_what_does_not_come_back, void *state) {
        RestartOptions options = cluster_options(true);

        know();
        options.container = "job";
        start(&options);
        list(LIST({ "j", .name = "job", .is_running = true }));
        reported.text[0] = '\0';
        assert_false(end_stop("j", STOP_STOPPED));
        assert_reported(
                "default/web/job stopping j> \n"
                "default/web/job stopped! j> nothing starts it again: restartPolicy Never\n");
        assert_true(reported.has_ended);
}

/* A container that may come back is not stopped while no kubelet works, whether or not the caller waits. */
TEST_F(test_what_comes_back_in_some_cases, void *state) {
        for (int must_wait = 0; must_wait < 2; must_wait++) {
                RestartOptions options = cluster_options(must_wait);

                know()->restart_policy = "OnFailure";
                change();
                options.container = "app";
                start_on(&options, LIST({ "a", .name = "app", .is_running = true }));
                reported.text[0] = '\0';
                assert_true(end_stop("a", STOP_STOPPED));
                assert_reported("default/web/app stopping a> \n"
                                "default/web/app stopped! a> it is started again only in some "
                                "cases: restartPolicy OnFailure\n");
                assert_true(reported.has_ended);
                assert_int_equal(stops_forget(world.stops, "request/1", "a"), 0);
        }
}

/* An evicted pod has finished, although a container of it may still run. */
TEST_F(test_a_finished_pod, void *state) {
        RestartOptions options = cluster_options(true);

        know();
        world.pod.is_finished = true;
        change();
        options.container = "app";
        start_on(&options, LIST({ "a", .name = "app", .is_running = true }));
        reported.text[0] = '\0';
        assert_false(end_stop("a", STOP_STOPPED));
        assert_reported("default/web/app stopping a> \n"
                        "default/web/app stopped! a> nothing starts it again: the pod has "
                        "finished\n");
        assert_true(reported.has_ended);
}

/* The sidecar does not wait for the container that is not stopped. */
TEST_F(test_restart_rules, void *state) {
        RestartOptions options = cluster_options(false);

        know()[0].restart_rule = "RestartAllContainers";
        change();
        start(&options);
        list(LIST({ "a", .name = "app", .is_running = true },
                  { "s", .name = "side", .is_running = true }));
        assert_string_equal(stopping(), "s");
        assert_true(end_stop("s", STOP_STOPPED));
        assert_true(reported.has_ended);

        options.container = "app";
        start(&options);
        list(LIST({ "a", .name = "app", .is_running = true }));
        assert_reported("default/web/app failed! a> not stopped: by its exit status, its restart "
                        "rules may end it or restart other containers\n");
        assert_string_equal(stopping(), "");
        assert_true(reported.has_ended);
}

/* The status is older than the stop, then of a container that does not run yet, then of one that is
 * not ready yet. */
TEST_F(test_waits_for_the_api_server, void *state) {
        const RestartOptions options = cluster_options(true);
        ShownContainer *app = know();

        app->container_id = "containerd://0";
        app->restart_count = 2;
        app->is_running = app->is_ready = true;
        change();
        start_waiting(&options,
                      LIST({ "1", .name = "app", .restart_count = 3, .is_running = true }));
        pass(INSPECT_USEC);
        assert_null(list_call()); /* the runtime is not asked */

        app->container_id = "containerd://1";
        app->restart_count = 3;
        change();
        app->container_id = "containerd://2";
        app->restart_count = 4;
        app->is_running = app->is_ready = false;
        change();
        app->is_running = true;
        change();
        assert_reported("");
        app->is_ready = true;
        change();
        assert_reported("default/web/app running! 1>2 \n");
        assert_true(reported.has_ended);

        /* Later changes of the pod do not matter. */
        app->container_id = "containerd://3";
        change();
        assert_reported("");
}

TEST_F(test_runs_but_is_never_ready, void *state) {
        const RestartOptions options = cluster_options(true);
        ShownContainer *app = know();

        start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
        app->container_id = "containerd://2";
        app->restart_count = 1;
        app->is_running = true;
        app->is_ready = false;
        change();
        pass(10 * MINUTE_USEC);
        assert_reported("default/web/app failed! 1> it runs again, but was not ready within 10 "
                        "minutes\n");
}

/* The watch breaks off, so the runtime decides. */
TEST_F(test_the_api_server_goes_away, void *state) {
        const RestartOptions options = cluster_options(true);

        know();
        start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
        while (pods_are_synced(world.pods)) {
                while (!fake_kube_find("GET", "/api/v1/pods?"))
                        fake_clock_skip(fake_kube.event);
                assert_ok(fake_kube_answer_call(fake_kube_find("GET", "/api/v1/pods?"), 503, ""));
        }
        list(LIST({ "2", .name = "app", .is_running = true }));
        assert_reported("default/web/app running! 1>2 \n");
        assert_true(reported.has_ended);
}

TEST_F(test_the_pod_goes_away, void *state) {
        const FakeContainer *containers = LIST({ "1", .name = "app", .is_running = true });
        const RestartOptions options = cluster_options(true);

        know();
        start_waiting(&options, containers);
        world.pod.is_deleted = true;
        change();
        assert_reported("default/web/app failed! 1> nothing starts it again: the pod is being "
                        "deleted\n");

        know();
        assert_int_equal(stops_forget(world.stops, "request/1", "1"), 0);
        start_waiting(&options, containers);
        world.pod.is_finished = true;
        change();
        assert_reported("default/web/app failed! 1> nothing starts it again: the pod has "
                        "finished\n");

        know();
        assert_int_equal(stops_forget(world.stops, "request/1", "1"), 0);
        start_waiting(&options, containers);
        pod_server_hide(&world.pod);
        turn();
        assert_reported("default/web/app failed! 1> nothing starts it again: the pod is gone\n");

        know();
        assert_int_equal(stops_forget(world.stops, "request/1", "1"), 0);
        start_waiting(&options, containers);
        know_uid("uid-2"); /* another one under its name */
        assert_reported("default/web/app failed! 1> nothing starts it again: the pod is gone\n");
        assert_true(reported.has_ended);
}

/* A pod that was made anew under its name while the first is still ending. */
TEST_F(test_the_pod_of_today, void *state) {
        const FakeContainer *containers =
                LIST({ "new", .uid = "uid-2", .name = "app", .is_running = true },
                     { "old", .uid = "uid-1", .name = "app", .is_running = true });
        const FakeContainer *reversed =
                LIST({ "old", .uid = "uid-1", .name = "app", .is_running = true },
                     { "new", .uid = "uid-2", .name = "app", .is_running = true });
        RestartOptions options = cluster_options(false);

        know();
        know_uid("uid-2");
        start_on(&options, containers);
        assert_string_equal(stopping(), "new");

        reported.restart = restart_free(reported.restart);
        options.pods = NULL; /* then the younger one it is */
        start_on(&options, containers);
        assert_string_equal(stopping(), "old");

        reported.restart = restart_free(reported.restart);
        start_on(&options, reversed);
        assert_string_equal(stopping(), "new");
}

TEST_F(test_freed_at_any_time, void *state) {
        RestartOptions options = cluster_options(true);

        know();
        memset(&reported, 0, sizeof(reported));
        options.event = fake_kube.event;
        assert_ok(restart_new(&options, &reported.restart));
        reported.restart = restart_free(reported.restart);
        turn();
        assert_null(fake_runtime_find(NULL));

        start(&options);
        assert_non_null(list_call());
        reported.restart = restart_free(reported.restart);
        assert_null(fake_runtime_find(NULL));

        start(&options);
        list(LIST({ "1", .name = "app", .is_running = true },
                  { "2", .name = "job", .is_running = true }));
        end_stop("1", STOP_STOPPED);
        assert_int_equal(stops_n_running(world.stops), 1);
        reported.restart = restart_free(reported.restart);
        assert_int_equal(stops_n_running(world.stops), 0);
        world.pod.is_deleted = true;
        change();
        assert_false(reported.has_ended);
}
