/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A Lease (coordination.k8s.io/v1), by which a kubelet says that it lives
 */

#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

#define LEASE_DURATION_SEC 40 /* where it does not say itself for how long it holds */

typedef struct Lease {
        int64_t renewed_sec; /* since 1970 */
        int64_t duration_sec;
} Lease;

/* The text need not end with a NUL. */
int lease_spec_parse(const char *text, size_t size, Lease *ret, Error *reterr);
