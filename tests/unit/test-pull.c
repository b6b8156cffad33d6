/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One pull, from a runtime that answers when a test says so: its place in the queues, what it asks, and
 * its status meanwhile
 */

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/image/pull.h"
#include "tests/unit/fake-runtime.h"

#define N_OTHERS 6
#define ID "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"

typedef struct Fixture {
        sd_event *event;
        PullContext context;
        OnDemandContext on_demand; /* part of it */
        Ticket others[N_OTHERS];   /* of other owners, in the same queue */
        Pull *pull;
        bool is_changed;
        PullKeysReady on_keys; /* while the source of credentials is asked */
        int64_t backoff_limit, refusal_limit, active_deadline_sec;
        bool is_complete;
        unsigned n_answers; /* of the registry */
        bool was_away;      /* it is, before it answers */
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
static int keys_ask(void *source, const PullKeysQuestion *question, PullKeysReady on_ready,
                    void *userdata, PullKeysAsk **ret) {
        Fixture *fixture = source;

        assert_null(fixture->on_keys);
        fixture->on_keys = on_ready;
        *ret = source;
        return 0;
}

static PullKeysAsk *keys_drop(PullKeysAsk *ask) {
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

static int set_up(void **state) {
        Fixture *fixture = calloc(1, sizeof(*fixture));

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
                (PullKeySource){ .ask = keys_ask, .drop = keys_drop, .source = fixture };
        assert_int_equal(queue_new(1, &fixture->context.inspections), 0);
        assert_int_equal(queue_new(1, &fixture->context.pulls), 0);
        assert_int_equal(progress_tracker_new(fixture->event, NULL, 0, &fixture->context.progress),
                         0);
        assert_int_equal(
                disk_guard_new(&(DiskGuardOptions){ .event = fixture->event,
                                                    .runtimes = (const Runtimes *) &fake_runtime },
                               &fixture->context.disk),
                0);
        *state = fixture;
        return 0;
}

static int tear_down(void **state) {
        Fixture *fixture = *state;

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
        free(fixture);
        return 0;
}

static void make_desired(DesiredImage *desired, int64_t version, PullPolicy policy) {
        assert_int_equal(desired_image_init(desired, "nginx", "1.25"), 0);
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
        assert_int_equal(image_ref_from_node_image("nginx", "1.25", SHORT_NAMES_HUB, &ref, NULL),
                         0);
        assert_int_equal(pull_new(&fixture->context, &desired, &ref, owner, on_changed, fixture,
                                  &fixture->pull),
                         0);
        assert_int_equal(pull_start(fixture->pull), 0);
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
                assert_int_equal(queue_enter(fixture->context.inspections, &fixture->others[i],
                                             owner),
                                 0);
}

static void assert_status(const Fixture *fixture, ImagePhase phase, ImageStep step) {
        assert_int_equal(pull_status(fixture->pull)->phase, phase);
        assert_int_equal(pull_status(fixture->pull)->step, step);
}

static void test_waits_for_its_turn(void **state) {
        Fixture *fixture = *state;

        start(fixture, "a", 3, PULL_POLICY_ALWAYS);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_QUEUED);
        assert_int_equal(pull_status(fixture->pull)->version, 3);
        assert_int_equal(pull_status(fixture->pull)->started_at, 0);
        assert_int_equal(queue_n_waiting(fixture->context.inspections), 1);
}

/* It says so, and keeps no slot that others could use. */
static void test_waits_for_the_runtime(void **state) {
        static const PullPolicy policies[] = { PULL_POLICY_ALWAYS, PULL_POLICY_IF_NOT_PRESENT };
        Fixture *fixture = *state;

        for (size_t i = 0; i < 2; i++) {
                fake_runtime.is_away = true;
                start(fixture, "a", 1, policies[i]);
                assert_int_equal(pulls_serve(&fixture->context), 0);
                assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_RUNTIME);
                assert_true(fixture->is_changed);
                assert_int_equal(queue_n_served(fixture->context.inspections), 0);
                assert_int_equal(queue_n_waiting(fixture->context.inspections), 0);
                assert_int_equal(queue_n_waiting(fixture->context.pulls), 0);

                assert_int_equal(pull_on_runtime_changed(fixture->pull), 0);
                assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_RUNTIME);
                fixture->pull = pull_free(fixture->pull);
        }
}

