/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Clocks
 *
 * For measurements between two lines, and for times since 1970. The event loop's own times come from
 * sd_event_now(), which stands still within a turn.
 */

#include <stdint.h>
#include <time.h>

#include "agent/base/time-units.h"

static inline int64_t clock_nsec(clockid_t clock) {
        struct timespec now = { 0 };

        (void) clock_gettime(clock, &now);
        return (int64_t) now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* The clock that sd-event counts as well. */
static inline uint64_t clock_monotonic_usec(void) {
        return (uint64_t) clock_nsec(CLOCK_MONOTONIC) / 1000;
}

/* For pauses: unlike the time since 1970, here or at a server, this one is never set. */
static inline int64_t clock_monotonic_sec(void) {
        return clock_nsec(CLOCK_MONOTONIC) / NSEC_PER_SEC;
}
