/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What time it is for the API server
 *
 * It says so in the head of each answer, in whole seconds that are cut off, and the answer takes a
 * while: so it is never later here than there, and of several answers the one that says the latest
 * time is right. Counted on by the monotonic clock, so that the clock of this node may be wrong, or
 * be set. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

/* An answer that is so much earlier than what is known comes from a clock that was set. */
#define SERVER_CLOCK_BACK_USEC ((int64_t) 5 * 1000000)

typedef struct ServerClock {
        bool is_known;
        int64_t offset_usec; /* of its time from the monotonic clock */
} ServerClock;

/* "Tue, 15 Nov 1994 08:12:31 GMT", as HTTP writes it; ends at a line's end or with the text. -EINVAL:
 * it is none. */
int server_clock_parse(const char *text, int64_t *ret_sec);

void server_clock_note(ServerClock *clock, int64_t server_sec, uint64_t now_usec);

/* Since 1970. Only if it is known. */
int64_t server_clock_usec(const ServerClock *clock, uint64_t now_usec);