/* Then that is what the end says. */
static void test_runtime_is_away_until_the_deadline(void **state) {
        Fixture *fixture = *state;

        fixture->active_deadline_sec = 1;
        fake_runtime.is_away = true;
        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        assert_int_equal(pulls_serve(&fixture->context), 0);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_RUNTIME);
        while (pull_status(fixture->pull)->phase == IMAGE_WAITING)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_DEADLINE);
        assert_non_null(strstr(pull_status(fixture->pull)->message,
                               "; before that: RuntimeUnavailable: no container runtime answers; "
                               "check that the container runtime is running"));
}

static void test_runtime_goes_while_it_waits(void **state) {
        Fixture *fixture = *state;

        fake_runtime.is_away = true;
        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        assert_int_equal(pull_on_runtime_changed(fixture->pull), 0);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_RUNTIME);
        assert_null(queue_serve(fixture->context.inspections));
        assert_int_equal(pull_join(fixture->pull, "b"), 0);
        assert_null(queue_serve(fixture->context.inspections));
}

static void test_leaves_the_queue(void **state) {
        Fixture *fixture = *state;

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
static void test_join_of_an_idle_owner(void **state) {
        Fixture *fixture = *state;

        enter_others(fixture, "busy");
        start(fixture, "busy", 1, PULL_POLICY_ALWAYS);
        assert_int_equal(pull_join(fixture->pull, "idle"), 0);
        assert_in_range(count_before(fixture), 0, 1);
}

/* Desired by an idle owner and then by a busy one, it does not lose its place. */
static void test_join_of_a_busy_owner(void **state) {
        Fixture *fixture = *state;

        start(fixture, "idle", 1, PULL_POLICY_ALWAYS);
        enter_others(fixture, "busy");
        assert_int_equal(pull_join(fixture->pull, "busy"), 0);
        assert_in_range(count_before(fixture), 0, 1);
}

static void serve(Fixture *fixture) {
        assert_int_equal(pulls_serve(&fixture->context), 0);
}

static void answer_keys(Fixture *fixture) {
        PullKeys none = { .named = NULL };

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
static void test_is_there(void **state) {
        Fixture *fixture = *state;

        start(fixture, "a", 1, PULL_POLICY_IF_NOT_PRESENT);
        serve(fixture);
        assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_INSPECTING);
        assert_slots(fixture, 1, 0);
        fake_runtime_answer_status(ID);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
        assert_true(pull_status(fixture->pull)->was_present);
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
static void test_is_on_demand(void **state) {
        Fixture *fixture = *state;

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
static void test_is_completed(void **state) {
        Fixture *fixture = *state;

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

/* Waiting for what cannot be seen would have no end. */
static void test_cannot_be_completed(void **state) {
        Fixture *fixture = *state;

        find_on_demand(fixture, true, "");
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_INCOMPLETE);
        assert_int_equal(pull_failures(fixture->pull).n, 1);
}

static void test_fetches_no_more(void **state) {
        Fixture *fixture = *state;

        fixture->on_demand.stall_usec = 500 * 1000; /* less than the pause between two questions */
        find_on_demand(fixture, true, PART);
        ask_again(fixture, MORE);
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_DOWNLOADING);
        ask_again(fixture, MORE);
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_NO_PROGRESS);
}

static void test_layers_cannot_be_asked_for(void **state) {
        Fixture *fixture = *state;

        fake_runtime.shows_layers = true;
        fixture->is_complete = true;
        start(fixture, "a", 1, PULL_POLICY_IF_NOT_PRESENT);
        serve(fixture);
        fake_runtime_answer_status(ID);
        fake_runtime_refuse("Info", ERROR_INTERNAL, "the database is broken");
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
}

static void test_is_dropped_while_it_fetches(void **state) {
        Fixture *fixture = *state;

        find_on_demand(fixture, true, PART);
        while (!fake_runtime_find("Info"))
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        fixture->pull = pull_free(fixture->pull);
        assert_int_equal(fake_runtime_n_calls(), 0);
}

/* It keeps no slot meanwhile, and costs no attempt. */
static void test_waits_for_room(void **state) {
        Fixture *fixture = *state;

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

/* A pull that is dropped while it waits for room is not called any more. */
static void test_is_dropped_without_room(void **state) {
        Fixture *fixture = *state;

        set_floor(fixture, UINT64_MAX);
        start(fixture, "a", 1, PULL_POLICY_ALWAYS);
        serve(fixture);
        fixture->pull = pull_free(fixture->pull);
        assert_int_equal(sd_event_run(fixture->event, 0), 0);
}

/* Before the disk is full, the pull is canceled in the runtime as well. Its progress is polled meanwhile. */
static void test_disk_fills_up(void **state) {
        Fixture *fixture = *state;

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

/* It counts as pulled when the runtime shows it. */
static void test_is_pulled(void **state) {
        Fixture *fixture = *state;

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

/* What it waits for in the queues belongs to others. */
static void test_duration(void **state) {
        const uint64_t hour = (uint64_t) 3600 * 1000000;
        Fixture *fixture = *state;

        start(fixture, "a", 1, PULL_POLICY_IF_NOT_PRESENT);
        assert_int_equal(queue_enter(fixture->context.pulls, &fixture->others[0], "b"), 0);
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

/* A pause holds no slot, and the second failure is the last. */
static void test_is_refused(void **state) {
        Fixture *fixture = *state;

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

/* The runtime that holds nothing of what it has pulled has failed. */
static void test_is_not_shown(void **state) {
        Fixture *fixture = *state;

        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_answer_pull(ID);
        fake_runtime_answer_status(NULL);
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_int_equal(pull_status(fixture->pull)->reason, PULL_REASON_WRONG_CONTENT);
}

/* A runtime that goes away has refused nothing. When it comes back, all begins anew; the second time,
 * after a pause. */
static void test_runtime_goes_while_it_pulls(void **state) {
        Fixture *fixture = *state;

        begin(fixture, PULL_POLICY_ALWAYS);
        for (int i = 0; i < 2; i++) {
                fake_runtime.is_away = true;
                fake_runtime_refuse("PullImage", ERROR_UNAVAILABLE, "connection lost");
                assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_WAITING_FOR_RUNTIME);
                assert_slots(fixture, 0, 0);

                fake_runtime.is_away = false;
                assert_int_equal(pull_on_runtime_changed(fixture->pull), 0);
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
static void test_runtime_is_back_at_once(void **state) {
        Fixture *fixture = *state;

        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime.is_away = true;
        fake_runtime.returns = true;
        fake_runtime_refuse("PullImage", ERROR_UNAVAILABLE, "connection lost");
        assert_status(fixture, IMAGE_PULLING, IMAGE_STEP_QUEUED);
}

/* Without a limit there is always another attempt, and it is known when. */
static void test_is_refused_without_a_limit(void **state) {
        Fixture *fixture = *state;

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
                assert_true(pull_kick(fixture->pull));
                wait_for_the_next_attempt(fixture);
                assert_int_equal(pull_status(fixture->pull)->next_attempt_at, 0);
        }
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_string_equal(pull_status(fixture->pull)->message,
                            "NotFound: no such image; check the name and the tag (attempt 20)");
}

/* A registry that says no for the last time ends it, one that does not answer never does. */
static void test_is_refused_by_the_registry(void **state) {
        Fixture *fixture = *state;

        fixture->backoff_limit = DESIRED_IMAGE_NO_LIMIT;
        fixture->refusal_limit = 1;
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
        assert_string_equal(pull_status(fixture->pull)->message,
                            "NotFound: no such image; check the name and the tag (attempt 1 of 2)");
        for (unsigned n = 0; n < 4; n++) {
                assert_true(pull_kick(fixture->pull));
                wait_for_the_next_attempt(fixture);
                fake_runtime_refuse("PullImage", ERROR_INTERNAL, "connection refused");
                assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
                assert_null(strstr(pull_status(fixture->pull)->message, " of "));
        }
        assert_true(pull_kick(fixture->pull));
        wait_for_the_next_attempt(fixture);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "lookup nosuch.example: no such host");
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_non_null(strstr(pull_status(fixture->pull)->message, "(attempt 6 of 6)"));
}

/* After a retry the pauses are short again, after a kick they are not. */
static void test_is_retried(void **state) {
        Fixture *fixture = *state;

        fixture->backoff_limit = DESIRED_IMAGE_NO_LIMIT;
        begin(fixture, PULL_POLICY_ALWAYS);
        assert_false(pull_retry(fixture->pull)); /* it runs */
        for (unsigned n = 1; n < 7; n++) {
                fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
                assert_true(pull_kick(fixture->pull));
                wait_for_the_next_attempt(fixture);
        }
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_true(pull_retry(fixture->pull));
        wait_for_the_next_attempt(fixture);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_true(pull_status(fixture->pull)->next_attempt_at <= time(NULL) + 7);
}

/* A pause ends early for what the failure was about, and for the same registry. */
static void test_hints(void **state) {
        static const struct {
                const char *text;
                PullRemedy hint;
                const char *registry;
                bool is_for_it;
        } rows[] = {
                { "connection refused", PULL_REMEDY_NETWORK, NULL, true },
                { "connection refused", PULL_REMEDY_NETWORK, "docker.io", true },
                { "connection refused", PULL_REMEDY_NETWORK, "quay.io", false },
                { "connection refused", PULL_REMEDY_CREDENTIALS, NULL, false },
                { "401 Unauthorized", PULL_REMEDY_CREDENTIALS, NULL, true },
                { "401 Unauthorized", PULL_REMEDY_NETWORK, NULL, false },
                { "no space left on device", PULL_REMEDY_NETWORK, NULL, false },
                { "no space left on device", PULL_REMEDY_CREDENTIALS, NULL, false },
        };
        Fixture *fixture = *state;

        fixture->backoff_limit = DESIRED_IMAGE_NO_LIMIT;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                begin(fixture, PULL_POLICY_ALWAYS);
                fake_runtime_refuse("PullImage", ERROR_INTERNAL, rows[i].text);
                assert_int_equal(pull_hint(fixture->pull, rows[i].hint, rows[i].registry),
                                 rows[i].is_for_it);
                if (rows[i].is_for_it)
                        wait_for_the_next_attempt(fixture);
                assert_false(pull_hint(fixture->pull, rows[i].hint, "another"));
                fixture->pull = pull_free(fixture->pull);
        }
}

/* A registry that refuses has answered, one that cannot be reached has not. */
static void test_answers_of_the_registry(void **state) {
        static const struct {
                const char *text; /* NULL: the image */
                unsigned n_answers;
        } rows[] = { { "401 Unauthorized", 1 },
                     { "404 not found", 1 },
                     { "connection refused", 0 },
                     { "no space left on device", 0 },
                     { NULL, 1 } };
        Fixture *fixture = *state;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                fixture->n_answers = 0;
                begin(fixture, PULL_POLICY_ALWAYS);
                if (rows[i].text)
                        fake_runtime_refuse("PullImage", ERROR_INTERNAL, rows[i].text);
                else
                        fake_runtime_answer_pull(ID);
                assert_int_equal(fixture->n_answers, rows[i].n_answers);
                fixture->pull = pull_free(fixture->pull);
        }
}

/* One that could not be reached and now answers is news about the network. */
static void test_network_is_back(void **state) {
        Fixture *fixture = *state;

        fixture->was_away = true;
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "connection refused");
        assert_true(pull_kick(fixture->pull));
        wait_for_the_next_attempt(fixture);
        fake_runtime_answer_pull(ID);
        assert_int_equal(fixture->n_answers, 1);
}

/* Whatever the limit: the same would be refused again. */
static void test_is_hopeless(void **state) {
        static const int64_t limits[] = { DESIRED_IMAGE_NO_LIMIT, 0, 9 };
        Fixture *fixture = *state;

        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
                fixture->backoff_limit = limits[i];
                begin(fixture, PULL_POLICY_ALWAYS);
                fake_runtime_refuse("PullImage", ERROR_NOT_FOUND,
                                    "no match for platform in manifest: not found");
                assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
                assert_int_equal(pull_status(fixture->pull)->attempt, 1);
                assert_int_equal(pull_status(fixture->pull)->next_attempt_at, 0);
                assert_non_null(strstr(pull_status(fixture->pull)->message, "(attempt 1 of 1)"));
                fixture->pull = pull_free(fixture->pull);
        }
}

#define NONE DESIRED_IMAGE_NO_LIMIT

/* Its own attempts are those since it joined. */
static void test_is_over_for_another(void **state) {
        static const struct {
                int64_t backoff_limit, refusal_limit;
                PullFailures before;
                bool is_over;
        } rows[] = { { 0, NONE, { 0, 0 }, true },     { 1, NONE, { 0, 0 }, true },
                     { 2, NONE, { 0, 0 }, true },     { 3, NONE, { 0, 0 }, false },
                     { 0, NONE, { 1, 0 }, true },     { 1, NONE, { 1, 0 }, true },
                     { 1, NONE, { 2, 1 }, false },    { 0, NONE, { 3, 2 }, false },
                     { NONE, NONE, { 0, 0 }, false }, { NONE, 1, { 0, 0 }, true },
                     { NONE, 2, { 0, 0 }, false },    { NONE, 1, { 1, 0 }, true },
                     { NONE, 1, { 2, 1 }, false },    { NONE, 0, { 2, 1 }, true },
                     { NONE, 0, { 3, 2 }, false } };
        Fixture *fixture = *state;

        fixture->backoff_limit = DESIRED_IMAGE_NO_LIMIT;
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "no space left on device");
        assert_true(pull_kick(fixture->pull));
        wait_for_the_next_attempt(fixture);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_true(pull_kick(fixture->pull));
        wait_for_the_next_attempt(fixture);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        assert_int_equal(pull_failures(fixture->pull).n, 3);
        assert_int_equal(pull_failures(fixture->pull).n_refusals, 2);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                cleanup(desired_image_done) DesiredImage desired;

                make_desired(&desired, 1, PULL_POLICY_ALWAYS);
                desired.backoff_limit = rows[i].backoff_limit;
                desired.refusal_limit = rows[i].refusal_limit;
                if (pull_is_over_for(fixture->pull, &desired, rows[i].before) != rows[i].is_over)
                        fail_msg("row %zu", i);
        }
}

