/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which events are worth sending
 */

#include "agent/kube/event-spec.h"
#include "tests/unit/unit.h"

#define MINUTE (60 * SEC)
#define WALL ((uint64_t) 1700000000 * 1000000000)

DEFINE_CLEANUP(EventPlan *, event_plan_free)

static EventPlan *make_plan(void) {
        EventPlan *plan;

        assert_ok(event_plan_new(&plan));
        return plan;
}

/* Keys of small numbers: the message of a kind of an object. */
static EventDecision decide(EventPlan *plan, unsigned object, unsigned kind, unsigned message,
                            uint64_t now_usec) {
        const EventKeys keys = {
                .object = object,
                .kind = object * 1000000 + kind * 10000,
                .event = object * 1000000 + kind * 10000 + 1 + message,
                .combined = object * 1000000 + kind * 10000 + 9999,
        };

        return event_plan_decide(plan, &keys, now_usec, WALL + now_usec * 1000);
}

TEST(test_same_again_is_counted) {
        cleanup(event_plan_free_p) EventPlan *plan = make_plan();
        EventDecision first = decide(plan, 1, 1, 1, 7 * SEC);
        EventDecision other = decide(plan, 1, 1, 2, 7 * SEC);
        EventDecision again = decide(plan, 1, 1, 1, 9 * SEC);

        assert_int_equal(first.action, EVENT_CREATE);
        assert_int_equal(first.count, 1);
        assert_int_equal(first.first_at, 1700000007);
        assert_int_equal(first.stamp, WALL + 7 * SEC * 1000);

        assert_int_equal(other.action, EVENT_CREATE);
        assert_true(other.stamp != first.stamp);

        assert_int_equal(again.action, EVENT_REPEAT);
        assert_int_equal(again.count, 2);
        assert_int_equal(again.first_at, first.first_at);
        assert_int_equal(again.stamp, first.stamp);
        assert_int_equal(again.key, first.key);
        assert_false(again.is_combined);
}

TEST(test_what_was_not_created_is_new) {
        cleanup(event_plan_free_p) EventPlan *plan = make_plan();
        EventDecision first = decide(plan, 1, 1, 1, 0);
        EventDecision second = decide(plan, 1, 1, 2, 0);

        event_plan_forget(plan, first.key);
        event_plan_forget(plan, 4711);
        assert_int_equal(decide(plan, 1, 1, 2, 0).stamp, second.stamp);
        assert_int_equal(decide(plan, 1, 1, 1, 0).action, EVENT_CREATE);
        assert_int_equal(decide(plan, 1, 1, 2, 0).count, 3);
}

TEST(test_too_many_of_a_kind_are_combined) {
        cleanup(event_plan_free_p) EventPlan *plan = make_plan();
        EventDecision decision, first;

        for (unsigned i = 0; i < 10; i++) {
                decision = decide(plan, 1, 1, i, i * SEC);
                assert_int_equal(decision.action, EVENT_CREATE);
                assert_false(decision.is_combined);
        }

        first = decide(plan, 1, 1, 10, 10 * SEC);
        assert_int_equal(first.action, EVENT_CREATE);
        assert_true(first.is_combined);
        assert_int_equal(first.count, 1);

        decision = decide(plan, 1, 1, 11, 11 * SEC);
        assert_int_equal(decision.action, EVENT_REPEAT);
        assert_true(decision.is_combined);
        assert_int_equal(decision.count, 2);
        assert_int_equal(decision.stamp, first.stamp);

        /* Other events of that kind are known, and those of other kinds do not matter. */
        assert_false(decide(plan, 1, 1, 3, 12 * SEC).is_combined);
        assert_false(decide(plan, 1, 2, 20, 12 * SEC).is_combined);
        assert_false(decide(plan, 2, 1, 20, 12 * SEC).is_combined);
}

