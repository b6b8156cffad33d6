/* SPDX-License-Identifier: Apache-2.0 */

/* Notes about pods, by which a run of an update in place tells a crash of the new image, the pods of its table, and the
 * reason of its waiting. */

#include "tests/unit/unit.h"

#include <json-c/json.h>
#include <time.h>

#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-show.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/stderr-capture.h"

/* A terminal; its functions stand for those of pod-table.h, see tests/CMakeLists.txt. */
static struct {
        size_t n_rows_max, n_rows;
        char pods[64]; /* pods of the last drawing */
} terminal;

int __wrap_pod_table_add(PodTable *table, const char *pod, const char *node, const char *phase,
                         const char *image, int64_t since_sec);
int __wrap_pod_table_begin(PodTable *table);
int __wrap_pod_table_draw(PodTable *table, const char *line);
bool __wrap_pod_table_is_possible(void);
size_t __wrap_pod_table_room(const PodTable *table);

int __wrap_pod_table_add(PodTable *table, const char *pod, const char *node, const char *phase,
                         const char *image, int64_t since_sec) {
        terminal.n_rows++;
        (void) snprintf(terminal.pods + strlen(terminal.pods),
                        sizeof(terminal.pods) - strlen(terminal.pods), "%s ", pod);
        return 0;
}

int __wrap_pod_table_begin(PodTable *table) {
        terminal.n_rows = 0;
        terminal.pods[0] = '\0';
        return 0;
}

int __wrap_pod_table_draw(PodTable *table, const char *line) {
        return 0;
}

bool __wrap_pod_table_is_possible(void) {
        return true;
}

size_t __wrap_pod_table_room(const PodTable *table) {
        return terminal.n_rows_max - terminal.n_rows;
}

static int64_t clock_sec = 1000;

int clock_gettime(clockid_t clock, struct timespec *ret) {
        *ret = (struct timespec){ .tv_sec = clock_sec };
        return 0;
}

/* condition: type of one that is True. */
static void see_pod(RolloutShow *show, PodState state, int generation, const char *condition) {
        cleanup(json_object_put_p) json_object *record =
                parse("{'state':'forward','after':{'app':'v2'}}");
        cleanup(json_object_put_p) json_object *pod =
                parse("{'metadata':{'name':'web','generation':%d},"
                      "'status':{'conditions':[{'type':'%s','status':'True'}]}}",
                      generation, condition);
        const Census census = { .pods = &state, .n_pods = 1 };

        state.pod = pod;
        assert_ok(rollout_show(show, 100, record, &census, /* awaited= */ NULL, /* pod= */ NULL));
}

static void see(RolloutShow *show, RolloutPhase phase, int restarts) {
        see_pod(show, (PodState){ .phase = phase, .n_restarts = restarts }, 1, "");
}

static const struct FirstRow {
        const char *name;
        struct {
                RolloutPhase phase;
                int restarts;
        } seen[5];
        size_t n_seen;
        int first; /* restarts before it got the images */
} first_rows[] = {
        { "crashes",
          { { ROLLOUT_OLD, 1 }, { ROLLOUT_UPDATING, 2 }, { ROLLOUT_UPDATING, 3 } },
          3,
          1 },
        { "is found in the middle", { { ROLLOUT_UPDATING, 2 }, { ROLLOUT_FAILED, 4 } }, 2, 2 },
        { "crashes before it gets the images",
          { { ROLLOUT_OLD, 1 },
            { ROLLOUT_OLD, 5 },
            { ROLLOUT_DRAINING, 5 },
            { ROLLOUT_UPDATING, 6 } },
          4,
          5 },
        { "gets other images meanwhile",
          { { ROLLOUT_OLD, 0 },
            { ROLLOUT_UPDATING, 2 },
            { ROLLOUT_OLD, 2 },
            { ROLLOUT_UPDATING, 3 } },
          4,
          2 },
};

/* The crashes of an image before do not count. */
TEST_ROWS(test_first, first_rows, name, const struct FirstRow *row) {
        cleanup(rollout_show_done) RolloutShow show;

        assert_ok(rollout_show_init(&show));
        show.is_quiet = true;
        for (size_t i = 0; i < row->n_seen; i++)
                see(&show, row->seen[i].phase, row->seen[i].restarts);
        assert_int_equal(json_get_integer(json_get(show.pods, "web", json_type_object), "first"),
                         row->first);
}

/* The kubelet has shown the old containers with generation 3, and shows the new ones in another phase. */
TEST(test_old_seen) {
        cleanup(rollout_show_done) RolloutShow show;
        PodState state = { .phase = ROLLOUT_UPDATING };

        assert_ok(rollout_show_init(&show));
        show.is_quiet = true;
        see_pod(&show, state, 3, "");
        state.is_old_seen = true;
        see_pod(&show, state, 3, "");
        state.is_old_seen = false;
        for (int i = 0; i < 2; i++) {
                see_pod(&show, state, 4, "");
                assert_int_equal(json_get_integer(json_get(show.pods, "web", json_type_object),
                                                  "seen"),
                                 3);
                state.phase = ROLLOUT_UPDATED;
        }
}

