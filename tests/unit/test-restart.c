/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Restarts that a local caller requests
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/restart/restart-find.h"
#include "agent/restart/restart.h"
#include "tests/unit/restart-fake.h"

#define INSPECT_USEC ((uint64_t) 250 * 1000)
#define MINUTE_USEC ((uint64_t) 60 * 1000000)
#define LIST(...) ((const FakeContainer[]){ __VA_ARGS__, { .name = NULL } })

/* What was reported, a line for each. */
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

static void start(const RestartOptions *options) {
        RestartOptions copy = *options;

        copy.event = fake.event;
        memset(&reported, 0, sizeof(reported));
        assert_int_equal(restart_new(&copy, &reported.restart), 0);
        assert_false(reported.has_ended); /* not from within */
        assert_true(sd_event_run(fake.event, 0) > 0);
}

static void assert_reported(const char *text) {
        assert_string_equal(reported.text, text);
        reported.text[0] = '\0';
}

static void step(size_t i, StopStep step, const char *message) {
        const StopOptions *options = &fake.stops[i].options;

        assert_int_equal(options->on_step(&fake.stops[i], step, message, options->userdata), 0);
}

static void end_stop(size_t i, const StopReport *report) {
        const StopOptions *options = &fake.stops[i].options;

        assert_int_equal(options->on_done(report, options->userdata), 0);
}

static int set_up(void **state) {
        fake_set_up();
        return 0;
}

static int tear_down(void **state) {
        reported.restart = restart_free(reported.restart);
        fake_tear_down();
        return 0;
}

