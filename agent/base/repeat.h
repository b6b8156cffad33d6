/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The same thing again → later each time
 *
 * A writer that corrects a field whenever it differs would write without end where another writer
 * of the same field does so too, or where it cannot read back what it has written. So each field has
 * a Repeat: what equals the last thing that was sent waits 0.25, 0.5, 1 ... 300 s since then, and
 * anything else does not wait. After ten minutes without a write everything is new again. Pure.
 */

#include <stdint.h>

#define REPEAT_MIN_USEC ((uint64_t) 250 * 1000)
#define REPEAT_MAX_USEC ((uint64_t) 300 * 1000000)
#define REPEAT_FORGET_USEC ((uint64_t) 600 * 1000000)

typedef struct Repeat {
        uint64_t digest;  /* of what was sent last */
        unsigned n_times; /* how often it was sent in a row; 0: nothing was */
        uint64_t sent_usec;
} Repeat;

/* Of what is to be sent. Several texts: the digest of one is the start of the next; 0 is the first.
 * NULL is another text than "". */
uint64_t repeat_digest(uint64_t start, const char *text);

/* When it may be sent at the earliest; 0: at any time. */
uint64_t repeat_when_usec(const Repeat *repeat, uint64_t digest);

/* It was sent. */
void repeat_note(Repeat *repeat, uint64_t digest, uint64_t now_usec);
