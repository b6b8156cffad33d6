/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides which requests of the local API make room for a new one
 *
 * The agent keeps a request for some time after its end, so that callers can read its status. If there
 * are too many, it forgets those that ended first. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct RequestEntry {
        const char *owner; /* borrowed */
        size_t n_images;
        bool is_finished; /* it has ended, and no caller waits for it any more */
        int64_t ended_at;
        bool must_go; /* result: forget this request */
} RequestEntry;

/* Orders entries by their owners, for qsort() and bsearch(). */
int request_by_owner(const void *a, const void *b);

/* Merges entries of the same request into one, which is finished if all are, and ended with the last of them.
 * Leaves them in the order of their owners, and returns how many are left. */
size_t request_merge(RequestEntry *entries, size_t n_entries);

/* Returns whether n_more images fit below the limit without the requests that must go. If any must
 * go, marks more than needed, so that not every later request has to search again. */
bool request_plan(RequestEntry *entries, size_t n_entries, size_t n_more, size_t limit);
