/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the next step for a restart request
 */

#include "agent/recreate/recreate-plan.h"
#include "tests/unit/unit.h"

#define CREATED 1000

/* Shapes of a container that is about containerd://a1, restarted 0 times. */
#define OLD .is_here = true, .is_running = true, .id = "a1", .is_pod_known = true, .is_in_pod = true
#define NEW                                                                                        \
        .is_here = true, .is_running = true, .id = "a2", .restart_count = 1, .is_pod_known = true, \
        .is_in_pod = true
#define DEAD .is_here = true, .is_exited = true, .id = "a1", .is_pod_known = true, .is_in_pod = true

typedef struct Row {
        const char *name;
        bool is_forced;
        bool lacks_context;
        int64_t min_started_sec;
        RecreateState before;
        RecreateFact fact;
        RecreatePhase phase;
        bool is_killed;
        const char *message;
        RecreateStepKind step;
        uint64_t wait_usec; /* 0: never */
} Row;

/* clang-format off */
static const Row rows[] = {
        { .name = "runs as it did: stop it", .fact = { OLD }, .phase = RECREATE_PENDING,
          .step = RECREATE_STEP_STOP },
        { .name = "is being stopped: nothing else, and still pending",
          .before = { .phase = RECREATE_PENDING }, .fact = { DEAD, .is_stopping = true },
          .phase = RECREATE_PENDING },
        { .name = "a stop came to nothing: not at once again", .fact = { OLD, .rest_usec = 5 },
          .phase = RECREATE_PENDING, .wait_usec = 5 },
        { .name = "has been stopped", .fact = { DEAD, .was_killed = true },
          .phase = RECREATE_RECREATING, .is_killed = true },
        { .name = "has died by itself, which is not us", .fact = { DEAD },
          .phase = RECREATE_RECREATING },
        { .name = "has ended before, and is not started again: nothing is awaited",
          .fact = { DEAD, .stays_ended = true }, .phase = RECREATE_FAILED,
          .message = "not stopped: it has ended before, and its restart policy does not start it "
          "again",
          .step = RECREATE_STEP_COMPLETE },
        { .name = "the same by force", .is_forced = true,
          .before = { .phase = RECREATE_RECREATING }, .fact = { DEAD, .stays_ended = true },
          .phase = RECREATE_FAILED,
          .message = "not stopped: it has ended before, and its restart policy does not start it "
          "again",
          .step = RECREATE_STEP_COMPLETE },
        { .name = "has been stopped, and is not started again: as with OpenKruise",
          .fact = { DEAD, .was_killed = true, .stays_ended = true },
          .phase = RECREATE_RECREATING, .is_killed = true },
        { .name = "is back, but not ready",
          .before = { .phase = RECREATE_RECREATING, .is_killed = true }, .fact = { NEW },
          .phase = RECREATE_RECREATING, .is_killed = true },
        { .name = "is back and ready",
          .before = { .phase = RECREATE_RECREATING, .is_killed = true },
          .fact = { NEW, .is_ready = true, .age_usec = 1 }, .phase = RECREATE_SUCCEEDED,
          .is_killed = true, .step = RECREATE_STEP_COMPLETE },
        { .name = "was back before it was inspected: nothing is stopped",
          .fact = { NEW, .is_ready = true }, .phase = RECREATE_SUCCEEDED,
          .step = RECREATE_STEP_COMPLETE },
        { .name = "is ready too early", .min_started_sec = 3,
          .fact = { NEW, .is_ready = true, .age_usec = 1 * SEC }, .phase = RECREATE_RECREATING,
          .wait_usec = 2 * SEC + 1 },
        { .name = "is ready for exactly the time, which is not more", .min_started_sec = 3,
          .fact = { NEW, .is_ready = true, .age_usec = 3 * SEC }, .phase = RECREATE_RECREATING,
          .wait_usec = 1 },
        { .name = "is ready for longer than that", .min_started_sec = 3,
          .fact = { NEW, .is_ready = true, .age_usec = 3 * SEC + 1 }, .phase = RECREATE_SUCCEEDED,
          .step = RECREATE_STEP_COMPLETE },
        { .name = "the same ID with a higher count is another one",
          .fact = { OLD, .restart_count = 1, .is_ready = true }, .phase = RECREATE_SUCCEEDED,
          .step = RECREATE_STEP_COMPLETE },
        { .name = "its restart rules decide: it is not stopped",
          .fact = { OLD, .rules_decide = true }, .phase = RECREATE_FAILED,
          .message = "not stopped: by its exit status, its restart rules may end it or restart "
          "other containers; forceRecreate stops it all the same", .step = RECREATE_STEP_COMPLETE },
        { .name = "by force: it is stopped whatever its rules decide", .is_forced = true,
          .fact = { OLD, .rules_decide = true }, .phase = RECREATE_PENDING,
          .step = RECREATE_STEP_STOP },
        { .name = "its pod is not known yet, nor what its restart rules decide: it is not stopped",
          .fact = { .is_here = true, .is_running = true, .id = "a1" }, .phase = RECREATE_PENDING },
        { .name = "its pod is not known yet, so it may run once: it is not stopped, even by force",
          .is_forced = true, .fact = { .is_here = true, .is_running = true, .id = "a1" },
          .phase = RECREATE_PENDING },
        { .name = "runs once, and has ended: nothing is awaited", .fact = { DEAD, .runs_once = true },
          .phase = RECREATE_FAILED,
          .message = "not stopped: an init or ephemeral container is not started again",
          .step = RECREATE_STEP_COMPLETE },
        { .name = "runs once, and still does: it is not stopped, even by force", .is_forced = true,
          .fact = { OLD, .runs_once = true }, .phase = RECREATE_FAILED,
          .message = "not stopped: an init or ephemeral container is not started again",
          .step = RECREATE_STEP_COMPLETE },
        { .name = "by force: another one is stopped as well", .is_forced = true,
          .fact = { NEW, .is_ready = true }, .phase = RECREATE_PENDING,
          .step = RECREATE_STEP_STOP },
        { .name = "by force, but once", .is_forced = true,
          .before = { .phase = RECREATE_RECREATING, .is_killed = true },
          .fact = { NEW, .is_ready = true }, .phase = RECREATE_SUCCEEDED, .is_killed = true,
          .step = RECREATE_STEP_COMPLETE },
        { .name = "by force, and died: the next one is stopped when it runs", .is_forced = true,
          .fact = { DEAD }, .phase = RECREATE_RECREATING },
        { .name = "is not there, but was",
          .before = { .phase = RECREATE_PENDING, .is_killed = true },
          .fact = { .is_pod_known = true }, .phase = RECREATE_PENDING, .is_killed = true,
          .message = "not found container on Node" },
        { .name = "is the pod's, and has not been made yet", .lacks_context = true,
          .fact = { .is_pod_known = true, .is_in_pod = true }, .phase = RECREATE_PENDING,
          .message = "not found container on Node" },
        { .name = "is not even the pod's", .lacks_context = true, .fact = { .is_pod_known = true },
          .phase = RECREATE_FAILED, .message = "not found container on Node",
          .step = RECREATE_STEP_COMPLETE },
        { .name = "the pod is not known either", .lacks_context = true, .fact = { 0 },
          .phase = RECREATE_PENDING, .message = "not found container on Node" },
        { .name = "is found after all",
          .before = { .phase = RECREATE_PENDING, .message = (char *) "not found container on Node" },
          .fact = { OLD }, .phase = RECREATE_PENDING, .step = RECREATE_STEP_STOP },
        { .name = "was never seen, and is older than the request", .lacks_context = true,
          .fact = { OLD, .created_at_sec = CREATED }, .phase = RECREATE_PENDING,
          .step = RECREATE_STEP_STOP },
        { .name = "was never seen, and is newer than the request", .lacks_context = true,
          .fact = { OLD, .created_at_sec = CREATED + 1, .is_ready = true },
          .phase = RECREATE_SUCCEEDED, .step = RECREATE_STEP_COMPLETE },
        { .name = "was never seen, and is the successor of one that was stopped in the same second",
          .lacks_context = true, .before = { .phase = RECREATE_RECREATING, .is_killed = true },
          .fact = { NEW, .created_at_sec = CREATED }, .phase = RECREATE_RECREATING,
          .is_killed = true },
        { .name = "has failed, and that is final",
          .before = { .phase = RECREATE_FAILED, .message = (char *) "kill container error: x" },
          .fact = { NEW, .is_ready = true }, .phase = RECREATE_FAILED,
          .message = "kill container error: x", .step = RECREATE_STEP_COMPLETE },
        { .name = "has succeeded, and that is final", .before = { .phase = RECREATE_SUCCEEDED },
          .fact = { OLD }, .phase = RECREATE_SUCCEEDED, .step = RECREATE_STEP_COMPLETE },
};
/* clang-format on */

