/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests one probe of one container, with a runtime that answers when the test says so
 */

#include <time.h>

#include "agent/base/clock.h"
#include "agent/probe/probe.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/unit.h"

#define CREATED_SEC 1700000000

static struct Fixture {
        sd_event *event;
        Log *log;
        Probe *probe;
        unsigned n_candidates, n_recorded, n_runs;
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

static int on_candidate(bool has_new_state, void *userdata) {
        f.n_candidates++;
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
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.log));
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
                .on_candidate = on_candidate,
                .on_recorded = on_recorded,
                .on_run = on_run,
        };

        assert_ok(probe_new(&options, &spec, known, &f.probe));
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

        assert_ok(probe_on_listed(f.probe, id ? &container : NULL, /* tag= */ &f, usec));
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
        assert_int_equal(result->state, state);
        assert_string_equal(result->message, message);
}

/* A result counts once a listing that began after the probe shows the same container. */
TEST_SET_UP(test_later_listing) {
        uint64_t before;

        start(make_spec("check"), NULL);
        assert_null(probe_result(f.probe));
        list_running("a");
        before = clock_monotonic_usec();
        answer(0, "fine");
        assert_int_equal(f.n_candidates, 1);
        list_at("a", 'r', before);
        assert_result(PROBE_UNKNOWN, "");
        list("a", 'r');
        assert_result(PROBE_SUCCEEDED, "fine");
}

/* The list begins after one run, and is answered after the next. */
TEST_SET_UP(test_list_longer_than_a_period) {
        uint64_t before;

        start(make_spec("check"), NULL);
        list_running("a");
        answer(0, "fine");
        before = clock_monotonic_usec();
        answer(0, "fine");
        list_at("a", 'r', before);
        assert_result(PROBE_SUCCEEDED, "fine");
        answer(1, "bad");
        list_at("a", 'r', before);
        assert_result(PROBE_SUCCEEDED, "fine");
}

TEST_SET_UP(test_failure) {
        start(make_spec("check"), NULL);
        list_running("a");
        answer(1, "broken");
        list("a", 'r');
        assert_result(PROBE_FAILED, "broken");
}

/* Equal words may belong to another state. */
TEST_SET_UP(test_same_message) {
        start(make_spec("check"), NULL);
        list_running("a");
        answer(0, "done");
        list("a", 'r');
        assert_result(PROBE_SUCCEEDED, "done");
        answer(1, "done");
        list("a", 'r');
        assert_result(PROBE_FAILED, "done");
}

/* After the node's clock was set back, the container starts in an hour. */
TEST_SET_UP(test_initial_delay_and_clock_set_back) {
        ProbeSpec spec = make_spec("check");

        spec.initial_delay_sec = 1;
        f.started_sec = time(NULL) + 3600;
        start(spec, NULL);
        list_running("a");
        answer(0, "fine");
}

/* The initial delay counts from the start of the container, which may be long after it was made, and may be
 * reported when the probe waits already. */
