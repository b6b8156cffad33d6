/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When a person reads what a command waits for: after five seconds, and then every 30
 *
 * Times are of the monotonic clock, so that a correction of the time does not prolong the wait.
 */

#include <stdbool.h>
#include <stdint.h>

#define ANNOUNCER_QUIET_SEC 5

typedef struct Announcer {
        uint64_t since_usec;
        uint64_t said_usec; /* 0: nothing was said since then */
} Announcer;

/* The wait begins, or begins anew since something has changed. */
void announcer_begin(Announcer *announcer);

/* Since the beginning. */
int64_t announcer_still_sec(const Announcer *announcer);

/* True: it is to be said now, and not again for 30 seconds. */
bool announcer_is_due(Announcer *announcer);
