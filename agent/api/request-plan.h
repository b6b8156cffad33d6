/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which requests of the local API make room for a new one
 *
 * A request is kept for some time after its images are there, for its status to be read. It goes
 * earlier if there are too many: the one that ended first goes first. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct RequestEntry {
        const char *owner; /* borrowed */
        size_t n_images;
        bool is_finished; /* and no caller waits for it any more */
        int64_t ended_at;
        bool must_go; /* the result */
} RequestEntry;

/* Whether so many more images fit below the limit without those that must go. If some have to, more
 * than these go, so that not every request from then on has to search for some. */
bool request_plan(RequestEntry *entries, size_t n_entries, size_t n_more, size_t limit);
