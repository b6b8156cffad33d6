/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pulls of other processes than the agent, such as the kubelet's
 *
 * CRI does not report them, but containerd keeps a lease for each as long as it runs, and the lease tells what it
 * fetches (progress.h). A lease that was there before the agent connected may be the remainder of a containerd
 * that was killed: its pull counts from the time when its bytes grow, and until it unpacks.
 *
 * As long as this object is there, it asks containerd a few times a second. With a runtime that has no leases
 * there are no pulls.
 */

#include "agent/image/progress.h"

typedef struct OtherPulls OtherPulls;

typedef struct OtherPullsOptions {
        sd_event *event;
        const Runtimes *runtimes;

        /* The runtime was asked again, or is away. */
        int (*on_asked)(void *userdata);
        void *userdata;
} OtherPullsOptions;

typedef struct OtherPull {
        struct timespec began;
        PulledManifest manifest;
        const ProgressReport *report;
} OtherPull;

/* The options are borrowed, and have to outlive it. */
int other_pulls_new(const OtherPullsOptions *options, OtherPulls **ret);
OtherPulls *other_pulls_free(OtherPulls *pulls);

/* Whether all pulls that run are known. */
bool other_pulls_are_settled(const OtherPulls *pulls);

/* Returns the pulls whose manifest is known, each manifest once, and their number. Borrowed until the next
 * event; the caller frees the array alone. */
int other_pulls_list(const OtherPulls *pulls, OtherPull **ret, size_t *ret_n);
