/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finding the blobs of one pull in containerd's content store
 *
 * List the manifests that are labelled with the repository → pick one → read it → from then on ask
 * which of its blobs are complete. Each step is one call; none is started before the last one has
 * ended.
 */

#include <stdbool.h>

#include "agent/image/image-ref.h"
#include "agent/image/manifest-spec.h"
#include "agent/rpc/client.h"
#include "cri/types.h"

typedef bool (*ProgressIsClaimed)(const char *manifest_digest, void *userdata);

typedef struct ProgressFind {
        char *label;      /* containerd's label for the registry's host */
        char *repository; /* the label's value */
        char *digest;     /* of the manifest or index that was asked for; NULL for a tag */
        int64_t started_at;
        RpcCall *call;

        char *candidate; /* the best manifest of the list that is being read */
        int candidate_rank;
        int64_t candidate_created_at;
        ProgressIsClaimed is_claimed;
        void *userdata;

        char *manifest_digest; /* NULL until it is found */
        bool is_old;           /* it was there before the pull: it counts only if it lacks a blob */
        bool is_checked;       /* its blobs were looked for at least once */
        char *text;            /* of the manifest, as far as it was read */
        size_t text_size;
        Manifest manifest;
        bool *is_complete; /* per blob */
} ProgressFind;

int progress_find_init(ProgressFind *find, const ImageRef *ref, int64_t started_at);
void progress_find_done(ProgressFind *find);

/* Starts the next call, if one is due. */
int progress_find_step(ProgressFind *find, RpcClient *client, ProgressIsClaimed is_claimed,
                       void *userdata);

/* The manifest is known, and which of its blobs were complete when it was found. */
bool progress_find_is_done(const ProgressFind *find);

/* The bytes that have arrived, and whether those are all. */
uint64_t progress_find_count(const ProgressFind *find, const ContentIngests *ingests,
                             bool *ret_is_complete);
