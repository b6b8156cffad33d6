/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stories of stops, with a runtime and an API server that answer what the test says
 */

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/pod/stop-journal.h"
#include "agent/pod/stops.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/kubelet-lease.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/plain-server.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/sent-events.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

#define EXEC_HOOK "{\"exec\":{\"command\":[\"bye\"]}}"

static int64_t wall_ahead_sec;

/* Takes the place of libc's function. */
int clock_gettime(clockid_t clock, struct timespec *ret) {
        if (syscall(SYS_clock_gettime, clock, ret) < 0)
                return -1;

        ret->tv_sec += clock == CLOCK_REALTIME ? wall_ahead_sec : 0;
        return 0;
}

static int n_writes = -1; /* writes of the journal until the agent dies; negative: it lives on */

/* Takes the place of libc's function. What a dead agent would have written is not there. */
int rename(const char *from, const char *to) {
        if (n_writes == 0)
                return 0;

        n_writes -= n_writes > 0;
        return (int) syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

typedef struct Owner {
        Stop *stop;
        const char *name;
        unsigned n_checks;
        int says; /* to a check: 1 yes, 0 nothing yet, -1 no */
        char steps[512];
        bool is_done;
        StopResult result;
        char message[128];
        char hook_message[128];
        Stops **to_free; /* when it is done */
} Owner;

static const char *stop_step_to_string(StopStep step) {
        static const char *const names[_STOP_STEP_MAX] = {
                [STOP_STEP_QUEUED] = "queued",
                [STOP_STEP_WAITING_FOR_RUNTIME] = "waiting-for-runtime",
                [STOP_STEP_WAITING_FOR_KUBELET] = "waiting-for-kubelet",
                [STOP_STEP_INSPECTING] = "inspecting",
                [STOP_STEP_HOOK] = "hook",
                [STOP_STEP_STOPPING] = "stopping",
                [STOP_STEP_ENDED] = "ended",
        };

        return names[step];
}

static const char *stop_result_to_string(StopResult result) {
        static const char *const names[_STOP_RESULT_MAX] = {
                [STOP_STOPPED] = "stopped",
                [STOP_GONE] = "gone",
                [STOP_NOT_REQUESTED] = "not-asked",
                [STOP_FAILED] = "failed",
        };

        return names[result];
}

typedef struct Fixture {
        Stops *stops;
        Log *log; /* NULL: there is none */
        Kubelet *kubelet;
        KubeEvents *events;
        char folder[32];
        Metrics *metrics;
        Places *places; /* NULL: there is no limit */
} Fixture;

/* The container's annotations; NULL: none. */
static struct Annotations {
        const char *grace;
        const char *hook;
} annotations;

static void turn(void) {
        fake_clock_turn(fake_kube.event);
}

/* Time passes until something happens. */
static void let_pass(void) {
        if (fake_clock.is_real)
                assert_true(sd_event_run(fake_kube.event, WAIT_USEC) > 0);
        else if (sd_event_run(fake_kube.event, 0) == 0)
                fake_clock_skip(fake_kube.event);
}

/* The oldest call of that method, once there is one. */
static RpcCall *wait_for_call(const char *method) {
        turn();
        while (!fake_runtime_find(method))
                let_pass();
        return fake_runtime_find(method);
}

static void refuse(const char *method, ErrorKind kind, const char *message) {
        (void) wait_for_call(method);
        fake_runtime_refuse(method, kind, message);
}

#define RUNNING true
#define EXITED false

/* The runtime has this container, and no other. */
static void have(const char *id, bool is_running, int64_t finished_at) {
        static char copy[64];

        snprintf(copy, sizeof(copy), "%s", id);
        fake_runtime.containers[0] = (FakeContainer){
                .id = copy,
                .namespace = "team",
                .pod = "web-0",
                .name = "app",
                .grace = annotations.grace,
                .pre_stop = annotations.hook,
                .is_running = is_running,
                .finished_at = finished_at,
        };
}

static void answer_list_as(bool is_running, const char *id) {
        const RpcCall *call = wait_for_call("ListContainers");

        have(id ?: call->target + strlen("id="), is_running, 0);
        assert_true(fake_runtime_serve("ListContainers"));
}

static void answer_list(bool is_running) {
        answer_list_as(is_running, NULL);
}

static void answer_empty_list(void) {
        (void) wait_for_call("ListContainers");
        fake_runtime.containers[0].id = NULL;
        assert_true(fake_runtime_serve("ListContainers"));
}

static void answer_status(bool is_running, int64_t finished_at) {
        have(wait_for_call("ContainerStatus")->target, is_running, finished_at);
        assert_true(fake_runtime_serve("ContainerStatus"));
}

/* Answers StopContainer, whether or not the container has ended. */
static void answer_stop(void) {
        (void) wait_for_call("StopContainer");
        fake_runtime_answer("StopContainer", &fake_runtime, NULL);
}

/* The container has ended by the stop. */
static void answer_stopped(void) {
        answer_stop();
        answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
}

static void answer_sandbox(const char *address) {
        fake_runtime.address = address;
        (void) wait_for_call("PodSandboxStatus");
        assert_true(fake_runtime_serve("PodSandboxStatus"));
}

static const char *events(void) {
        return sent_events_take();
}

#define AWAY "the kubelet has not renewed its Lease for "

/* Answers with the kubelet's Lease, since there is no address to ask. */
static void answer_kubelet(KubeletState state) {
        lease_answer(state);
        turn();
}

/* The same, once it is asked again. */
static void answer_kubelet_later(KubeletState state) {
        while (!lease_call())
                let_pass();
        answer_kubelet(state);
}

/* The hook, which is a command. */
static const RpcCall *the_hook(void) {
        const RpcCall *call = wait_for_call("ExecSync");

        assert_string_equal(call->command, "bye");
        return call;
}

static void end_hook(int status) {
        (void) the_hook();
        fake_runtime_answer_exec(status, "", "");
}

static int on_check(Stop *stop, void *userdata) {
        Owner *owner = userdata;

        owner->n_checks++;
        if (owner->says == 0)
                return 0;
        return stop_answer(stop, owner->says > 0, "it has changed its mind");
}

static int on_step(Stop *stop, StopStep step, const char *message, void *userdata) {
        Owner *owner = userdata;

        assert_int_equal(step, stop_step(stop));
        strcat(owner->steps, stop_step_to_string(step));
        if (message) {
                strcat(owner->steps, ":");
                strcat(owner->steps, message);
        }
        strcat(owner->steps, " ");
        return 0;
}

static int on_done(const StopReport *report, void *userdata) {
        Owner *owner = userdata;

        assert_false(owner->is_done);
        owner->is_done = true;
        owner->stop = NULL;
        owner->result = report->result;
        snprintf(owner->message, sizeof(owner->message), "%s", report->message ?: "");
        snprintf(owner->hook_message, sizeof(owner->hook_message), "%s",
                 report->hook_message ?: "");
        if (owner->to_free)
                *owner->to_free = stops_free(*owner->to_free);
        return 0;
}

/* Stops that have ended, by the owner's first part and the result. */
static int n_ended(const Fixture *f, const char *cause, const char *result) {
        char series[100];

        (void) snprintf(series, sizeof(series),
                        "inplaced_container_stops_total{cause=\"%s\",result=\"%s\"}", cause,
                        result);
        return (int) metric_value(f->metrics, series);
}

static void open_stops(Fixture *f) {
        const StopsOptions options = {
                .event = fake_kube.event,
                .log = f->log,
                .runtimes = (Runtimes *) &fake_runtime,
                .kubelet = f->kubelet,
                .events = f->events,
                .state_dir = f->folder,
                .metrics = f->metrics,
                .places = f->places,
        };

        assert_int_equal(stops_new(&options, &f->stops), 0);
}

static void open_fixture(Fixture *f) {
        f->metrics = metrics_for_test();
        annotations = (struct Annotations){ .grace = "9" };
        wall_ahead_sec = 0;
        fake_runtime_reset();
        sent_events_reset();
        fake_kube_open();
        f->kubelet = kubelet_with_lease();
        f->events = events_of_agent();
        scratch_make(f->folder);
        open_stops(f);
}

static void close_fixture(Fixture *f) {
        f->stops = stops_free(f->stops);
        assert_null(fake_runtime_find(NULL));
        f->kubelet = kubelet_free(f->kubelet);
        f->events = kube_events_free(f->events);
        metrics_free(f->metrics);
        log_free(f->log);
        turn();
        fake_clock_done();
        fake_kube_close();
        scratch_remove(f->folder, "stops.json");
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static StopOptions options_of(Owner *owner) {
        return (StopOptions){
                .container_id = "c1",
                .owner = owner->name ?: "metadata",
                .cause = "Stopping container app: its labels changed",
                .grace_sec = STOP_GRACE_OF_POD,
                .on_check = on_check,
                .on_step = on_step,
                .on_done = on_done,
                .userdata = owner,
        };
}

static void add_with(Fixture *f, Owner *owner, const StopOptions *options) {
        assert_int_equal(stops_add(f->stops, options, &owner->stop), 0);
        assert_false(owner->is_done);
        assert_string_equal(owner->steps, "");
}

static void add(Fixture *f, Owner *owner) {
        const StopOptions options = options_of(owner);

        add_with(f, owner, &options);
}

static void add_needing_kubelet(Fixture *f, Owner *owner) {
        StopOptions options = options_of(owner);

        options.needs_kubelet = true;
        add_with(f, owner, &options);
}

/* It is added, and its container runs. */
static void begin(Fixture *f, Owner *owner) {
        add(f, owner);
        answer_list(RUNNING);
}

static void assert_done(const Owner *owner, StopResult result, const char *message) {
        while (!owner->is_done)
                let_pass();
        assert_string_equal(stop_result_to_string(owner->result), stop_result_to_string(result));
        assert_string_equal(owner->message, message);
}

/* An event could not say which container it is about. */
TEST_F(test_stopped_without_name, Fixture *f) {
        Owner owner = { .says = 1 };

        add(f, &owner);
        (void) wait_for_call("ListContainers");
        have("c1", RUNNING, 0);
        fake_runtime.containers[0].name = NULL;
        assert_true(fake_runtime_serve("ListContainers"));
        answer_stopped();
        assert_done(&owner, STOP_STOPPED, "");
        assert_string_equal(events(), "");
}

TEST_F(test_stopped, Fixture *f) {
        Owner owner = { .says = 1 };
        RpcCall *call;

        add(f, &owner);
        assert_int_equal(fake_runtime.n_begun, 0);
        call = wait_for_call("ListContainers");
        assert_string_equal(call->target, "id=c1");
        answer_list(RUNNING);
        assert_string_equal(events(), "");
        call = wait_for_call("StopContainer");
        assert_int_equal(call->timeout_sec, 9);
        assert_string_equal(events(), "Normal/Killing Pod/team/web-0/uid-1 "
                                      "spec.containers{app}: Stopping container app: its "
                                      "labels changed\n");
        assert_false(stops_has_stopped(f->stops, "metadata", "c1"));
        answer_stopped();
        assert_done(&owner, STOP_STOPPED, "");
        assert_string_equal(owner.steps, "inspecting stopping ");
        assert_int_equal(n_ended(f, "metadata", "stopped"), 1);
        assert_int_equal(stops_n_running(f->stops), 0);
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
        assert_false(stops_has_stopped(f->stops, "other", "c1"));
        assert_string_equal(stops_find_stopped(f->stops, "metadata", "app"), "c1");
        assert_null(stops_find_stopped(f->stops, "other", "app"));
        assert_null(stops_find_stopped(f->stops, "metadata", "db"));

        /* In the next run, too. */
        stops_free(f->stops);
        open_stops(f);
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
        owner = (Owner){ .says = 1 };
        add(f, &owner);
        answer_list(EXITED);
        assert_done(&owner, STOP_STOPPED, "");
        assert_int_equal(owner.n_checks, 0);
}

TEST_F(test_gone, Fixture *f) {
        for (int i = 0; i < 3; i++) {
                Owner owner = { .says = 1 };

                add(f, &owner);
                if (i == 0)
                        answer_empty_list();
                else if (i == 1)
                        answer_list(EXITED);
                else
                        /* another container, whose ID begins the same way */
                        answer_list_as(RUNNING, "c12");
                assert_done(&owner, STOP_GONE, "");
                assert_int_equal(owner.n_checks, 0);
        }
        assert_string_equal(events(), "");
}

TEST_F(test_ended_by_itself, Fixture *f) {
        int64_t before = clock_nsec(CLOCK_REALTIME);
        Owner owner = { .says = 1 };

        begin(f, &owner);
        answer_stop();
        answer_status(EXITED, before);
        assert_done(&owner, STOP_GONE, "");
        assert_false(stops_has_stopped(f->stops, "metadata", "c1"));
}

TEST_F(test_check, Fixture *f) {
        Owner owner = { .says = -1 };

        begin(f, &owner);
        assert_done(&owner, STOP_NOT_REQUESTED, "it has changed its mind");
        assert_string_equal(events(), "");

        /* Later, and only once. */
        owner = (Owner){ .says = 0 };
        begin(f, &owner);
        turn();
        assert_int_equal(owner.n_checks, 1);
        assert_int_equal(fake_runtime_count("StopContainer"), 0);
        assert_ok(stop_answer(owner.stop, false, NULL));
        assert_ok(stop_answer(owner.stop, true, NULL));
        assert_false(owner.is_done);
        assert_done(&owner, STOP_NOT_REQUESTED, "");

        /* The runtime goes meanwhile: all is asked again. */
        owner = (Owner){ .says = 0 };
        begin(f, &owner);
        fake_runtime.is_away = true;
        assert_ok(stop_answer(owner.stop, true, NULL));
        turn();
        assert_int_equal(stop_step(owner.stop), STOP_STEP_WAITING_FOR_RUNTIME);
        fake_runtime.is_away = false;
        assert_int_equal(stops_runtime_changed(f->stops), 0);
        answer_list(RUNNING);
        assert_int_equal(owner.n_checks, 2);
        stop_leave(owner.stop);
        assert_string_equal(events(), "");
}

TEST_F(test_hook, Fixture *f) {
        Owner owner = { .says = 1 };
        StopJournal *journal;

        annotations.hook = EXEC_HOOK;
        begin(f, &owner);
        assert_string_equal(the_hook()->target, "c1");
        assert_int_equal(the_hook()->timeout_sec, 9);
        assert_int_equal(fake_runtime_count("StopContainer"), 0);
        assert_ok(stop_journal_new(f->folder, &journal, NULL));
        assert_int_equal(stop_journal_find(journal, "metadata", "c1")->phase, STOP_PHASE_HOOK);
        stop_journal_free(journal);

        sent_events_forget();
        end_hook(1);
        assert_string_equal(events(),
                            "Warning/FailedPreStopHook Pod/team/web-0/uid-1 spec.containers{app}: "
                            "Exec lifecycle hook ([bye]) for Container \"app\" in Pod "
                            "\"web-0_team(uid-1)\" failed - error: the command exited "
                            "with status 1\n");
        assert_int_equal(wait_for_call("StopContainer")->timeout_sec, 9);
        answer_stopped();
        assert_done(&owner, STOP_STOPPED, "");
        assert_string_equal(owner.hook_message,
                            "Exec lifecycle hook ([bye]): the command exited with status 1");
        assert_string_equal(owner.steps, "inspecting hook stopping ");
}

/* The Authorization header was not sent in plain text, which may be the reason of the refusal. */
TEST_F(test_hook_without_tls, Fixture *f) {
        static const char *const answers[][3] = {
                { "HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n" },
                { "HTTP/1.1 400 Bad Request\r\n\r\n", "" },
        };
        char hook[64], expected[256];
        PlainServer server;

        fake_clock.is_real = true;
        plain_server_open(&server, fake_kube.event, 1, 0);
        snprintf(hook, sizeof(hook), "{\"httpGet\":{\"port\":%u,\"scheme\":\"HTTPS\"}}",
                 server.port);
        snprintf(expected, sizeof(expected),
                 "Warning/LifecycleHTTPFallback Pod/team/web-0/uid-1 : request to HTTPS lifecycle "
                 "hook 127.0.0.1:%u got HTTP response, retry with HTTP succeeded\n",
                 server.port);
        annotations.hook = hook;
        for (int fails = 0; fails < 2; fails++) {
                Owner owner = { .says = 1 };

                server.answers = answers[fails];
                server.answer = *server.answers;
                add(f, &owner);
                answer_list(RUNNING);
                answer_sandbox("127.0.0.1");
                sent_events_forget();
                (void) wait_for_call("StopContainer");
                if (!fails)
                        assert_contains(events(), expected);
                else
                        assert_null(strstr(events(), "LifecycleHTTPFallback"));
                answer_stop();
                answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
                assert_done(&owner, STOP_STOPPED, "");
                assert_int_equal(!!owner.hook_message[0], fails);
                assert_int_equal(stops_forget(f->stops, "metadata", "c1"), 0);
        }
        plain_server_close(&server);
}

/* The container's time is shortened by the time that the hook takes. */
TEST_F(test_hook_takes_time, Fixture *f) {
        Owner owner = { .says = 1 };

        annotations.hook = EXEC_HOOK;
        begin(f, &owner);
        (void) the_hook();
        fake_clock_pass(fake_kube.event, 1010000);
        end_hook(0);
        assert_int_equal(wait_for_call("StopContainer")->timeout_sec, 8);
        answer_stopped();
        assert_done(&owner, STOP_STOPPED, "");
        assert_string_equal(owner.hook_message, "");
}

TEST_F(test_no_grace, Fixture *f) {
        Owner owner = { .says = 1 };
        StopOptions options = options_of(&owner);

        annotations.hook = EXEC_HOOK;
        options.grace_sec = 0;
        add_with(f, &owner, &options);
        answer_list(RUNNING);
        assert_int_equal(wait_for_call("StopContainer")->timeout_sec, 2);
        assert_int_equal(fake_runtime_n_asked("ExecSync"), 0);
        stop_leave(owner.stop);
}

TEST_F(test_bad_hook, Fixture *f) {
        Owner owner = { .says = 1 };

        annotations.hook = "{\"exec\":{}}";
        begin(f, &owner);
        (void) wait_for_call("StopContainer");
        assert_int_equal(fake_runtime_n_asked("ExecSync"), 0);
        assert_contains(events(), "Warning/FailedPreStopHook");
        assert_contains(events(), "error: exec.command: is empty\n");
        stop_leave(owner.stop);
}

/* A hook without a host goes to the address of the sandbox, to that of the node if the sandbox has
 * none, or to the one that the owner of the stop gives. */
TEST_F(test_hook_address, Fixture *f) {
        static const struct {
                const char *sandbox, *given;
                unsigned last; /* 127.0.0.LAST; 0: nowhere */
        } cases[] = {
                { "127.0.0.2", NULL, 2 },
                { "", NULL, 1 },
                { NULL, NULL, 0 },
                { "127.0.0.2", "127.0.0.3", 3 },
        };
        PlainServer servers[4];
        char hook[64];

        fake_clock.is_real = true;
        for (unsigned last = 1; last < 4; last++)
                plain_server_open(&servers[last], fake_kube.event, last,
                                  last > 1 ? servers[1].port : 0);
        snprintf(hook, sizeof(hook), "{\"httpGet\":{\"port\":%u}}", servers[1].port);
        annotations.hook = hook;
        for (size_t i = 0; i < 4; i++) {
                Owner owner = { .says = 1 };
                StopOptions options = options_of(&owner);
                char id[32];

                for (unsigned last = 1; last < 4; last++)
                        servers[last].answer =
                                last == cases[i].last ? "HTTP/1.1 200 OK\r\n\r\n" : "";
                snprintf(id, sizeof(id), "c%zu", i);
                options.container_id = id;
                options.pod_address = cases[i].given;
                add_with(f, &owner, &options);
                answer_list(RUNNING);
                if (!cases[i].given)
                        answer_sandbox(cases[i].sandbox);
                answer_stop();
                answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
                assert_done(&owner, STOP_STOPPED, "");
                assert_string_equal(owner.hook_message,
                                    cases[i].last > 0 ? ""
                                                      : "HTTP lifecycle hook (/): the pod's "
                                                        "address is not known");
        }
        assert_int_equal(n_ended(f, "metadata", "stopped"), 4);
        for (unsigned last = 1; last < 4; last++)
                plain_server_close(&servers[last]);
}

/* A hook that connects waits for a place, for as long as its container has. */
TEST_F(test_hook_waits, Fixture *f) {
        f->stops = stops_free(f->stops);
        assert_ok(places_new(fake_kube.event, 2, &f->places));
        open_stops(f);
        for (int is_given = 0; is_given < 2; is_given++) {
                Place held[2] = { { .owner = NULL }, { .owner = NULL } };
                Owner owner = { .says = 1 };
                PlainServer server;
                char hook[64];

                assert_int_equal(place_take(&held[0], f->places, "a", NULL, NULL), 1);
                assert_int_equal(place_take(&held[1], f->places, "b", NULL, NULL), 1);
                plain_server_open(&server, fake_kube.event, 1, 0);
                snprintf(hook, sizeof(hook), "{\"tcpSocket\":{\"port\":%u}}", server.port);
                annotations.hook = hook;
                add(f, &owner);
                answer_list(RUNNING);
                answer_sandbox("127.0.0.1");
                fake_clock_pass(fake_kube.event, 8000000);
                assert_int_equal(fake_runtime_count("StopContainer"), 0);
                fake_clock.is_real = is_given;
                if (is_given)
                        place_release(&held[1]);
                else
                        fake_clock_pass(fake_kube.event, 1000001);
                (void) wait_for_call("StopContainer");
                assert_int_equal(server.n_connections, is_given);
                answer_stop();
                answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
                assert_done(&owner, STOP_STOPPED, "");
                if (is_given)
                        assert_string_equal(owner.hook_message, "");
                else
                        assert_contains(owner.hook_message, "too many probes and hooks");
                assert_int_equal(stops_forget(f->stops, "metadata", "c1"), 0);
                place_release(&held[0]);
                place_release(&held[1]);
                plain_server_close(&server);
        }
        f->stops = stops_free(f->stops);
        f->places = places_free(f->places);
}

/* A pod is deleted by force while its hook waits for an answer that never comes. */
TEST_F(test_hook_without_container, Fixture *f) {
        Place held = { .owner = NULL };
        Owner owner = { .says = 1 };

        f->stops = stops_free(f->stops);
        assert_ok(places_new(fake_kube.event, 2, &f->places));
        open_stops(f);
        annotations = (struct Annotations){ .grace = "2000000000", .hook = EXEC_HOOK };
        begin(f, &owner);
        (void) the_hook();
        assert_int_equal(place_take(&held, f->places, "a", NULL, NULL), 1);
        fake_clock_pass(fake_kube.event, 31000000);
        refuse("ContainerStatus", ERROR_TIMEOUT, "it hangs");
        for (size_t i = 0; i < 2; i++) {
                fake_clock_pass(fake_kube.event, 31000000);
                assert_int_equal(fake_runtime_count("ContainerStatus"), 1);
                assert_int_equal(fake_runtime_count("ExecSync"), 1);
                answer_status(i == 0 ? RUNNING : EXITED, clock_nsec(CLOCK_REALTIME));
        }
        assert_int_equal(fake_runtime_count("ExecSync"), 0);
        answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
        assert_done(&owner, STOP_STOPPED, "");
        assert_string_equal(owner.hook_message, "");
        place_release(&held);
        f->stops = stops_free(f->stops);
        f->places = places_free(f->places); /* which needs all of them back */
}

/* The hook ends while the runtime is asked about its container. */
TEST_F(test_hook_ends_meanwhile, Fixture *f) {
        Owner owner = { .says = 1 };

        annotations = (struct Annotations){ .grace = "100", .hook = EXEC_HOOK };
        begin(f, &owner);
        (void) the_hook();
        fake_clock_pass(fake_kube.event, 31000000);
        assert_int_equal(fake_runtime_count("ContainerStatus"), 1);
        end_hook(0);
        assert_int_equal(fake_runtime_count("ContainerStatus"), 0);
        assert_int_equal(wait_for_call("StopContainer")->timeout_sec, 69);
        answer_stopped();
        assert_done(&owner, STOP_STOPPED, "");
}

static void assert_starts_with(const char *text, const char *start) {
        assert_memory_equal(text, start, strlen(start));
}

/* Cuts the age of a Lease, which may differ by a second, out of the text. */
static void cut_age(char *text, const char *all) {
        strcpy(text, all);
        for (char *at = text; (at = strstr(at, AWAY));) {
                at += strlen(AWAY);
                memmove(at, at + strspn(at, "0123456789"),
                        strlen(at + strspn(at, "0123456789")) + 1);
        }
}

TEST_F(test_kubelet, Fixture *f) {
        Owner owner = { .says = 1 };
        char text[1024];

        add_needing_kubelet(f, &owner);
        answer_list(RUNNING);
        answer_kubelet(KUBELET_AWAY);
        assert_starts_with(owner.steps, "inspecting waiting-for-kubelet:" AWAY);
        assert_int_equal(owner.n_checks, 0);

        answer_kubelet_later(KUBELET_AWAY);
        answer_kubelet_later(KUBELET_ALIVE);
        answer_list(RUNNING);
        fake_clock_pass(fake_kube.event, 0); /* the kubelet is known to be there */
        assert_int_equal(owner.n_checks, 1);
        (void) wait_for_call("StopContainer");
        cut_age(text, events());
        assert_string_equal(text, "Warning/WaitingForKubelet Pod/team/web-0/uid-1 "
                                  "spec.containers{app}: Container app waits to be "
                                  "restarted, since no kubelet would start it again: " AWAY " s\n"
                                  "Normal/Killing Pod/team/web-0/uid-1 "
                                  "spec.containers{app}: Stopping container app: its "
                                  "labels changed\n");
        cut_age(text, owner.steps);
        assert_string_equal(text, "inspecting waiting-for-kubelet:" AWAY
                                  " s queued inspecting stopping ");
        stop_leave(owner.stop);
}

/* A kubelet that was there may have gone while the owner confirms the stop. */
TEST_F(test_kubelet_goes_meanwhile, Fixture *f) {
        Owner owner = { .says = 0 };

        add_needing_kubelet(f, &owner);
        answer_list(RUNNING);
        answer_kubelet(KUBELET_ALIVE);
        fake_clock_pass(fake_kube.event, 60 * USEC_PER_SEC);
        assert_int_equal(owner.n_checks, 1);

        assert_ok(stop_answer(owner.stop, true, NULL));
        answer_list(RUNNING);
        answer_kubelet(KUBELET_AWAY);
        assert_false(stop_has_begun(owner.stop));
        answer_kubelet_later(KUBELET_ALIVE);
        owner.says = 1;
        answer_list(RUNNING);
        answer_stopped();
        assert_done(&owner, STOP_STOPPED, "");
        assert_int_equal(owner.n_checks, 2);
}

/* It is believed to be there for half a minute. */
TEST_F(test_kubelet_is_known_for_a_while, Fixture *f) {
        Owner owner = { .says = 0 };

        add_needing_kubelet(f, &owner);
        answer_list(RUNNING);
        answer_kubelet(KUBELET_ALIVE);
        fake_clock_pass(fake_kube.event, 30 * USEC_PER_SEC);
        assert_int_equal(owner.n_checks, 1);

        assert_ok(stop_answer(owner.stop, true, NULL));
        (void) wait_for_call("StopContainer");
        answer_stopped();
        assert_done(&owner, STOP_STOPPED, "");
}

TEST_F(test_runtime_away, Fixture *f) {
        Owner owner = { .says = 1 };
        StopOptions options = options_of(&owner);

        fake_runtime.is_away = true;
        options.runtime = "containerd";
        add_with(f, &owner, &options);
        turn();
        assert_int_equal(fake_runtime.n_begun, 0);
        assert_int_equal(stops_runtime_changed(f->stops), 0);
        turn();
        assert_string_equal(
                owner.steps,
                "waiting-for-runtime:the container runtime containerd does not answer ");
        fake_runtime.is_away = false;
        assert_int_equal(stops_runtime_changed(f->stops), 0);
        answer_list(RUNNING);
        (void) wait_for_call("StopContainer");
        assert_string_equal(strchr(owner.steps, ' ') + strlen(" container runtime"),
                            " containerd does not answer queued inspecting stopping ");
        stop_leave(owner.stop);

        /* A runtime that is not here is not asked. */
        owner = (Owner){ .says = 1 };
        options.runtime = "docker";
        options.container_id = "c2";
        add_with(f, &owner, &options);
        turn();
        assert_int_equal(stop_step(owner.stop), STOP_STEP_WAITING_FOR_RUNTIME);
        stop_leave(owner.stop);
}

/* A silent runtime is asked again, since no step was done yet. */
TEST_F(test_runtime_silent, Fixture *f) {
        Owner owner = { .says = 1 };

        add(f, &owner);
        refuse("ListContainers", ERROR_TIMEOUT, "no answer");
        assert_string_equal(owner.steps, "inspecting waiting-for-runtime:no answer ");
        answer_list(EXITED);
        assert_done(&owner, STOP_GONE, "");
}

static void lose_runtime(Owner *owner) {
        (void) wait_for_call("StopContainer");
        fake_runtime.is_away = true;
        fake_runtime_refuse("StopContainer", ERROR_UNAVAILABLE, "Socket closed");
        assert_int_equal(stop_step(owner->stop), STOP_STEP_WAITING_FOR_RUNTIME);
}

static void find_runtime(Fixture *f) {
        fake_runtime.is_away = false;
        assert_int_equal(stops_runtime_changed(f->stops), 0);
}

TEST_F(test_runtime_restarts, Fixture *f) {
        Owner owner = { .says = 1 };

        annotations.hook = EXEC_HOOK;
        begin(f, &owner);
        turn();
        end_hook(0);
        lose_runtime(&owner);
        find_runtime(f);
        answer_status(RUNNING, 0);
        assert_int_equal(wait_for_call("StopContainer")->timeout_sec, 9);
        assert_string_equal(strrchr(owner.steps, ':'),
                            ":the container runtime does not answer stopping ");
        lose_runtime(&owner);
        find_runtime(f);
        answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
        assert_done(&owner, STOP_STOPPED, "");
        assert_int_equal(fake_runtime_n_asked("ExecSync"), 1);
        assert_int_equal(owner.n_checks, 1);

        /* A stop of a container that had ended before. */
        annotations.hook = NULL;
        owner = (Owner){ .says = 1 };
        int64_t before = clock_nsec(CLOCK_REALTIME);
        StopOptions options = options_of(&owner);
        options.container_id = "c2";
        add_with(f, &owner, &options);
        answer_list(RUNNING);
        lose_runtime(&owner);
        find_runtime(f);
        answer_status(EXITED, before);
        assert_done(&owner, STOP_GONE, "");
}

/* The runtime's word is not the last one, whichever it is. */
TEST_F(test_asks_again, Fixture *f) {
        Owner owner = { .says = 1 };

        begin(f, &owner);
        refuse("StopContainer", ERROR_TIMEOUT, "Deadline Exceeded");
        answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
        assert_done(&owner, STOP_STOPPED, "");
}

/* It has ended by a clock that was set back, earlier than the stop began by the former one. */
TEST_F(test_clock_is_set_back, Fixture *f) {
        Owner owner = { .says = 1 };

        begin(f, &owner);
        (void) wait_for_call("StopContainer");
        wall_ahead_sec = -3600;
        answer_stop();
        answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
        assert_done(&owner, STOP_STOPPED, "");
}

/* The kubelet has removed the stopped container. Only a runtime that has refused did not stop it. */
static const struct RemovedRow {
        const char *name;
        ErrorKind answer; /* answer to the stop; ERROR_NONE: done */
        bool is_away;
        StopResult result;
} removals[] = {
        { "stopped", ERROR_NONE, false, STOP_STOPPED },
        { "refused", ERROR_INTERNAL, false, STOP_GONE },
        { "no answer in time", ERROR_TIMEOUT, false, STOP_STOPPED },
        { "the runtime has restarted", ERROR_UNAVAILABLE, true, STOP_STOPPED },
};

TEST_ROWS_F(test_removed, removals, name, const struct RemovedRow *row, Fixture *f) {
        Owner owner = { .says = 1 };

        begin(f, &owner);
        if (row->is_away) {
                lose_runtime(&owner);
                find_runtime(f);
        } else if (row->answer != ERROR_NONE) {
                refuse("StopContainer", row->answer, "no");
        } else {
                answer_stop();
        }
        (void) wait_for_call("ContainerStatus");
        fake_runtime.containers[0].id = NULL;
        assert_true(fake_runtime_serve("ContainerStatus"));
        assert_done(&owner, row->result, "");
}

TEST_F(test_refused, Fixture *f) {
        Owner owner = { .says = 1 };

        begin(f, &owner);
        refuse("StopContainer", ERROR_INTERNAL, "no");
        answer_status(RUNNING, 0);
        answer_stop();
        answer_status(RUNNING, 0);
        refuse("StopContainer", ERROR_INTERNAL, "no, never");
        answer_status(RUNNING, 0);
        assert_done(&owner, STOP_FAILED, "no, never");
        assert_int_equal(n_ended(f, "metadata", "failed"), 1);
        assert_int_equal(n_ended(f, "metadata", "stopped"), 0);
        assert_int_equal(fake_runtime.n_begun, 7);

        owner = (Owner){ .says = 1 };
        add(f, &owner);
        for (int i = 0; i < 3; i++)
                refuse("ListContainers", ERROR_INTERNAL, "confused");
        assert_done(&owner, STOP_FAILED, "confused");
}

/* The runtime goes after a stop that had no effect: once it is back, that does not count any more. */
TEST_F(test_refused_and_away, Fixture *f) {
        Owner owner = { .says = 1 };

        begin(f, &owner);
        answer_stop();
        answer_status(RUNNING, 0);
        fake_runtime.is_away = true;
        while (stop_step(owner.stop) != STOP_STEP_WAITING_FOR_RUNTIME)
                let_pass();
        find_runtime(f);
        answer_status(RUNNING, 0);
        for (int i = 0; i < 2; i++) {
                answer_stop();
                answer_status(RUNNING, 0);
        }
        assert_false(owner.is_done);
        answer_stopped();
        assert_done(&owner, STOP_STOPPED, "");
}

/* The runtime has stopped the container, and cannot say what became of it. */
TEST_F(test_refused_status, Fixture *f) {
        Owner owner = { .says = 1 };

        begin(f, &owner);
        for (int i = 0; i < 3; i++) {
                answer_stop();
                refuse("ContainerStatus", ERROR_INTERNAL, "confused");
        }
        assert_done(&owner, STOP_STOPPED, "");
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
}

/* The hook of a container runs once, also if another owner, or the next run of the agent, tries again to
 * stop it. */
TEST_F(test_refused_after_the_hook, Fixture *f) {
        static const char *const names[] = { "metadata", "metadata", "recreate/u" };
        Owner other = { .says = 1 };
        StopOptions options = options_of(&other);

        annotations.hook = EXEC_HOOK;
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                Owner owner = { .says = 1, .name = names[i] };

                begin(f, &owner);
                if (i == 0)
                        end_hook(0);
                for (int n = 0; n < 3; n++) {
                        refuse("StopContainer", ERROR_INTERNAL, "no");
                        answer_status(RUNNING, 0);
                }
                assert_done(&owner, STOP_FAILED, "no");
                assert_false(stops_has_stopped(f->stops, names[i], "c1"));
                stops_free(f->stops);
                open_stops(f);
        }
        assert_int_equal(fake_runtime_n_asked("ExecSync"), 1);

        options.container_id = "c2";
        add_with(f, &other, &options);
        answer_list(RUNNING);
        end_hook(0);
        answer_stopped();
        assert_done(&other, STOP_STOPPED, "");
}

/* Failed lists do not count against the stop itself. */
TEST_F(test_refused_in_a_row, Fixture *f) {
        Owner owner = { .says = 1 };

        add(f, &owner);
        for (int i = 0; i < 2; i++)
                refuse("ListContainers", ERROR_INTERNAL, "confused");
        answer_list(RUNNING);
        refuse("StopContainer", ERROR_INTERNAL, "not now");
        answer_status(RUNNING, 0);
        assert_false(owner.is_done);
        answer_stopped();
        assert_done(&owner, STOP_STOPPED, "");
}

/* The agent is killed and started again, with this in its journal. */
static void start_again_with(Fixture *f, const StopRecord *record) {
        StopJournal *journal;

        stops_free(f->stops);
        assert_ok(stop_journal_new(f->folder, &journal, NULL));
        assert_ok(stop_journal_set(journal, record, NULL));
        stop_journal_free(journal);
        open_stops(f);
}

static StopRecord record_of(StopPhase phase, int64_t deadline_sec, int64_t changed_sec) {
        return (StopRecord){
                .owner = (char *) "metadata",
                .container_id = (char *) "c1",
                .container = (char *) "app",
                .phase = phase,
                .began_sec = changed_sec,
                .deadline_sec = deadline_sec,
                .changed_sec = changed_sec,
        };
}

static void write_journal(Fixture *f, StopPhase phase, int64_t deadline_sec, int64_t changed_sec) {
        const StopRecord record = record_of(phase, deadline_sec, changed_sec);

        start_again_with(f, &record);
}

static void write_journal_of(Fixture *f, const char *owner, int64_t when_sec) {
        StopRecord record = record_of(STOP_PHASE_STOPPED, when_sec, when_sec);

        record.owner = (char *) owner;
        start_again_with(f, &record);
}

static StopPhase phase_in_file(const Fixture *f) {
        const StopRecord *record;
        StopJournal *journal;
        StopPhase phase;

        assert_ok(stop_journal_new(f->folder, &journal, NULL));
        record = stop_journal_find(journal, "metadata", "c1");
        phase = record ? record->phase : STOP_PHASE_NONE;
        stop_journal_free(journal);
        return phase;
}

static void wait_until_over(const Fixture *f) {
        while (stops_n_running(f->stops) > 0)
                let_pass();
}

/* A stop that no owner asks for any more is finished all the same, within its time, and without a hook. */
TEST_F(test_killed, Fixture *f) {
        static const struct {
                StopPhase phase;
                int64_t left_sec;
                int64_t least, most;
        } cases[] = {
                { STOP_PHASE_HOOK, 6, 5, 6 },
                { STOP_PHASE_STOPPING, 6, 5, 6 },
                { STOP_PHASE_STOPPING, 0, 2, 2 }, /* after its time */
                { STOP_PHASE_STOPPING, -5, 2, 2 },
        };

        annotations.hook = EXEC_HOOK;
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                int64_t began = time(NULL) - 4;

                write_journal(f, cases[i].phase, time(NULL) + cases[i].left_sec, began);
                assert_int_equal(stops_n_running(f->stops), 1);
                answer_list(RUNNING);
                assert_in_range(wait_for_call("StopContainer")->timeout_sec, cases[i].least,
                                cases[i].most);
                assert_int_equal(phase_in_file(f), STOP_PHASE_STOPPING);
                answer_stop();
                answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
                assert_int_equal(stops_n_running(f->stops), 0);
                assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
                assert_int_equal(phase_in_file(f), STOP_PHASE_STOPPED);
                assert_int_equal(n_ended(f, "metadata", "stopped"), (int) i + 1);
        }
        assert_int_equal(fake_runtime_n_asked("ExecSync"), 0);
        assert_null(lease_call());
        assert_string_equal(events(), "");
}