static void test_nonsense_is_refused(void **state) {
        char *long_reason = calloc(1, 258);
        const struct {
                RestartQuestion question;
                const char *part; /* of the message; NULL: it is fine */
        } rows[] = {
                { { "", "web", "", "", -1 }, NULL },
                { { "team", "web-0", "app", "new \xc3\xa4 secret", 0 }, NULL },
                { { "", "", "", "", -1 }, "no pod is named" },
                { { "", "Web", "", "", -1 }, "no pod can be called \"Web\"" },
                { { "a b", "web", "", "", -1 }, "no namespace can be called \"a b\"" },
                { { "", "web", "../x", "", -1 }, "no container can be called \"../x\"" },
                { { "", "web", "", "one\ntwo", -1 }, "more than one line" },
                { { "", "web", "", "\x1b[2J", -1 }, "more than one line" },
                { { "", "web", "", "\x7f", -1 }, "more than one line" },
                { { "", "web", "", long_reason, -1 }, "more than 256 bytes" },
                { { "", "web", "", "", -2 }, "grace period" },
                { { "", "web", "", "", 24 * 3600 }, NULL },
                { { "", "web", "", "", 24 * 3600 + 1 }, "grace period" },
        };

        memset(long_reason, 'x', 257);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
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

static void test_nonsense_asks_no_runtime(void **state) {
        RestartOptions options = plain_options;

        options.reason = "one\ntwo";
        start(&options);
        assert_true(reported.has_ended);
        assert_int_equal(reported.kind, ERROR_INVALID);
        assert_int_equal(fake.n_calls, 0);
}

static void test_without_a_runtime(void **state) {
        fake.is_away = true;
        start(&plain_options);
        assert_int_equal(reported.kind, ERROR_UNAVAILABLE);
        assert_string_equal(reported.message, "nothing listens there");

        fake.is_away = false;
        start(&plain_options);
        assert_int_equal(fake_refuse(ERROR_UNAVAILABLE, "Socket closed"), 0);
        assert_int_equal(reported.kind, ERROR_UNAVAILABLE);
        assert_string_equal(reported.message, "Socket closed");
        assert_int_equal(fake.n_stops, 0);
}

static void test_nothing_runs(void **state) {
        RestartOptions options = plain_options;

        start(&options);
        assert_string_equal(fake.call->labels, "io.kubernetes.pod.name=web");
        fake_list(LIST({ "old", .name = "app" }));
        assert_int_equal(reported.kind, ERROR_NOT_FOUND);
        assert_string_equal(reported.message, "no container of pod web runs on this node");

        options.namespace = "default";
        options.container = "db";
        start(&options);
        assert_string_equal(fake.call->labels, "io.kubernetes.pod.name=web "
                                               "io.kubernetes.pod.namespace=default");
        fake_list(LIST({ "1", .name = "app", .is_running = true }));
        assert_int_equal(reported.kind, ERROR_NOT_FOUND);
        assert_string_equal(reported.message, "no container db of pod web runs on this node");
        assert_int_equal(fake.n_stops, 0);
}

static void test_several_namespaces(void **state) {
        RestartOptions options = plain_options;

        start(&options);
        fake_list(LIST({ "1", .namespace = "a", .uid = "u1", .name = "app", .is_running = true },
                       { "2", .namespace = "b", .uid = "u2", .name = "app", .is_running = true }));
        assert_int_equal(reported.kind, ERROR_INVALID);
        assert_string_equal(reported.message,
                            "there are pods web in the namespaces \"a\" and \"b\"; "
                            "name one of these as well");
        assert_int_equal(fake.n_stops, 0);

        options.namespace = "b";
        start(&options);
        fake_list(LIST({ "1", .namespace = "a", .uid = "u1", .name = "app", .is_running = true },
                       { "2", .namespace = "b", .uid = "u2", .name = "app", .is_running = true }));
        assert_int_equal(fake.n_stops, 1);
        assert_string_equal(fake.stops[0].options.container_id, "2");
}

static void test_too_many_containers(void **state) {
        FakeContainer containers[RESTART_CONTAINERS_MAX + 2] = { { .name = NULL } };
        char names[RESTART_CONTAINERS_MAX + 1][8];

        for (size_t i = 0; i <= RESTART_CONTAINERS_MAX; i++) {
                snprintf(names[i], sizeof(names[i]), "c%zu", i);
                containers[i] =
                        (FakeContainer){ .id = names[i], .name = names[i], .is_running = true };
        }

        start(&plain_options);
        fake_list(containers);
        assert_int_equal(reported.kind, ERROR_INVALID);
        assert_int_equal(fake.n_stops, 0);

        containers[RESTART_CONTAINERS_MAX].name = NULL;
        start(&plain_options);
        fake_list(containers);
        assert_int_equal(fake.n_stops, RESTART_CONTAINERS_MAX);
}

/* Of each name the newest; one that has ended is not stopped. */
static void test_all_that_run_are_stopped(void **state) {
        RestartOptions options = plain_options;

        options.reason = "new secret";
        options.grace_sec = 7;
        start(&options);
        fake_list(LIST({ "app-0", .name = "app" }, { "app-1", .name = "app", .is_running = true },
                       { "db-0", .name = "db", .is_running = true }, { "log-0", .name = "log" }));
        assert_reported("default/web/app waiting app-1> \ndefault/web/db waiting db-0> \n");
        assert_int_equal(fake.n_stops, 2);
        for (size_t i = 0; i < 2; i++) {
                const StopOptions *stop = &fake.stops[i].options;

                assert_string_equal(stop->owner, "request/1");
                assert_null(stop->runtime);
                assert_int_equal(stop->grace_sec, 7);
                assert_false(stop->needs_kubelet);
                assert_null(stop->on_check);
        }
        assert_string_equal(fake.stops[0].options.container_id, "app-1");
        assert_string_equal(fake.stops[0].options.cause,
                            "Stopping container app: requested on the node: new secret");

        step(0, STOP_STEP_QUEUED, NULL);
        step(0, STOP_STEP_WAITING_FOR_RUNTIME, "it is away");
        step(0, STOP_STEP_HOOK, NULL);
        step(0, STOP_STEP_STOPPING, NULL);
        step(1, STOP_STEP_STOPPING, NULL);
        assert_reported("default/web/app waiting app-1> it is away\n"
                        "default/web/app stopping app-1> its preStop hook\n"
                        "default/web/app stopping app-1> \n"
                        "default/web/db stopping db-0> \n");

        end_stop(1, &(StopReport){ .result = STOP_GONE, .hook_message = "exit status 1" });
        assert_reported("default/web/db stopped! db-0> it had ended by itself; exit status 1\n");
        assert_false(reported.has_ended);
        end_stop(0, &(StopReport){ .result = STOP_STOPPED });
        assert_reported("default/web/app stopped! app-1> \n");
        assert_true(reported.has_ended);
        assert_int_equal(reported.kind, ERROR_NONE);
}

static void test_a_stop_that_fails(void **state) {
        RestartOptions options = plain_options;

        options.must_wait = true;
        start(&options);
        fake_list(LIST({ "1", .name = "app", .is_running = true }));
        assert_string_equal(fake.stops[0].options.cause,
                            "Stopping container app: requested on the node");
        assert_true(fake.stops[0].options.needs_kubelet);
        reported.text[0] = '\0';
        end_stop(0, &(StopReport){ .result = STOP_FAILED, .message = "the runtime said no" });
        assert_reported("default/web/app failed! 1> the runtime said no\n");
        assert_true(reported.has_ended);
        assert_int_equal(reported.kind, ERROR_NONE);
}

static void start_waiting(const RestartOptions *options, const FakeContainer *containers) {
        start(options);
        fake_list(containers);
        for (size_t i = 0; i < fake.n_stops; i++)
                end_stop(i, &(StopReport){ .result = STOP_STOPPED });
        assert_false(reported.has_ended);
        reported.text[0] = '\0';
}

/* Without an API server the runtime is asked until another container runs. */
static void test_waits_for_the_runtime(void **state) {
        RestartOptions options = plain_options;

        options.must_wait = true;
        start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
        assert_int_equal(fake.timer_usec, INSPECT_USEC);
        fake_pass(INSPECT_USEC);
        assert_int_equal(fake.timer_usec, INSPECT_USEC);
        fake_list(LIST({ "1", .name = "app", .is_running = true })); /* not known to have ended */
        fake_pass(INSPECT_USEC);
        fake_refuse(ERROR_UNAVAILABLE, "Socket closed");
        fake.is_away = true;
        fake_pass(INSPECT_USEC);
        assert_null(fake.call);
        fake.is_away = false;
        fake_pass(INSPECT_USEC);
        fake_pass(INSPECT_USEC); /* still the same call */
        fake_list(LIST({ "1", .name = "app" }, { "2", .name = "app" }));
        fake_pass(INSPECT_USEC);
        fake_list(LIST({ "9", .uid = "other", .name = "app", .is_running = true }));
        fake_pass(INSPECT_USEC);
        assert_reported("");
        fake_list(LIST({ "1", .name = "app" }, { "3", .name = "app", .is_running = true }));
        assert_reported("default/web/app running! 1>3 \n");
        assert_true(reported.has_ended);
}

static void test_waits_as_long_as_asked(void **state) {
        static const struct {
                int64_t seconds;
                const char *words;
        } rows[] = {
                { 1, "1 s" },       { 119, "119 s" },        { 120, "2 minutes" },
                { 1801, "1801 s" }, { 7200, "120 minutes" }, { INT32_MAX, "2147483647 s" },
        };
        RestartOptions options = plain_options;

        options.must_wait = true;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char expected[128];

                options.wait_sec = rows[i].seconds;
                start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
                fake_pass((uint64_t) rows[i].seconds * 1000000 - 1);
                assert_reported("");
                fake_pass(1);
                snprintf(expected, sizeof(expected),
                         "default/web/app failed! 1> it did not run again within %s\n",
                         rows[i].words);
                assert_reported(expected);
                assert_true(reported.has_ended);
                fake_forget_stops();
        }
}

