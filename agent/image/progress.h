/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How far a pull has come, in bytes
 *
 * CRI is silent until a pull ends, but containerd's content store shows the downloads of all pulls
 * together. The tracker asks it a few times a second while images are pulled, and finds out whose bytes
 * they are:
 *
 *   - containerd labels each blob of an image with the repository it came from, and its manifest
 *     with the digests of what belongs to it: that is how the manifest of a pull is found;
 *   - the manifest has the total;
 *   - what is complete is a blob, what is under way is an ingest with an offset.
 *
 * When all blobs are there and the pull still runs, the runtime is unpacking.
 *
 * With a runtime that has no such store the tracker stays silent: no bytes, and no stall either.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/image/image-ref.h"
#include "agent/image/image-status.h"
#include "cri/runtimes.h"

typedef struct ProgressTracker ProgressTracker;
typedef struct Progress Progress;

typedef struct ProgressReport {
        ImageStep step; /* resolving, downloading or unpacking */
        uint64_t bytes_done;
        uint64_t bytes_total; /* 0: not known */
} ProgressReport;

typedef int (*ProgressChanged)(const ProgressReport *report, void *userdata);

/* No byte arrived for the time that the tracker was made with. Runs once; may end the progress. */
typedef int (*ProgressStalled)(void *userdata);

/* stall_usec 0: never stalled. The runtimes have to outlive the tracker. */
int progress_tracker_new(sd_event *event, const Runtimes *runtimes, uint64_t stall_usec,
                         ProgressTracker **ret);
/* All progress must have ended. */
ProgressTracker *progress_tracker_free(ProgressTracker *tracker);

void progress_tracker_set_stall(ProgressTracker *tracker, uint64_t stall_usec);

/* False once it is known that the runtime has no content store. */
bool progress_tracker_is_supported(const ProgressTracker *tracker);

/* Bytes that arrived for all pulls so far. */
uint64_t progress_tracker_bytes(const ProgressTracker *tracker);

/* Some more have arrived, which were too quick to be seen. */
void progress_tracker_add_bytes(ProgressTracker *tracker, uint64_t bytes);

/* What a pull has brought, as it turned out: it belongs to no other pull. */
int progress_tracker_claim(ProgressTracker *tracker, const ImageRef *ref, const char *manifest);

/* To be called when the pull starts. */
int progress_begin(ProgressTracker *tracker, const ImageRef *ref, ProgressChanged on_changed,
                   ProgressStalled on_stalled, void *userdata, Progress **ret);

/* Returns NULL. */
Progress *progress_end(Progress *progress);
