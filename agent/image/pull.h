/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One image on its way to the node
 *
 * Carries out what pull-plan.c decides: waits for its turn, asks the runtime, sets timers, and keeps
 * a status that is true at any instant.
 */

#include <systemd/sd-event.h>

#include "agent/base/log.h"
#include "agent/image/disk.h"
#include "agent/image/image-ref.h"
#include "agent/image/image-status.h"
#include "agent/image/lease.h"
#include "agent/image/on-demand.h"
#include "agent/image/progress.h"
#include "agent/image/pull-plan.h"
#include "agent/image/pull-request.h"
#include "agent/image/queue.h"
#include "agent/image/desired-image.h"
#include "cri/runtimes.h"

typedef struct Pull Pull;

/* What all pulls share. Borrowed, has to outlive them. */
typedef struct PullContext {
        sd_event *event;
        Log *log;
        const Runtimes *runtimes;
        Queue *inspections; /* of pulls that ask whether their image is there */
        Queue *pulls;
        ProgressTracker *progress;
        Leases *leases;
        DiskGuard *disk;
        OnDemandContext *on_demand;
        PullKeySource keys;
        ShortNames short_names; /* of the chosen runtime */

        /* A registry has answered, be it with a refusal; registry NULL: one that could not be reached
         * before, so that others may be reachable, too. NULL: of no interest. */
        void (*on_answered)(const char *registry, void *userdata);
        void *userdata;
} PullContext;

/* The status changed. Must not free the pull. */
typedef void (*PullChanged)(Pull *pull, void *userdata);

/* The desired image and the owner, in whose turn it waits, are borrowed during the call. */
int pull_new(const PullContext *context, const DesiredImage *desired, const ImageRef *ref,
             const char *owner, PullChanged on_changed, void *userdata, Pull **ret);

/* Stops it at once, in the runtime as well. Returns NULL. */
Pull *pull_free(Pull *pull);

/* It waits for its first turn. */
int pull_start(Pull *pull);

/* The same after a pause, for an image that was there and is missing (its status, borrowed). Until its
 * first turn to pull the status says that. */
int pull_start_later(Pull *pull, const ImageStatus *missing, uint64_t pause_usec);

/* Another owner desires it too: while it waits it takes the turn that comes first. */
int pull_join(Pull *pull, const char *owner);

/* Whether its success will be what this desired image asks for too. */
bool pull_covers(const Pull *pull, const DesiredImage *desired);

/* Whether its failure is one of this desired image too, which joined it; late: when it had its turn already, so
 * that there was less time left for the desired image than it gives itself. */
bool pull_fails_for(const Pull *pull, const DesiredImage *desired, bool is_late);

/* Whether this desired image, which joined it, has all that it asks for, while others ask for more. */
bool pull_satisfies(const Pull *pull, const DesiredImage *desired);

/* Whether it has failed as often as this desired image allows, without the failures before. */
bool pull_is_over_for(const Pull *pull, const DesiredImage *desired, PullFailures before);

PullFailures pull_failures(const Pull *pull);

/* If it backs off, the next attempt begins in the next turn of the loop; true if so. */
bool pull_kick(Pull *pull);

/* The same, and if that fails as well the pauses are short again. */
bool pull_retry(Pull *pull);

/* The same as pull_kick() if the last attempt failed because this was missing, for this registry (NULL: of
 * any). */
bool pull_hint(Pull *pull, PullRemedy remedy, const char *registry);

/* Gives turns to the pulls that wait. To be called after pulls were started or changed. */
int pulls_serve(const PullContext *context);

/* The runtime has restarted, and may have other settings: the same as pull_kick(), but for one that it
 * goes away over again and again. */
bool pull_hint_runtime(Pull *pull);

/* The chosen runtime came or went. */
int pull_on_runtime_changed(Pull *pull);

/* Borrowed, and valid until the next event. */
const ImageStatus *pull_status(const Pull *pull);
