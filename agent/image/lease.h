/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Leases keep fetched content for the next attempt
 *
 * containerd goes on with a layer where the last download of it has ended, if it still has that part. But a
 * pull that is canceled leaves nothing that refers to it, and it is collected as garbage at once. A lease of
 * ours refers to all that the pull finds and fetches: PullImage is sent with its ID as metadata.
 *
 * A runtime without leases has none, and fetches everything again.
 */

#include "cri/runtimes.h"

typedef struct Leases Leases;
typedef struct Lease Lease;

/* It is there, or there is none: see lease_id(). Runs once; may end the lease. */
typedef int (*LeaseReady)(void *userdata);

/* The runtimes have to outlive the leases. */
int leases_new(const Runtimes *runtimes, Leases **ret);
/* All leases must have ended. */
Leases *leases_free(Leases *leases);

/* The runtime must be there. Without lease_end() the lease expires after a day. */
int lease_begin(Leases *leases, LeaseReady on_ready, void *userdata, Lease **ret);

/* NULL: there is none. Borrowed from the lease, which may be NULL. */
const char *lease_id(const Lease *lease);

/* Lets the runtime collect content that nothing else refers to. Returns NULL. */
Lease *lease_end(Lease *lease);