static void test_waits_no_longer_than_bearable(void **state) {
        RestartOptions options = plain_options;

        options.must_wait = true;
        start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
        fake_pass(10 * MINUTE_USEC - 1);
        assert_reported("");
        fake_pass(1);
        assert_reported("default/web/app failed! 1> it did not run again within 10 minutes\n");
        assert_true(reported.has_ended);
        assert_int_equal(reported.kind, ERROR_NONE);
}

/* A pod of the API server, with a main container, one that is not started again, and an init
 * container. */
static PodContainer known_containers[] = {
        { .name = (char *) "app",
          .kind = POD_CONTAINER_MAIN,
          .comes_back = true,
          .restart_policy = (char *) "Always" },
        { .name = (char *) "job", .kind = POD_CONTAINER_MAIN, .restart_policy = (char *) "Never" },
        { .name = (char *) "side",
          .kind = POD_CONTAINER_SIDECAR,
          .comes_back = true,
          .restart_policy = (char *) "Always" },
        { .name = (char *) "init", .kind = POD_CONTAINER_INIT, .restart_policy = (char *) "Never" },
};

static Pod known;

static PodContainer *know(void) {
        known = (Pod){
                .namespace = (char *) "default",
                .name = (char *) "web",
                .uid = (char *) "api-uid",
                .runtime_uid = (char *) "uid-1",
                .ip = (char *) "10.0.0.7",
                .containers = known_containers,
                .n_containers = 4,
        };
        for (size_t i = 0; i < known.n_containers; i++)
                known_containers[i].container_id = (char *) "";
        fake.pods[0] = &known;
        fake.n_pods = 1;
        fake.is_synced = true;
        return known_containers;
}