static void kill_and_start(Fixture *f) {
        stops_free(f->stops);
        open_stops(f);
}

/* The agent dies in each phase in turn: the hook has run once, and its time has begun once. */
TEST_F(test_killed_in_each_phase, Fixture *f) {
        Owner owner = { .says = 1 };
        StopJournal *journal;
        const StopRecord *record;
        StopClock now;

        annotations.hook = EXEC_HOOK;
        begin(f, &owner);
        (void) the_hook();
        stop_clock_read(&now);
        assert_ok(stop_journal_new(f->folder, &journal, NULL));
        record = stop_journal_find(journal, "metadata", "c1");
        assert_string_equal(record->runtime, "containerd");
        assert_string_equal(record->boot_id, now.boot_id);
        assert_in_range(record->uptime_sec, now.uptime_sec - 5, now.uptime_sec);
        assert_in_range(record->deadline_sec - record->changed_sec, 8, 9);
        stop_journal_free(journal);

        for (int i = 0; i < 2; i++) {
                kill_and_start(f);
                answer_list(RUNNING);
                assert_in_range(wait_for_call("StopContainer")->timeout_sec, 3, 9);
        }
        answer_stopped();
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
        assert_int_equal(fake_runtime_n_asked("ExecSync"), 1);

        /* No stop is left after that. */
        kill_and_start(f);
        assert_int_equal(stops_n_running(f->stops), 0);
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
}

