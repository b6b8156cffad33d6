/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stories of stops
 */

#include <unistd.h>

#include "tests/unit/metric-value.h"
#include "tests/unit/stops-fake.h"

#define EXEC_HOOK "{\"exec\":{\"command\":[\"bye\"]}}"
#define HTTP_HOOK "{\"httpGet\":{\"port\":80}}"

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
                [STOP_NOT_ASKED] = "not-asked",
                [STOP_FAILED] = "failed",
        };

        return names[result];
}

typedef struct Fixture {
        Stops *stops;
        char folder[32];
        Metrics *metrics;
} Fixture;

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
                .event = world.event,
                .runtimes = (Runtimes *) &world,
                .kubelet = (Kubelet *) &world,
                .events = (KubeEvents *) &world,
                .state_dir = f->folder,
                .metrics = f->metrics,
        };

        assert_int_equal(stops_new(&options, &f->stops), 0);
}

static int set_up(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        f->metrics = metrics_for_test();
        memset(&world, 0, sizeof(world));
        annotations = (struct Annotations){ .grace = "9" };
        world.has_runtime = true;
        assert_true(sd_event_new(&world.event) >= 0);
        strcpy(f->folder, "/tmp/stops-XXXXXX");
        assert_non_null(mkdtemp(f->folder));
        open_stops(f);
        *state = f;
        return 0;
}

static int tear_down(void **state) {
        Fixture *f = *state;
        char path[64];

        f->stops = stops_free(f->stops);
        metrics_free(f->metrics);
        still_end();
        for (CallKind kind = CALL_LIST; kind <= CALL_STOP; kind++)
                assert_int_equal(count_calls(kind), 0);
        for (size_t i = 0; i < 4; i++)
                assert_false(world.hooks[i].is_running);
        for (size_t i = 0; i < FAKE_MAX; i++)
                assert_null(world.questions[i].on_answered);
        turn();
        sd_event_unref(world.event);
        snprintf(path, sizeof(path), "%s/stops.json", f->folder);
        (void) unlink(path);
        assert_int_equal(rmdir(f->folder), 0);
        free(f);
        return 0;
}

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

static void assert_done(const Owner *owner, StopResult result, const char *message) {
        while (!owner->is_done)
                assert_true(sd_event_run(world.event, WAIT_USEC) > 0);
        assert_string_equal(stop_result_to_string(owner->result), stop_result_to_string(result));
        assert_string_equal(owner->message, message);
}

static void test_stopped(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;
        RpcCall *call;

        add(f, &owner);
        assert_int_equal(world.n_calls, 0);
        call = wait_for_call(CALL_LIST);
        assert_string_equal(call->id, "c1");
        answer_list(RUNNING);
        assert_string_equal(world.events, "");
        call = wait_for_call(CALL_STOP);
        assert_int_equal(call->grace_sec, 9);
        assert_string_equal(world.events, "Normal/Killing Pod/team/web-0/uid-1 "
                                          "spec.containers{app}: Stopping container app: its "
                                          "labels changed\n");
        assert_false(stops_has_stopped(f->stops, "metadata", "c1"));
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&owner, STOP_STOPPED, "");
        assert_string_equal(owner.steps, "inspecting stopping ");
        assert_int_equal(n_ended(f, "metadata", "stopped"), 1);
        assert_int_equal(stops_n_running(f->stops), 0);
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
        assert_false(stops_has_stopped(f->stops, "other", "c1"));

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

static void test_gone(void **state) {
        Fixture *f = *state;

        for (int i = 0; i < 3; i++) {
                Owner owner = { .says = 1 };

                add(f, &owner);
                if (i == 0)
                        answer_empty_list();
                else if (i == 1)
                        answer_list(EXITED);
                else
                        answer_list_as(RUNNING, "c12"); /* another one, that begins the same way */
                assert_done(&owner, STOP_GONE, "");
                assert_int_equal(owner.n_checks, 0);
        }
        assert_string_equal(world.events, "");
}

static void test_ended_by_itself(void **state) {
        int64_t before = now_nsec();
        Owner owner = { .says = 1 };
        Fixture *f = *state;

        add(f, &owner);
        answer_list(RUNNING);
        answer_stop();
        answer_status(EXITED, before);
        assert_done(&owner, STOP_GONE, "");
        assert_false(stops_has_stopped(f->stops, "metadata", "c1"));
}

static void test_check(void **state) {
        Owner owner = { .says = -1 };
        Fixture *f = *state;

        add(f, &owner);
        answer_list(RUNNING);
        assert_done(&owner, STOP_NOT_ASKED, "it has changed its mind");
        assert_string_equal(world.events, "");

        /* Later, and only once. */
        owner = (Owner){ .says = 0 };
        add(f, &owner);
        answer_list(RUNNING);
        turn();
        assert_int_equal(owner.n_checks, 1);
        assert_int_equal(count_calls(CALL_STOP), 0);
        assert_int_equal(stop_answer(owner.stop, false, NULL), 0);
        assert_int_equal(stop_answer(owner.stop, true, NULL), 0);
        assert_false(owner.is_done);
        assert_done(&owner, STOP_NOT_ASKED, "");

        /* The runtime goes meanwhile: all is asked again. */
        owner = (Owner){ .says = 0 };
        add(f, &owner);
        answer_list(RUNNING);
        world.has_runtime = false;
        assert_int_equal(stop_answer(owner.stop, true, NULL), 0);
        turn();
        assert_int_equal(stop_step(owner.stop), STOP_STEP_WAITING_FOR_RUNTIME);
        world.has_runtime = true;
        assert_int_equal(stops_runtime_changed(f->stops), 0);
        answer_list(RUNNING);
        assert_int_equal(owner.n_checks, 2);
        stop_leave(owner.stop);
        assert_string_equal(world.events, "");
}

