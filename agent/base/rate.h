/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rate of a download
 *
 * Smoothed over a few seconds, so that a person can read it and the time left can be estimated from it. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct Rate {
        bool has_sample;
        uint64_t at_usec;
        uint64_t bytes;
        double bytes_per_sec;
} Rate;

#define RATE_INIT ((Rate){ .has_sample = false })

/* Begins with an average: the bytes, and the time that they took. A short time counts for nothing. */
Rate rate_begin_with(uint64_t now_usec, uint64_t bytes, uint64_t usec);

/* To be called about as often as the rate is shown, also when no byte arrived. Fewer bytes than the
 * last time mean that the download began anew. */
void rate_update(Rate *rate, uint64_t now_usec, uint64_t bytes);

/* Bytes per second; 0 if it is not known or nothing arrives. */
uint64_t rate_get(const Rate *rate);