/* The clock was set forward or back: the remaining time is counted by another clock. */
TEST_F(test_killed_and_clock_set, Fixture *f) {
        for (int days = -2; days <= 2; days += 4) {
                StopRecord record = record_of(STOP_PHASE_STOPPING, 0, time(NULL) + days * 86400);
                StopClock now;

                stop_clock_read(&now);
                record.deadline_sec = record.changed_sec + 600;
                record.uptime_sec = now.uptime_sec - 20;
                record.boot_id = now.boot_id;
                start_again_with(f, &record);
                answer_list(RUNNING);
                assert_in_range(wait_for_call("StopContainer")->timeout_sec, 560, 580);
        }
}

/* A container has one stop at a time; a second owner finds it ended. Until then the owner's own
 * stop waits, and neither asks nor runs a hook. */
TEST_F(test_killed_and_asked_again, Fixture *f) {
        static const char *const names[] = { "metadata", "recreate/u" };

        annotations.hook = EXEC_HOOK;
        for (size_t i = 0; i < 2; i++) {
                Owner owner = { .says = 1, .name = names[i] };

                write_journal(f, STOP_PHASE_HOOK, time(NULL) + 6, time(NULL) - 4);
                add(f, &owner);
                assert_int_equal(stops_n_running(f->stops), 2);
                answer_list(RUNNING);
                turn();
                assert_int_equal(fake_runtime_count("ListContainers"), 0);
                assert_false(stop_has_begun(owner.stop));
                answer_stop();
                answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
                answer_list(EXITED);
                assert_done(&owner, i == 0 ? STOP_STOPPED : STOP_GONE, "");
                assert_int_equal(owner.n_checks, 0);
        }
        assert_int_equal(fake_runtime_n_asked("ExecSync"), 0);
}

