/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Slots that nodes share: what a node does next
 */

#include "agent/cluster/pull-slots-plan.h"
#include "tests/unit/unit.h"

#define FREE SLOT_FREE
#define TAKEN SLOT_TAKEN
#define OURS SLOT_OURS
#define UNTOUCHED 77

static const struct Row {
        const char *name;
        SlotState states[3];
        SlotsInput input; /* without the states */
        bool is_listed;
        SlotsAct act;
        size_t slot;
} rows[] = {
        { "nothing to pull",
          { 0 },
          { .n_slots = 2, .is_due = true },
          false,
          SLOTS_REST,
          UNTOUCHED },
        { "runs without a slot",
          { 0 },
          { .n_slots = 2, .n_running = 1, .is_due = true },
          false,
          SLOTS_REST,
          UNTOUCHED },
        { "runs without the slot that it had",
          { 0 },
          { .n_slots = 2, .n_running = 1, .is_lost = true, .is_due = true },
          false,
          SLOTS_LIST,
          UNTOUCHED },
        { "has just listed for it",
          { 0 },
          { .n_slots = 2, .n_running = 1, .is_lost = true },
          false,
          SLOTS_REST,
          UNTOUCHED },
        { "finds it",
          { FREE, OURS },
          { .n_slots = 2, .n_running = 1, .is_lost = true },
          true,
          SLOTS_TAKE,
          1 },
        { "another node has it, and a slot is free",
          { FREE, TAKEN },
          { .n_slots = 2, .n_running = 1, .is_lost = true },
          true,
          SLOTS_TAKE,
          0 },
        { "another node has it",
          { TAKEN, TAKEN },
          { .n_slots = 2, .n_running = 1, .is_lost = true, .is_due = true },
          true,
          SLOTS_REST,
          UNTOUCHED },
        { "the pull whose slot was lost is over",
          { OURS },
          { .n_slots = 1, .is_lost = true, .is_due = true },
          true,
          SLOTS_REST,
          UNTOUCHED },
        { "begins to wait",
          { 0 },
          { .n_slots = 2, .n_waiting = 1, .is_due = true },
          false,
          SLOTS_LIST,
          UNTOUCHED },
        { "has just listed",
          { 0 },
          { .n_slots = 2, .n_waiting = 1 },
          false,
          SLOTS_REST,
          UNTOUCHED },
        { "all are taken",
          { TAKEN, TAKEN },
          { .n_slots = 2, .n_waiting = 1, .is_due = true },
          true,
          SLOTS_REST,
          UNTOUCHED },
        { "one is free", { TAKEN, FREE }, { .n_slots = 2, .n_waiting = 1 }, true, SLOTS_TAKE, 1 },
        { "by chance the first",
          { FREE, TAKEN, FREE },
          { .n_slots = 3, .n_waiting = 1, .random = 4 },
          true,
          SLOTS_TAKE,
          0 },
        { "by chance the second",
          { FREE, TAKEN, FREE },
          { .n_slots = 3, .n_waiting = 1, .random = 5 },
          true,
          SLOTS_TAKE,
          2 },
        { "of an earlier run",
          { FREE, OURS, FREE },
          { .n_slots = 3, .n_waiting = 1 },
          true,
          SLOTS_TAKE,
          1 },
        { "the wait is over", { FREE }, { .n_slots = 1 }, true, SLOTS_REST, UNTOUCHED },
        { "holds one",
          { 0 },
          { .n_slots = 2, .is_holding = true, .slot = 1, .n_running = 1 },
          false,
          SLOTS_REST,
          UNTOUCHED },
        { "holds one for the next pull",
          { 0 },
          { .n_slots = 2, .is_holding = true, .slot = 1, .n_waiting = 1 },
          false,
          SLOTS_REST,
          UNTOUCHED },
        { "renews",
          { 0 },
          { .n_slots = 2, .is_holding = true, .slot = 1, .n_running = 1, .is_due = true },
          false,
          SLOTS_RENEW,
          UNTOUCHED },
        { "is done",
          { 0 },
          { .n_slots = 2, .is_holding = true, .is_due = true },
          false,
          SLOTS_RELEASE,
          UNTOUCHED },
        { "has pulled first",
          { 0 },
          { .n_slots = 2, .is_holding = true, .may_finish = true },
          false,
          SLOTS_FINISH,
          UNTOUCHED },
        { "pulls first",
          { 0 },
          { .n_slots = 2, .is_holding = true, .n_running = 1, .may_finish = true, .is_due = true },
          false,
          SLOTS_RENEW,
          UNTOUCHED },
        { "waits for the last of the first",
          { SLOT_DONE, TAKEN },
          { .n_slots = 2, .n_waiting = 1 },
          true,
          SLOTS_REST,
          UNTOUCHED },
        { "is itself one of the first",
          { SLOT_DONE, FREE },
          { .n_slots = 2, .n_waiting = 1 },
          true,
          SLOTS_TAKE,
          1 },
        { "fewer slots while it pulls",
          { 0 },
          { .n_slots = 1, .is_holding = true, .slot = 1, .n_waiting = 1, .n_running = 1 },
          false,
          SLOTS_REST,
          UNTOUCHED },
        { "fewer slots before it pulls",
          { 0 },
          { .n_slots = 1, .is_holding = true, .slot = 1, .n_waiting = 1 },
          false,
          SLOTS_RELEASE,
          UNTOUCHED },
};

TEST_ROWS(test_act, rows, name, const struct Row *row) {
        SlotsInput input = row->input;
        size_t slot = UNTOUCHED;

        input.states = row->is_listed ? row->states : NULL;
        assert_int_equal(pull_slots_plan(&input, &slot), row->act);
        assert_int_equal(slot, row->slot);
}

TEST(test_done) {
        static const SlotState states[] = { SLOT_DONE, SLOT_DONE, SLOT_TAKEN };

        assert_false(pull_slots_are_done(&(SlotsInput){ .n_slots = 2 }));
        assert_true(pull_slots_are_done(&(SlotsInput){ .states = states, .n_slots = 2 }));
        assert_false(pull_slots_are_done(&(SlotsInput){ .states = states, .n_slots = 3 }));
}

/* Later each time, up to a limit, and different on each node. */
TEST(test_pause) {
        assert_int_equal(pull_slots_pause_usec(0, 0), PULL_SLOTS_POLL_MIN_USEC / 2);
        assert_int_equal(pull_slots_pause_usec(0, UINT32_MAX), PULL_SLOTS_POLL_MIN_USEC * 3 / 2);
        assert_int_equal(pull_slots_pause_usec(1, 0), PULL_SLOTS_POLL_MIN_USEC * 3 / 4);
        assert_int_equal(pull_slots_pause_usec(1000, 0), PULL_SLOTS_POLL_MAX_USEC / 2);
        assert_int_equal(pull_slots_pause_usec(1000, UINT32_MAX), PULL_SLOTS_POLL_MAX_USEC * 3 / 2);
}