static void test_hook(void **state) {
        Error error = { .kind = ERROR_INVALID, .message = (char *) "exited with 1" };
        Owner owner = { .says = 1 };
        StopJournal *journal;
        Fixture *f = *state;

        annotations.hook = EXEC_HOOK;
        add(f, &owner);
        answer_list(RUNNING);
        turn();
        assert_int_equal(the_hook()->kind, HANDLER_EXEC);
        assert_int_equal(the_hook()->timeout_usec, 9000000);
        assert_int_equal(count_calls(CALL_STOP), 0);
        assert_int_equal(stop_journal_new(f->folder, &journal, NULL), 0);
        assert_int_equal(stop_journal_find(journal, "metadata", "c1")->phase, STOP_PHASE_HOOK);
        stop_journal_free(journal);

        world.events[0] = '\0';
        assert_int_equal(end_hook(&error), 0);
        assert_string_equal(world.events,
                            "Warning/FailedPreStopHook Pod/team/web-0/uid-1 spec.containers{app}: "
                            "Exec lifecycle hook ([bye]) for Container \"app\" in Pod "
                            "\"web-0_team(uid-1)\" failed - error: exited with 1\n");
        assert_int_equal(wait_for_call(CALL_STOP)->grace_sec, 9);
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&owner, STOP_STOPPED, "");
        assert_string_equal(owner.hook_message, "Exec lifecycle hook ([bye]): exited with 1");
        assert_string_equal(owner.steps, "inspecting hook stopping ");
}

/* Its Authorization was not sent in plain text, which may be what is missing there. */
static void test_hook_without_tls(void **state) {
        Error error = { .kind = ERROR_UNAVAILABLE, .message = (char *) "Connection reset" };
        Fixture *f = *state;

        annotations.hook = HTTP_HOOK;
        for (int fails = 0; fails < 2; fails++) {
                Owner owner = { .says = 1 };

                add(f, &owner);
                answer_list(RUNNING);
                answer_sandbox("10.0.0.7");
                turn();
                the_hook()->plain_host = "10.0.0.7:8443";
                world.events[0] = '\0';
                assert_int_equal(end_hook(fails ? &error : NULL), 0);
                if (!fails)
                        assert_string_equal(world.events,
                                            "Warning/LifecycleHTTPFallback Pod/team/web-0/uid-1 : "
                                            "request to HTTPS lifecycle hook 10.0.0.7:8443 got "
                                            "HTTP response, retry with HTTP succeeded\n");
                else
                        assert_null(strstr(world.events, "LifecycleHTTPFallback"));
                answer_stop();
                answer_status(EXITED, now_nsec());
                assert_done(&owner, STOP_STOPPED, "");
                assert_int_equal(stops_forget(f->stops, "metadata", "c1"), 0);
        }
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
        *(bool *) userdata = true;
        return 0;
}

/* The time that a hook takes is what the container has less. */
static void test_hook_takes_time(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;
        bool is_over = false;

        annotations.hook = EXEC_HOOK;
        add(f, &owner);
        answer_list(RUNNING);
        turn();
        assert_true(sd_event_add_time_relative(world.event, NULL, CLOCK_MONOTONIC, 1010000, 1,
                                               on_time, &is_over) >= 0);
        while (!is_over)
                assert_true(sd_event_run(world.event, WAIT_USEC) > 0);
        assert_int_equal(end_hook(NULL), 0);
        assert_int_equal(wait_for_call(CALL_STOP)->grace_sec, 8);
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&owner, STOP_STOPPED, "");
        assert_string_equal(owner.hook_message, "");
}

static void test_no_grace(void **state) {
        Owner owner = { .says = 1 };
        StopOptions options = options_of(&owner);
        Fixture *f = *state;

        annotations.hook = EXEC_HOOK;
        options.grace_sec = 0;
        add_with(f, &owner, &options);
        answer_list(RUNNING);
        assert_int_equal(wait_for_call(CALL_STOP)->grace_sec, 2);
        assert_int_equal(world.n_hooks, 0);
        stop_leave(owner.stop);
}

static void test_bad_hook(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;

        annotations.hook = "{\"exec\":{}}";
        add(f, &owner);
        answer_list(RUNNING);
        (void) wait_for_call(CALL_STOP);
        assert_int_equal(world.n_hooks, 0);
        assert_non_null(strstr(world.events, "Warning/FailedPreStopHook"));
        assert_non_null(strstr(world.events, "error: exec.command: is empty\n"));
        stop_leave(owner.stop);
}

