/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Problems that last are logged once
 *
 * What is checked again and again is often wrong for the same reason again and again. Remembers no
 * more than a number for each text. All zero: nothing was logged yet. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The problem of one thing. */
typedef struct LogOnce {
        uint64_t last;
} LogOnce;

/* Returns whether the problem differs from the last one, and so has to be logged. NULL: there is no
 * problem now; the next one will be new. */
bool log_once(LogOnce *once, const char *problem);

/* The last problem was logged, and has not ended. */
bool log_once_is_set(const LogOnce *once);

#define LOG_ONCE_MANY_MAX 128

/* The last problems of any number of things. */
typedef struct LogOnceMany {
        uint64_t items[LOG_ONCE_MANY_MAX]; /* a ring */
        size_t n_items;
        size_t i_next;
} LogOnceMany;

/* Returns whether this is none of the last problems of this subject, and records it. */
bool log_once_of(LogOnceMany *many, const char *subject, const char *problem);