/* The owner's own stop does not come first while the runtime is away, or silent, either. */
TEST_F(test_killed_and_runtime_away, Fixture *f) {
        Owner owner = { .says = 1 };

        fake_runtime.is_away = true;
        write_journal(f, STOP_PHASE_STOPPING, time(NULL) + 6, time(NULL) - 4);
        add(f, &owner);
        turn();
        find_runtime(f);
        refuse("ListContainers", ERROR_TIMEOUT, "no answer");
        turn();
        assert_int_equal(fake_runtime_count("ListContainers"), 0);
        answer_list(RUNNING); /* the list is asked for again */
        answer_stopped();
        answer_list(EXITED);
        assert_done(&owner, STOP_STOPPED, "");
        assert_int_equal(owner.n_checks, 0);
}

/* A stop goes on at the runtime that the journal names. */
TEST_F(test_killed_and_another_runtime, Fixture *f) {
        StopRecord record = record_of(STOP_PHASE_STOPPING, time(NULL) + 6, time(NULL) - 4);

        record.runtime = (char *) "cri-o";
        start_again_with(f, &record);
        turn();
        assert_int_equal(fake_runtime_count("ListContainers"), 0);
        assert_int_equal(stops_n_running(f->stops), 1);

        record.runtime = (char *) "containerd";
        start_again_with(f, &record);
        turn();
        assert_int_equal(fake_runtime_count("ListContainers"), 1);
}

