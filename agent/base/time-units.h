/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Units of time
 *
 * Their types are those in which the agent counts: microseconds of the monotonic clock without a sign,
 * nanoseconds since 1970 with one. Pure.
 */

#include <stdint.h>

#define USEC_PER_MSEC ((uint64_t) 1000)
#define USEC_PER_SEC ((uint64_t) 1000000)
#define NSEC_PER_USEC ((int64_t) 1000)
#define NSEC_PER_SEC ((int64_t) 1000000000)