static void test_hook_address(void **state) {
        static const char *const addresses[][2] = { { "10.1.2.3", "10.1.2.3" },
                                                    { "", "127.0.0.1" },
                                                    { NULL, "-" },
                                                    { "given", "10.9.9.9" } };
        Fixture *f = *state;

        annotations.hook = HTTP_HOOK;
        for (size_t i = 0; i < 4; i++) {
                Owner owner = { .says = 1 };
                StopOptions options = options_of(&owner);
                char id[32];

                snprintf(id, sizeof(id), "c%zu", i);
                options.container_id = id;
                options.pod_address = i == 3 ? "10.9.9.9" : NULL;
                add_with(f, &owner, &options);
                answer_list(RUNNING);
                if (!addresses[i][0])
                        refuse(wait_for_call(CALL_SANDBOX), ERROR_NOT_FOUND, "no sandbox");
                else if (i < 3)
                        answer_sandbox(addresses[i][0]);
                turn();
                assert_string_equal(the_hook()->address, addresses[i][1]);
                assert_int_equal(end_hook(NULL), 0);
                stop_leave(owner.stop);
                answer_stop();
                answer_status(EXITED, now_nsec());
        }
        assert_int_equal(n_ended(f, "metadata", "stopped"), 4);
}

static void test_kubelet(void **state) {
        Owner owner = { .says = 1 };
        StopOptions options = options_of(&owner);
        Fixture *f = *state;

        options.needs_kubelet = true;
        add_with(f, &owner, &options);
        answer_list(RUNNING);
        answer_kubelet(KUBELET_AWAY, "nothing answers");
        assert_string_equal(owner.steps, "inspecting waiting-for-kubelet:nothing answers ");
        assert_int_equal(owner.n_checks, 0);

        while (world.n_questions < 2)
                assert_true(sd_event_run(world.event, WAIT_USEC) > 0);
        answer_kubelet(KUBELET_AWAY, "nothing answers");
        while (world.n_questions < 3)
                assert_true(sd_event_run(world.event, WAIT_USEC) > 0);
        answer_kubelet(KUBELET_ALIVE, NULL);
        answer_list(RUNNING);
        answer_kubelet(KUBELET_UNKNOWN, NULL);
        assert_int_equal(owner.n_checks, 1);
        (void) wait_for_call(CALL_STOP);
        assert_string_equal(world.events, "Warning/WaitingForKubelet Pod/team/web-0/uid-1 "
                                          "spec.containers{app}: Container app waits to be "
                                          "restarted, since no kubelet would start it again: "
                                          "nothing answers\n"
                                          "Normal/Killing Pod/team/web-0/uid-1 "
                                          "spec.containers{app}: Stopping container app: its "
                                          "labels changed\n");
        assert_string_equal(
                owner.steps,
                "inspecting waiting-for-kubelet:nothing answers queued inspecting stopping ");
        stop_leave(owner.stop);
}