TEST_ROWS(test_row, rows, name, const Row *row) {
        RecreateContainer container = { .name = (char *) "app",
                                        .context_id = row->lacks_context
                                                              ? NULL
                                                              : (char *) "containerd://a1" };
        const RecreateSpec spec = {
                .created_at = CREATED,
                .containers = &container,
                .n_containers = 1,
                .is_forced = row->is_forced,
                .min_started_sec = row->min_started_sec,
        };
        cleanup(recreate_status_done) RecreateStatus status = RECREATE_STATUS_INIT;
        RecreateState before = row->before;
        const RecreateStatus known = { .states = &before, .n_states = 1 };
        RecreateStep step;

        before.name = (char *) "app";
        assert_int_equal(recreate_status_copy(&known, &status), 0);
        assert_ok(recreate_plan_step(&spec, &row->fact, &status, &step));

        assert_string_equal(recreate_phase_to_string(status.states[0].phase),
                            recreate_phase_to_string(row->phase));
        assert_int_equal(status.states[0].is_killed, row->is_killed);
        assert_string_equal(status.states[0].message ?: "", row->message ?: "");
        assert_int_equal(step.kind, row->step);
        if (step.kind == RECREATE_STEP_WAIT)
                assert_int_equal(step.wait_usec, row->wait_usec ?: UINT64_MAX);
}

