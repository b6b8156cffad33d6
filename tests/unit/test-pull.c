/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests one pull, from a runtime that answers when a test says so: its place in the queues, its
 * requests, and its status meanwhile
 */

#include <dlfcn.h>
#include <time.h>

#include "agent/image/pull.h"
#include "tests/unit/content-store.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/unit.h"

#define N_OTHERS 6
#define ID "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"

typedef struct Fixture {
        sd_event *event;
        PullContext context;
        OnDemandContext on_demand; /* part of it */
        Ticket others[N_OTHERS];   /* tickets of other owners, in the same queue */
        Pull *pull;
        bool is_changed;
        PullCredentialsReady on_keys; /* while the source of credentials is asked */
        int64_t backoff_limit, refusal_limit, active_deadline_sec;
        bool is_complete;
        unsigned n_answers; /* answers of the registry */
        bool was_away;      /* the registry was away before it answered */
} Fixture;

/* So much later the pull believes it to be. */
static uint64_t later_usec;

int sd_event_now(sd_event *event, clockid_t clock, uint64_t *ret) {
        int (*original)(sd_event *, clockid_t, uint64_t *) = dlsym(RTLD_NEXT, "sd_event_now");
        int r = original(event, clock, ret);

        *ret += later_usec;
        return r;
}

/* The fixture is the source, and the question. */
static int keys_ask(void *source, const PullCredentialsQuestion *question,
                    PullCredentialsReady on_ready, void *userdata, PullCredentialsAsk **ret) {
        Fixture *fixture = source;

        assert_null(fixture->on_keys);
        fixture->on_keys = on_ready;
        *ret = source;
        return 0;
}

static PullCredentialsAsk *keys_drop(PullCredentialsAsk *ask) {
        if (ask)
                ((Fixture *) ask)->on_keys = NULL;
        return NULL;
}

static void on_changed(Pull *pull, void *userdata) {
        Fixture *fixture = userdata;

        fixture->is_changed = true;
}

static void on_answered(const char *registry, void *userdata) {
        Fixture *fixture = userdata;

        assert_int_equal(!registry, fixture->was_away);
        if (registry)
                assert_string_equal(registry, "docker.io");
        fixture->n_answers++;
}

static void open_fixture(Fixture *fixture) {
        later_usec = 0;
        fixture->backoff_limit = 1;
        fixture->refusal_limit = fixture->active_deadline_sec = DESIRED_IMAGE_NO_LIMIT;
        fixture->context.on_answered = on_answered;
        fixture->context.userdata = fixture;

        assert_true(sd_event_new(&fixture->event) >= 0);
        fake_runtime_reset();
        fixture->context.event = fixture->event;
        fixture->on_demand.event = fixture->event;
        fixture->context.on_demand = &fixture->on_demand;
        fixture->context.keys =
                (PullCredentialsSource){ .ask = keys_ask, .drop = keys_drop, .source = fixture };
        assert_ok(queue_new(1, &fixture->context.inspections));
        assert_ok(queue_new(1, &fixture->context.pulls));
        assert_ok(progress_tracker_new(fixture->event, NULL, 0, &fixture->context.progress));
        assert_ok(leases_new((const Runtimes *) &fake_runtime, &fixture->context.leases));
        assert_ok(
                disk_guard_new(&(DiskGuardOptions){ .event = fixture->event,
                                                    .runtimes = (const Runtimes *) &fake_runtime },
                               &fixture->context.disk));
}

static void close_fixture(Fixture *fixture) {
        fixture->pull = pull_free(fixture->pull);
        assert_int_equal(fake_runtime_n_calls(), 0);
        assert_null(fixture->on_keys);
        for (size_t i = 0; i < N_OTHERS; i++)
                queue_leave(&fixture->others[i]);
        progress_tracker_free(fixture->context.progress);
        leases_free(fixture->context.leases);
        disk_guard_free(fixture->context.disk);
        queue_free(fixture->context.inspections);
        queue_free(fixture->context.pulls);
        sd_event_unref(fixture->event);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static void make_desired(DesiredImage *desired, int64_t version, PullPolicy policy) {
        assert_ok(desired_image_init(desired, "nginx", "1.25"));
        desired->version = version;
        desired->policy = policy;
        desired->backoff_limit = 1;
}

static void start(Fixture *fixture, const char *owner, int64_t version, PullPolicy policy) {
        cleanup(desired_image_done) DesiredImage desired;
        ImageRef ref;

        make_desired(&desired, version, policy);
        desired.backoff_limit = fixture->backoff_limit;
        desired.refusal_limit = fixture->refusal_limit;
        desired.active_deadline_sec = fixture->active_deadline_sec;
        desired.is_complete = fixture->is_complete;
        assert_ok(image_ref_from_node_image("nginx", "1.25", SHORT_NAMES_HUB, &ref, NULL));
        assert_ok(pull_new(&fixture->context, &desired, &ref, owner, on_changed, fixture,
                           &fixture->pull));
        assert_ok(pull_start(fixture->pull));
}

/* Serves the queue until it is the pull's turn, and returns how many came before. */
static unsigned count_before(Fixture *fixture) {
        for (unsigned n = 0; n < 100; n++) {
                Ticket *ticket = queue_serve(fixture->context.inspections);

                assert_non_null(ticket);
                if (ticket < fixture->others || ticket >= fixture->others + N_OTHERS)
                        return n;
                queue_leave(ticket);
        }

        fail();
        return 0;
}

static void enter_others(Fixture *fixture, const char *owner) {
        for (size_t i = 0; i < N_OTHERS; i++)
                assert_ok(queue_enter(fixture->context.inspections, &fixture->others[i], owner));
}

static void assert_status(const Fixture *fixture, ImagePhase phase, ImageStep step) {
        assert_int_equal(pull_status(fixture->pull)->phase, phase);
        assert_int_equal(pull_status(fixture->pull)->step, step);
}

TEST_F(test_waits_for_its_turn, Fixture *fixture) {
        start(fixture, "a", 3, PULL_POLICY_ALWAYS);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_QUEUED);
        assert_int_equal(pull_status(fixture->pull)->version, 3);
        assert_int_equal(pull_status(fixture->pull)->started_at, 0);
        assert_int_equal(queue_n_waiting(fixture->context.inspections), 1);
}

