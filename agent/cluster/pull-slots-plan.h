/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The next step of a node with the slots that nodes share
 *
 * A node that wants to pull takes a free slot, renews it while it pulls, and gives it back; or notes there that it is
 * one of the nodes that were to pull first. A renewal that finds the Lease changed may only follow one whose answer was
 * lost: while the pull goes on, the node takes its slot again, or another free one. Chance chooses among free slots, so
 * that nodes that ask at the same time seldom meet. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/time-units.h"

#define PULL_SLOTS_FAILURE_USEC \
        (300 * USEC_PER_SEC) /* Leases that cannot be used hold a pull back so long */
#define PULL_SLOTS_STALL_USEC (3600 * USEC_PER_SEC) /* and so long slots that never change hands */
#define PULL_SLOTS_POLL_MIN_USEC (2 * USEC_PER_SEC)
#define PULL_SLOTS_POLL_MAX_USEC (15 * USEC_PER_SEC)

typedef enum SlotState {
        SLOT_FREE, /* no node holds it, or its holder has not renewed it for long */
        SLOT_TAKEN,
        SLOT_OURS, /* taken by an earlier run of this agent */
        SLOT_DONE, /* a node that was to pull first has done so */
} SlotState;

typedef enum SlotsAct {
        SLOTS_REST,
        SLOTS_LIST,
        SLOTS_TAKE,
        SLOTS_RENEW,
        SLOTS_RELEASE,
        SLOTS_FINISH, /* note that it is done, and keep it no longer */
} SlotsAct;

typedef struct SlotsInput {
        const SlotState *states; /* as they were just listed; NULL: they were not */
        size_t n_slots;
        bool is_holding;
        size_t slot;      /* which this node holds */
        bool is_lost;     /* it held one, and another write to its Lease came between */
        size_t n_waiting; /* pulls of this node that wait for a slot */
        size_t n_running; /* pulls that have begun, or may soon */
        bool may_finish;  /* it is noted who has pulled */
        bool is_due;      /* the pause since the last list, or the last renewal, is over */
        uint32_t random;
} SlotsInput;

/* *ret_slot is the slot to take; untouched for other acts. */
SlotsAct pull_slots_plan(const SlotsInput *input, size_t *ret_slot);

/* Whether all nodes that were to pull first have done so. */
bool pull_slots_are_done(const SlotsInput *input);

/* Returns the pause after the n-th list (from 0) without a free slot: longer each time, and never the same. */
uint64_t pull_slots_pause_usec(unsigned n_lists, uint32_t random);
