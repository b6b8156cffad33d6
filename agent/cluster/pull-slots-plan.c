/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/pull-slots-plan.h"

static SlotsAct plan_held(const SlotsInput *input) {
        bool is_over = input->n_waiting + input->n_running == 0;
        bool is_beyond = input->slot >= input->n_slots && input->n_running == 0;

        if (is_over && input->may_finish)
                return SLOTS_FINISH;
        if (is_over || is_beyond)
                return SLOTS_RELEASE;

        return input->is_due ? SLOTS_RENEW : SLOTS_REST;
}

static size_t count(const SlotsInput *input, SlotState state) {
        size_t n = 0;

        for (size_t i = 0; i < input->n_slots; i++)
                n += input->states[i] == state;
        return n;
}

static size_t find(const SlotsInput *input, SlotState state, size_t n_before) {
        size_t i = 0;

        while (input->states[i] != state || n_before-- > 0)
                i++;
        return i;
}

bool pull_slots_are_done(const SlotsInput *input) {
        return input->states && count(input, SLOT_DONE) == input->n_slots;
}

SlotsAct pull_slots_plan(const SlotsInput *input, size_t *ret_slot) {
        bool wants_slot = input->n_waiting > 0 || (input->is_lost && input->n_running > 0);
        size_t n_free;

        if (input->is_holding)
                return plan_held(input);
        if (!wants_slot)
                return SLOTS_REST;
        if (!input->states)
                return input->is_due ? SLOTS_LIST : SLOTS_REST;

        if (count(input, SLOT_OURS) > 0) {
                *ret_slot = find(input, SLOT_OURS, 0);
                return SLOTS_TAKE;
        }
        n_free = count(input, SLOT_FREE);
        if (n_free == 0)
                return SLOTS_REST;

        *ret_slot = find(input, SLOT_FREE, input->random % n_free);
        return SLOTS_TAKE;
}

uint64_t pull_slots_pause_usec(unsigned n_lists, uint32_t random) {
        uint64_t usec = PULL_SLOTS_POLL_MIN_USEC;

        for (unsigned i = 0; i < n_lists && usec < PULL_SLOTS_POLL_MAX_USEC; i++)
                usec += usec / 2;
        if (usec > PULL_SLOTS_POLL_MAX_USEC)
                usec = PULL_SLOTS_POLL_MAX_USEC;
        return usec / 2 + (uint64_t) ((double) usec * random / UINT32_MAX);
}