static RestartOptions cluster_options(bool must_wait) {
        RestartOptions options = plain_options;

        options.pods = (Pods *) &fake;
        options.must_wait = must_wait;
        return options;
}

static void test_init_containers_are_left_alone_unless_named(void **state) {
        const FakeContainer *containers = LIST({ "a", .name = "app", .is_running = true },
                                               { "i", .name = "init", .is_running = true },
                                               { "s", .name = "side", .is_running = true });
        RestartOptions options = cluster_options(false);

        know();
        start(&options);
        fake_list(containers);
        end_stop(0, &(StopReport){ .result = STOP_STOPPED });
        assert_int_equal(fake.n_stops, 2);
        assert_string_equal(fake.stops[0].options.container_id, "a");
        assert_string_equal(fake.stops[0].options.pod_address, "10.0.0.7");
        assert_true(fake.stops[0].options.needs_kubelet);
        assert_string_equal(fake.stops[1].options.container_id, "s");
        assert_false(fake.stops[0].options.is_init);
        assert_true(fake.stops[1].options.is_init);

        reported.restart = restart_free(reported.restart);
        options.container = "init";
        start(&options);
        fake_list(containers);
        assert_int_equal(fake.n_stops, 3);
        assert_string_equal(fake.stops[2].options.container_id, "i");
        assert_true(fake.stops[2].options.is_init);
}

/* A debug container is in no spec the agent knows, and nothing starts it again. */
static void test_debug_containers_are_left_alone_unless_named(void **state) {
        const FakeContainer *containers = LIST({ "a", .name = "app", .is_running = true },
                                               { "d", .name = "debugger", .is_running = true });
        RestartOptions options = cluster_options(true);

        know();
        start(&options);
        fake_list(containers);
        assert_int_equal(fake.n_stops, 1);
        assert_string_equal(fake.stops[0].options.container_id, "a");

        reported.restart = restart_free(reported.restart);
        start(&options);
        fake_list(LIST({ "d", .name = "debugger", .is_running = true }));
        assert_int_equal(reported.kind, ERROR_NOT_FOUND);
        assert_int_equal(fake.n_stops, 1);

        options.container = "debugger";
        start(&options);
        fake_list(containers);
        assert_int_equal(fake.n_stops, 2);
        assert_string_equal(fake.stops[1].options.container_id, "d");
        assert_false(fake.stops[1].options.needs_kubelet);
        reported.text[0] = '\0';
        end_stop(1, &(StopReport){ .result = STOP_STOPPED });
        assert_reported(
                "default/web/debugger stopped! d> nothing starts it again: it is not in the "
                "pod's spec, as debug containers are not\n");
        assert_true(reported.has_ended);

        /* Of a pod of which nothing more is known, all are meant. */
        know();
        known.runtime_uid = (char *) "uid-2";
        options.container = "";
        start(&options);
        fake_list(containers);
        assert_int_equal(fake.n_stops, 4);
}

static PodContainer with_sidecars[] = {
        { .name = (char *) "app", .kind = POD_CONTAINER_MAIN, .comes_back = true },
        { .name = (char *) "db", .kind = POD_CONTAINER_MAIN, .comes_back = true },
        { .name = (char *) "first", .kind = POD_CONTAINER_SIDECAR, .comes_back = true },
        { .name = (char *) "prepare", .kind = POD_CONTAINER_INIT },
        { .name = (char *) "second", .kind = POD_CONTAINER_SIDECAR, .comes_back = true },
};

static const FakeContainer runs_with_sidecars[] = {
        { (char *) "1", .name = "first", .is_running = true },
        { (char *) "2", .name = "second", .is_running = true },
        { (char *) "a", .name = "app", .is_running = true },
        { (char *) "d", .name = "db", .is_running = true },
        { .name = NULL },
};

static void start_with_sidecars(const char *container) {
        RestartOptions options = cluster_options(false);

        (void) know();
        known.containers = with_sidecars;
        known.n_containers = 5;
        options.container = container;
        start(&options);
        fake_list(runs_with_sidecars);
}

static void assert_stopped(size_t i, const char *id) {
        assert_int_equal(fake.n_stops, i + 1);
        assert_string_equal(fake.stops[i].options.container_id, id);
}

