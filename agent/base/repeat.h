/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The same thing again → later each time
 *
 * A writer that corrects a field whenever it differs would write without end if another writer corrects the
 * same field, or if it cannot read back its own value. So each field has a Repeat: a value that equals the
 * last one waits 0.25, 0.5, 1 ... 300 s after it, and any other value does not wait. After ten minutes
 * without a write every value is new again. Pure.
 */

#include <stdint.h>

#define REPEAT_MIN_USEC ((uint64_t) 250 * 1000)
#define REPEAT_MAX_USEC ((uint64_t) 300 * 1000000)
#define REPEAT_FORGET_USEC ((uint64_t) 600 * 1000000)

typedef struct Repeat {
        uint64_t digest;  /* digest of the last text sent */
        unsigned n_times; /* how often it was sent in a row; 0: nothing was */
        uint64_t sent_usec;
} Repeat;

/* Returns the digest of a text to be sent. For several texts, pass the digest of one as the start
 * of the next; the first start is 0. NULL differs from "". */
uint64_t repeat_digest(uint64_t start, const char *text);

/* Returns the earliest time at which it may be sent; 0: at any time. */
uint64_t repeat_when_usec(const Repeat *repeat, uint64_t digest);

/* Records a write. */
void repeat_note(Repeat *repeat, uint64_t digest, uint64_t now_usec);