TEST(test_kinds_are_forgotten_after_a_while) {
        cleanup(event_plan_free_p) EventPlan *plan = make_plan();

        for (unsigned i = 0; i < 10; i++)
                decide(plan, 1, 1, i, 0);
        assert_true(decide(plan, 1, 1, 10, 10 * MINUTE).is_combined);
        assert_true(decide(plan, 1, 1, 11, 20 * MINUTE).is_combined);
        assert_false(decide(plan, 1, 1, 12, 30 * MINUTE + 1).is_combined);
}

static unsigned count_allowed(EventPlan *plan, unsigned object, unsigned n, uint64_t now_usec) {
        unsigned n_allowed = 0;

        for (unsigned i = 0; i < n; i++)
                if (decide(plan, object, 1, 1, now_usec).action != EVENT_DROP)
                        n_allowed++;
        return n_allowed;
}

TEST(test_each_object_has_a_bucket) {
        cleanup(event_plan_free_p) EventPlan *plan = make_plan();

        assert_int_equal(count_allowed(plan, 1, 100, 0), 25);
        assert_int_equal(count_allowed(plan, 2, 100, 0), 25);
        assert_int_equal(count_allowed(plan, 1, 100, 5 * MINUTE - 1), 0);
        assert_int_equal(count_allowed(plan, 1, 100, 5 * MINUTE), 1);
        assert_int_equal(count_allowed(plan, 1, 100, 14 * MINUTE), 1);
        assert_int_equal(count_allowed(plan, 1, 100, 15 * MINUTE), 1);
        assert_int_equal(count_allowed(plan, 1, 100, 1002 * MINUTE), 25);
        assert_int_equal(count_allowed(plan, 1, 100, 1007 * MINUTE - 1), 0);
        assert_int_equal(count_allowed(plan, 1, 100, 1007 * MINUTE), 1);
}

TEST(test_what_was_over_the_limit_counts) {
        cleanup(event_plan_free_p) EventPlan *plan = make_plan();
        EventDecision decision;

        assert_int_equal(count_allowed(plan, 1, 100, 0), 25);
        decision = decide(plan, 1, 1, 1, 5 * MINUTE);
        assert_int_equal(decision.action, EVENT_REPEAT);
        assert_int_equal(decision.count, 101);

        /* An event that was never created has no count yet. */
        assert_int_equal(decide(plan, 1, 2, 1, 5 * MINUTE).action, EVENT_DROP);
        decision = decide(plan, 1, 2, 1, 10 * MINUTE);
        assert_int_equal(decision.action, EVENT_CREATE);
        assert_int_equal(decision.count, 1);
}

TEST(test_stamps_differ) {
        cleanup(event_plan_free_p) EventPlan *plan = make_plan();
        uint64_t last = 0;

        /* Also when the clock on the wall goes back. */
        for (unsigned i = 0; i < 20; i++) {
                const EventKeys keys = { .object = i, .kind = i, .event = i, .combined = i + 100 };
                EventDecision decision = event_plan_decide(plan, &keys, 0, WALL - i / 5);

                assert_true(decision.stamp > last);
                last = decision.stamp;
        }
}

/* However many there are, memory is bounded, and the latest are known. */
TEST(test_the_oldest_is_forgotten) {
        cleanup(event_plan_free_p) EventPlan *plan = make_plan();

        for (unsigned i = 0; i < EVENT_RECORDS_MAX + 1; i++)
                assert_int_equal(decide(plan, i, 1, 1, 0).action, EVENT_CREATE);

        assert_int_equal(decide(plan, EVENT_RECORDS_MAX, 1, 1, 0).action, EVENT_REPEAT);
        assert_int_equal(decide(plan, 1, 1, 1, 0).action, EVENT_REPEAT);
        assert_int_equal(decide(plan, 0, 1, 1, 0).action, EVENT_CREATE);
        assert_int_equal(decide(plan, 1, 1, 1, 0).count, 3);
        assert_int_equal(decide(plan, 2, 1, 1, 0).action, EVENT_CREATE);
}