static void test_runtime_away(void **state) {
        Owner owner = { .says = 1 };
        StopOptions options = options_of(&owner);
        Fixture *f = *state;

        world.has_runtime = false;
        options.runtime = "containerd";
        add_with(f, &owner, &options);
        turn();
        assert_int_equal(world.n_calls, 0);
        assert_int_equal(stops_runtime_changed(f->stops), 0);
        turn();
        assert_string_equal(owner.steps,
                            "waiting-for-runtime:the container runtime containerd is not there ");
        world.has_runtime = true;
        assert_int_equal(stops_runtime_changed(f->stops), 0);
        answer_list(RUNNING);
        (void) wait_for_call(CALL_STOP);
        assert_string_equal(strchr(owner.steps, ' ') + strlen(" container runtime"),
                            " containerd is not there queued inspecting stopping ");
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

/* A silent runtime is asked again; nothing was done yet. */
static void test_runtime_silent(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;

        add(f, &owner);
        refuse(wait_for_call(CALL_LIST), ERROR_TIMEOUT, "no answer");
        assert_string_equal(owner.steps, "inspecting waiting-for-runtime:no answer ");
        answer_list(EXITED);
        assert_done(&owner, STOP_GONE, "");
}

static void lose_runtime(Owner *owner) {
        RpcCall *call = wait_for_call(CALL_STOP);

        world.has_runtime = false;
        refuse(call, ERROR_UNAVAILABLE, "Socket closed");
        assert_int_equal(stop_step(owner->stop), STOP_STEP_WAITING_FOR_RUNTIME);
}

static void find_runtime(Fixture *f) {
        world.has_runtime = true;
        assert_int_equal(stops_runtime_changed(f->stops), 0);
}

static void test_runtime_restarts(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;

        annotations.hook = EXEC_HOOK;
        add(f, &owner);
        answer_list(RUNNING);
        turn();
        assert_int_equal(end_hook(NULL), 0);
        lose_runtime(&owner);
        find_runtime(f);
        answer_status(RUNNING, 0);
        assert_int_equal(wait_for_call(CALL_STOP)->grace_sec, 9);
        lose_runtime(&owner);
        find_runtime(f);
        answer_status(EXITED, now_nsec());
        assert_done(&owner, STOP_STOPPED, "");
        assert_int_equal(world.n_hooks, 1);
        assert_int_equal(owner.n_checks, 1);

        /* One that had ended before. */
        annotations.hook = NULL;
        owner = (Owner){ .says = 1 };
        int64_t before = now_nsec();
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
static void test_asks_again(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;

        add(f, &owner);
        answer_list(RUNNING);
        refuse(wait_for_call(CALL_STOP), ERROR_TIMEOUT, "Deadline Exceeded");
        answer_status(EXITED, now_nsec());
        assert_done(&owner, STOP_STOPPED, "");
}

static void test_refused(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;

        add(f, &owner);
        answer_list(RUNNING);
        refuse(wait_for_call(CALL_STOP), ERROR_INTERNAL, "no");
        answer_status(RUNNING, 0);
        answer_stop();
        answer_status(RUNNING, 0);
        refuse(wait_for_call(CALL_STOP), ERROR_INTERNAL, "no, never");
        answer_status(RUNNING, 0);
        assert_done(&owner, STOP_FAILED, "no, never");
        assert_int_equal(n_ended(f, "metadata", "failed"), 1);
        assert_int_equal(n_ended(f, "metadata", "stopped"), 0);
        assert_int_equal(world.n_calls, 7);

        owner = (Owner){ .says = 1 };
        add(f, &owner);
        for (int i = 0; i < 3; i++)
                refuse(wait_for_call(CALL_LIST), ERROR_INTERNAL, "confused");
        assert_done(&owner, STOP_FAILED, "confused");
}

/* What was refused before it could be inspected does not count against the stop itself. */
static void test_refused_in_a_row(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;

        add(f, &owner);
        for (int i = 0; i < 2; i++)
                refuse(wait_for_call(CALL_LIST), ERROR_INTERNAL, "confused");
        answer_list(RUNNING);
        refuse(wait_for_call(CALL_STOP), ERROR_INTERNAL, "not now");
        answer_status(RUNNING, 0);
        assert_false(owner.is_done);
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&owner, STOP_STOPPED, "");
}

/* The agent is killed and started again, with this in its journal. */
static void start_again_with(Fixture *f, const StopRecord *record) {
        StopJournal *journal;

        stops_free(f->stops);
        assert_int_equal(stop_journal_new(f->folder, &journal, NULL), 0);
        assert_int_equal(stop_journal_set(journal, record, NULL), 0);
        stop_journal_free(journal);
        open_stops(f);
}

static StopRecord record_of(StopPhase phase, int64_t deadline_sec, int64_t changed_sec) {
        return (StopRecord){
                .owner = (char *) "metadata",
                .container_id = (char *) "c1",
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

        assert_int_equal(stop_journal_new(f->folder, &journal, NULL), 0);
        record = stop_journal_find(journal, "metadata", "c1");
        phase = record ? record->phase : STOP_PHASE_NONE;
        stop_journal_free(journal);
        return phase;
}

static void wait_until_over(const Fixture *f) {
        while (stops_n_running(f->stops) > 0)
                assert_true(sd_event_run(world.event, WAIT_USEC) > 0);
}

/* No owner asks for it any more: it is finished all the same, within its time, and no hook runs. */
static void test_killed(void **state) {
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
        Fixture *f = *state;

        annotations.hook = EXEC_HOOK;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int64_t began = now_sec() - 4;

                write_journal(f, cases[i].phase, now_sec() + cases[i].left_sec, began);
                assert_int_equal(stops_n_running(f->stops), 1);
                answer_list(RUNNING);
                assert_in_range(wait_for_call(CALL_STOP)->grace_sec, cases[i].least, cases[i].most);
                assert_int_equal(phase_in_file(f), STOP_PHASE_STOPPING);
                answer_stop();
                answer_status(EXITED, now_nsec());
                assert_int_equal(stops_n_running(f->stops), 0);
                assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
                assert_int_equal(phase_in_file(f), STOP_PHASE_STOPPED);
                assert_int_equal(n_ended(f, "metadata", "stopped"), (int) i + 1);
        }
        assert_int_equal(world.n_hooks, 0);
        assert_int_equal(world.n_questions, 0);
        assert_string_equal(world.events, "");
}

static void kill_and_start(Fixture *f) {
        stops_free(f->stops);
        open_stops(f);
}

/* In each phase, one after the other: the hook has run once, and its time has begun once. */
static void test_killed_in_each_phase(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;
        StopJournal *journal;
        const StopRecord *record;
        StopClock now;

        annotations.hook = EXEC_HOOK;
        add(f, &owner);
        answer_list(RUNNING);
        turn();
        assert_true(the_hook()->is_running);
        stop_clock_read(&now);
        assert_int_equal(stop_journal_new(f->folder, &journal, NULL), 0);
        record = stop_journal_find(journal, "metadata", "c1");
        assert_string_equal(record->runtime, "containerd");
        assert_string_equal(record->boot_id, now.boot_id);
        assert_in_range(record->uptime_sec, now.uptime_sec - 5, now.uptime_sec);
        assert_in_range(record->deadline_sec - record->changed_sec, 8, 9);
        stop_journal_free(journal);

        for (int i = 0; i < 2; i++) {
                kill_and_start(f);
                answer_list(RUNNING);
                assert_in_range(wait_for_call(CALL_STOP)->grace_sec, 3, 9);
        }
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
        assert_int_equal(world.n_hooks, 1);

        /* And nothing is left to do. */
        kill_and_start(f);
        assert_int_equal(stops_n_running(f->stops), 0);
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
}

/* Forward or back: what is left is counted by another one. */
static void test_killed_and_clock_set(void **state) {
        Fixture *f = *state;

        for (int days = -2; days <= 2; days += 4) {
                StopRecord record = record_of(STOP_PHASE_STOPPING, 0, now_sec() + days * 86400);
                StopClock now;

                stop_clock_read(&now);
                record.deadline_sec = record.changed_sec + 600;
                record.uptime_sec = now.uptime_sec - 20;
                record.boot_id = now.boot_id;
                start_again_with(f, &record);
                answer_list(RUNNING);
                assert_in_range(wait_for_call(CALL_STOP)->grace_sec, 560, 580);
        }
}

/* One owner's at a time of a container; the other one finds it ended. Until then the owner's own
 * stop has nothing to do, and neither asks nor runs a hook. */
static void test_killed_and_asked_again(void **state) {
        static const char *const names[] = { "metadata", "recreate/u" };
        Fixture *f = *state;

        annotations.hook = EXEC_HOOK;
        for (size_t i = 0; i < 2; i++) {
                Owner owner = { .says = 1, .name = names[i] };

                write_journal(f, STOP_PHASE_HOOK, now_sec() + 6, now_sec() - 4);
                add(f, &owner);
                assert_int_equal(stops_n_running(f->stops), 2);
                answer_list(RUNNING);
                turn();
                assert_int_equal(count_calls(CALL_LIST), 0);
                assert_false(stop_has_begun(owner.stop));
                answer_stop();
                answer_status(EXITED, now_nsec());
                answer_list(EXITED);
                assert_done(&owner, i == 0 ? STOP_STOPPED : STOP_GONE, "");
                assert_int_equal(owner.n_checks, 0);
        }
        assert_int_equal(world.n_hooks, 0);
}

/* Also while the runtime is away, or silent: the owner's own stop does not come before. */
static void test_killed_and_runtime_away(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;

        world.has_runtime = false;
        write_journal(f, STOP_PHASE_STOPPING, now_sec() + 6, now_sec() - 4);
        add(f, &owner);
        turn();
        find_runtime(f);
        refuse(wait_for_call(CALL_LIST), ERROR_TIMEOUT, "no answer");
        turn();
        assert_int_equal(count_calls(CALL_LIST), 0);
        answer_list(RUNNING); /* it is asked again */
        answer_stop();
        answer_status(EXITED, now_nsec());
        answer_list(EXITED);
        assert_done(&owner, STOP_STOPPED, "");
        assert_int_equal(owner.n_checks, 0);
}

/* Of its own runtime, wherever that is. */
static void test_killed_and_another_runtime(void **state) {
        StopRecord record = record_of(STOP_PHASE_STOPPING, now_sec() + 6, now_sec() - 4);
        Fixture *f = *state;

        record.runtime = (char *) "cri-o";
        start_again_with(f, &record);
        turn();
        assert_int_equal(count_calls(CALL_LIST), 0);
        assert_int_equal(stops_n_running(f->stops), 1);

        record.runtime = (char *) "containerd";
        start_again_with(f, &record);
        turn();
        assert_int_equal(count_calls(CALL_LIST), 1);
}

/* A journal that could not be written may have two of a container: one after the other. */
static void test_killed_with_two(void **state) {
        StopRecord record = record_of(STOP_PHASE_STOPPING, now_sec() + 6, now_sec() - 4);
        Fixture *f = *state;

        write_journal(f, STOP_PHASE_HOOK, now_sec() + 6, now_sec() - 4);
        record.owner = (char *) "recreate/u";
        start_again_with(f, &record);
        assert_int_equal(stops_n_running(f->stops), 2);
        answer_list(RUNNING);
        answer_stop();
        answer_status(EXITED, now_nsec());
        answer_list(EXITED);
        answer_status(EXITED, now_nsec());
        wait_until_over(f);
}

/* It has ended unnoticed. */
static void test_killed_and_ended(void **state) {
        Fixture *f = *state;

        for (int i = 0; i < 3; i++) {
                StopRecord record = record_of(STOP_PHASE_STOPPING, now_sec() + 5, now_sec() - 4);

                record.began_sec -= 2; /* its hook: that may have ended it, too */
                start_again_with(f, &record);
                if (i == 2) {
                        answer_empty_list();
                } else {
                        answer_list(EXITED);
                        answer_status(EXITED, (now_sec() - (i == 0 ? 5 : 60)) * 1000000000);
                }
                wait_until_over(f);
                assert_int_equal(stops_has_stopped(f->stops, "metadata", "c1"), i != 1);
                assert_int_equal(count_calls(CALL_STOP), 0);
        }
}

/* Whatever was under way then. While a stop goes on that its owner has added, it is that one which
 * knows. */
static void test_killed_and_has_stopped(void **state) {
        static const StopPhase phases[] = { STOP_PHASE_HOOK, STOP_PHASE_STOPPING,
                                            STOP_PHASE_STOPPED };
        Fixture *f = *state;

        for (size_t i = 0; i < 3; i++) {
                Owner owner = { .says = 1 };

                write_journal(f, phases[i], now_sec() + 5, now_sec() - 4);
                assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
                assert_false(stops_has_stopped(f->stops, "recreate/u", "c1"));
                add(f, &owner);
                assert_int_equal(stops_has_stopped(f->stops, "metadata", "c1"), i == 2);
                stop_leave(owner.stop);
                assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
        }
}

static void test_find_owner(void **state) {
        Fixture *f = *state;

        write_journal(f, STOP_PHASE_STOPPED, now_sec(), now_sec());
        assert_string_equal(stops_find_owner(f->stops, "metadata", "c1"), "metadata");
        assert_null(stops_find_owner(f->stops, "meta", "c1"));
        assert_null(stops_find_owner(f->stops, "metadata/1", "c1"));
        assert_null(stops_find_owner(f->stops, "metadata", "c2"));

        write_journal_of(f, "metadata/1/2", now_sec());
        assert_string_equal(stops_find_owner(f->stops, "metadata", "c1"), "metadata/1/2");
        assert_string_equal(stops_find_owner(f->stops, "metadata/1", "c1"), "metadata/1/2");
        assert_null(stops_find_owner(f->stops, "metadata/", "c1"));
        assert_null(stops_find_owner(f->stops, "metadata/1/2/3", "c1"));
}

static void test_forgotten(void **state) {
        Fixture *f = *state;

        write_journal(f, STOP_PHASE_STOPPED, now_sec(), now_sec());
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

/* What waits for its turn, or for an answer, can still be left; what has begun cannot. */
static void test_has_begun(void **state) {
        Owner owner = { .says = 0 };
        Fixture *f = *state;

        annotations.hook = EXEC_HOOK;
        add(f, &owner);
        assert_false(stop_has_begun(owner.stop));
        answer_list(RUNNING);
        assert_int_equal(owner.n_checks, 1);
        assert_false(stop_has_begun(owner.stop));
        assert_int_equal(stop_answer(owner.stop, true, NULL), 0);
        turn();
        assert_true(stop_has_begun(owner.stop));
        assert_int_equal(end_hook(NULL), 0);
        lose_runtime(&owner);
        assert_true(stop_has_begun(owner.stop));
        find_runtime(f);
        answer_status(EXITED, now_nsec());
        assert_done(&owner, STOP_STOPPED, "");
}

static void test_init_container(void **state) {
        Owner owner = { .says = 1 };
        StopOptions options = options_of(&owner);
        Fixture *f = *state;

        options.is_init = true;
        add_with(f, &owner, &options);
        answer_list(RUNNING);
        (void) wait_for_call(CALL_STOP);
        assert_non_null(strstr(world.events, "Normal/Killing Pod/team/web-0/uid-1 "
                                             "spec.initContainers{app}: Stopping container app"));
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&owner, STOP_STOPPED, "");
}

static void test_two_owners(void **state) {
        Owner first = { .says = 1 }, second = { .says = 1, .name = "recreate/u" };
        Fixture *f = *state;

        add(f, &first);
        add(f, &second);
        answer_list(RUNNING);
        answer_stop();
        turn();
        assert_int_equal(count_calls(CALL_LIST), 0);
        answer_status(EXITED, now_nsec());
        assert_done(&first, STOP_STOPPED, "");
        answer_list(EXITED);
        assert_done(&second, STOP_GONE, "");
        assert_int_equal(n_ended(f, "metadata", "stopped"), 1);
        assert_int_equal(n_ended(f, "recreate", "gone"), 1);
}

/* One that waits for a kubelet does not hold up one that needs none. */
static void test_two_owners_and_no_kubelet(void **state) {
        Owner first = { .says = 1 }, second = { .says = 1, .name = "recreate/u" };
        StopOptions options = options_of(&first);
        Fixture *f = *state;

        options.needs_kubelet = true;
        add_with(f, &first, &options);
        add(f, &second);
        answer_list(RUNNING);
        answer_kubelet(KUBELET_AWAY, "x");
        answer_list(RUNNING);
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&second, STOP_STOPPED, "");
        stop_leave(first.stop);
}

