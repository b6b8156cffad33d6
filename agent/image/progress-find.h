/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finding the blobs of one pull in containerd's content store
 *
 * List the manifests that are labelled with the repository → pick one → read it → from then on ask
 * which of its blobs are complete. Each step is one call; none is started before the last one has
 * ended, and one that brought something is followed by the next at once.
 */

#include <stdbool.h>
#include <time.h>

#include "agent/image/image-ref.h"
#include "agent/image/manifest-spec.h"
#include "cri/runtimes.h"
#include "cri/types.h"

typedef bool (*ProgressIsClaimed)(const char *manifest_digest, void *userdata);

typedef struct ProgressFind {
        const Runtimes *runtimes; /* these three are set by the owner */
        ProgressIsClaimed is_claimed;
        void *userdata;

        char *label;      /* containerd's label for the registry's host */
        char *repository; /* the label's value */
        char *digest;     /* of the manifest or index that was asked for; NULL for a tag */
        struct timespec started;
        RpcCall *call;

        char *candidate; /* the best manifest of the list that is being read */
        int candidate_rank;
        struct timespec candidate_created;

        char *manifest_digest; /* NULL until it is found */
        bool is_old;           /* it was there before the pull: it counts only if it lacks a blob */
        bool is_checked;       /* its blobs were looked for at least once */
        char *text;            /* of the manifest, as far as it was read */
        size_t text_size;
        Manifest manifest;
        bool *is_complete; /* per blob */
        uint64_t *most;    /* per blob: the most that was ever there of it */
} ProgressFind;

int progress_find_init(ProgressFind *find, const ImageRef *ref);
void progress_find_done(ProgressFind *find);

/* The manifest was somebody else's: looks for another one. */
void progress_find_forget(ProgressFind *find);

/* Starts the next call, if one is due and the runtime is there. */
int progress_find_step(ProgressFind *find);

/* The manifest is known, and which of its blobs were complete when it was found. */
bool progress_find_is_done(const ProgressFind *find);

/* The bytes that are there now, and whether those are all. A blob that is neither under way any more
 * nor known to be complete counts as nothing. */
uint64_t progress_find_count(ProgressFind *find, const ContentIngests *ingests,
                             bool *ret_is_complete);

/* The bytes that have been there: what to show, since it does not go back. */
uint64_t progress_find_most(const ProgressFind *find);
