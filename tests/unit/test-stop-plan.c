/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The plan of a stop
 */

#include "agent/pod/stop-plan.h"
#include "tests/unit/unit.h"

#define EVENTS_MAX 24

/* clang-format off */
static const struct Story {
        const char *name;
        StopEvent events[EVENTS_MAX];
        StopAction actions[EVENTS_MAX];
} stories[] = {
        { "stopped",
          { STOP_ON_SLOT, STOP_ON_RUNNING, STOP_ON_KUBELET_THERE, STOP_ON_ADDRESS,
            STOP_ON_REQUESTED_WITH_HOOK, STOP_ON_HOOKED, STOP_ON_ANSWERED, STOP_ON_OVER },
          { STOP_DO_INSPECT, STOP_DO_ASK, STOP_DO_FIND_ADDRESS, STOP_DO_CHECK,
            STOP_DO_RUN_HOOK, STOP_DO_STOP, STOP_DO_CONFIRM, STOP_DO_END } },
        { "without a hook, refused once",
          { STOP_ON_SLOT, STOP_ON_RUNNING, STOP_ON_KUBELET_THERE, STOP_ON_ADDRESS, STOP_ON_REQUESTED,
            STOP_ON_ANSWERED, STOP_ON_REFUSED, STOP_ON_TIMER, STOP_ON_ANSWERED, STOP_ON_OVER },
          { STOP_DO_INSPECT, STOP_DO_ASK, STOP_DO_FIND_ADDRESS, STOP_DO_CHECK, STOP_DO_STOP,
            STOP_DO_CONFIRM, STOP_DO_PAUSE, STOP_DO_STOP, STOP_DO_CONFIRM, STOP_DO_END } },
        { "the runtime goes before it has begun: all from the start",
          { STOP_ON_SLOT, STOP_ON_RUNTIME_AWAY, STOP_ON_RUNTIME_BACK, STOP_ON_SLOT, STOP_ON_RUNNING,
            STOP_ON_KUBELET_THERE, STOP_ON_ADDRESS, STOP_ON_RUNTIME_AWAY, STOP_ON_TIMER, STOP_ON_SLOT },
          { STOP_DO_INSPECT, STOP_DO_PARK, STOP_DO_QUEUE, STOP_DO_INSPECT, STOP_DO_ASK,
            STOP_DO_FIND_ADDRESS, STOP_DO_CHECK, STOP_DO_PARK, STOP_DO_QUEUE, STOP_DO_INSPECT } },
        { "and after that: neither check nor hook",
          { STOP_ON_SLOT, STOP_ON_RUNNING, STOP_ON_KUBELET_THERE, STOP_ON_ADDRESS,
            STOP_ON_REQUESTED_WITH_HOOK, STOP_ON_RUNTIME_AWAY, STOP_ON_HOOKED, STOP_ON_RUNTIME_AWAY,
            STOP_ON_RUNTIME_BACK, STOP_ON_RUNNING, STOP_ON_ANSWERED, STOP_ON_OVER },
          { STOP_DO_INSPECT, STOP_DO_ASK, STOP_DO_FIND_ADDRESS, STOP_DO_CHECK,
            STOP_DO_RUN_HOOK, STOP_DO_NOTHING, STOP_DO_STOP, STOP_DO_PARK,
            STOP_DO_CONFIRM, STOP_DO_STOP, STOP_DO_CONFIRM, STOP_DO_END } },
        { "the container ends before its hook",
          { STOP_ON_SLOT, STOP_ON_RUNNING, STOP_ON_KUBELET_THERE, STOP_ON_ADDRESS,
            STOP_ON_REQUESTED_WITH_HOOK, STOP_ON_TIMER, STOP_ON_TIMER, STOP_ON_EXITED, STOP_ON_OVER },
          { STOP_DO_INSPECT, STOP_DO_ASK, STOP_DO_FIND_ADDRESS, STOP_DO_CHECK,
            STOP_DO_RUN_HOOK, STOP_DO_LOOK, STOP_DO_LOOK, STOP_DO_CONFIRM, STOP_DO_END } },
        { "the kubelet is away: the container is inspected again",
          { STOP_ON_SLOT, STOP_ON_RUNNING, STOP_ON_KUBELET_AWAY, STOP_ON_TIMER, STOP_ON_KUBELET_AWAY,
            STOP_ON_TIMER, STOP_ON_KUBELET_THERE, STOP_ON_SLOT, STOP_ON_OVER },
          { STOP_DO_INSPECT, STOP_DO_ASK, STOP_DO_WAIT, STOP_DO_ASK, STOP_DO_WAIT,
            STOP_DO_ASK, STOP_DO_QUEUE, STOP_DO_INSPECT, STOP_DO_END } },
        { "begun before: neither check nor hook",
          { STOP_ON_SLOT, STOP_ON_BEGUN, STOP_ON_ANSWERED, STOP_ON_OVER },
          { STOP_DO_INSPECT, STOP_DO_STOP, STOP_DO_CONFIRM, STOP_DO_END } },
        { "begun before, and asleep",
          { STOP_ON_SLOT, STOP_ON_SLEEPING, STOP_ON_HOOKED, STOP_ON_ANSWERED, STOP_ON_OVER },
          { STOP_DO_INSPECT, STOP_DO_RUN_HOOK, STOP_DO_STOP, STOP_DO_CONFIRM, STOP_DO_END } },
        { "ended by what was begun before",
          { STOP_ON_SLOT, STOP_ON_EXITED, STOP_ON_OVER, STOP_ON_TIMER },
          { STOP_DO_INSPECT, STOP_DO_CONFIRM, STOP_DO_END, STOP_DO_NOTHING } },
        { "not asked for",
          { STOP_ON_SLOT, STOP_ON_RUNNING, STOP_ON_KUBELET_THERE, STOP_ON_ADDRESS, STOP_ON_OVER },
          { STOP_DO_INSPECT, STOP_DO_ASK, STOP_DO_FIND_ADDRESS, STOP_DO_CHECK, STOP_DO_END } },
        { "another owner's stop has begun while it was asked whether it holds",
          { STOP_ON_SLOT, STOP_ON_RUNNING, STOP_ON_KUBELET_THERE, STOP_ON_ADDRESS, STOP_ON_OUTDATED,
            STOP_ON_SLOT, STOP_ON_OVER },
          { STOP_DO_INSPECT, STOP_DO_ASK, STOP_DO_FIND_ADDRESS, STOP_DO_CHECK, STOP_DO_QUEUE,
            STOP_DO_INSPECT, STOP_DO_END } },
        { "an inspection that is refused",
          { STOP_ON_SLOT, STOP_ON_REFUSED, STOP_ON_TIMER, STOP_ON_OVER },
          { STOP_DO_INSPECT, STOP_DO_PAUSE, STOP_DO_INSPECT, STOP_DO_END } },
};
/* clang-format on */