/* Several containers, each a letter: o runs as before, d is dead, n is new but not ready, s has
 * succeeded, f has failed, m is missing, x is being stopped, u is of a pod that is not known yet. */
static const struct Walk {
        const char *containers;
        bool is_ordered;
        bool ignores_failure;
        const char *next; /* "stop 1", "wait", "complete" */
} walks[] = {
        { "oo", false, false, "stop 0" },   { "xo", false, false, "wait" },
        { "do", false, false, "stop 1" },   { "no", false, false, "stop 1" },
        { "do", true, false, "wait" },      { "no", true, false, "wait" },
        { "so", true, false, "stop 1" },    { "ss", true, false, "complete" },
        { "fo", false, false, "complete" }, { "fo", true, false, "complete" },
        { "fo", false, true, "stop 1" },    { "fo", true, true, "stop 1" },
        { "of", false, false, "complete" }, { "of", true, false, "complete" },
        { "of", false, true, "stop 0" },    { "xof", false, false, "wait" },
        { "ff", true, true, "complete" },   { "mo", false, false, "stop 1" },
        { "mo", true, false, "wait" },      { "ddd", false, false, "wait" },
        { "sdf", false, true, "wait" },     { "sxf", false, false, "wait" },
        { "dno", false, true, "stop 2" },   { "nsn", true, false, "wait" },
        { "uo", false, false, "wait" },
};

static void make_walk(char letter, RecreateState *state, RecreateFact *fact) {
        *fact = (RecreateFact){ OLD };
        state->name = (char *) "app";
        switch (letter) {
        case 'd': *fact = (RecreateFact){ DEAD }; break;
        case 'n': *fact = (RecreateFact){ NEW }; break;
        case 's': state->phase = RECREATE_SUCCEEDED; break;
        case 'f': state->phase = RECREATE_FAILED; break;
        case 'm': *fact = (RecreateFact){ .is_pod_known = true }; break;
        case 'x': fact->is_stopping = true; break;
        case 'u': fact->is_pod_known = false; break;
        default: break;
        }
}

