/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/backoff.h"

uint64_t backoff_usec(unsigned n_failures, uint32_t random) {
        uint64_t usec = BACKOFF_MIN_USEC;

        for (unsigned i = 1; i < n_failures && usec < BACKOFF_MAX_USEC; i++)
                usec *= 2;
        if (usec > BACKOFF_MAX_USEC)
                usec = BACKOFF_MAX_USEC;

        return usec - usec / 5 + (uint64_t) ((double) random / UINT32_MAX * (double) usec * 2 / 5);
}
