/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the kernel knows about this process, read when somebody asks.
 */

#include <stdint.h>

/* What cannot be read, e.g. because /proc is not mounted, is negative. */
typedef struct ProcessFacts {
        int64_t resident_bytes;
        int64_t n_open_fds;
        int64_t max_fds;
        double cpu_seconds; /* user and system, of all threads */
} ProcessFacts;

ProcessFacts process_facts_read(void);

/* In seconds since the epoch. Ask once: the answer moves when somebody sets the clock. */
double process_start_time(void);