/* It says so, and keeps no slot that others could use. */
TEST_F(test_waits_for_the_runtime, Fixture *fixture) {
        static const PullPolicy policies[] = { PULL_POLICY_ALWAYS, PULL_POLICY_IF_NOT_PRESENT };

        for (size_t i = 0; i < 2; i++) {
                fake_runtime.is_away = true;
                start(fixture, "a", 1, policies[i]);
                assert_ok(pulls_serve(&fixture->context));
                assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_RUNTIME);
                assert_true(fixture->is_changed);
                assert_int_equal(queue_n_served(fixture->context.inspections), 0);
                assert_int_equal(queue_n_waiting(fixture->context.inspections), 0);
                assert_int_equal(queue_n_waiting(fixture->context.pulls), 0);

                assert_ok(pull_on_runtime_changed(fixture->pull));
                assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_RUNTIME);
                fixture->pull = pull_free(fixture->pull);
        }
}

/* The message at the end says so. */
TEST_F(test_runtime_is_away_until_the_deadline, Fixture *fixture) {
        fixture->active_deadline_sec = 1;
        fake_runtime.is_away = true;
        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        assert_ok(pulls_serve(&fixture->context));
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_RUNTIME);
        while (pull_status(fixture->pull)->phase == IMAGE_WAITING)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_DEADLINE);
        assert_contains(pull_status(fixture->pull)->message,
                        "; before that: RuntimeUnavailable: no container runtime answers; "
                        "check that the container runtime is running");
}

/* Only the runtime's absence counts before the pull has its turn. */
TEST_F(test_runtime_returns_before_its_turn, Fixture *fixture) {
        fixture->active_deadline_sec = 1;
        fake_runtime.is_away = true;
        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        assert_ok(pulls_serve(&fixture->context));
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_RUNTIME);
        assert_true(pull_is_timed(fixture->pull));
        fake_runtime.is_away = false;
        assert_ok(pull_on_runtime_changed(fixture->pull));
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_QUEUED);
        assert_false(pull_is_timed(fixture->pull));
}

TEST_F(test_runtime_goes_while_it_waits, Fixture *fixture) {
        fake_runtime.is_away = true;
        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        assert_ok(pull_on_runtime_changed(fixture->pull));
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_RUNTIME);
        assert_null(queue_serve(fixture->context.inspections));
        assert_ok(pull_join(fixture->pull, "b"));
        assert_null(queue_serve(fixture->context.inspections));
}

/* A runtime that answers nothing has refused no image, unlike one that hangs over this image alone. */
TEST_F(test_runtime_is_silent, Fixture *fixture) {
        fixture->backoff_limit = 0;
        start(fixture, "a", 1, PULL_POLICY_IF_NOT_PRESENT);
        assert_ok(pulls_serve(&fixture->context));
        fake_runtime_refuse("ImageStatus", ERROR_TIMEOUT, "too late");
        fake_runtime_refuse("Version", ERROR_TIMEOUT, "too late");
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_RUNTIME_UNAVAILABLE);
        assert_int_equal(pull_result(fixture->pull).failures.n, 0);

        assert_true(pull_kick(fixture->pull));
        while (queue_n_waiting(fixture->context.inspections) == 0)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        assert_ok(pulls_serve(&fixture->context));
        fake_runtime_refuse("ImageStatus", ERROR_TIMEOUT, "too late");
        fake_runtime_answer("Version", NULL, NULL);
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_int_equal(pull_result(fixture->pull).failures.n, 1);
}

/* A runtime that ends takes no call for as long as others run, and keeps the connection. */
TEST_F(test_runtime_takes_no_calls, Fixture *fixture) {
        fixture->backoff_limit = 0;
        start(fixture, "a", 1, PULL_POLICY_IF_NOT_PRESENT);
        assert_ok(pulls_serve(&fixture->context));
        fake_runtime_refuse("ImageStatus", ERROR_UNAVAILABLE, "GOAWAY received");
        fake_runtime_refuse("Version", ERROR_UNAVAILABLE, "GOAWAY received");
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_int_equal(pull_result(fixture->pull).failures.n, 0);
        assert_contains(pull_status(fixture->pull)->message,
                        "RuntimeUnavailable: GOAWAY received; ");

        assert_true(pull_kick(fixture->pull));
        while (queue_n_waiting(fixture->context.inspections) == 0)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        assert_ok(pulls_serve(&fixture->context));
        fake_runtime_refuse("ImageStatus", ERROR_UNAVAILABLE, "not now");
        fake_runtime_answer("Version", NULL, NULL);
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_contains(pull_status(fixture->pull)->message, "RuntimeUnavailable: not now; ");
}

TEST_F(test_leaves_the_queue, Fixture *fixture) {
        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        fixture->pull = pull_free(fixture->pull);
        assert_int_equal(queue_n_waiting(fixture->context.inspections), 0);
        assert_null(pull_free(NULL));
}

/* Until the timer of the disk has run. */
static void pass_time(Fixture *fixture) {
        assert_true(sd_event_run(fixture->event, 10 * 1000 * 1000) > 0);
}

static void set_floor(Fixture *fixture, uint64_t bytes) {
        const DiskFloor floor = { .bytes = bytes };

        fake_runtime.image_path = "/";
        disk_guard_set_floor(fixture->context.disk, &floor);
}

/* Desired by a busy owner and then by an idle one, it goes with the idle one. */
TEST_F(test_join_of_an_idle_owner, Fixture *fixture) {
        enter_others(fixture, "busy");
        start(fixture, "busy", 1, PULL_POLICY_ALWAYS);
        assert_ok(pull_join(fixture->pull, "idle"));
        assert_in_range(count_before(fixture), 0, 1);
}

/* Desired by an idle owner and then by a busy one, it does not lose its place. */
TEST_F(test_join_of_a_busy_owner, Fixture *fixture) {
        start(fixture, "idle", 1, PULL_POLICY_ALWAYS);
        enter_others(fixture, "busy");
        assert_ok(pull_join(fixture->pull, "busy"));
        assert_in_range(count_before(fixture), 0, 1);
}

static void serve(Fixture *fixture) {
        assert_ok(pulls_serve(&fixture->context));
}

static void answer_keys(Fixture *fixture) {
        PullCredentials none = { .named = NULL };

        assert_non_null(fixture->on_keys);
        assert_int_equal(fixture->on_keys(&none, NULL, fixture->pull), 0);
}

static void assert_slots(const Fixture *fixture, size_t n_inspections, size_t n_pulls) {
        assert_int_equal(queue_n_served(fixture->context.inspections), n_inspections);
        assert_int_equal(queue_n_served(fixture->context.pulls), n_pulls);
}

/* Until PullImage runs. */
static void begin(Fixture *fixture, PullPolicy policy) {
        start(fixture, "a", 1, policy);
        serve(fixture);
        if (policy == PULL_POLICY_IF_NOT_PRESENT) {
                fake_runtime_answer_status(NULL);
                serve(fixture);
        }
        answer_keys(fixture);
}

