/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/backoff.h"

uint64_t backoff_between_usec(uint64_t min_usec, uint64_t max_usec, unsigned n_failures,
                              uint32_t random) {
        uint64_t usec = min_usec;

        for (unsigned i = 1; i < n_failures && usec < max_usec; i++)
                usec *= 2;
        if (usec > max_usec)
                usec = max_usec;

        return usec - usec / 5 + (uint64_t) ((double) random / UINT32_MAX * (double) usec * 2 / 5);
}

uint64_t backoff_usec(unsigned n_failures, uint32_t random) {
        return backoff_between_usec(BACKOFF_MIN_USEC, BACKOFF_MAX_USEC, n_failures, random);
}