#define CROWD 20

static void test_crowd(void **state) {
        Owner owners[CROWD];
        Fixture *f = *state;
        char id[32];

        for (int i = 0; i < CROWD; i++) {
                owners[i] = (Owner){ .says = 1 };
                StopOptions options = options_of(&owners[i]);
                snprintf(id, sizeof(id), "c%d", i);
                options.container_id = id;
                add_with(f, &owners[i], &options);
        }
        turn();
        assert_int_equal(count_calls(CALL_LIST), 16);
        assert_int_equal(stops_n_running(f->stops), CROWD);

        /* One that ends makes room, and so does one that is left. */
        answer_list(EXITED);
        turn();
        assert_int_equal(count_calls(CALL_LIST), 16);
        assert_string_equal(owners[16].steps, "inspecting ");
        stop_leave(owners[1].stop);
        turn();
        assert_string_equal(owners[17].steps, "inspecting ");
        assert_string_equal(owners[18].steps, "");

        /* And one that has begun, after a while. */
        answer_list(RUNNING);
        turn();
        assert_int_equal(count_calls(CALL_STOP), 1);
        assert_int_equal(count_calls(CALL_LIST), 15);
        while (count_calls(CALL_LIST) < 16)
                assert_true(sd_event_run(world.event, WAIT_USEC) > 0);
        assert_string_equal(owners[18].steps, "inspecting ");
        assert_string_equal(owners[19].steps, "");
}