/* An image that is there needs no slot for a pull, and no credentials. */
TEST_F(test_is_there, Fixture *fixture) {
        start(fixture, "a", 1, PULL_POLICY_IF_NOT_PRESENT);
        serve(fixture);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_INSPECTING);
        assert_slots(fixture, 1, 0);
        fake_runtime_answer_status(ID);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
        assert_true(pull_status(fixture->pull)->was_present);
        assert_true(pull_status(fixture->pull)->is_counted);
        assert_true(pull_status(fixture->pull)->started_at > 0);
        assert_slots(fixture, 0, 0);
        assert_int_equal(fake_runtime_n_asked("PullImage"), 0);
}

#define PART "{\"digest\":\"sha256:layer\",\"size\":4000000,\"fetchedSize\":1000000}\n"
#define MORE "{\"digest\":\"sha256:layer\",\"size\":4000000,\"fetchedSize\":2000000}\n"
#define ALL "{\"digest\":\"sha256:layer\",\"size\":4000000,\"fetchedSize\":4000000}\n"

/* Until the runtime has said how it keeps the layers. */
static void find_on_demand(Fixture *fixture, bool is_complete, const char *files) {
        fake_runtime.shows_layers = true;
        fixture->is_complete = is_complete;
        start(fixture, "a", 1, PULL_POLICY_IF_NOT_PRESENT);
        serve(fixture);
        fake_runtime_answer_status(ID);
        assert_int_equal(pull_status(fixture->pull)->phase, IMAGE_WAITING);
        fake_runtime_answer_layers(files);
}

/* It is no failure, and no secret. */
TEST_F(test_is_on_demand, Fixture *fixture) {
        find_on_demand(fixture, false, PART);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
        assert_string_equal(pull_status(fixture->pull)->message,
                            "1 of 1 layers are fetched on demand, 1.0 of 4.0 MB of them are on the "
                            "node");
        assert_int_equal(pull_status(fixture->pull)->on_demand.bytes_present, 1000000);
        assert_slots(fixture, 0, 0);
}

static void ask_again(Fixture *fixture, const char *files) {
        while (!fake_runtime_find("Info"))
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        fake_runtime_answer_layers(files);
}

/* It keeps no slot meanwhile. */
TEST_F(test_is_completed, Fixture *fixture) {
        find_on_demand(fixture, true, PART);
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_DOWNLOADING);
        assert_slots(fixture, 0, 0);
        assert_int_equal(pull_status(fixture->pull)->bytes_done, 1000000);
        assert_int_equal(pull_status(fixture->pull)->bytes_total, 4000000);
        ask_again(fixture, MORE);
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_DOWNLOADING);
        assert_int_equal(pull_status(fixture->pull)->bytes_done, 2000000);
        ask_again(fixture, ALL);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
        assert_true(pull_status(fixture->pull)->was_present);
}

/* Layers that were visible before may be hidden for a moment. */
TEST_F(test_is_completed_out_of_sight, Fixture *fixture) {
        find_on_demand(fixture, true, PART);
        ask_again(fixture, "");
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_DOWNLOADING);
        assert_int_equal(pull_status(fixture->pull)->bytes_done, 1000000);
        ask_again(fixture, ALL);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
}

/* A wait for an event that cannot be seen would have no end. */
TEST_F(test_cannot_be_completed, Fixture *fixture) {
        find_on_demand(fixture, true, "");
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_INCOMPLETE);
        assert_int_equal(pull_result(fixture->pull).failures.n, 1);
}

TEST_F(test_fetches_no_more, Fixture *fixture) {
        fixture->on_demand.stall_usec = 500 * 1000; /* less than the pause between two questions */
        find_on_demand(fixture, true, PART);
        ask_again(fixture, MORE);
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_DOWNLOADING);
        ask_again(fixture, MORE);
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_NO_PROGRESS);
        assert_true(pull_result(fixture->pull).is_held);
        assert_true(pull_kick(fixture->pull));
        while (pull_is_backing_off(fixture->pull))
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        assert_false(pull_result(fixture->pull).is_held); /* the image may be gone by now */
}

/* The image may be gone when the runtime is back. */
TEST_F(test_runtime_goes_while_it_fetches, Fixture *fixture) {
        find_on_demand(fixture, true, PART);
        assert_true(pull_result(fixture->pull).is_held);
        while (!fake_runtime_find("Info"))
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        fake_runtime.is_away = true;
        fake_runtime_refuse("Info", ERROR_UNAVAILABLE, "connection lost");
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_WAITING_FOR_RUNTIME);
        assert_false(pull_result(fixture->pull).is_held);
}

TEST_F(test_layers_cannot_be_asked_for, Fixture *fixture) {
        fake_runtime.shows_layers = true;
        fixture->is_complete = true;
        start(fixture, "a", 1, PULL_POLICY_IF_NOT_PRESENT);
        serve(fixture);
        fake_runtime_answer_status(ID);
        fake_runtime_refuse("Info", ERROR_INTERNAL, "the database is broken");
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
}

TEST_F(test_is_dropped_while_it_fetches, Fixture *fixture) {
        find_on_demand(fixture, true, PART);
        while (!fake_runtime_find("Info"))
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        fixture->pull = pull_free(fixture->pull);
        assert_int_equal(fake_runtime_n_calls(), 0);
}

/* It keeps no slot meanwhile, and costs no attempt. */
TEST_F(test_waits_for_room, Fixture *fixture) {
        set_floor(fixture, UINT64_MAX);
        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        serve(fixture);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_DISK);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_DISK_PRESSURE);
        assert_slots(fixture, 0, 0);
        pass_time(fixture);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_DISK);

        set_floor(fixture, 0);
        pass_time(fixture);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_QUEUED);
        serve(fixture);
        answer_keys(fixture);
        assert_int_equal(pull_status(fixture->pull)->attempt, 1);
        assert_null(pull_status(fixture->pull)->message);
        assert_int_equal(fake_runtime_n_asked("PullImage"), 1);
}

/* The agent assumes that a file system has room if it does not tell its size. */
TEST_F(test_room_is_not_known, Fixture *fixture) {
        set_floor(fixture, UINT64_MAX);
        fake_runtime.image_path = "/proc";
        begin(fixture, PULL_POLICY_ALWAYS);
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_RESOLVING);
}