/* The runtime has a content store, and with it leases. */
static void have_leases(Fixture *fixture) {
        ContentIngests none = CONTAINERD__SERVICES__CONTENT__V1__LIST_STATUSES_RESPONSE__INIT;

        assert_int_equal(leases_new((const Runtimes *) &fake_runtime, &fixture->context.leases), 0);
        assert_int_equal(progress_tracker_runtime_changed(fixture->context.progress), 0);
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

/* The image refers to what was fetched. */
static void test_lease(void **state) {
        Fixture *fixture = *state;
        char id[192];

        have_leases(fixture);
        begin(fixture, PULL_POLICY_ALWAYS);
        grant_lease(id, sizeof(id));
        fake_runtime_answer_pull(ID);
        assert_lease_ends(id);
        fake_runtime_answer_status(ID);
        assert_status(fixture, IMAGE_SUCCEEDED, IMAGE_STEP_NONE);
        assert_int_equal(fake_runtime_n_asked("Create"), 1);
}

/* What a dead registry has sent is good for the next attempt, which has a lease of its own; what is wrong is
 * not. */
static void test_lease_of_a_failure(void **state) {
        static const struct {
                ErrorKind kind;
                const char *message;
                bool is_kept;
        } rows[] = {
                { ERROR_INTERNAL, "connection refused", true },
                { ERROR_NOT_FOUND, "no such image", false },
                { ERROR_INTERNAL, "no space left on device", false },
        };
        Fixture *fixture = *state;

        have_leases(fixture);
        fixture->backoff_limit = DESIRED_IMAGE_NO_LIMIT;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char first[192], second[192];

                begin(fixture, PULL_POLICY_ALWAYS);
                grant_lease(first, sizeof(first));
                fake_runtime_refuse("PullImage", rows[i].kind, rows[i].message);
                assert_status(fixture, IMAGE_BACKING_OFF, IMAGE_STEP_BACKING_OFF);
                assert_int_equal(fake_runtime_count("Delete"), !rows[i].is_kept);
                if (!rows[i].is_kept)
                        assert_lease_ends(first);

                assert_true(pull_kick(fixture->pull));
                wait_for_the_next_attempt(fixture);
                if (rows[i].is_kept)
                        assert_lease_ends(first); /* not a byte had arrived */
                grant_lease(second, sizeof(second));
                assert_string_not_equal(first, second);
                fixture->pull = pull_free(fixture->pull);
                assert_lease_ends(second);
        }
}

