/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Leases name what an attempt fetched, and keep it for the next attempt
 *
 * containerd resumes the download of a layer if it still has the first part. But nothing refers to that part
 * after a pull was canceled, so the garbage collector removes it at once. The agent's lease refers to all
 * content that the pull finds and fetches: PullImage is sent with its ID as metadata. So the lease also
 * tells this content from that of other pulls (progress.h).
 *
 * A runtime without leases fetches everything again.
 */

#include <stdbool.h>

#include "cri/runtimes.h"

typedef struct Leases Leases;
typedef struct Lease Lease;

/* The lease is there, or there is none: see lease_id(). Runs once; may end the lease. */
typedef int (*LeaseReady)(void *userdata);

/* leases_has_left() may have changed. */
typedef int (*LeasesFound)(void *userdata);

/* The runtimes have to outlive the leases. */
int leases_new(const Runtimes *runtimes, Leases **ret);
/* All leases must have ended. */
Leases *leases_free(Leases *leases);

/* Looks for leases that a previous run of the agent left behind, once; until the runtime has answered, each call
 * asks again. They keep what it fetched for the pulls that go on. The runtime must be there. */
int leases_find_left(Leases *leases, LeasesFound on_found, void *userdata);
bool leases_has_left(const Leases *leases);
void leases_end_left(Leases *leases);

/* The runtime must be there. Without lease_end() the lease lasts until leases_end_left() of the next run, or a day. */
int lease_begin(Leases *leases, LeaseReady on_ready, void *userdata, Lease **ret);

/* NULL: there is none. Borrowed from the lease, which may be NULL. */
const char *lease_id(const Lease *lease);

/* Whether this is the ID of a lease of the agent, perhaps of its previous run. */
bool lease_id_is_own(const char *id);

/* Lets the runtime collect content that nothing else refers to. Returns NULL. */
Lease *lease_end(Lease *lease);
