/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Nodes take turns
 *
 * Of the nodes that pull images of a set with "inplaced.io/parallelism" (image-sets.h), at most so many pull from one registry
 * at a time. Each holds one of so many slots: Leases "inplaced-pull-HASH-0" and so on in the agent's own namespace, where
 * HASH is that of the registry. With "inplaced.io/first", so many nodes pull the images of the set before all others: each
 * holds one of so many slots "inplaced-first-HASH-0" and so on, and notes there when it has these images, or has failed to
 * pull one a few times. Fewer nodes than slots do not wait for each other, as each finds one free.
 *
 * This file counts the pulls that need a slot, slot-claim.c holds one, and pull-slots-plan.c decides about each step. A
 * node that waits lists the slots, at most every 15 s: a watch would bring each renewal to each node that waits, and all of
 * them would write when a slot is free.
 *
 * Only requests of such sets wait. If the Leases cannot be used for five minutes, or the slots do not change hands for an
 * hour, the agent pulls without one. Without such a set nothing is sent.
 */

#include "agent/base/log.h"
#include "agent/cluster/image-sets.h"
#include "agent/image/images.h"
#include "agent/kube/client.h"

typedef struct PullSlots PullSlots;

/* All is borrowed and has to outlive it. */
typedef struct PullSlotsOptions {
        KubeClient *client;
        Log *log;
        Images *images;
        ImageSets *sets;
        const char *node_name;
} PullSlotsOptions;

int pull_slots_new(const PullSlotsOptions *options, PullSlots **ret);
/* Leaves its slots to expire. Takes NULL, returns NULL. */
PullSlots *pull_slots_free(PullSlots *slots);
