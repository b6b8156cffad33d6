/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Random numbers: for jitter, which need not be secret, and for identifiers, which must differ
 */

#include <stdint.h>
#include <sys/random.h>

/* Without entropy there is no jitter, but also no failure. */
static inline uint32_t random_number(void) {
        uint32_t number = UINT32_MAX / 2;

        return getrandom(&number, sizeof(number), GRND_NONBLOCK) == sizeof(number) ? number
                                                                                   : UINT32_MAX / 2;
}

/* Waits for entropy, which is there unless the machine has just started. */
static inline uint64_t random_id(void) {
        uint64_t id = 0;

        (void) getrandom(&id, sizeof(id), 0);
        return id;
}