/* Owners who cannot say whether it still holds do not keep others waiting. */
/* A slot is free again after that long, and no sooner. */
static void test_pace_of_slots(void **state) {
        Owner owners[CROWD];
        Fixture *f = *state;
        char id[32];

        still_begin();
        for (int i = 0; i < CROWD; i++) {
                owners[i] = (Owner){ .says = 1 };
                StopOptions options = options_of(&owners[i]);
                snprintf(id, sizeof(id), "c%d", i);
                options.container_id = id;
                add_with(f, &owners[i], &options);
        }
        turn();
        assert_int_equal(count_calls(CALL_LIST), 16);
        still_pass(world.event, 249999);
        assert_int_equal(count_calls(CALL_LIST), 16);
        still_pass(world.event, 1);
        assert_int_equal(count_calls(CALL_LIST), CROWD);
}

/* Whether the kubelet is back is asked once a second. */
static void test_pace_of_questions(void **state) {
        Owner owner = { .says = 1 };
        StopOptions options = options_of(&owner);
        Fixture *f = *state;

        still_begin();
        options.needs_kubelet = true;
        add_with(f, &owner, &options);
        answer_list(RUNNING);
        for (unsigned i = 1; i < 4; i++) {
                assert_int_equal(world.n_questions, i);
                answer_kubelet(KUBELET_AWAY, "nothing answers");
                still_pass(world.event, 999999);
                assert_int_equal(world.n_questions, i);
                still_pass(world.event, 1);
        }
        stop_leave(owner.stop);
}