TEST_SET_UP(test_initial_delay) {
        for (unsigned i = 0; i < 2; i++) {
                ProbeSpec spec = make_spec("delayed"), other = make_spec("check");
                Probe *delayed;

                spec.initial_delay_sec = other.period_sec = 3600;
                f.started_sec = i == 0 ? time(NULL) : 0;
                start(spec, NULL);
                list_running("a");
                f.started_sec = time(NULL);
                delayed = f.probe;

                /* A probe that begins later, without a delay. */
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

/* An answer of one container says nothing about the other. */
TEST_SET_UP(test_another_container) {
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
TEST_SET_UP(test_ends) {
        start(make_spec("check"), NULL);
        list_running("a");
        answer(0, "fine");
        list("a", 'e');
        assert_result(PROBE_FAILED, "Container(app) is Non-running");
        list(NULL, 'e');
        assert_result(PROBE_UNKNOWN, "the container is gone");
        assert_null(probe_container_id(f.probe));
}

/* A container that no list shows for long is unknown; until then, and where the result was unknown before, nothing
 * changes. */
TEST_SET_UP(test_unlisted) {
        ProbeSpec refused = make_spec("check");

        start(make_spec("check"), NULL);
        assert_ok(probe_on_unlisted(f.probe, "silence"));
        assert_null(probe_result(f.probe));
        list_running("a");
        answer(0, "fine");
        list("a", 'r');
        assert_ok(probe_on_unlisted(f.probe, "silence"));
        assert_result(PROBE_SUCCEEDED, "fine");
        list_at("a", 'r', clock_monotonic_usec() - PROBE_UNSEEN_USEC);
        assert_ok(probe_on_unlisted(f.probe, "silence"));
        assert_result(PROBE_UNKNOWN, "silence");
        f.probe = probe_free(f.probe);

        refused.refusal = strdup("no");
        start(refused, NULL);
        list_at("a", 'r', clock_monotonic_usec() - PROBE_UNSEEN_USEC);
        assert_ok(probe_on_unlisted(f.probe, "silence"));
        assert_result(PROBE_UNKNOWN, "no");
}

/* The command is not asked for any more while it runs. */
TEST_SET_UP(test_other_handler) {
        ProbeSpec other = make_spec("other");

        start(make_spec("check"), NULL);
        list_running("a");
        await_exec();
        assert_ok(probe_set_spec(f.probe, &other));
        assert_null(fake_runtime_find("ExecSync"));
        answer(0, "other");
        assert_string_equal(fake_runtime.calls[0].command, "other");
        list("a", 'r');
        assert_result(PROBE_SUCCEEDED, "other");
}

/* The object's status has the result of a previous run, about this container or an earlier one. */
TEST_SET_UP(test_known) {
        static const struct {
                int64_t probe_sec;
                ProbeState state;
        } rows[] = { { CREATED_SEC + 1, PROBE_SUCCEEDED }, { CREATED_SEC - 1, PROBE_UNKNOWN } };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
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

/* The clock was set back since: the next result corrects the time, rather than the one after that time has come
 * again. */
TEST_SET_UP(test_known_and_clock_set_back) {
        ProbeResult known = {
                .state = PROBE_SUCCEEDED,
                .message = strdup("fine"),
                .probe_sec = time(NULL) + 3600,
        };

        start(make_spec("check"), &known);
        list_running("a");
        assert_result(PROBE_SUCCEEDED, "fine");
        answer(0, "fine");
        assert_int_equal(f.n_candidates, 1);
        list("a", 'r');
        assert_true(probe_result(f.probe)->probe_sec <= time(NULL));
}

TEST_SET_UP(test_refused) {
        ProbeSpec spec = make_spec("check");

        spec.refusal = strdup("no");
        start(spec, NULL);
        list_running("a");
        assert_result(PROBE_UNKNOWN, "no");
        assert_null(fake_runtime_find("ExecSync"));
        assert_string_equal(probe_activity(f.probe).problem, "no");
}

/* A problem lasts until the container has answered: that it did not in time is no answer. */
TEST_SET_UP(test_problem) {
        Error missing = { .kind = ERROR_NOT_FOUND, .message = (char *) "no such program" };
        Error late = { .kind = ERROR_TIMEOUT, .message = (char *) "timed out" };
        const struct {
                const Error *error;
                bool is_problem;
        } runs[] = { { &late, false }, { &missing, true }, { &late, true }, { NULL, false } };

        start(make_spec("check"), NULL);
        list_running("a");
        for (size_t i = 0; i < N_ELEMENTS(runs); i++) {
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

/* The container ends before the probe's first turn. */
TEST_SET_UP(test_ends_before_a_turn) {
        static const char ends[] = { 'e', ' ' };

        for (size_t i = 0; i < N_ELEMENTS(ends); i++) {
                start(make_spec("check"), NULL);
                list_running("a");
                list(ends[i] == 'e' ? "a" : NULL, ends[i]);
                run_for_a_while();
                assert_int_equal(fake_runtime_n_asked("ExecSync"), 0);
                f.probe = probe_free(f.probe);
        }
}

/* The command of another container is not run in the former one: a list has to show the other first. */
TEST_SET_UP(test_other_container_of_the_pod) {
        ProbeSpec other = make_spec("check");

        free(other.container);
        other.container = strdup("sidecar");
        start(make_spec("check"), NULL);
        list_running("a");
        answer(0, "fine");
        list("a", 'r');
        assert_result(PROBE_SUCCEEDED, "fine");
        assert_ok(probe_set_spec(f.probe, &other));
        assert_result(PROBE_UNKNOWN, "");
        assert_null(probe_container_id(f.probe));
        run_for_a_while();
        assert_null(fake_runtime_find("ExecSync"));
        list_running("b");
        await_exec();
        assert_string_equal(fake_runtime_find("ExecSync")->target, "b");
}

/* A probe that connects waits while too many do, and is not run if it is not wanted any more. */
TEST_SET_UP(test_waits) {
        Place held[2] = { { .owner = NULL }, { .owner = NULL } };

        assert_ok(places_new(f.event, 2, &f.places));
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
