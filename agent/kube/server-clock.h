/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Clock of the API server
 *
 * The server sends its time in the head of each answer, cut to whole seconds, and the answer takes some
 * time to arrive: so the time known here is never ahead of the server's, and the latest of several answers
 * is right. The monotonic clock counts on from there, so that the clock of this node may be wrong, or be
 * set. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

/* An answer that is this much earlier than the known time comes from a clock that was set. */
#define SERVER_CLOCK_BACK_USEC ((int64_t) 5 * 1000000)

typedef struct ServerClock {
        bool is_known;
        int64_t offset_usec; /* offset of the server's time from the monotonic clock */
} ServerClock;

/* Parses "Tue, 15 Nov 1994 08:12:31 GMT", as HTTP writes it, up to the end of the line or the text.
 * -EINVAL: not a time. */
int server_clock_parse(const char *text, int64_t *ret_sec);

void server_clock_note(ServerClock *clock, int64_t server_sec, uint64_t now_usec);

/* Returns the time since 1970. Only if it is known. */
int64_t server_clock_usec(const ServerClock *clock, uint64_t now_usec);