/* A runtime that refuses is asked again after one second, then after two. */
static void test_pace_of_refusals(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;

        still_begin();
        add(f, &owner);
        for (unsigned i = 1; i < 3; i++) {
                refuse(wait_for_call(CALL_LIST), ERROR_INTERNAL, "confused");
                still_pass(world.event, i * 1000000 - 1);
                assert_int_equal(count_calls(CALL_LIST), 0);
                still_pass(world.event, 1);
                assert_int_equal(count_calls(CALL_LIST), 1);
        }
        refuse(wait_for_call(CALL_LIST), ERROR_INTERNAL, "confused");
        assert_done(&owner, STOP_FAILED, "confused");
}

/* What is left of the grace period when the hook has ended, by the second. */
static void test_pace_of_the_hook(void **state) {
        static const struct {
                uint64_t hook_usec;
                int64_t left_sec;
        } rows[] = { { 0, 9 },       { 999999, 9 },  { 1000000, 8 }, { 6000000, 3 },
                     { 6999999, 3 }, { 7000000, 2 }, { 9000000, 2 }, { 60000000, 2 } };
        Fixture *f = *state;

        annotations.hook = EXEC_HOOK;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                Owner owner = { .says = 1 };

                still_begin();
                add(f, &owner);
                answer_list(RUNNING);
                turn();
                assert_int_equal(the_hook()->timeout_usec, 9000000);
                still_pass(world.event, rows[i].hook_usec);
                assert_int_equal(end_hook(NULL), 0);
                assert_int_equal(wait_for_call(CALL_STOP)->grace_sec, rows[i].left_sec);
                answer_stop();
                answer_status(EXITED, now_nsec());
                assert_done(&owner, STOP_STOPPED, "");
                assert_int_equal(stops_forget(f->stops, "metadata", "c1"), 0);
        }
}

static void test_undecided(void **state) {
        Owner owners[CROWD], second = { .says = 1, .name = "recreate/u" };
        StopOptions options;
        Fixture *f = *state;
        char id[32];

        for (int i = 0; i < CROWD; i++) {
                owners[i] = (Owner){ .says = 0 };
                options = options_of(&owners[i]);
                snprintf(id, sizeof(id), "c%d", i);
                options.container_id = id;
                add_with(f, &owners[i], &options);
        }
        options = options_of(&second);
        options.container_id = "c0";
        add_with(f, &second, &options);
        for (int i = 0; i < CROWD; i++)
                answer_list(RUNNING);
        while (owners[CROWD - 1].n_checks == 0)
                assert_true(sd_event_run(world.event, WAIT_USEC) > 0);
        answer_list(RUNNING);
        assert_string_equal(wait_for_call(CALL_STOP)->id, "c0");
        assert_true(stop_has_begun(second.stop));
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&second, STOP_STOPPED, "");
        assert_false(owners[0].is_done);
}

/* The second comes while the first asks whether it still holds, and has begun before the answer. */
static void overtake(Fixture *f, Owner *first, Owner *second) {
        add(f, first);
        answer_list(RUNNING);
        add(f, second);
        answer_list(RUNNING);
        (void) wait_for_call(CALL_STOP);
        assert_int_equal(stop_answer(first->stop, true, NULL), 0);
        turn();
        assert_int_equal(count_calls(CALL_STOP), 1);
        assert_string_equal(first->steps, "inspecting queued ");
}

static void test_overtaken(void **state) {
        Owner first = { .says = 0 }, second = { .says = 1, .name = "request/1" };
        Fixture *f = *state;

        overtake(f, &first, &second);
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&second, STOP_STOPPED, "");
        answer_list(EXITED);
        assert_done(&first, STOP_GONE, "");
        assert_false(stops_has_stopped(f->stops, "metadata", "c1"));

        /* In vain: then it is asked for again, and no other has begun. */
        first = (Owner){ .says = 0 };
        second = (Owner){ .says = 1, .name = "request/2" };
        overtake(f, &first, &second);
        for (int i = 0; i < 3; i++) {
                refuse(wait_for_call(CALL_STOP), ERROR_INTERNAL, "no");
                answer_status(RUNNING, 0);
        }
        assert_done(&second, STOP_FAILED, "no");
        first.says = 1;
        answer_list(RUNNING);
        assert_int_equal(first.n_checks, 2);
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&first, STOP_STOPPED, "");
}