/* A journal that could not be written may have two stops of a container: they run one after the other. */
TEST_F(test_killed_with_two, Fixture *f) {
        StopRecord record = record_of(STOP_PHASE_STOPPING, time(NULL) + 6, time(NULL) - 4);

        write_journal(f, STOP_PHASE_HOOK, time(NULL) + 6, time(NULL) - 4);
        record.owner = (char *) "recreate/u";
        start_again_with(f, &record);
        assert_int_equal(stops_n_running(f->stops), 2);
        answer_list(RUNNING);
        answer_stopped();
        answer_list(EXITED);
        answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
        wait_until_over(f);
}

/* A sleep ends when it was to, and SIGTERM comes then. */
TEST_F(test_killed_while_asleep, Fixture *f) {
        static const struct {
                int64_t slept_sec, rest_sec;
        } rows[] = { { 2, 4 }, { 5, 1 }, { 6, 0 }, { 8, 0 }, { 60, 0 } };

        annotations.hook = "{\"sleep\":{\"seconds\":6}}";
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                uint64_t rest_usec = (uint64_t) rows[i].rest_sec * USEC_PER_SEC;
                int64_t began_sec = time(NULL) - rows[i].slept_sec;

                write_journal(f, STOP_PHASE_HOOK, began_sec + 9, began_sec);
                answer_list(RUNNING);
                turn();
                /* The record has whole seconds, of which one may have ended meanwhile. */
                if (rest_usec > USEC_PER_SEC) {
                        fake_clock_pass(fake_kube.event, rest_usec - USEC_PER_SEC - 1);
                        assert_int_equal(fake_runtime_count("StopContainer"), 0);
                        assert_int_equal(phase_in_file(f), STOP_PHASE_HOOK);
                        rest_usec = USEC_PER_SEC + 1;
                }
                fake_clock_pass(fake_kube.event, rest_usec);
                assert_int_equal(fake_runtime_count("StopContainer"), 1);
                assert_int_equal(phase_in_file(f), STOP_PHASE_STOPPING);
                answer_stopped();
                wait_until_over(f);
                assert_int_equal(stops_forget(f->stops, "metadata", "c1"), 0);
        }
}