static const struct UpdatedRow {
        const char *name;
        struct {
                RolloutPhase phase;
                int restarts, generation;
        } seen[4];
        size_t n_seen;
        int restarts, generation; /* as noted in the end */
} updated_rows[] = {
        { "runs on", { { ROLLOUT_UPDATED, 1, 3 }, { ROLLOUT_UPDATED, 1, 3 } }, 2, 1, 3 },
        { "has ended, and is started again",
          { { ROLLOUT_UPDATED, 1, 3 }, { ROLLOUT_UPDATING, 1, 3 } },
          2,
          1,
          3 },
        { "gets other resources, before its kubelet restarts it for them",
          { { ROLLOUT_UPDATED, 1, 3 }, { ROLLOUT_UPDATING, 1, 4 }, { ROLLOUT_UPDATED, 1, 4 } },
          3,
          1,
          3 },
        { "gets other images",
          { { ROLLOUT_UPDATED, 1, 3 }, { ROLLOUT_OLD, 1, 3 }, { ROLLOUT_UPDATED, 2, 4 } },
          3,
          2,
          4 },
};

/* Restarts count from the first time on that the pod was seen updated. */
TEST_ROWS(test_updated, updated_rows, name, const struct UpdatedRow *row) {
        cleanup(rollout_show_done) RolloutShow show;
        json_object *noted;

        assert_ok(rollout_show_init(&show));
        show.is_quiet = true;
        for (size_t i = 0; i < row->n_seen; i++)
                see_pod(&show,
                        (PodState){ .phase = row->seen[i].phase,
                                    .n_restarts = row->seen[i].restarts },
                        row->seen[i].generation, "");
        noted = json_get(show.pods, "web", json_type_object);
        assert_int_equal(json_get_integer(noted, "restarts"), row->restarts);
        assert_int_equal(json_get_integer(noted, "generation"), row->generation);
}

/* A pod may restart for a change of its resources after it was seen updated with them. */
TEST(test_resized) {
        static const char *const types[] = { "PodResizePending", "PodResizeInProgress" };

        for (size_t i = 0; i < 2; i++) {
                cleanup(rollout_show_done) RolloutShow show;
                json_object *noted;

                assert_ok(rollout_show_init(&show));
                show.is_quiet = true;
                see_pod(&show, (PodState){ .phase = ROLLOUT_UPDATED, .n_restarts = 1 }, 4,
                        types[i]);
                noted = json_get(show.pods, "web", json_type_object);
                assert_int_equal(json_get_integer(noted, "restarts"), 1);
                assert_int_equal(json_get_integer(noted, "generation"), 3);
        }
}

static const struct TableRow {
        const char *name;
        size_t n_rows_max;
        const char *pods;
} table_rows[] = {
        { "room for all", 4, "old updating failed updated " },
        { "room for some", 3, "failed updating old " },
        { "room for those that have failed", 1, "failed " },
};

/* A small screen shows the pods that matter most. */
TEST_ROWS(test_table, table_rows, name, const struct TableRow *row) {
        static const struct {
                const char *name;
                RolloutPhase phase;
        } pods[] = { { "old", ROLLOUT_OLD },
                     { "left", ROLLOUT_LEFT },
                     { "updating", ROLLOUT_UPDATING },
                     { "failed", ROLLOUT_FAILED },
                     { "updated", ROLLOUT_UPDATED } };
        cleanup(rollout_show_done) RolloutShow show;
        cleanup(json_object_put_p) json_object *record =
                parse("{'state':'forward','before':{'app':'v1'},'after':{'app':'v2'}}");
        PodState states[N_ELEMENTS(pods)] = { { .pod = NULL } };
        const Census census = { .pods = states, .n_pods = N_ELEMENTS(pods), .n_concerned = 4 };

        assert_ok(rollout_show_init(&show));
        terminal.n_rows_max = row->n_rows_max;
        for (size_t i = 0; i < N_ELEMENTS(pods); i++)
                states[i] = (PodState){ .pod = parse("{'metadata':{'name':'%s'}}", pods[i].name),
                                        .phase = pods[i].phase };
        assert_ok(rollout_show(&show, 100, record, &census, /* awaited= */ NULL, /* pod= */ NULL));
        assert_string_equal(terminal.pods, row->pods);
        for (size_t i = 0; i < N_ELEMENTS(pods); i++)
                json_object_put(states[i].pod);
}

/* A run whose pods do not change gives up after a while. */
TEST(test_still) {
        static const struct {
                RolloutPhase phase;
                int still_sec;
        } seen[] = {
                { ROLLOUT_OLD, 0 },        { ROLLOUT_OLD, 100 },      { ROLLOUT_UPDATING, 0 },
                { ROLLOUT_UPDATING, 100 }, { ROLLOUT_UPDATING, 200 },
        };
        cleanup(rollout_show_done) RolloutShow show;

        assert_ok(rollout_show_init(&show));
        show.is_quiet = true;
        assert_int_equal(rollout_show_still_sec(&show), 0);
        for (size_t i = 0; i < N_ELEMENTS(seen); i++) {
                clock_sec += 100;
                see(&show, seen[i].phase, 0);
                assert_int_equal(rollout_show_still_sec(&show), seen[i].still_sec);
        }
}

/* A person who waits for a server that is away reads why, after a few seconds and not before. */
TEST(test_away) {
        cleanup(rollout_show_done) RolloutShow show;
        Stderr captured;

        assert_ok(rollout_show_init(&show));
        show.is_quiet = true;
        stderr_pipe(&captured);
        assert_ok(rollout_show_away(&show, "for the first moment"));
        show.announcer.since_usec -= ANNOUNCER_QUIET_SEC * SEC;
        assert_ok(rollout_show_away(&show, "for the API server"));
        stderr_restore(&captured);
        assert_contains(captured.text, "waiting for the API server\n");
        assert_null(strstr(captured.text, "first moment"));
}