/* A pull that is dropped while it waits for room is not called any more. */
TEST_F(test_is_dropped_without_room, Fixture *fixture) {
        set_floor(fixture, UINT64_MAX);
        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        serve(fixture);
        fixture->pull = pull_free(fixture->pull);
        assert_ok(sd_event_run(fixture->event, 0));
}

/* Before the disk is full, the pull is canceled in the runtime as well. Its progress is polled meanwhile. */
TEST_F(test_disk_fills_up, Fixture *fixture) {
        set_floor(fixture, 1);
        begin(fixture, PULL_POLICY_IF_NOT_PRESENT);
        pass_time(fixture);
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_RESOLVING);
        set_floor(fixture, UINT64_MAX);
        pass_time(fixture);
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_DISK_PRESSURE);
        assert_null(fake_runtime_find("PullImage"));
        assert_slots(fixture, 0, 0);
        fake_runtime_refuse("ListIngests", ERROR_UNSUPPORTED, "no such service");
}

static void set_pause(Fixture *fixture, const char *why, bool goes_on) {
        fixture->context.pause = why;
        assert_ok(pull_on_pause_changed(fixture->pull, goes_on));
        serve(fixture);
}

static const char *why_shut(const char *key, void *userdata) {
        assert_contains(key, "/");
        return *(const char **) userdata;
}

/* It leaves the queue to others, costs no attempt, and has its turn once more when the gate is open. */
TEST_F(test_waits_for_the_gate, Fixture *fixture) {
        const char *why = "waits for a slot";

        fixture->context.gate = (PullGate){ why_shut, &why };
        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        serve(fixture);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_SLOT);
        assert_contains(pull_status(fixture->pull)->message, "NodesFirst: waits for a slot; ");
        assert_slots(fixture, 0, 0);
        assert_null(fixture->on_keys);
        set_pause(fixture, "pod x/y waits for its image", false);
        set_pause(fixture, NULL, false);
        fixture->is_changed = false;
        assert_ok(pull_on_gate_changed(fixture->pull));
        assert_false(fixture->is_changed);
        why = "waits for node a";
        assert_ok(pull_on_gate_changed(fixture->pull));
        assert_true(fixture->is_changed);
        assert_contains(pull_status(fixture->pull)->message, "NodesFirst: waits for node a; ");

        why = NULL;
        assert_ok(pull_on_gate_changed(fixture->pull));
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_QUEUED);
        assert_null(pull_status(fixture->pull)->message);
        serve(fixture);
        answer_keys(fixture);
        assert_int_equal(pull_status(fixture->pull)->attempt, 1);
        why = "too late";
        assert_ok(pull_on_gate_changed(fixture->pull));
        fake_runtime_answer_pull(ID);
        fake_runtime_answer_status(ID);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
}

/* The runtime stops fetching at once, no attempt is counted, and the next one goes on with the content. */
TEST_F(test_yields_to_a_pod, Fixture *fixture) {
        begin(fixture, PULL_POLICY_IF_NOT_PRESENT);
        assert_ok(queue_enter(fixture->context.pulls, &fixture->others[0], "a"));
        set_pause(fixture, "pod x/y waits for its image", false);
        assert_null(fake_runtime_find("PullImage"));
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_POD);
        assert_contains(pull_status(fixture->pull)->message,
                        "PodWaits: pod x/y waits for its image; ");
        assert_slots(fixture, 0, 0);
        assert_int_equal(pull_result(fixture->pull).failures.n, 0);

        set_pause(fixture, NULL, false);
        assert_slots(fixture, 0, 1);
        assert_null(pull_status(fixture->pull)->message);
        fake_runtime_answer_status(NULL);
        answer_keys(fixture);
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_RESOLVING);
        assert_int_equal(pull_status(fixture->pull)->attempt, 1);
        assert_int_equal(fake_runtime_n_asked("PullImage"), 2);
        fake_runtime_answer_pull(ID);
        fake_runtime_answer_status(ID);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
}

/* Whether it has begun or not, it fetches nothing that the pod has brought meanwhile. */
TEST_F(test_comes_with_the_pod, Fixture *fixture) {
        for (int has_begun = 0; has_begun < 2; has_begun++) {
                if (has_begun) {
                        begin(fixture, PULL_POLICY_IF_NOT_PRESENT);
                } else {
                        start(fixture, "a", 1, PULL_POLICY_IF_NOT_PRESENT);
                        serve(fixture);
                }
                set_pause(fixture, "why", false);
                if (!has_begun)
                        fake_runtime_answer_status(NULL);
                assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_POD);
                set_pause(fixture, NULL, false);
                assert_slots(fixture, 0, 1);
                set_pause(fixture, "another", false); /* while the runtime is asked */
                assert_null(fake_runtime_find("ImageStatus"));
                set_pause(fixture, NULL, false);
                fake_runtime_answer_status(ID);
                assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
                assert_true(pull_status(fixture->pull)->was_present);
                assert_null(fixture->on_keys);
                assert_slots(fixture, 0, 0);
                assert_int_equal(fake_runtime_n_asked("PullImage"), has_begun);
                fixture->pull = pull_free(fixture->pull);
        }
}

/* A pull that runs may go on, but does not begin. */
TEST_F(test_goes_on_while_a_pod_waits, Fixture *fixture) {
        begin(fixture, PULL_POLICY_IF_NOT_PRESENT);
        set_pause(fixture, "why", true);
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_RESOLVING);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "500");
        assert_true(pull_kick(fixture->pull));
        while (queue_n_waiting(fixture->context.inspections) == 0)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        serve(fixture);
        fake_runtime_answer_status(NULL);
        serve(fixture);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_POD);
        assert_null(fixture->on_keys);
        set_pause(fixture, "another", true);
        assert_contains(pull_status(fixture->pull)->message, "PodWaits: another; ");
}

/* A pause that ends while the runtime is away leaves no reason behind. */
TEST_F(test_pause_ends_without_the_runtime, Fixture *fixture) {
        begin(fixture, PULL_POLICY_IF_NOT_PRESENT);
        set_pause(fixture, "why", false);
        fake_runtime.is_away = true;
        assert_ok(pull_on_runtime_changed(fixture->pull));
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_WAITING_FOR_RUNTIME);
        set_pause(fixture, NULL, false);
        fake_runtime.is_away = false;
        assert_ok(pull_on_runtime_changed(fixture->pull));
        serve(fixture);
        fake_runtime_answer_status(NULL);
        serve(fixture);
        assert_null(pull_status(fixture->pull)->message);
        answer_keys(fixture);
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_RESOLVING);
}