/* The agent dies after each write of a stop that fails in the end. */
TEST_F(test_killed_after_each_write, Fixture *f) {
        annotations.hook = EXEC_HOOK;
        for (int n = 1; n <= 4; n++) {
                Owner owner = { .says = 1 }, next = { .says = 1 };

                n_writes = n;
                begin(f, &owner);
                end_hook(0);
                for (int i = 0; i < 3; i++) {
                        refuse("StopContainer", ERROR_INTERNAL, "no");
                        answer_status(RUNNING, 0);
                }
                assert_done(&owner, STOP_FAILED, "no");
                assert_int_equal(n_writes, 0);
                n_writes = -1;

                kill_and_start(f);
                assert_int_equal(stops_n_running(f->stops), n < 4);
                add(f, &next);
                answer_list(RUNNING);
                answer_stopped();
                if (n < 4)
                        answer_list(EXITED);
                assert_done(&next, STOP_STOPPED, "");
                assert_int_equal(fake_runtime_n_asked("ExecSync"), n);
                assert_int_equal(stops_forget(f->stops, "metadata", "c1"), 0);
                assert_int_equal(stops_forget(f->stops, "hook", "c1"), 0);
        }
}

/* It has ended unnoticed, and the kubelet may have removed it. */
TEST_F(test_killed_and_ended, Fixture *f) {
        for (int i = 0; i < 4; i++) {
                StopRecord record = record_of(STOP_PHASE_STOPPING, time(NULL) + 5, time(NULL) - 4);

                /* begin of the hook, which may have ended the container, too */
                record.began_sec -= 2;
                start_again_with(f, &record);
                if (i == 2) {
                        answer_empty_list();
                } else if (i == 3) {
                        answer_list(EXITED);
                        (void) wait_for_call("ContainerStatus");
                        fake_runtime.containers[0].id = NULL;
                        assert_true(fake_runtime_serve("ContainerStatus"));
                } else {
                        answer_list(EXITED);
                        answer_status(EXITED, (time(NULL) - (i == 0 ? 5 : 60)) * 1000000000);
                }
                wait_until_over(f);
                assert_int_equal(stops_has_stopped(f->stops, "metadata", "c1"), i != 1);
                assert_int_equal(stops_find_stopped(f->stops, "metadata", "app") != NULL, i != 1);
                assert_int_equal(fake_runtime_count("StopContainer"), 0);
        }
}

