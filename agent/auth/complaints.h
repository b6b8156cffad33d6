/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What was complained about
 *
 * So that something that is wrong for a long time is told once, not each time somebody stumbles over
 * it. Remembers the last 128 complaints, by no more than a number each.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMPLAINTS_MAX 128

typedef struct Complaints {
        uint64_t items[COMPLAINTS_MAX]; /* a ring */
        size_t n_items;
        size_t i_next;
} Complaints;

/* False: it is remembered. True: it was not, but is now. All zero: nothing is. */
bool complaints_is_new(Complaints *complaints, const char *what, const char *why);