/* It counts as pulled when the runtime shows it. */
TEST_F(test_is_pulled, Fixture *fixture) {
        begin(fixture, PULL_POLICY_IF_NOT_PRESENT);
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_RESOLVING);
        assert_slots(fixture, 0, 1);
        fake_runtime_answer_pull(ID);
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_UNPACKING);
        assert_slots(fixture, 0, 1);
        fake_runtime_answer_status(ID);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
        assert_string_equal(pull_status(fixture->pull)->image_id, ID);
        assert_false(pull_status(fixture->pull)->was_present);
        assert_slots(fixture, 0, 0);
}

/* The time in the queues belongs to others, and does not count. */
TEST_F(test_duration, Fixture *fixture) {
        const uint64_t hour = (uint64_t) 3600 * 1000000;

        start(fixture, "a", 1, PULL_POLICY_IF_NOT_PRESENT);
        assert_ok(queue_enter(fixture->context.pulls, &fixture->others[0], "b"));
        assert_non_null(queue_serve(fixture->context.pulls));
        later_usec += 16 * hour;
        serve(fixture);
        later_usec += hour;
        fake_runtime_answer_status(NULL);
        serve(fixture);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_QUEUED);
        later_usec += 32 * hour;
        queue_leave(&fixture->others[0]);
        serve(fixture);
        fake_runtime_answer_status(NULL); /* it may have come meanwhile */
        answer_keys(fixture);
        later_usec += 2 * hour;
        fake_runtime_answer_pull(ID);
        fake_runtime_answer_status(ID);
        assert_int_equal(pull_status(fixture->pull)->duration_usec / hour, 3);
}

static void wait_for_the_next_attempt(Fixture *fixture) {
        while (queue_n_waiting(fixture->context.inspections) == 0)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);

        serve(fixture);
        answer_keys(fixture);
}

/* The next attempt begins without a pause. */
static void kick(Fixture *fixture) {
        assert_true(pull_kick(fixture->pull));
        wait_for_the_next_attempt(fixture);
}

/* A pause holds no slot, and the second failure is the last. */
TEST_F(test_is_refused, Fixture *fixture) {
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_slots(fixture, 0, 0);
        wait_for_the_next_attempt(fixture);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_NOT_FOUND);
        assert_string_equal(pull_status(fixture->pull)->message,
                            "NotFound: no such image; check the name and the tag (attempt 2 of 2)");
        assert_int_equal(fake_runtime_n_asked("PullImage"), 2);
}

/* A registry that wants credentials is no reason to look for a mistake in its own words alone. */
TEST_F(test_is_refused_without_its_pull_secrets, Fixture *fixture) {
        static const char lacking[] = "secret ns/a: it does not exist";
        PullCredentials keys = { .lacking = strdup(lacking) };

        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        serve(fixture);
        assert_int_equal(fixture->on_keys(&keys, NULL, fixture->pull), 0);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "401 Unauthorized");
        assert_contains(pull_status(fixture->pull)->message, "Unauthorized: 401 Unauthorized; ");
        assert_contains(pull_status(fixture->pull)->message, lacking);
        kick(fixture);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "401 Unauthorized");
        assert_null(strstr(pull_status(fixture->pull)->message, lacking));
}

#define TIMED_OUT "Head \"https://reg.example/v2/\": dial tcp 10.0.0.1:443: i/o timeout"

/* containerd's status of a registry that does not answer is that of an attempt whose time is over. */
TEST_F(test_connection_times_out, Fixture *fixture) {
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("PullImage", ERROR_TIMEOUT, TIMED_OUT);
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_REGISTRY_UNREACHABLE);
        assert_contains(pull_status(fixture->pull)->message, "i/o timeout");

        kick(fixture);
        fake_runtime_refuse("PullImage", ERROR_TIMEOUT, "Deadline Exceeded");
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_DEADLINE);
        assert_contains(pull_status(fixture->pull)->message, "longer than its timeoutSeconds");
}

/* A runtime that does not have an image that it has pulled has failed. */
TEST_F(test_is_not_shown, Fixture *fixture) {
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_answer_pull(ID);
        fake_runtime_answer_status(NULL);
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_WRONG_CONTENT);
}

/* A runtime that goes away has refused nothing. When it comes back, all begins anew; the second time,
 * after a pause. */
TEST_F(test_runtime_goes_while_it_pulls, Fixture *fixture) {
        begin(fixture, PULL_POLICY_ALWAYS);
        for (int i = 0; i < 2; i++) {
                fake_runtime.is_away = true;
                fake_runtime_refuse("PullImage", ERROR_UNAVAILABLE, "connection lost");
                assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_WAITING_FOR_RUNTIME);
                assert_slots(fixture, 0, 0);

                fake_runtime.is_away = false;
                assert_ok(pull_on_runtime_changed(fixture->pull));
                if (i == 1)
                        break;
                assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_QUEUED);
                serve(fixture);
                answer_keys(fixture);
        }
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_int_equal(pull_status(fixture->pull)->attempt, 1);
}

/* The runtime is back before the pull knows that it was away: it does not wait for it. */
TEST_F(test_runtime_is_back_at_once, Fixture *fixture) {
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime.is_away = true;
        fake_runtime.returns = true;
        fake_runtime_refuse("PullImage", ERROR_UNAVAILABLE, "connection lost");
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_QUEUED);
}

/* Without a limit there is always another attempt, and its time is known. */
TEST_F(test_is_refused_without_a_limit, Fixture *fixture) {
        fixture->backoff_limit = DESIRED_IMAGE_NO_LIMIT;
        begin(fixture, PULL_POLICY_ALWAYS);
        for (unsigned n = 1; n < 20; n++) {
                int64_t now = time(NULL);

                fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
                assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
                assert_int_equal(pull_status(fixture->pull)->attempt, n);
                assert_true(pull_status(fixture->pull)->next_attempt_at >= now + 4);
                assert_true(pull_status(fixture->pull)->next_attempt_at <= time(NULL) + 361);
                if (n > 6)
                        assert_true(pull_status(fixture->pull)->next_attempt_at >= now + 240);
                kick(fixture);
                assert_int_equal(pull_status(fixture->pull)->next_attempt_at, 0);
        }
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_string_equal(pull_status(fixture->pull)->message,
                            "NotFound: no such image; check the name and the tag (attempt 20)");
}