TEST_ROWS(test_stories, stories, name, const struct Story *row) {
        StopState at = STOP_STATE_QUEUED;

        for (size_t k = 0; row->events[k] != STOP_ON_NOTHING; k++)
                if (stop_plan_step(&at, row->events[k]) != row->actions[k])
                        fail_msg("%s: event %zu", row->name, k);
}

/* A stop that has begun does not go back to a state in which it may begin again, after any event. */
TEST(test_no_way_back) {
        for (StopState from = STOP_STATE_HOOK; from < _STOP_STATE_MAX; from++)
                for (StopEvent event = STOP_ON_NOTHING; event < _STOP_EVENT_MAX; event++) {
                        StopState to = from;

                        (void) stop_plan_step(&to, event);
                        assert_true(to >= STOP_STATE_STOPPING || to == from);
                }
}

static const struct GraceRow {
        int64_t asked, expected;
        const char *deletion, *termination;
} grace_rows[] = {
        { 7, 7, "5", "6" },
        { 0, 0, "5", "6" },
        { -1, 5, "5", "6" },
        { -1, 0, "0", "6" },
        { -1, 6, NULL, "6" },
        { -1, 6, "x", "6" },
        { -1, 6, "-3", "6" },
        { -1, 30, NULL, NULL },
        { -1, 30, "", "1s" },
        { -1, INT32_MAX, "99999999999999999999999", NULL },
        { INT64_MAX, INT32_MAX, NULL, NULL },
};

TEST_ROWS(test_grace, grace_rows, deletion, const struct GraceRow *row) {
        assert_int_equal(stop_plan_grace_sec(row->asked, row->deletion, row->termination),
                         row->expected);
}

static const struct SleepRow {
        const char *name;
        int64_t sleep_sec, grace_sec;
        uint64_t left_usec;
        int64_t expected;
} sleep_rows[] = {
        { "nothing has passed", 6, 9, 9000000, 6 },
        { "two seconds have", 6, 9, 7000000, 4 },
        { "a little more", 6, 9, 6990000, 4 },
        { "all of it", 6, 9, 3000000, 0 },
        { "the grace period, too", 6, 9, 0, 0 },
        { "as long as the grace period", 9, 9, 5990000, 5 },
        { "longer", INT64_MAX, 9, 3000000, 3 },
        { "a record that cannot be", INT64_MAX, -1, 3000000, 0 },
};

TEST_ROWS(test_sleep, sleep_rows, name, const struct SleepRow *row) {
        assert_int_equal(stop_plan_sleep_sec(row->sleep_sec, row->grace_sec, row->left_usec),
                         row->expected);
}

/* Only whole seconds that have passed count, and two are left at least. */
TEST(test_left) {
        assert_int_equal(stop_plan_left_sec(10000000, 0), 10);
        assert_int_equal(stop_plan_left_sec(10000000, 999999), 10);
        assert_int_equal(stop_plan_left_sec(10000000, 1000000), 9);
        assert_int_equal(stop_plan_left_sec(10000000, 8500000), 2);
        assert_int_equal(stop_plan_left_sec(10000000, 9500000), 2);
        assert_int_equal(stop_plan_left_sec(10000000, 99999999), 2);
        assert_int_equal(stop_plan_left_sec((uint64_t) INT32_MAX * 1000000, 0), INT32_MAX);
}
