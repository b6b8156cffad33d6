/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The slots of one registry, or of one set, while this node wants one
 *
 * Lists, takes, renews and releases their Leases, as pull-slots-plan.c decides. If the Leases cannot be used, or the
 * slots do not change hands, the claim lets the node pull without one. pull-slots.c counts the pulls.
 */

#include "agent/base/list.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/cluster/pull-slots-plan.h"
#include "agent/kube/patch.h"

#define SLOT_PREFIX_SIZE 40

typedef struct Slot Slot;

/* Common to the claims of a node. The first four members are borrowed, the others are zero at first. */
typedef struct SlotNode {
        KubeClient *client;
        Log *log;
        const char *name;
        Deferred *pass; /* counts the pulls, and calls slot_claim_step() */

        Error error;                            /* last failure; freed by the owner */
        uint64_t failed_usec, last_failed_usec; /* first and last failure in a row; 0: none */
        bool is_reported;
} SlotNode;

typedef struct SlotClaim {
        LIST_LINKS(struct SlotClaim);
        SlotNode *node;
        bool is_first;
        char *name; /* name of the registry, or of the set */
        char prefix[SLOT_PREFIX_SIZE];
        KubePatch patch;
        Timer timer;

        Slot *slots;
        SlotState *states;
        size_t n_slots;
        bool is_listed;
        unsigned n_tries;    /* writes that met a conflict since the list */
        unsigned n_lists;    /* without a free slot, in a row */
        uint64_t due_usec;   /* time of the next list or renewal */
        uint64_t moved_usec; /* when a slot changed hands, or this node began to wait */

        bool is_holding;
        bool is_lost;  /* see SlotsInput */
        size_t slot;   /* which it holds, or is about to take */
        char *version; /* version of the Lease that it holds */
        bool is_open;  /* this node has waited long enough */
        bool is_done;  /* the nodes that were to pull first have these images */

        /* Counts of the pulls, by the owner. */
        bool is_set;                 /* the set still says who pulls first */
        uint64_t digest;             /* digest of the set's images */
        size_t n_waiting, n_running; /* see SlotsInput */
        size_t n_wanted;             /* slots; smallest number of the sets whose pulls wait */
} SlotClaim;

/* is_first: the slots are those of nodes that pull the images of the set first. */
int slot_claim_new(SlotNode *node, bool is_first, const char *name, SlotClaim **ret);
/* Leaves its slot to expire. Returns NULL. */
SlotClaim *slot_claim_free(SlotClaim *claim);

/* Forgets the counts. */
void slot_claim_begin_count(SlotClaim *claim);

/* Counts a pull that waits for one of so many slots. */
void slot_claim_count_waiting(SlotClaim *claim, size_t n_slots);

/* Says for which images, and on how many nodes, this set has them pulled first. */
void slot_claim_set_first(SlotClaim *claim, uint64_t digest, size_t n_slots);

/* Sends the next request, if there is one. */
int slot_claim_step(SlotClaim *claim);
bool slot_claim_is_idle(const SlotClaim *claim);

/* NULL is no claim, and lets no pull begin. */
bool slot_claim_lets_pull(const SlotClaim *claim, size_t n_slots);