/* A registry that refuses for the last time ends the pull, one that does not answer never does. */
TEST_F(test_is_refused_by_the_registry, Fixture *fixture) {
        fixture->backoff_limit = DESIRED_IMAGE_NO_LIMIT;
        fixture->refusal_limit = 1;
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_string_equal(pull_status(fixture->pull)->message,
                            "NotFound: no such image; check the name and the tag (attempt 1 of 2)");
        for (unsigned n = 0; n < 4; n++) {
                kick(fixture);
                fake_runtime_refuse("PullImage", ERROR_INTERNAL, "connection refused");
                assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
                assert_null(strstr(pull_status(fixture->pull)->message, " of "));
        }
        kick(fixture);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "lookup nosuch.example: no such host");
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_contains(pull_status(fixture->pull)->message, "(attempt 6 of 6)");
}

/* After a retry the pauses are short again, after a kick they are not. */
TEST_F(test_is_retried, Fixture *fixture) {
        fixture->backoff_limit = DESIRED_IMAGE_NO_LIMIT;
        begin(fixture, PULL_POLICY_ALWAYS);
        assert_false(pull_retry(fixture->pull)); /* it runs */
        for (unsigned n = 1; n < 7; n++) {
                fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
                kick(fixture);
        }
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_true(pull_retry(fixture->pull));
        wait_for_the_next_attempt(fixture);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_true(pull_status(fixture->pull)->next_attempt_at <= time(NULL) + 7);
}

static const struct HintsRow {
        const char *text;
        PullRemedy hint;
        const char *registry;
        bool is_for_it;
} hints_rows[] = {
        { "connection refused", PULL_REMEDY_NETWORK, NULL, true },
        { "connection refused", PULL_REMEDY_NETWORK, "docker.io", true },
        { "connection refused", PULL_REMEDY_NETWORK, "quay.io", false },
        { "connection refused", PULL_REMEDY_CREDENTIALS, NULL, false },
        { "401 Unauthorized", PULL_REMEDY_CREDENTIALS, NULL, true },
        { "401 Unauthorized", PULL_REMEDY_NETWORK, NULL, false },
        { "no space left on device", PULL_REMEDY_NETWORK, NULL, false },
        { "no space left on device", PULL_REMEDY_CREDENTIALS, NULL, false },
};

/* A pause ends early for an event about its failure, and about the same registry. */
TEST_ROWS_F(test_hints, hints_rows, text, const struct HintsRow *row, Fixture *fixture) {
        fixture->backoff_limit = DESIRED_IMAGE_NO_LIMIT;
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, row->text);
        assert_int_equal(pull_hint(fixture->pull, row->hint, row->registry), row->is_for_it);
        if (row->is_for_it)
                wait_for_the_next_attempt(fixture);
        assert_false(pull_hint(fixture->pull, row->hint, "another"));
        fixture->pull = pull_free(fixture->pull);
}

/* The pauses of attempts that are counted are for the registry: each image that another pull gets would end one. */
TEST_F(test_hints_spend_no_attempt, Fixture *fixture) {
        fixture->backoff_limit = 3;
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "503 Service Unavailable");
        assert_false(pull_hint(fixture->pull, PULL_REMEDY_NETWORK, "docker.io"));
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);

        kick(fixture);
        fixture->was_away = true;
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "401 Unauthorized");
        assert_true(pull_hint(fixture->pull, PULL_REMEDY_CREDENTIALS, NULL));
}

static const struct AnswersOfTheRegistryRow {
        const char *text; /* NULL: the image */
        unsigned n_answers;
} answers_of_the_registry_rows[] = { { "401 Unauthorized", 1 },
                                     { "404 not found", 1 },
                                     { "connection refused", 0 },
                                     { "no space left on device", 0 },
                                     { NULL, 1 } };

/* A registry that refuses has answered, one that cannot be reached has not. */
TEST_ROWS_F(test_answers_of_the_registry, answers_of_the_registry_rows, text,
            const struct AnswersOfTheRegistryRow *row, Fixture *fixture) {
        fixture->n_answers = 0;
        begin(fixture, PULL_POLICY_ALWAYS);
        if (row->text)
                fake_runtime_refuse("PullImage", ERROR_INTERNAL, row->text);
        else
                fake_runtime_answer_pull(ID);
        assert_int_equal(fixture->n_answers, row->n_answers);
        fixture->pull = pull_free(fixture->pull);
}

/* A registry that could not be reached and now answers is news about the network. */
TEST_F(test_network_is_back, Fixture *fixture) {
        fixture->was_away = true;
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "connection refused");
        kick(fixture);
        fake_runtime_answer_pull(ID);
        assert_int_equal(fixture->n_answers, 1);
}

/* A refusal that would be repeated ends the pull, under any limit. */
TEST_F(test_is_hopeless, Fixture *fixture) {
        static const int64_t limits[] = { DESIRED_IMAGE_NO_LIMIT, 0, 9 };

        for (size_t i = 0; i < N_ELEMENTS(limits); i++) {
                fixture->backoff_limit = limits[i];
                begin(fixture, PULL_POLICY_ALWAYS);
                fake_runtime_refuse("PullImage", ERROR_NOT_FOUND,
                                    "no match for platform in manifest: not found");
                assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
                assert_int_equal(pull_status(fixture->pull)->attempt, 1);
                assert_int_equal(pull_status(fixture->pull)->next_attempt_at, 0);
                assert_contains(pull_status(fixture->pull)->message, "(attempt 1 of 1)");
                fixture->pull = pull_free(fixture->pull);
        }
}

TEST_F(test_failures_are_counted, Fixture *fixture) {
        fixture->backoff_limit = DESIRED_IMAGE_NO_LIMIT;
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "no space left on device");
        kick(fixture);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        kick(fixture);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_int_equal(pull_result(fixture->pull).failures.n, 3);
        assert_int_equal(pull_result(fixture->pull).failures.n_refusals, 2);
        assert_int_equal(pull_result(fixture->pull).reason, PULL_REASON_NOT_FOUND);
}

/* The runtime has a content store, and with it leases. */
static void have_leases(Fixture *fixture) {
        ContentIngests none = CONTAINERD__SERVICES__CONTENT__V1__LIST_STATUSES_RESPONSE__INIT;

        fake_runtime.has_leases = true;
        assert_ok(progress_tracker_runtime_changed(fixture->context.progress));
        fake_runtime_answer("ListIngests", &none, NULL);
}

/* Until PullImage runs with a lease. */
static void grant_lease(char *id, size_t size) {
        assert_null(fake_runtime_find("PullImage"));
        snprintf(id, size, "%s", fake_runtime_find("Create")->target);
        fake_runtime_answer("Create", &fake_runtime, NULL);
        assert_string_equal(fake_runtime_find("PullImage")->lease, id);
}

static void assert_lease_ends(const char *id) {
        assert_string_equal(fake_runtime_find("Delete")->target, id);
        fake_runtime_answer("Delete", &fake_runtime, NULL);
        assert_null(fake_runtime_find("Delete"));
}

