/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bytes that pulls have fetched, each of them counted once
 *
 * Several pulls may need the same blob: its bytes count for the pull that sees them first. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct Fetched {
        struct FetchedItem **items; /* sorted by digest */
        size_t n_items;
} Fetched;

/* A blob, complete or on its way. */
typedef struct FetchedBlob {
        const char *digest;
        uint64_t bytes; /* present bytes, more than 0 */
        struct timespec
                began; /* start of its download; of a complete blob the time of the answer */
        bool is_arriving;
} FetchedBlob;

/* *ret_added: the bytes that are new, and so the pull's. since: start of the pull. now_usec: for
 * fetched_forget(). */
int fetched_add(Fetched *fetched, const FetchedBlob *blob, struct timespec since, uint64_t now_usec,
                uint64_t *ret_added);

/* Forgets blobs that were not added since. */
void fetched_forget(Fetched *fetched, uint64_t since_usec);
void fetched_done(Fetched *fetched);

bool time_is_before(struct timespec a, struct timespec b);