/* Whatever became of those before, and also where the list of the runtime has another order. */
static void test_sidecars_come_last(void **state) {
        start_with_sidecars("");
        assert_int_equal(fake.n_stops, 2);
        assert_string_equal(fake.stops[0].options.container_id, "a");
        assert_string_equal(fake.stops[1].options.container_id, "d");
        assert_reported(
                "default/web/app waiting a> \n"
                "default/web/db waiting d> \n"
                "default/web/first waiting 1> it is stopped after the containers that it serves\n"
                "default/web/second waiting 2> it is stopped after the containers that it serves\n");
        end_stop(1, &(StopReport){ .result = STOP_STOPPED });
        assert_int_equal(fake.n_stops, 2);
        end_stop(0, &(StopReport){ .result = STOP_FAILED });
        assert_stopped(2, "2");
        assert_true(fake.stops[2].options.is_init && fake.stops[2].options.needs_kubelet);
        assert_string_equal(fake.stops[2].options.pod_address, "10.0.0.7");
        end_stop(2, &(StopReport){ .result = STOP_GONE });
        assert_stopped(3, "1");
        assert_false(reported.has_ended);
        end_stop(3, &(StopReport){ .result = STOP_STOPPED });
        assert_true(reported.has_ended);
}

/* One that is named alone waits for no other. */
static void test_a_sidecar_alone(void **state) {
        start_with_sidecars("first");
        assert_stopped(0, "1");
        end_stop(0, &(StopReport){ .result = STOP_STOPPED });
        assert_true(reported.has_ended);
        assert_int_equal(fake.n_stops, 1);
}

/* The caller goes while a sidecar has its turn before it: what has not begun is dropped. */
static void test_freed_before_a_sidecar(void **state) {
        start_with_sidecars("");
        end_stop(0, &(StopReport){ .result = STOP_STOPPED });
        reported.restart = restart_free(reported.restart);
        assert_true(fake.stops[1].has_left);
        assert_int_equal(fake.n_stops, 2);
}

/* While the API server is away, what it said last counts, as long as that pod is here. */
static void test_knows_what_was_known_last(void **state) {
        const FakeContainer *containers = LIST({ "i", .name = "init", .is_running = true },
                                               { "j", .name = "job", .is_running = true },
                                               { "s", .name = "side", .is_running = true },
                                               { "x", .name = "debug", .is_running = true });
        RestartOptions options = cluster_options(false);

        know();
        fake.is_synced = false;
        start(&options);
        fake_list(containers);
        assert_stopped(0, "j");
        assert_false(fake.stops[0].options.needs_kubelet);
        reported.text[0] = '\0';
        end_stop(0, &(StopReport){ .result = STOP_STOPPED });
        assert_stopped(1, "s");
        assert_true(fake.stops[1].options.needs_kubelet);
        assert_reported(
                "default/web/job stopped! j> nothing starts it again: restartPolicy Never\n");
        end_stop(1, &(StopReport){ .result = STOP_STOPPED });
        assert_true(reported.has_ended);

        fake_forget_stops();
        know();
        fake.is_synced = false;
        known.runtime_uid = (char *) "uid-0";
        start(&options);
        fake_list(containers);
        assert_int_equal(fake.n_stops, 4);
}

static void test_what_does_not_come_back(void **state) {
        RestartOptions options = cluster_options(true);

        know();
        options.container = "job";
        start(&options);
        fake_list(LIST({ "j", .name = "job", .is_running = true }));
        assert_false(fake.stops[0].options.needs_kubelet);
        reported.text[0] = '\0';
        end_stop(0, &(StopReport){ .result = STOP_STOPPED });
        assert_reported(
                "default/web/job stopped! j> nothing starts it again: restartPolicy Never\n");
        assert_true(reported.has_ended);
}

static void change(void) {
        assert_int_equal(fake.watcher->on_pod(&known, NULL, fake.watcher->userdata), 0);
}

/* A status that is older than the stop, one that does not run yet, one that is not ready yet. */
static void test_waits_for_the_api_server(void **state) {
        const RestartOptions options = cluster_options(true);
        PodContainer *app = know();

        app->container_id = (char *) "containerd://0";
        app->restart_count = 2;
        app->is_running = app->is_ready = true;
        start_waiting(&options,
                      LIST({ "1", .name = "app", .restart_count = 3, .is_running = true }));
        fake_pass(INSPECT_USEC);
        assert_null(fake.call); /* the runtime is not asked */

        app->container_id = (char *) "containerd://1";
        app->restart_count = 3;
        change();
        app->container_id = (char *) "containerd://2";
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
        assert_null(fake.watcher);
}

