/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One probe of one container, which a runtime runs that answers when the test says so
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

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/probe/probe.h"
#include "tests/unit/fake-runtime.h"

#define WAIT_USEC ((uint64_t) 60 * 1000000)
#define NSEC_PER_SEC 1000000000LL
#define CREATED_SEC 1700000000

static struct Fixture {
        sd_event *event;
        Log *log;
        Probe *probe;
        unsigned n_doubts, n_recorded, n_runs;
        int64_t started_sec;
        Places *places; /* NULL: there is no limit */
} f;

static RpcClient *find_client(const Probe *probe, void *userdata) {
        return (RpcClient *) &f; /* the fake takes any */
}

static const char *find_address(const Probe *probe, void *userdata) {
        return "127.0.0.1";
}

static int64_t find_started_sec(const Probe *probe, void *userdata) {
        return f.started_sec;
}

static int on_doubt(bool has_new_state, void *userdata) {
        f.n_doubts++;
        return 0;
}

static int on_recorded(const Probe *probe, ProbeState before, void *userdata) {
        f.n_recorded++;
        return 0;
}

static void on_run(const Probe *probe, HandlerOutcome outcome, void *userdata) {
        f.n_runs++;
}

static int set_up(void **state) {
        f = (struct Fixture){ .event = NULL };
        fake_runtime_reset();
        assert_true(sd_event_new(&f.event) >= 0);
        assert_int_equal(log_new(LOG_FORMAT_TEXT, -1, &f.log), 0);
        return 0;
}

static int tear_down(void **state) {
        assert_null(probe_free(f.probe));
        assert_int_equal(fake_runtime_n_calls(), 0);
        log_free(f.log);
        sd_event_unref(f.event);
        return 0;
}

static ProbeSpec make_spec(const char *command) {
        ProbeSpec spec = {
                .namespace = strdup("d"),
                .pod = strdup("web"),
                .uid = strdup("p-1"),
                .container = strdup("app"),
                .name = strdup("marker#probe"),
                .handler = { .kind = HANDLER_EXEC, .command = calloc(2, sizeof(char *)) },
                .timeout_sec = 1,
                .period_sec = 1,
                .success_threshold = 1,
                .failure_threshold = 1,
        };

        spec.handler.command[0] = strdup(command);
        return spec;
}

static void start(ProbeSpec spec, ProbeResult *known) {
        const ProbeOptions options = {
                .event = f.event,
                .log = f.log,
                .places = f.places,
                .find_client = find_client,
                .find_address = find_address,
                .find_started_sec = find_started_sec,
                .on_doubt = on_doubt,
                .on_recorded = on_recorded,
                .on_run = on_run,
        };

        assert_int_equal(probe_new(&options, &spec, known, &f.probe), 0);
}

/* A listing that begins at this time shows the container; its state is 'r'unning or 'e'xited. */
static void list_at(const char *id, char state, uint64_t usec) {
        const RuntimeContainer container = {
                .name = (char *) "app",
                .id = (char *) id,
                .is_running = state == 'r',
                .is_exited = state == 'e',
                .created_at_nsec = CREATED_SEC * NSEC_PER_SEC,
        };

        assert_int_equal(probe_on_listed(f.probe, id ? &container : NULL, /* tag= */ &f, usec), 0);
}

static void list(const char *id, char state) {
        list_at(id, state, clock_monotonic_usec());
}

static void await_exec(void) {
        while (!fake_runtime_find("ExecSync"))
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
}

/* Twice, since the first one only shows that it runs. */
static void list_running(const char *id) {
        list(id, 'r');
        list(id, 'r');
}

static void answer(int32_t status, const char *output) {
        unsigned n = f.n_runs;

        await_exec();
        fake_runtime_answer_exec(status, status == 0 ? output : "", status == 0 ? "" : output);
        while (f.n_runs == n)
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
}

static void assert_result(ProbeState state, const char *message) {
        const ProbeResult *result = probe_result(f.probe);

        assert_non_null(result);
        assert_string_equal(probe_state_to_string(result->state), probe_state_to_string(state));
        assert_string_equal(result->message, message);
}

/* A result counts once a listing that began after the probe shows the same container. */
static void test_later_listing(void **state) {
        uint64_t before;

        start(make_spec("check"), NULL);
        assert_null(probe_result(f.probe));
        list_running("a");
        before = clock_monotonic_usec();
        answer(0, "fine");
        assert_int_equal(f.n_doubts, 1);
        list_at("a", 'r', before);
        assert_result(PROBE_UNKNOWN, "");
        list("a", 'r');
        assert_result(PROBE_SUCCEEDED, "fine");
}

static void test_failure(void **state) {
        start(make_spec("check"), NULL);
        list_running("a");
        answer(1, "broken");
        list("a", 'r');
        assert_result(PROBE_FAILED, "broken");
}

/* The initial delay counts from the start of the container, which may be long after it was made, and may be
 * reported when the probe waits already. */
static void test_initial_delay(void **state) {
        for (unsigned i = 0; i < 2; i++) {
                ProbeSpec spec = make_spec("delayed"), other = make_spec("check");
                Probe *delayed;

                spec.initial_delay_sec = other.period_sec = 3600;
                f.started_sec = i == 0 ? time(NULL) : 0;
                start(spec, NULL);
                list_running("a");
                f.started_sec = time(NULL);
                delayed = f.probe;

                /* One that begins later, without a delay. */
                start(other, NULL);
                list_running("a");
                answer(0, "fine");
                while (sd_event_run(f.event, 0) > 0)
                        ;
                assert_int_equal(fake_runtime_n_asked("ExecSync"), i + 1);
                f.probe = probe_free(f.probe);
                probe_free(delayed);
        }
}