static void test_lease_of_the_last_failure(void **state) {
        Fixture *fixture = *state;
        char id[192];

        have_leases(fixture);
        fixture->backoff_limit = 0;
        begin(fixture, PULL_POLICY_ALWAYS);
        grant_lease(id, sizeof(id));
        fake_runtime_refuse("PullImage", ERROR_INTERNAL, "connection refused");
        assert_status(fixture, IMAGE_FAILED, IMAGE_STEP_NONE);
        assert_lease_ends(id);
}

/* The runtime may have made it: the answer is not waited for. */
static void test_is_dropped_before_its_lease(void **state) {
        Fixture *fixture = *state;
        char id[192];

        have_leases(fixture);
        begin(fixture, PULL_POLICY_ALWAYS);
        snprintf(id, sizeof(id), "%s", fake_runtime_find("Create")->target);
        fixture->pull = pull_free(fixture->pull);
        assert_null(fake_runtime_find("Create"));
        assert_lease_ends(id);
}

/* Without a lease, and where there is no content store without asking for one. */
static void test_has_no_lease(void **state) {
        Fixture *fixture = *state;

        have_leases(fixture);
        begin(fixture, PULL_POLICY_ALWAYS);
        fake_runtime_refuse("Create", ERROR_UNSUPPORTED, "unknown service");
        assert_string_equal(fake_runtime_find("PullImage")->lease, "");
        fixture->pull = pull_free(fixture->pull);
        assert_int_equal(fake_runtime_n_asked("Delete"), 0);

        fake_runtime.n_reconnects++;
        assert_int_equal(progress_tracker_runtime_changed(fixture->context.progress), 0);
        fake_runtime_refuse("ListIngests", ERROR_UNSUPPORTED, "unknown service");
        begin(fixture, PULL_POLICY_ALWAYS);
        assert_string_equal(fake_runtime_find("PullImage")->lease, "");
        assert_int_equal(fake_runtime_n_asked("Create"), 1);
        fixture->pull = pull_free(fixture->pull);
        begin(fixture, PULL_POLICY_ALWAYS);
        assert_int_equal(progress_tracker_runtime_changed(fixture->context.progress), 0);
        assert_int_equal(fake_runtime_n_asked("ListIngests"), 2);
}