static void test_runs_but_is_never_ready(void **state) {
        const RestartOptions options = cluster_options(true);
        PodContainer *app = know();

        start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
        app->container_id = (char *) "containerd://2";
        app->restart_count = 1;
        app->is_running = true;
        app->is_ready = false;
        change();
        fake_pass(10 * MINUTE_USEC);
        assert_reported("default/web/app failed! 1> it runs again, but was not ready within 10 "
                        "minutes\n");
}

/* The watch breaks off, so the runtime decides. */
static void test_the_api_server_goes_away(void **state) {
        const RestartOptions options = cluster_options(true);

        know();
        start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
        fake.is_synced = false;
        assert_int_equal(fake.watcher->on_state(false, fake.watcher->userdata), 0);
        fake_list(LIST({ "2", .name = "app", .is_running = true }));
        assert_reported("default/web/app running! 1>2 \n");
        assert_true(reported.has_ended);
}

static void test_the_pod_goes_away(void **state) {
        const RestartOptions options = cluster_options(true);

        know();
        start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
        known.is_deleted = true;
        change();
        assert_reported("default/web/app failed! 1> nothing starts it again: the pod is being "
                        "deleted\n");

        know();
        fake_forget_stops();
        start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
        assert_int_equal(fake.watcher->on_gone(&known, fake.watcher->userdata), 0);
        assert_reported("default/web/app failed! 1> nothing starts it again: the pod is gone\n");

        know();
        fake_forget_stops();
        start_waiting(&options, LIST({ "1", .name = "app", .is_running = true }));
        known.runtime_uid = (char *) "uid-2"; /* another one under its name */
        change();
        assert_reported("default/web/app failed! 1> nothing starts it again: the pod is gone\n");
        assert_true(reported.has_ended);
}

/* A pod that was made anew under its name while the first is still ending. */
static void test_the_pod_of_today(void **state) {
        const FakeContainer *containers =
                LIST({ "new", .uid = "uid-2", .name = "app", .is_running = true },
                     { "old", .uid = "uid-1", .name = "app", .is_running = true });
        RestartOptions options = cluster_options(false);

        know();
        known.runtime_uid = (char *) "uid-2";
        start(&options);
        fake_list(containers);
        assert_int_equal(fake.n_stops, 1);
        assert_string_equal(fake.stops[0].options.container_id, "new");

        reported.restart = restart_free(reported.restart);
        options.pods = NULL; /* then the younger one it is */
        start(&options);
        fake_list(containers);
        assert_string_equal(fake.stops[1].options.container_id, "old");
}

static void test_freed_at_any_time(void **state) {
        RestartOptions options = cluster_options(true);

        memset(&reported, 0, sizeof(reported));
        options.event = fake.event;
        assert_int_equal(restart_new(&options, &reported.restart), 0);
        reported.restart = restart_free(reported.restart);

        start(&options);
        assert_non_null(fake.call);
        reported.restart = restart_free(reported.restart);
        assert_null(fake.call);

        know();
        start(&options);
        fake_list(LIST({ "1", .name = "app", .is_running = true },
                       { "2", .name = "job", .is_running = true }));
        end_stop(0, &(StopReport){ .result = STOP_STOPPED });
        reported.restart = restart_free(reported.restart);
        assert_false(fake.stops[0].has_left); /* it was over */
        assert_true(fake.stops[1].has_left);
        assert_null(fake.watcher);
        assert_false(reported.has_ended);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_nonsense_is_refused),
                TEST(test_nonsense_asks_no_runtime),
                TEST(test_without_a_runtime),
                TEST(test_nothing_runs),
                TEST(test_several_namespaces),
                TEST(test_too_many_containers),
                TEST(test_all_that_run_are_stopped),
                TEST(test_a_stop_that_fails),
                TEST(test_sidecars_come_last),
                TEST(test_a_sidecar_alone),
                TEST(test_freed_before_a_sidecar),
                TEST(test_knows_what_was_known_last),
                TEST(test_waits_as_long_as_asked),
                TEST(test_waits_for_the_runtime),
                TEST(test_waits_no_longer_than_bearable),
                TEST(test_init_containers_are_left_alone_unless_named),
                TEST(test_debug_containers_are_left_alone_unless_named),
                TEST(test_what_does_not_come_back),
                TEST(test_waits_for_the_api_server),
                TEST(test_runs_but_is_never_ready),
                TEST(test_the_api_server_goes_away),
                TEST(test_the_pod_goes_away),
                TEST(test_the_pod_of_today),
                TEST(test_freed_at_any_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