/* Stops count that were under way when the agent died. While a stop that an owner added goes on,
 * that one decides. */
TEST_F(test_killed_and_has_stopped, Fixture *f) {
        static const StopPhase phases[] = { STOP_PHASE_HOOK, STOP_PHASE_STOPPING,
                                            STOP_PHASE_STOPPED };

        for (size_t i = 0; i < 3; i++) {
                Owner owner = { .says = 1 };

                write_journal(f, phases[i], time(NULL) + 5, time(NULL) - 4);
                assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
                assert_false(stops_has_stopped(f->stops, "recreate/u", "c1"));
                add(f, &owner);
                assert_int_equal(stops_has_stopped(f->stops, "metadata", "c1"), i == 2);
                assert_int_equal(stops_find_stopped(f->stops, "metadata", "app") != NULL, i == 2);
                stop_leave(owner.stop);
                assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
        }
}

TEST_F(test_find_owner, Fixture *f) {
        write_journal(f, STOP_PHASE_STOPPED, time(NULL), time(NULL));
        assert_string_equal(stops_find_owner(f->stops, "metadata", "c1"), "metadata");
        assert_null(stops_find_owner(f->stops, "meta", "c1"));
        assert_null(stops_find_owner(f->stops, "metadata/1", "c1"));
        assert_null(stops_find_owner(f->stops, "metadata", "c2"));

        write_journal_of(f, "metadata/1/2", time(NULL));
        assert_string_equal(stops_find_owner(f->stops, "metadata", "c1"), "metadata/1/2");
        assert_string_equal(stops_find_owner(f->stops, "metadata/1", "c1"), "metadata/1/2");
        assert_null(stops_find_owner(f->stops, "metadata/", "c1"));
        assert_null(stops_find_owner(f->stops, "metadata/1/2/3", "c1"));
}

TEST_F(test_forgotten, Fixture *f) {
        write_journal(f, STOP_PHASE_STOPPED, time(NULL), time(NULL));
        assert_int_equal(stops_forget(f->stops, "recreate/u", "c1"), 0);
        assert_int_equal(stops_forget(f->stops, "metadata", "c2"), 0);
        assert_int_equal(stops_forget(f->stops, "not a name", "c1"), 0);
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
        assert_int_equal(stops_forget(f->stops, "metadata", "c1"), 0);
        assert_false(stops_has_stopped(f->stops, "metadata", "c1"));

        /* In the next run, too. */
        stops_free(f->stops);
        open_stops(f);
        assert_false(stops_has_stopped(f->stops, "metadata", "c1"));
}

/* A stop that waits for its turn, or for an answer, can still be left; one that has begun cannot. */
TEST_F(test_has_begun, Fixture *f) {
        Owner owner = { .says = 0 };

        annotations.hook = EXEC_HOOK;
        add(f, &owner);
        assert_false(stop_has_begun(owner.stop));
        answer_list(RUNNING);
        assert_int_equal(owner.n_checks, 1);
        assert_false(stop_has_begun(owner.stop));
        assert_ok(stop_answer(owner.stop, true, NULL));
        turn();
        assert_true(stop_has_begun(owner.stop));
        end_hook(0);
        lose_runtime(&owner);
        assert_true(stop_has_begun(owner.stop));
        find_runtime(f);
        answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
        assert_done(&owner, STOP_STOPPED, "");
}

TEST_F(test_init_container, Fixture *f) {
        Owner owner = { .says = 1 };
        StopOptions options = options_of(&owner);

        options.is_init = true;
        add_with(f, &owner, &options);
        answer_list(RUNNING);
        (void) wait_for_call("StopContainer");
        assert_contains(events(), "Normal/Killing Pod/team/web-0/uid-1 "
                                  "spec.initContainers{app}: Stopping container app");
        answer_stopped();
        assert_done(&owner, STOP_STOPPED, "");
}

TEST_F(test_two_owners, Fixture *f) {
        Owner first = { .says = 1 }, second = { .says = 1, .name = "recreate/u" };

        add(f, &first);
        begin(f, &second);
        answer_stop();
        turn();
        assert_int_equal(fake_runtime_count("ListContainers"), 0);
        answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
        assert_done(&first, STOP_STOPPED, "");
        answer_list(EXITED);
        assert_done(&second, STOP_GONE, "");
        assert_int_equal(n_ended(f, "metadata", "stopped"), 1);
        assert_int_equal(n_ended(f, "recreate", "gone"), 1);
}

/* A stop that waits for a kubelet does not hold up one that needs none. */
TEST_F(test_two_owners_and_no_kubelet, Fixture *f) {
        Owner first = { .says = 1 }, second = { .says = 1, .name = "recreate/u" };

        add_needing_kubelet(f, &first);
        begin(f, &second);
        answer_kubelet(KUBELET_AWAY);
        answer_list(RUNNING);
        answer_stopped();
        assert_done(&second, STOP_STOPPED, "");
        stop_leave(first.stop);
}

#define CROWD 20

/* Adds stops of containers "c0", "c1", and so on. */
static void add_crowd(Fixture *f, Owner owners[static CROWD], int says) {
        for (int i = 0; i < CROWD; i++) {
                char id[32];
                StopOptions options;

                owners[i] = (Owner){ .says = says };
                options = options_of(&owners[i]);
                snprintf(id, sizeof(id), "c%d", i);
                options.container_id = id;
                add_with(f, &owners[i], &options);
        }
}

TEST_F(test_crowd, Fixture *f) {
        Owner owners[CROWD];

        add_crowd(f, owners, 1);
        turn();
        assert_int_equal(fake_runtime_count("ListContainers"), 16);
        assert_int_equal(stops_n_running(f->stops), CROWD);

        /* A stop that ends makes room, and so does one that is left. */
        answer_list(EXITED);
        turn();
        assert_int_equal(fake_runtime_count("ListContainers"), 16);
        assert_string_equal(owners[16].steps, "inspecting ");
        stop_leave(owners[1].stop);
        turn();
        assert_string_equal(owners[17].steps, "inspecting ");
        assert_string_equal(owners[18].steps, "");

        /* A stop that has begun makes room as well, after a while. */
        answer_list(RUNNING);
        turn();
        assert_int_equal(fake_runtime_count("StopContainer"), 1);
        assert_int_equal(fake_runtime_count("ListContainers"), 15);
        while (fake_runtime_count("ListContainers") < 16)
                let_pass();
        assert_string_equal(owners[18].steps, "inspecting ");
        assert_string_equal(owners[19].steps, "");
}

/* A slot is free again after that long, and no sooner. */
TEST_F(test_pace_of_slots, Fixture *f) {
        Owner owners[CROWD];

        add_crowd(f, owners, 1);
        turn();
        assert_int_equal(fake_runtime_count("ListContainers"), 16);
        fake_clock_pass(fake_kube.event, 249999);
        assert_int_equal(fake_runtime_count("ListContainers"), 16);
        fake_clock_pass(fake_kube.event, 1);
        assert_int_equal(fake_runtime_count("ListContainers"), CROWD);
}

/* Whether the kubelet is back is asked once a second. */
TEST_F(test_pace_of_questions, Fixture *f) {
        Owner owner = { .says = 1 };

        add_needing_kubelet(f, &owner);
        answer_list(RUNNING);
        for (unsigned i = 1; i < 4; i++) {
                answer_kubelet(KUBELET_AWAY);
                fake_clock_pass(fake_kube.event, 999999);
                assert_null(lease_call());
                fake_clock_pass(fake_kube.event, 1);
                assert_non_null(lease_call());
        }
        stop_leave(owner.stop);
}