/* All over before the answer: nothing is announced or done that comes too late. */
static void test_overtaken_long_since(void **state) {
        Owner first = { .says = 0 }, second = { .says = 1, .name = "request/1" };
        Fixture *f = *state;

        annotations.hook = EXEC_HOOK;
        add(f, &first);
        answer_list(RUNNING);
        add(f, &second);
        answer_list(RUNNING);
        turn();
        assert_int_equal(end_hook(NULL), 0);
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&second, STOP_STOPPED, "");
        world.events[0] = '\0';
        assert_int_equal(stop_answer(first.stop, true, NULL), 0);
        answer_list(EXITED);
        assert_done(&first, STOP_GONE, "");
        assert_int_equal(world.n_hooks, 1);
        assert_string_equal(world.events, "");
}

/* Both are asked about at a time: the one that is answered first begins, and the other does not. */
static void test_overtaken_while_inspecting(void **state) {
        Owner first = { .says = 0 }, second = { .says = 1, .name = "request/1" };
        Fixture *f = *state;

        add(f, &first);
        answer_list(RUNNING);
        add(f, &second);
        (void) wait_for_call(CALL_LIST);
        assert_int_equal(stop_answer(first.stop, true, NULL), 0);
        turn();
        assert_true(stop_has_begun(first.stop));
        answer_list(RUNNING);
        turn();
        assert_false(stop_has_begun(second.stop));
        assert_int_equal(count_calls(CALL_STOP), 1);
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&first, STOP_STOPPED, "");
        answer_list(EXITED);
        assert_done(&second, STOP_GONE, "");
}

static void test_left(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;

        add(f, &owner);
        stop_leave(owner.stop);
        turn();
        assert_int_equal(world.n_calls, 0);
        assert_int_equal(stops_n_running(f->stops), 0);

        add(f, &owner);
        answer_list(RUNNING);
        (void) wait_for_call(CALL_STOP);
        stop_leave(owner.stop);
        assert_int_equal(stops_n_running(f->stops), 1);
        answer_stop();
        answer_status(EXITED, now_nsec());
        turn();
        assert_false(owner.is_done);
        assert_int_equal(n_ended(f, "metadata", "stopped"), 1);
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
}

static void test_bad_id(void **state) {
        static const char *const bad[] = { "", "a b", "\"", "ä" };
        Fixture *f = *state;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                Owner owner = { .says = 1 };
                StopOptions options = options_of(&owner);

                options.container_id = bad[i];
                add_with(f, &owner, &options);
                assert_done(&owner, STOP_FAILED, "this is not the ID of a container");
        }
        assert_int_equal(world.n_calls, 0);
}

static void test_freed(void **state) {
        Owner first = { .says = 1 }, second = { .says = 1, .name = "other" };
        Fixture *f = *state;

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
static void test_no_journal(void **state) {
        Owner owner = { .says = 1 };
        Fixture *f = *state;
        char folder[32];

        stops_free(f->stops);
        strcpy(folder, f->folder);
        strcpy(f->folder, "/proc/none");
        open_stops(f);
        strcpy(f->folder, folder);
        add(f, &owner);
        answer_list(RUNNING);
        answer_stop();
        answer_status(EXITED, now_nsec());
        assert_done(&owner, STOP_STOPPED, "");
        assert_true(stops_has_stopped(f->stops, "metadata", "c1"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_stopped),
                TEST(test_gone),
                TEST(test_ended_by_itself),
                TEST(test_check),
                TEST(test_hook),
                TEST(test_hook_without_tls),
                TEST(test_hook_takes_time),
                TEST(test_no_grace),
                TEST(test_bad_hook),
                TEST(test_hook_address),
                TEST(test_kubelet),
                TEST(test_runtime_away),
                TEST(test_runtime_silent),
                TEST(test_runtime_restarts),
                TEST(test_asks_again),
                TEST(test_refused),
                TEST(test_refused_in_a_row),
                TEST(test_killed),
                TEST(test_killed_in_each_phase),
                TEST(test_killed_and_clock_set),
                TEST(test_killed_and_asked_again),
                TEST(test_killed_and_runtime_away),
                TEST(test_killed_and_another_runtime),
                TEST(test_killed_with_two),
                TEST(test_killed_and_ended),
                TEST(test_killed_and_has_stopped),
                TEST(test_find_owner),
                TEST(test_forgotten),
                TEST(test_has_begun),
                TEST(test_init_container),
                TEST(test_two_owners),
                TEST(test_two_owners_and_no_kubelet),
                TEST(test_crowd),
                TEST(test_pace_of_slots),
                TEST(test_pace_of_questions),
                TEST(test_pace_of_refusals),
                TEST(test_pace_of_the_hook),
                TEST(test_undecided),
                TEST(test_overtaken),
                TEST(test_overtaken_long_since),
                TEST(test_overtaken_while_inspecting),
                TEST(test_left),
                TEST(test_bad_id),
                TEST(test_freed),
                TEST(test_no_journal),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
