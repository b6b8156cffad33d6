/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Clock
 *
 * The time that only goes forward, as sd-event counts it too. For what is measured between two
 * lines; what the event loop does is timed by sd_event_now(), which stands still within a turn.
 */

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, in microseconds. */
static inline uint64_t clock_monotonic_usec(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}
