/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Clock
 *
 * The monotonic time, which sd-event counts as well. For measurements between two lines; the event loop's
 * own times come from sd_event_now(), which stands still within a turn.
 */

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, in microseconds. */
static inline uint64_t clock_monotonic_usec(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}