TEST_ROWS(test_walk, walks, containers, const struct Walk *walk) {
        RecreateContainer containers[4] = { 0 };
        RecreateState states[4] = { 0 };
        RecreateFact facts[4];
        const RecreateStatus known = { .states = states, .n_states = strlen(walk->containers) };
        const RecreateSpec spec = {
                .containers = containers,
                .n_containers = known.n_states,
                .is_ordered = walk->is_ordered,
                .ignores_failure = walk->ignores_failure,
        };
        cleanup(recreate_status_done) RecreateStatus status = RECREATE_STATUS_INIT;
        RecreateStep step;
        char next[32] = "wait";

        for (size_t i = 0; i < known.n_states; i++) {
                containers[i] = (RecreateContainer){ .name = (char *) "app",
                                                     .context_id = (char *) "containerd://a1" };
                make_walk(walk->containers[i], &states[i], &facts[i]);
        }

        assert_int_equal(recreate_status_copy(&known, &status), 0);
        assert_ok(recreate_plan_step(&spec, facts, &status, &step));
        if (step.kind == RECREATE_STEP_STOP)
                (void) snprintf(next, sizeof(next), "stop %zu", step.index);
        if (step.kind == RECREATE_STEP_COMPLETE)
                (void) snprintf(next, sizeof(next), "complete");
        assert_string_equal(next, walk->next);
}

static const struct RuntimeRow {
        const char *a, *b; /* container IDs; NULL: no context */
        bool is_managed;
        bool is_pod_known;
        const char *scheme;
        const char *problem;
} runtimes[] = {
        { "containerd://a1", "containerd://b1", false, true, "containerd", NULL },
        { "cri-o://a1", NULL, false, true, NULL,
          "no statusContext or empty containerID in b container" },
        { NULL, "containerd://b1", true, true, "containerd", NULL },
        { NULL, NULL, true, true, "", NULL },
        { "containerd://a1", "docker://b1", false, true, NULL,
          "has different runtime types containerd, docker in Pod" },
        { "containerd://a1", "containerdx://b1", false, true, NULL,
          "has different runtime types containerd, containerdx in Pod" },
        { "a1", "docker://b1", false, true, NULL,
          "failed to parse containerID a1 in a container: invalid container ID: \"a1\"" },
        { "://a1", "docker://b1", false, true, NULL,
          "failed to parse containerID ://a1 in a container: invalid container ID: \"://a1\"" },
};

TEST_ROWS(test_runtimes, runtimes, a, const struct RuntimeRow *row) {
        RecreateContainer containers[] = {
                { .name = (char *) "a", .context_id = (char *) row->a },
                { .name = (char *) "b", .context_id = (char *) row->b },
        };
        const RecreateSpec spec = { .containers = containers,
                                    .n_containers = 2,
                                    .is_managed = row->is_managed };
        const RecreateFact facts[2] = {
                { .is_pod_known = row->is_pod_known, .is_in_pod = true },
                { .is_pod_known = row->is_pod_known, .is_in_pod = true },
        };
        char scheme[RECREATE_SCHEME_SIZE];
        cleanup(free_p) char *problem = NULL;

        assert_ok(recreate_plan_runtime(&spec, facts, scheme, &problem));
        assert_string_equal(problem ?: "", row->problem ?: "");
        if (row->scheme)
                assert_string_equal(scheme, row->scheme);
}

/* A name that is not even the pod's does not stop the others. */
TEST(test_unknown_container) {
        RecreateContainer containers[] = {
                { .name = (char *) "a", .context_id = (char *) "containerd://a1" },
                { .name = (char *) "ghost" },
        };
        const RecreateSpec spec = { .containers = containers, .n_containers = 2 };
        const RecreateFact facts[2] = { { .is_pod_known = true, .is_in_pod = true },
                                        { .is_pod_known = true } };
        char scheme[RECREATE_SCHEME_SIZE];
        char *problem = NULL;

        assert_ok(recreate_plan_runtime(&spec, facts, scheme, &problem));
        assert_null(problem);
        assert_string_equal(scheme, "containerd");
}

