/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Problems that last are logged once
 *
 * A repeated check often fails for the same reason each time. Remembers no more than a number for each
 * text. All zero: nothing was logged yet. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Last problem of one subject. */
typedef struct LogOnce {
        uint64_t last;
} LogOnce;

/* Returns whether the problem differs from the last one, and so has to be logged. NULL: there is no
 * problem now; the next one will be new. */
bool log_once(LogOnce *once, const char *problem);

/* Whether the last problem was logged and has not ended. */
bool log_once_is_set(const LogOnce *once);

#define LOG_ONCE_MANY_MAX 128

/* Last problems of any number of subjects. */
typedef struct LogOnceMany {
        uint64_t items[LOG_ONCE_MANY_MAX]; /* a ring */
        size_t n_items;
        size_t i_next;
} LogOnceMany;

/* Returns whether this is none of the last problems of this subject, and records it. */
bool log_once_of(LogOnceMany *many, const char *subject, const char *problem);
