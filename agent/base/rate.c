/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/rate.h"

#define SMOOTHING_SEC 2.0
#define SAMPLE_USEC_MIN 50000

static void rate_begin(Rate *rate, uint64_t now_usec, uint64_t bytes) {
        *rate = (Rate){ .has_sample = true, .at_usec = now_usec, .bytes = bytes };
}

Rate rate_begin_with(uint64_t now_usec, uint64_t bytes, uint64_t usec) {
        Rate rate;

        rate_begin(&rate, now_usec, bytes);
        if ((double) usec >= SMOOTHING_SEC * 1e6)
                rate.bytes_per_sec = (double) bytes * 1e6 / (double) usec;
        return rate;
}

void rate_update(Rate *rate, uint64_t now_usec, uint64_t bytes) {
        double seconds, current, weight;

        if (!rate->has_sample || bytes < rate->bytes || now_usec < rate->at_usec) {
                rate_begin(rate, now_usec, bytes);
                return;
        }

        if (now_usec - rate->at_usec < SAMPLE_USEC_MIN)
                return;

        seconds = (double) (now_usec - rate->at_usec) / 1e6;
        current = (double) (bytes - rate->bytes) / seconds;
        /* The first sample has no average to be weighed against. */
        weight = rate->bytes_per_sec > 0 ? seconds / (seconds + SMOOTHING_SEC) : 1;

        rate->bytes_per_sec += (current - rate->bytes_per_sec) * weight;
        rate->at_usec = now_usec;
        rate->bytes = bytes;
}

uint64_t rate_get(const Rate *rate) {
        return (uint64_t) rate->bytes_per_sec;
}