TEST(test_no_containers) {
        const RecreateSpec spec = { 0 };
        char scheme[RECREATE_SCHEME_SIZE];
        cleanup(free_p) char *problem = NULL;

        assert_ok(recreate_plan_runtime(&spec, NULL, scheme, &problem));
        assert_string_equal(problem, "no runtime type found in Pod");
}

TEST(test_drain) {
        static const struct {
                int64_t drained_at;
                int64_t now_msec;
                uint64_t since_msec; /* UINT64_MAX: never seen otherwise */
                uint64_t done_msec;
        } rows_of_drain[] = {
                { 100, 100000, UINT64_MAX, 0 },
                { 100, 102500, UINT64_MAX, 2500 },
                { 100, 500000, UINT64_MAX, 5000 }, /* the agent was away */
                { 100, 500000, 40, 40 },           /* the other clock is behind */
                { 100, 90000, UINT64_MAX, 0 },     /* it is ahead */
                { INT64_MAX, 500000, UINT64_MAX, 0 },
                { INT64_MIN, 500000, UINT64_MAX, 0 },
        };
        const size_t n = N_ELEMENTS(rows_of_drain);

        for (size_t i = 0; i < n; i++) {
                const RecreateSpec spec = { .unready_sec = 5,
                                            .drained_at = rows_of_drain[i].drained_at };
                uint64_t since = rows_of_drain[i].since_msec;

                assert_int_equal(recreate_plan_drained_usec(&spec, rows_of_drain[i].now_msec * 1000,
                                                            since == UINT64_MAX ? since
                                                                                : since * 1000),
                                 rows_of_drain[i].done_msec * 1000);
        }
}

static int compare(const void *a, const void *b) {
        return recreate_queue_compare(*(RecreateSpec *const *) a, *(RecreateSpec *const *) b);
}

TEST(test_queue) {
        RecreateSpec specs[] = {
                { .namespace = (char *) "d",
                  .name = (char *) "b",
                  .pod_uid = (char *) "1",
                  .created_at = 7 },
                { .namespace = (char *) "d",
                  .name = (char *) "z",
                  .pod_uid = (char *) "1",
                  .created_at = 9,
                  .status.phase = RECREATE_RECREATING },
                { .namespace = (char *) "d",
                  .name = (char *) "c",
                  .pod_uid = (char *) "0",
                  .created_at = 1 },
                { .namespace = (char *) "d",
                  .name = (char *) "a",
                  .pod_uid = (char *) "1",
                  .created_at = 7 },
                { .namespace = (char *) "d",
                  .name = (char *) "y",
                  .pod_uid = (char *) "1",
                  .created_at = 8,
                  .status.phase = RECREATE_PENDING },
                { .namespace = (char *) "d",
                  .name = (char *) "x",
                  .pod_uid = (char *) "1",
                  .created_at = 6 },
        };
        const size_t n = N_ELEMENTS(specs);
        RecreateSpec *order[6];
        char names[8] = "";

        for (size_t i = 0; i < n; i++)
                order[i] = &specs[i];
        qsort(order, n, sizeof(order[0]), compare);
        for (size_t i = 0; i < n; i++)
                strcat(names, order[i]->name);

        assert_string_equal(names, "czyxab");
        assert_false(recreate_queue_is_same_pod(order[0], order[1]));
        assert_true(recreate_queue_is_same_pod(order[1], order[5]));
}

/* A request whose pod is not known yet has no uid: then namespace and name tell the pods apart. */
TEST(test_same_pod_without_uid) {
        static const struct {
                const char *namespace, *pod_name;
        } pods[] = { { "d", "p" }, { "d", "q" }, { "e", "p" }, { "e", "q" } };

        for (size_t i = 0; i < N_ELEMENTS(pods); i++)
                for (size_t k = 0; k < N_ELEMENTS(pods); k++) {
                        const RecreateSpec a = { .namespace = (char *) pods[i].namespace,
                                                 .pod_name = (char *) pods[i].pod_name };
                        const RecreateSpec b = { .namespace = (char *) pods[k].namespace,
                                                 .pod_name = (char *) pods[k].pod_name };

                        assert_int_equal(recreate_queue_is_same_pod(&a, &b), i == k);
                }
}
