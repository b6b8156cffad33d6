/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How long pulls pause for pods
 */

#include "agent/cluster/pod-waits-plan.h"
#include "tests/unit/unit.h"

#define LIMIT (10 * USEC_PER_SEC)

/* A time in tenths of a second, whether a pod waits then, whether there is a pause afterwards, and whether the
 * limit has ended it. */
typedef struct Moment {
        uint64_t at;
        bool has_waits, is_on, is_at_limit;
} Moment;

static const struct Story {
        const char *name;
        Moment moments[8];
} stories[] = {
        { "no pod waits", { { 1, false, false, false }, { 20, false, false, false } } },
        { "a pod waits", { { 1, true, true, false }, { 90, true, true, false } } },
        { "the pause outlasts the wait for a second",
          { { 1, true, true, false },
            { 10, true, true, false },
            { 19, false, true, false },
            { 20, false, false, false },
            { 21, true, true, false } } },
        { "the next image comes within that second",
          { { 1, true, true, false },
            { 10, false, true, false },
            { 15, true, true, false },
            { 24, false, true, false },
            { 25, false, false, false } } },
        { "the limit ends it, and none begins for two minutes",
          { { 1, true, true, false },
            { 100, true, true, false },
            { 101, true, false, true },
            { 102, true, false, false },
            { 1300, true, false, false },
            { 1301, true, true, false } } },
        { "one wait after the other has the same limit",
          { { 1, true, true, false },
            { 45, true, true, false },
            { 50, false, true, false },
            { 55, true, true, false },
            { 95, true, true, false },
            { 100, false, true, false },
            { 105, true, false, true } } },
};

TEST_ROWS(test_story, stories, name, const struct Story *story) {
        PodPause pause = { .is_on = false };

        for (const Moment *moment = story->moments; moment->at > 0; moment++) {
                bool is_at_limit = pod_waits_plan_step(&pause, moment->has_waits, LIMIT,
                                                       moment->at * USEC_PER_SEC / 10);

                assert_int_equal(is_at_limit, moment->is_at_limit);
                assert_int_equal(pause.is_on, moment->is_on);
        }
}

/* 0 switches it off, at once. */
TEST(test_no_limit) {
        PodPause pause = { .is_on = false };

        assert_false(pod_waits_plan_step(&pause, true, 0, USEC_PER_SEC));
        assert_false(pause.is_on);
        assert_false(pod_waits_plan_step(&pause, true, LIMIT, USEC_PER_SEC));
        assert_true(pause.is_on);
        assert_true(pod_waits_plan_step(&pause, true, 0, USEC_PER_SEC));
        assert_false(pause.is_on);
}
