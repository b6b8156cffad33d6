/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Leases of coordination.k8s.io, as client-go's package leaderelection uses them
 *
 * The holder renews the Lease. Another program takes it when it has not seen it renewed for LEASE_SEC by its own clock,
 * because clocks of nodes differ. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/time-units.h"
#include "agent/kube/path.h"

#define LEASE_SEC 15
#define LEASE_RENEW_USEC (5 * USEC_PER_SEC)

/* The state in which a Lease was seen last. All zero: it was not seen. */
typedef struct LeaseSight {
        uint64_t digest; /* digest of its holder and of the time of its renewal */
        uint64_t since_usec;
} LeaseSight;

/* Path without a name; the namespace is borrowed. */
KubePath lease_path(const char *namespace);

/* Makes {"spec": ...} with this holder, "" for none. The caller owns *ret. */
int lease_spec_make(const char *holder, bool is_new, int64_t now_sec, json_object **ret);
/* Makes it a whole Lease to be created. */
int lease_spec_name(json_object *lease, const char *name);

const char *lease_holder(json_object *lease); /* borrowed; NULL: none */

/* Notes what was seen, and returns whether the Lease belongs to no program but this one. */
bool lease_sight_is_free(LeaseSight *sight, json_object *lease, const char *identity,
                         uint64_t now_usec);