/* A pull that is dropped drops what it asked. */
static void test_is_dropped(void **state) {
        Fixture *fixture = *state;

        begin(fixture, PULL_POLICY_ALWAYS);
        fixture->pull = pull_free(fixture->pull);
        assert_int_equal(fake_runtime_n_calls(), 0);
        assert_slots(fixture, 0, 0);
}

/* What runs with one version and policy, and whether it is good enough for another desired image. */
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

#define N_COVERS (sizeof(covers) / sizeof(covers[0]))

static const struct Cover *current;

static int set_up_cover(void **state) {
        current = *state;
        return set_up(state);
}

/* What waits for all layers does for those that ask for less. */
static void test_covers_complete(void **state) {
        cleanup(desired_image_done) DesiredImage desired;
        Fixture *fixture = *state;

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

static void test_covers(void **state) {
        cleanup(desired_image_done) DesiredImage desired;
        Fixture *fixture = *state;

        start(fixture, "a", current->version, current->policy);
        make_desired(&desired, current->desired_version, current->desired_policy);
        assert_int_equal(pull_covers(fixture->pull, &desired), current->covers);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_waits_for_its_turn),
                TEST(test_duration),
                TEST(test_waits_for_the_runtime),
                TEST(test_leaves_the_queue),
                TEST(test_runtime_is_away_until_the_deadline),
                TEST(test_runtime_goes_while_it_waits),
                TEST(test_waits_for_room),
                TEST(test_is_dropped_without_room),
                TEST(test_disk_fills_up),
                TEST(test_join_of_an_idle_owner),
                TEST(test_join_of_a_busy_owner),
                TEST(test_is_there),
                TEST(test_is_on_demand),
                TEST(test_is_completed),
                TEST(test_cannot_be_completed),
                TEST(test_fetches_no_more),
                TEST(test_layers_cannot_be_asked_for),
                TEST(test_is_dropped_while_it_fetches),
                TEST(test_is_pulled),
                TEST(test_is_refused),
                TEST(test_is_not_shown),
                TEST(test_runtime_goes_while_it_pulls),
                TEST(test_runtime_is_back_at_once),
                TEST(test_is_refused_without_a_limit),
                TEST(test_is_refused_by_the_registry),
                TEST(test_is_retried),
                TEST(test_hints),
                TEST(test_answers_of_the_registry),
                TEST(test_network_is_back),
                TEST(test_is_hopeless),
                TEST(test_is_over_for_another),
                TEST(test_is_dropped),
                TEST(test_lease),
                TEST(test_lease_of_a_failure),
                TEST(test_lease_of_the_last_failure),
                TEST(test_is_dropped_before_its_lease),
                TEST(test_has_no_lease),
                TEST(test_covers_complete),
        };
        struct CMUnitTest rows[N_COVERS];

        for (size_t i = 0; i < N_COVERS; i++)
                rows[i] = (struct CMUnitTest){
                        .name = covers[i].name,
                        .test_func = test_covers,
                        .setup_func = set_up_cover,
                        .teardown_func = tear_down,
                        .initial_state = (void *) &covers[i],
                };

        return cmocka_run_group_tests_name("pull", tests, NULL, NULL) +
               _cmocka_run_group_tests("covers", rows, N_COVERS, NULL, NULL);
}