/* The lease holds the fetched layers; then the image refers to them. */
TEST_F(test_lease, Fixture *fixture) {
        Leased nothing = CONTAINERD__SERVICES__LEASES__V1__LIST_RESOURCES_RESPONSE__INIT;
        char id[192];

        have_leases(fixture);
        begin(fixture, PULL_POLICY_ALWAYS);
        grant_lease(id, sizeof(id));
        fake_runtime_answer_pull(ID);
        assert_string_equal(fake_runtime_find("ListResources")->target, id);
        assert_int_equal(fake_runtime_n_asked("Delete"), 0);
        fake_runtime_answer("ListResources", &nothing, NULL);
        assert_lease_ends(id);
        fake_runtime_answer_status(ID);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
        assert_int_equal(fake_runtime_n_asked("Create"), 1);
}

/*
 * Each row is a pull that receives no byte of its own in six minutes, with a stall timeout of 50 seconds. containerd downloads
 * three layers at a time, of all pulls together: a pull that may wait behind others lives as long as any of them gets bytes.
 */
static const struct SilentCase {
        const char *name;
        size_t n_ingests; /* downloads of other pulls */
        size_t moving;    /* number of the one that gets bytes, from 1; 0: none does */
        bool is_mute;     /* the store does not answer in that time */
        bool has_no_lease;
        bool is_stalled;
} silences[] = {
        { "no download at all", .n_ingests = 0, .is_stalled = true },
        { "another pull that stands still", .n_ingests = 1, .is_stalled = true },
        { "another pull, which leaves two places", .n_ingests = 1, .moving = 1,
          .is_stalled = true },
        { "behind the first of four", .n_ingests = 4, .moving = 1, .is_stalled = false },
        { "behind the last of four", .n_ingests = 4, .moving = 4, .is_stalled = false },
        { "a store without an answer", .is_mute = true, .is_stalled = false },
        { "no lease, which would show its layers", .has_no_lease = true, .is_stalled = false },
};

static void answer_ingests(const struct SilentCase *row, int64_t offset) {
        ContentIngests answer = CONTAINERD__SERVICES__CONTENT__V1__LIST_STATUSES_RESPONSE__INIT;
        ContentIngest ingests[4];
        ContentIngest *statuses[4];

        for (size_t i = 0; i < row->n_ingests; i++) {
                containerd__services__content__v1__status__init(&ingests[i]);
                ingests[i].ref = (char *) "layer-of-another-pull";
                ingests[i].offset = i + 1 == row->moving ? offset : 1;
                statuses[i] = &ingests[i];
        }
        answer.statuses = statuses;
        answer.n_statuses = row->n_ingests;
        if (row->is_mute)
                fake_runtime_refuse("ListIngests", ERROR_UNAVAILABLE, "the store is busy");
        else
                fake_runtime_answer("ListIngests", &answer, NULL);
}

/* A stalled pull is given up and tried again later; the silence of others, or of the store, proves nothing. */
TEST_ROWS_F(test_silence, silences, name, const struct SilentCase *row, Fixture *fixture) {
        char id[192];

        have_leases(fixture);
        progress_tracker_set_stall(fixture->context.progress, 50 * SEC);
        begin(fixture, PULL_POLICY_ALWAYS);
        if (row->has_no_lease)
                fake_runtime_refuse("Create", ERROR_UNAVAILABLE, "the disk is full");
        else
                grant_lease(id, sizeof(id));
        for (int64_t offset = 1; offset <= 6; offset++) {
                while (!fake_runtime_find("ListIngests") &&
                       pull_status(fixture->pull)->phase == IMAGE_PULLING)
                        assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
                if (pull_status(fixture->pull)->phase != IMAGE_PULLING)
                        break;
                later_usec = (uint64_t) offset * 60 *
                             SEC; /* but not for the timer of the next question */
                answer_ingests(row, offset);
                later_usec = 0;
        }
        assert_int_equal(pull_status(fixture->pull)->phase,
                         row->is_stalled ? IMAGE_BACKING_OFF : IMAGE_PULLING);
        if (row->is_stalled)
                assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_NO_PROGRESS);
        fixture->pull = pull_free(fixture->pull);
        if (!row->has_no_lease)
                assert_lease_ends(id);
}

/* A pull has begun with a lease, and its manifest is about to be read. */
static void begin_manifest(Fixture *fixture, char *id, size_t size) {
        ContentIngests none = CONTAINERD__SERVICES__CONTENT__V1__LIST_STATUSES_RESPONSE__INIT;

        have_leases(fixture);
        begin(fixture, PULL_POLICY_ALWAYS);
        grant_lease(id, size);
        while (!fake_runtime_find("ListIngests"))
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        fake_runtime_answer("ListIngests", &none, NULL);
        content_answer_lease();
        content_answer_blob(CONTENT_MANIFEST);
}

/* A pull may end while its manifest is being read: the beginning of that counts once. */
TEST_F(test_ends_within_the_manifest, Fixture *fixture) {
        static const char begin_of[] = "{\"config\":{\"digest\":\"sha256:cc\",\"size\":7},",
                          rest_of[] = "\"layers\":[]}";
        char id[192];

        begin_manifest(fixture, id, sizeof(id));
        content_send_part(begin_of);

        fake_runtime_answer_pull(ID);
        content_answer_lease();
        content_answer_blob(CONTENT_MANIFEST);
        content_send_part(begin_of);
        content_send_part(rest_of);
        fake_runtime_answer("Read", NULL, NULL);
        content_answer_blob("sha256:cc");
        assert_lease_ends(id);
        fake_runtime_answer_status(ID);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
        assert_true(pull_status(fixture->pull)->is_counted);
}

static const struct LeaseOfAFailureRow {
        ErrorKind kind;
        const char *message;
        bool is_kept;
} lease_of_a_failure_rows[] = {
        { ERROR_INTERNAL, "connection refused", true },
        { ERROR_NOT_FOUND, "no such image", false },
        { ERROR_INTERNAL, "no space left on device", false },
};

/* Layers that a dead registry has sent are good for the next attempt, which has a lease of its own;
 * layers that are wrong are not. */
