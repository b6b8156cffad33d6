/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Random numbers for jitter, which need not be secret
 */

#include <stdint.h>
#include <sys/random.h>

/* Without entropy there is no jitter: that is no reason to fail. */
static inline uint32_t random_number(void) {
        uint32_t number = UINT32_MAX / 2;

        return getrandom(&number, sizeof(number), GRND_NONBLOCK) == sizeof(number) ? number
                                                                                   : UINT32_MAX / 2;
}