/* A runtime that refuses is asked again after one second, then after two. */
TEST_F(test_pace_of_refusals, Fixture *f) {
        Owner owner = { .says = 1 };
        add(f, &owner);
        for (unsigned i = 1; i < 3; i++) {
                refuse("ListContainers", ERROR_INTERNAL, "confused");
                fake_clock_pass(fake_kube.event, i * 1000000 - 1);
                assert_int_equal(fake_runtime_count("ListContainers"), 0);
                fake_clock_pass(fake_kube.event, 1);
                assert_int_equal(fake_runtime_count("ListContainers"), 1);
        }
        refuse("ListContainers", ERROR_INTERNAL, "confused");
        assert_done(&owner, STOP_FAILED, "confused");
}

/* Remaining grace periods when the hook has ended, in seconds. */
TEST_F(test_pace_of_the_hook, Fixture *f) {
        static const struct {
                uint64_t hook_usec;
                int64_t left_sec;
        } rows[] = { { 0, 9 },       { 999999, 9 },  { 1000000, 8 }, { 6000000, 3 },
                     { 6999999, 3 }, { 7000000, 2 }, { 9000000, 2 }, { 60000000, 2 } };

        annotations.hook = EXEC_HOOK;
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                Owner owner = { .says = 1 };
                add(f, &owner);
                answer_list(RUNNING);
                turn();
                assert_int_equal(the_hook()->timeout_sec, 9);
                fake_clock_pass(fake_kube.event, rows[i].hook_usec);
                if (rows[i].hook_usec < 9000000)
                        end_hook(0);
                assert_int_equal(wait_for_call("StopContainer")->timeout_sec, rows[i].left_sec);
                answer_stop();
                answer_status(EXITED, clock_nsec(CLOCK_REALTIME));
                assert_done(&owner, STOP_STOPPED, "");
                assert_int_equal(stops_forget(f->stops, "metadata", "c1"), 0);
        }
}

/* Owners who cannot say whether it still holds do not keep others waiting. */
TEST_F(test_undecided, Fixture *f) {
        Owner owners[CROWD], second = { .says = 1, .name = "recreate/u" };
        StopOptions options;

        add_crowd(f, owners, 0);
        options = options_of(&second);
        options.container_id = "c0";
        add_with(f, &second, &options);
        for (int i = 0; i < CROWD; i++)
                answer_list(RUNNING);
        while (owners[CROWD - 1].n_checks == 0)
                let_pass();
        answer_list(RUNNING);
        assert_string_equal(wait_for_call("StopContainer")->target, "c0");
        assert_true(stop_has_begun(second.stop));
        answer_stopped();
        assert_done(&second, STOP_STOPPED, "");
        assert_false(owners[0].is_done);
}

/* The second comes while the first asks whether it still holds, and has begun before the answer. */
static void overtake(Fixture *f, Owner *first, Owner *second) {
        add(f, first);
        answer_list(RUNNING);
        add(f, second);
        answer_list(RUNNING);
        (void) wait_for_call("StopContainer");
        assert_ok(stop_answer(first->stop, true, NULL));
        turn();
        assert_int_equal(fake_runtime_count("StopContainer"), 1);
        assert_string_equal(first->steps, "inspecting queued ");
}

TEST_F(test_overtaken, Fixture *f) {
        Owner first = { .says = 0 }, second = { .says = 1, .name = "request/1" };

        overtake(f, &first, &second);
        answer_stopped();
        assert_done(&second, STOP_STOPPED, "");
        answer_list(EXITED);
        assert_done(&first, STOP_GONE, "");
        assert_false(stops_has_stopped(f->stops, "metadata", "c1"));

        /* The stop fails: it is asked for again, and no other one has begun. */
        first = (Owner){ .says = 0 };
        second = (Owner){ .says = 1, .name = "request/2" };
        overtake(f, &first, &second);
        for (int i = 0; i < 3; i++) {
                refuse("StopContainer", ERROR_INTERNAL, "no");
                answer_status(RUNNING, 0);
        }
        assert_done(&second, STOP_FAILED, "no");
        first.says = 1;
        answer_list(RUNNING);
        assert_int_equal(first.n_checks, 2);
        answer_stopped();
        assert_done(&first, STOP_STOPPED, "");
}

/* The stop is over before the answer: a late answer neither announces nor does anything. */
TEST_F(test_overtaken_long_since, Fixture *f) {
        Owner first = { .says = 0 }, second = { .says = 1, .name = "request/1" };

        annotations.hook = EXEC_HOOK;
        begin(f, &first);
        begin(f, &second);
        turn();
        end_hook(0);
        answer_stopped();
        assert_done(&second, STOP_STOPPED, "");
        sent_events_forget();
        assert_ok(stop_answer(first.stop, true, NULL));
        answer_list(EXITED);
        assert_done(&first, STOP_GONE, "");
        assert_int_equal(fake_runtime_n_asked("ExecSync"), 1);
        assert_string_equal(events(), "");
}

/* Two stops are inspected at a time: the one that is answered first begins, and the other does not. */
TEST_F(test_overtaken_while_inspecting, Fixture *f) {
        Owner first = { .says = 0 }, second = { .says = 1, .name = "request/1" };

        begin(f, &first);
        add(f, &second);
        (void) wait_for_call("ListContainers");
        assert_ok(stop_answer(first.stop, true, NULL));
        turn();
        assert_true(stop_has_begun(first.stop));
        answer_list(RUNNING);
        turn();
        assert_false(stop_has_begun(second.stop));
        assert_int_equal(fake_runtime_count("StopContainer"), 1);
        answer_stopped();
        assert_done(&first, STOP_STOPPED, "");
        answer_list(EXITED);
        assert_done(&second, STOP_GONE, "");
}

TEST_F(test_left, Fixture *f) {
        Owner owner = { .says = 1 };

        add(f, &owner);
        stop_leave(owner.stop);
        turn();
        assert_int_equal(fake_runtime.n_begun, 0);
        assert_int_equal(stops_n_running(f->stops), 0);

        begin(f, &owner);
        (void) wait_for_call("StopContainer");
        stop_leave(owner.stop);
        assert_int_equal(stops_n_running(f->stops), 1);
        answer_stopped();
        turn();
        assert_false(owner.is_done);
        assert_int_equal(n_ended(f, "metadata", "stopped"), 1);
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
}

TEST_F(test_bad_id, Fixture *f) {
        static const char *const bad[] = { "", "a b", "\"", "ä" };

        for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
                Owner owner = { .says = 1 };
                StopOptions options = options_of(&owner);

                options.container_id = bad[i];
                add_with(f, &owner, &options);
                assert_done(&owner, STOP_FAILED, "this is not the ID of a container");
        }
        assert_int_equal(fake_runtime.n_begun, 0);
}

TEST_F(test_freed, Fixture *f) {
        Owner first = { .says = 1 }, second = { .says = 1, .name = "other" };

        first.to_free = &f->stops;
        add(f, &first);
        add(f, &second);
        answer_list(EXITED);
        assert_true(first.is_done);
        assert_null(f->stops);
        turn();
        assert_false(second.is_done);
        open_stops(f);
}

/* The disk is full, or gone: the stop goes on. */
TEST_F(test_no_journal, Fixture *f) {
        Owner owner = { .says = 1 };
        char folder[32];

        stops_free(f->stops);
        strcpy(folder, f->folder);
        strcpy(f->folder, "/proc/none");
        open_stops(f);
        strcpy(f->folder, folder);
        begin(f, &owner);
        answer_stopped();
        assert_done(&owner, STOP_STOPPED, "");
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
}

/* The stops of the previous run are forgotten, and the log says so. */
TEST_F(test_useless_journal, Fixture *f) {
        Stderr captured;

        stops_free(f->stops);
        scratch_write(f->folder, "stops.json", "{");
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_ERR, &f->log));
        stderr_pipe(&captured);
        open_stops(f);
        assert_contains(stderr_restore(&captured), "The record of stopped containers is lost: ");
}
