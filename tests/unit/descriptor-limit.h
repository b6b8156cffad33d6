/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A lack of file descriptors
 */

#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* So many descriptors are left from here on, until the limit is lifted. Returns the limit before. */
static inline struct rlimit lower_limit(unsigned n_left) {
        struct rlimit limit, low;
        int next = dup(0);

        assert_true(next >= 0);
        close(next);
        assert_ok(getrlimit(RLIMIT_NOFILE, &limit));
        low = limit;
        low.rlim_cur = (rlim_t) next + n_left;
        assert_ok(setrlimit(RLIMIT_NOFILE, &low));
        return limit;
}