/* What the one has answered says nothing about the other. */
static void test_another_container(void **state) {
        start(make_spec("check"), NULL);
        list_running("a");
        answer(0, "fine");
        list("b", 'r');
        assert_result(PROBE_UNKNOWN, "");
        list("b", 'r');
        assert_result(PROBE_UNKNOWN, "");
        assert_string_equal(probe_container_id(f.probe), "b");
}

/* The answer comes, but the container has ended meanwhile. */
static void test_ends(void **state) {
        start(make_spec("check"), NULL);
        list_running("a");
        answer(0, "fine");
        list("a", 'e');
        assert_result(PROBE_FAILED, "Container(app) is Non-running");
        list(NULL, 'e');
        assert_result(PROBE_UNKNOWN, "the container is gone");
        assert_null(probe_container_id(f.probe));
}

/* The command is not asked for any more while it runs. */
static void test_other_handler(void **state) {
        ProbeSpec other = make_spec("other");

        start(make_spec("check"), NULL);
        list_running("a");
        await_exec();
        assert_int_equal(probe_set_spec(f.probe, &other), 0);
        assert_null(fake_runtime_find("ExecSync"));
        answer(0, "other");
        assert_string_equal(fake_runtime.calls[0].command, "other");
        list("a", 'r');
        assert_result(PROBE_SUCCEEDED, "other");
}

/* The object's status says what a previous run has found out, of this container or of an earlier one. */
static void test_known(void **state) {
        static const struct {
                int64_t probe_sec;
                ProbeState state;
        } rows[] = { { CREATED_SEC + 1, PROBE_SUCCEEDED }, { CREATED_SEC - 1, PROBE_UNKNOWN } };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                ProbeResult known = {
                        .state = PROBE_SUCCEEDED,
                        .message = strdup(""),
                        .probe_sec = rows[i].probe_sec,
                };

                start(make_spec("check"), &known);
                list("a", 'r');
                assert_result(rows[i].state, "");
                f.probe = probe_free(f.probe);
        }
}

static void test_refused(void **state) {
        ProbeSpec spec = make_spec("check");

        spec.refusal = strdup("no");
        start(spec, NULL);
        list_running("a");
        assert_result(PROBE_UNKNOWN, "no");
        assert_null(fake_runtime_find("ExecSync"));
        assert_string_equal(probe_activity(f.probe).problem, "no");
}

/* A problem lasts until the container has answered: that it did not in time is no answer. */
static void test_problem(void **state) {
        Error missing = { .kind = ERROR_NOT_FOUND, .message = (char *) "no such program" };
        Error late = { .kind = ERROR_TIMEOUT, .message = (char *) "timed out" };
        const struct {
                const Error *error;
                bool is_problem;
        } runs[] = { { &late, false }, { &missing, true }, { &late, true }, { NULL, false } };

        start(make_spec("check"), NULL);
        list_running("a");
        for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
                unsigned n = f.n_runs;

                await_exec();
                if (runs[i].error)
                        fake_runtime_answer("ExecSync", NULL, runs[i].error);
                else
                        fake_runtime_answer_exec(1, "", "no");
                while (f.n_runs == n)
                        assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
                assert_int_equal(!!probe_activity(f.probe).problem, runs[i].is_problem);
        }
}

static ProbeSpec make_tcp_spec(void) {
        ProbeSpec spec = make_spec("none");

        handler_spec_done(&spec.handler);
        spec.handler = (HandlerSpec){ .kind = HANDLER_TCP, .port = 1 };
        return spec;
}

static void run_for_a_while(void) {
        for (int i = 0; i < 5; i++)
                assert_true(sd_event_run(f.event, 20000) >= 0);
}

/* A probe that connects waits while too many do, and is not run if it is not wanted any more. */
static void test_waits(void **state) {
        Place held[2] = { { .owner = NULL }, { .owner = NULL } };

        assert_int_equal(places_new(f.event, 2, &f.places), 0);
        assert_int_equal(place_take(&held[0], f.places, "a", NULL, NULL), 1);
        assert_int_equal(place_take(&held[1], f.places, "b", NULL, NULL), 1);
        start(make_tcp_spec(), NULL);
        list_running("a");
        run_for_a_while();
        assert_int_equal(f.n_runs, 0);
        place_release(&held[0]);
        while (f.n_runs == 0)
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
        /* It has given its place back. */
        assert_int_equal(place_take(&held[0], f.places, "a", NULL, NULL), 1);
        f.probe = probe_free(f.probe);

        start(make_tcp_spec(), NULL);
        list_running("a");
        run_for_a_while();
        list(NULL, ' ');
        place_release(&held[0]);
        run_for_a_while();
        assert_int_equal(f.n_runs, 1);
        f.probe = probe_free(f.probe);
        place_release(&held[1]);
        f.places = places_free(f.places);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_later_listing, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_failure, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_initial_delay, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_another_container, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_other_handler, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_known, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_problem, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_waits, set_up, tear_down),
        };

        return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
