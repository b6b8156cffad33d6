/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Back-off with jitter
 *
 * Each pause is twice as long as the one before, up to a limit, and up to a fifth shorter or longer,
 * so that nodes that failed together do not try again together. Pure: the random number is given.
 */

#include <stdint.h>

#define BACKOFF_MIN_USEC ((uint64_t) 1000000)
#define BACKOFF_MAX_USEC ((uint64_t) 30000000)

/* Returns the pause after failure number n_failures (from 1): 1, 2, 4 ... 30 seconds. */
uint64_t backoff_usec(unsigned n_failures, uint32_t random);

/* The same between other limits. */
uint64_t backoff_between_usec(uint64_t min_usec, uint64_t max_usec, unsigned n_failures,
                              uint32_t random);