TEST_ROWS_F(test_lease_of_a_failure, lease_of_a_failure_rows, message,
            const struct LeaseOfAFailureRow *row, Fixture *fixture) {
        char first[192], second[192];

        have_leases(fixture);
        fixture->backoff_limit = DESIRED_IMAGE_NO_LIMIT;
        begin(fixture, PULL_POLICY_ALWAYS);
        grant_lease(first, sizeof(first));
        fake_runtime_refuse("PullImage", row->kind, row->message);
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_int_equal(fake_runtime_count("Delete"), !row->is_kept);
        if (!row->is_kept)
                assert_lease_ends(first);

        kick(fixture);
        if (row->is_kept)
                assert_lease_ends(first); /* not a byte had arrived */
        grant_lease(second, sizeof(second));
        assert_string_not_equal(first, second);
        fixture->pull = pull_free(fixture->pull);
        assert_lease_ends(second);
}

TEST_F(test_lease_of_the_last_failure, Fixture *fixture) {
        char id[192];

        have_leases(fixture);
        fixture->backoff_limit = 0;
        begin(fixture, PULL_POLICY_ALWAYS);
        grant_lease(id, sizeof(id));
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "connection refused");
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_lease_ends(id);
}

/* Layers of an attempt that the network ended are kept until the image of a later one refers to them. */
TEST_F(test_leases_of_two_attempts, Fixture *fixture) {
        ContentIngests none = CONTAINERD__SERVICES__CONTENT__V1__LIST_STATUSES_RESPONSE__INIT;
        Leased nothing = CONTAINERD__SERVICES__LEASES__V1__LIST_RESOURCES_RESPONSE__INIT;
        char first[192], second[192];

        begin_manifest(fixture, first, sizeof(first));
        content_send_part("{\"config\":{\"digest\":\"sha256:cc\",\"size\":7},\"layers\":[]}");
        fake_runtime_answer("Read", NULL, NULL);
        content_answer_blob("sha256:cc");
        fake_runtime_answer("ListIngests", &none, NULL);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "connection refused");

        kick(fixture);
        grant_lease(second, sizeof(second));
        assert_int_equal(fake_runtime_n_asked("Delete"), 0);
        fixture->was_away = true;
        fake_runtime_answer_pull(ID);
        fake_runtime_answer("ListResources", &nothing, NULL);
        assert_int_equal(fake_runtime_count("Delete"), 2);
        fake_runtime_answer("Delete", &fake_runtime, NULL);
        fake_runtime_answer("Delete", &fake_runtime, NULL);
        fake_runtime_answer_status(ID);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
}

/* The runtime may have made it: the answer is not waited for. */
TEST_F(test_is_dropped_before_its_lease, Fixture *fixture) {
        char id[192];

        have_leases(fixture);
        begin(fixture, PULL_POLICY_ALWAYS);
        snprintf(id, sizeof(id), "%s", fake_runtime_find("Create")->target);
        fixture->pull = pull_free(fixture->pull);
        assert_null(fake_runtime_find("Create"));
        assert_lease_ends(id);
}

/* The pull has no lease, and the runtime has no content store that could be asked without one. */
TEST_F(test_has_no_lease, Fixture *fixture) {
        have_leases(fixture);
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("Create", ERROR_UNSUPPORTED, "unknown service");
        assert_string_equal(fake_runtime_find("PullImage")->lease, "");
        fixture->pull = pull_free(fixture->pull);
        assert_int_equal(fake_runtime_n_asked("Delete"), 0);

        fake_runtime.n_reconnects++;
        assert_ok(progress_tracker_runtime_changed(fixture->context.progress));
        fake_runtime_refuse("ListIngests", ERROR_UNSUPPORTED, "unknown service");
        begin(fixture, PULL_POLICY_ALWAYS);
        assert_string_equal(fake_runtime_find("PullImage")->lease, "");
        assert_int_equal(fake_runtime_n_asked("Create"), 1);
        fixture->pull = pull_free(fixture->pull);
        begin(fixture, PULL_POLICY_ALWAYS);
        assert_ok(progress_tracker_runtime_changed(fixture->context.progress));
        assert_int_equal(fake_runtime_n_asked("ListIngests"), 2);
}

/* A dropped pull drops its requests. */
TEST_F(test_is_dropped, Fixture *fixture) {
        begin(fixture, PULL_POLICY_ALWAYS);
        fixture->pull = pull_free(fixture->pull);
        assert_int_equal(fake_runtime_n_calls(), 0);
        assert_slots(fixture, 0, 0);
}

/* Pulls that run with one version and policy, and whether they are good enough for another desired image. */
static const struct Cover {
        const char *name;
        int64_t version;
        PullPolicy policy;
        int64_t desired_version;
        PullPolicy desired_policy;
        bool covers;
} covers[] = {
        { "the same", 1, PULL_POLICY_ALWAYS, 1, PULL_POLICY_ALWAYS, true },
        { "the same, if not present", 1, PULL_POLICY_IF_NOT_PRESENT, 1, PULL_POLICY_IF_NOT_PRESENT,
          true },
        { "always is more than if not present", 1, PULL_POLICY_ALWAYS, 1,
          PULL_POLICY_IF_NOT_PRESENT, true },
        { "if not present is less than always", 1, PULL_POLICY_IF_NOT_PRESENT, 1,
          PULL_POLICY_ALWAYS, false },
        { "an older version", 2, PULL_POLICY_ALWAYS, 1, PULL_POLICY_ALWAYS, true },
        { "a newer version", 1, PULL_POLICY_ALWAYS, 2, PULL_POLICY_ALWAYS, false },
};

/* A pull that does not record the digests does not do for a request that asks for them. */
TEST_F(test_covers_resolved, Fixture *fixture) {
        cleanup(desired_image_done) DesiredImage desired;

        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        make_desired(&desired, 1, PULL_POLICY_ALWAYS);
        assert_true(pull_covers(fixture->pull, &desired));
        desired.is_resolved = true;
        assert_false(pull_covers(fixture->pull, &desired));
}

/* A pull that waits for all layers does for requests that ask for less. */
TEST_F(test_covers_complete, Fixture *fixture) {
        cleanup(desired_image_done) DesiredImage desired;

        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        make_desired(&desired, 1, PULL_POLICY_ALWAYS);
        desired.is_complete = true;
        assert_false(pull_covers(fixture->pull, &desired));
        fixture->pull = pull_free(fixture->pull);

        fixture->is_complete = true;
        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        assert_true(pull_covers(fixture->pull, &desired));
        desired.is_complete = false;
        assert_true(pull_covers(fixture->pull, &desired));
}

TEST_ROWS_F(test_covers, covers, name, const struct Cover *row, Fixture *fixture) {
        cleanup(desired_image_done) DesiredImage desired;

        start(fixture, "a", row->version, row->policy);
        make_desired(&desired, row->desired_version, row->desired_policy);
        assert_int_equal(pull_covers(fixture->pull, &desired), row->covers);
}
