/* SPDX-License-Identifier: Apache-2.0 */

/* Notes about pods, by which a run of an update in place tells a crash of the new image. */

#include "tests/unit/unit.h"

#include <json-c/json.h>

#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-show.h"
#include "tests/unit/quoted-json.h"

static void see_pod(RolloutShow *show, PodState state, int generation) {
        cleanup(json_object_put_p) json_object *record =
                parse("{'state':'forward','after':{'app':'v2'}}");
        cleanup(json_object_put_p) json_object *pod =
                parse("{'metadata':{'name':'web','generation':%d}}", generation);
        const Census census = { .pods = &state, .n_pods = 1 };

        state.pod = pod;
        assert_ok(rollout_show(show, 100, record, &census, /* awaited= */ NULL, /* pod= */ NULL));
}

static void see(RolloutShow *show, RolloutPhase phase, int restarts) {
        see_pod(show, (PodState){ .phase = phase, .n_restarts = restarts }, 1);
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
        see_pod(&show, state, 3);
        state.is_old_seen = true;
        see_pod(&show, state, 3);
        state.is_old_seen = false;
        for (int i = 0; i < 2; i++) {
                see_pod(&show, state, 4);
                assert_int_equal(json_get_integer(json_get(show.pods, "web", json_type_object),
                                                  "seen"),
                                 3);
                state.phase = ROLLOUT_UPDATED;
        }
}

/* A pod may restart for a change of its resources after that was seen, too. */
TEST(test_resized) {
        cleanup(rollout_show_done) RolloutShow show;
        PodState state = { .phase = ROLLOUT_UPDATED, .n_restarts = 1, .n_allowed = 7 };
        json_object *noted;

        assert_ok(rollout_show_init(&show));
        show.is_quiet = true;
        see_pod(&show, state, 3);
        see_pod(&show, state, 3);
        noted = json_get(show.pods, "web", json_type_object);
        assert_int_equal(json_get_integer(noted, "restarts"), 1);
        assert_int_equal(json_get_integer(noted, "generation"), 3);

        state.n_allowed = 2;
        see_pod(&show, state, 4);
        noted = json_get(show.pods, "web", json_type_object);
        assert_int_equal(json_get_integer(noted, "restarts"), 2);
        assert_int_equal(json_get_integer(noted, "generation"), 4);
}
