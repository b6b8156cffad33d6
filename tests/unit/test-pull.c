/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A pull while there is no runtime: its place in the queues, and its status meanwhile
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/image/pull.h"

#define N_OTHERS 6

typedef struct Fixture {
        sd_event *event;
        CompletionQueue *completions;
        Runtimes *runtimes;
        PullContext context;
        Ticket others[N_OTHERS]; /* of other owners, in the same queue */
        Pull *pull;
        unsigned n_changed;
} Fixture;

static int on_runtime_changed(Runtime *runtime, void *userdata) {
        return 0;
}

static PullKeysAsk *drop(PullKeysAsk *ask) {
        assert_null(ask);
        return NULL;
}

static void on_changed(Pull *pull, void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_changed++;
}

static int set_up(void **state) {
        const RuntimesOptions options = { .n_paths = 0, .on_changed = on_runtime_changed };
        Fixture *fixture = calloc(1, sizeof(*fixture));

        assert_true(sd_event_new(&fixture->event) >= 0);
        assert_int_equal(completion_queue_new(fixture->event, &fixture->completions), 0);
        assert_int_equal(runtimes_new(fixture->completions, &options, &fixture->runtimes), 0);
        fixture->context.event = fixture->event;
        fixture->context.keys.drop = drop;
        fixture->context.runtimes = fixture->runtimes;
        assert_int_equal(queue_new(1, &fixture->context.inspections), 0);
        assert_int_equal(queue_new(1, &fixture->context.pulls), 0);
        assert_int_equal(progress_tracker_new(fixture->event, fixture->runtimes, 0,
                                              &fixture->context.progress),
                         0);
        *state = fixture;
        return 0;
}

static int tear_down(void **state) {
        Fixture *fixture = *state;

        fixture->pull = pull_free(fixture->pull);
        for (size_t i = 0; i < N_OTHERS; i++)
                queue_leave(&fixture->others[i]);
        progress_tracker_free(fixture->context.progress);
        queue_free(fixture->context.inspections);
        queue_free(fixture->context.pulls);
        runtimes_free(fixture->runtimes);
        completion_queue_free(fixture->completions);
        sd_event_unref(fixture->event);
        free(fixture);
        return 0;
}

static void make_desired(DesiredImage *desired, int64_t version, PullPolicy policy) {
        assert_int_equal(desired_image_init(desired, "nginx", "1.25"), 0);
        desired->version = version;
        desired->policy = policy;
}

static void start(Fixture *fixture, const char *owner, int64_t version, PullPolicy policy) {
        cleanup(desired_image_done) DesiredImage desired;
        ImageRef ref;

        make_desired(&desired, version, policy);
        assert_int_equal(image_ref_from_node_image("nginx", "1.25", &ref, NULL), 0);
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
                start(fixture, "a", 1, policies[i]);
                assert_int_equal(pulls_serve(&fixture->context), 0);
                assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_RUNTIME);
                assert_true(fixture->n_changed > 0);
                assert_int_equal(queue_n_served(fixture->context.inspections), 0);
                assert_int_equal(queue_n_waiting(fixture->context.inspections), 0);
                assert_int_equal(queue_n_waiting(fixture->context.pulls), 0);

                assert_int_equal(pull_on_runtime_changed(fixture->pull), 0);
                assert_status(fixture, IMAGE_WAITING, IMAGE_STEP_WAITING_FOR_RUNTIME);
                fixture->pull = pull_free(fixture->pull);
        }
}

static void test_runtime_goes_while_it_waits(void **state) {
        Fixture *fixture = *state;

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

/* What runs with one version and policy, and whether it is good enough for another desired image. */
static const struct Cover {
        const char *name;
        int64_t version;
        PullPolicy policy;
        int64_t wanted;
        PullPolicy wanted_policy;
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

static void test_covers(void **state) {
        cleanup(desired_image_done) DesiredImage desired;
        Fixture *fixture = *state;

        start(fixture, "a", current->version, current->policy);
        make_desired(&desired, current->wanted, current->wanted_policy);
        assert_int_equal(pull_covers(fixture->pull, &desired), current->covers);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_waits_for_its_turn),    TEST(test_waits_for_the_runtime),
                TEST(test_leaves_the_queue),      TEST(test_runtime_goes_while_it_waits),
                TEST(test_join_of_an_idle_owner), TEST(test_join_of_a_busy_owner),
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
