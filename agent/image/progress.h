/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How far a pull has come, in bytes
 *
 * CRI is silent until a pull ends, but containerd's content store shows the downloads of all pulls
 * together. The tracker asks it a few times a second while images are pulled, and finds out whose bytes
 * they are:
 *
 *   - each attempt has a lease, which refers to all that this attempt finds or fetches: the blob among it
 *     that refers to a config is the manifest;
 *   - the manifest has the sizes;
 *   - what is complete is a blob, what is under way is an ingest with an offset;
 *   - a blob that is older than the pull is not fetched by it.
 *
 * When all blobs are there and the pull still runs, the runtime is unpacking. The same is true when only
 * layers are missing, but none is on its way: layers that were unpacked before, or that a snapshotter
 * fetches on demand, are not downloaded. The tracker counts once more when the pull has ended, because the
 * last bytes, and all of a quick pull, arrive between two questions. If several pulls need a blob, each byte
 * counts for the first pull that sees it.
 *
 * The tracker reports how much a pull needs from the first layer on that is on its way: containerd fetches
 * that one and all after it, but none before.
 *
 * With a runtime that has no such store the tracker stays silent: no bytes, and no stall either.
 */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "agent/image/image-status.h"
#include "cri/runtimes.h"

typedef struct ProgressTracker ProgressTracker;
typedef struct Progress Progress;

typedef struct ProgressReport {
        ImageStep step;         /* resolving, downloading or unpacking */
        uint64_t bytes_done;    /* present bytes of bytes_total */
        uint64_t bytes_total;   /* bytes missing when the pull began; 0: not known, or none */
        uint64_t bytes_fetched; /* bytes that only this pull fetched */
        uint64_t
                bytes_needed; /* bytes of layers that no pull before it fetches; 0: none or not known */
} ProgressReport;

/* NULL: the runtime shows no bytes of any pull. May end the progress. */
typedef int (*ProgressChanged)(const ProgressReport *report, void *userdata);

/* NULL: the runtime does not report fetched bytes. May end the progress. */
typedef int (*ProgressCounted)(const ProgressReport *report, void *userdata);

/* Called if no byte arrived for the stall time-out of the tracker, times the layers on their way.
 * Runs once; may end the progress. */
typedef int (*ProgressStalled)(void *userdata);

/* stall_usec 0: never stalled. The runtimes have to outlive the tracker. */
int progress_tracker_new(sd_event *event, const Runtimes *runtimes, uint64_t stall_usec,
                         ProgressTracker **ret);
/* All progress must have ended. */
ProgressTracker *progress_tracker_free(ProgressTracker *tracker);

void progress_tracker_set_stall(ProgressTracker *tracker, uint64_t stall_usec);

typedef enum ProgressSupport {
        PROGRESS_UNKNOWN, /* not for long */
        PROGRESS_SUPPORTED,
        PROGRESS_UNSUPPORTED, /* the runtime has no content store */
} ProgressSupport;

ProgressSupport progress_tracker_support(const ProgressTracker *tracker);

/* Asks a new runtime whether it has a content store, before a pull begins. */
int progress_tracker_runtime_changed(ProgressTracker *tracker);

/* Returns the bytes that all pulls have fetched so far. */
uint64_t progress_tracker_bytes(const ProgressTracker *tracker);

/* To be called when the pull starts. lease_id: the pull has this lease, and no other pull has; or NULL:
 * nothing is reported. */
int progress_begin(ProgressTracker *tracker, const char *lease_id, ProgressChanged on_changed,
                   ProgressStalled on_stalled, void *userdata, Progress **ret);

/* Reports the pull of another process, which began at that time, until its lease ends: the tracker must have no
 * stall time-out then, and no pulls of its own. */
int progress_follow(ProgressTracker *tracker, const char *lease_id, struct timespec began,
                    ProgressChanged on_changed, void *userdata, Progress **ret);

/* Returns the last report; all zero but the step before there was any. */
const ProgressReport *progress_report(const Progress *progress);

/* Whether the store was searched once for the pull, which may have fetched nothing yet. */
bool progress_is_settled(const Progress *progress);

/* A manifest that is being pulled, as the store describes it. */
typedef struct PulledManifest {
        const char *digest; /* NULL: not fetched yet */
        const char
                *sources; /* lines "REGISTRY=REPOSITORY,...", the registries without their ports */
        const char *
                digests; /* lines of digests that name it: its own, that of its index, and others */
} PulledManifest;

/* Borrowed until the next event. */
PulledManifest progress_manifest(const Progress *progress);

/* To be called when the runtime has pulled the image, while the lease is there. Stops all other
 * reports. 1: the callback will run; 0: the runtime does not report bytes. */
int progress_count(Progress *progress, ProgressCounted on_counted);

/* Returns NULL. */
Progress *progress_end(Progress *progress);
