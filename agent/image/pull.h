/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pull of one image
 *
 * Carries out the decisions of pull-plan.c: waits for its turn, asks the runtime, sets timers, and keeps
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

/* Returns why no owner of this image (canonical reference) lets its pull begin, which is one line, borrowed until the
 * next call; NULL: one does. */
typedef struct PullGate {
        const char *(*why_shut)(const char *key, void *userdata); /* NULL: there is no gate */
        void *userdata;
} PullGate;

/* Shared by all pulls. Borrowed, has to outlive them. */
typedef struct PullContext {
        sd_event *event;
        Log *log;
        const Runtimes *runtimes;
        Queue *inspections; /* queue of pulls that ask whether their image is there */
        Queue *pulls;
        ProgressTracker *progress;
        Leases *leases;
        DiskGuard *disk;
        const char *pause; /* why no pull has its turn; NULL: pulls have their turns */
        PullGate gate;
        OnDemandContext *on_demand;
        PullCredentialsSource keys;
        ShortNames short_names; /* how the chosen runtime reads them */

        /* A registry has answered, also with a refusal. registry NULL: it could not be reached
         * before, so that others may be reachable again, too. on_answered may be NULL. */
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

/* Queues the pull for its first turn. */
int pull_start(Pull *pull);

/* The same after a pause, for a removed image (missing: its status, borrowed). The status stays
 * Missing until the first turn to pull. */
int pull_start_later(Pull *pull, const ImageStatus *missing, uint64_t pause_usec);

/* Adds another owner: while the pull waits, it takes the owner's turn that comes first. */
int pull_join(Pull *pull, const char *owner);

/* Whether its success also satisfies this desired image. */
bool pull_covers(const Pull *pull, const DesiredImage *desired);

/* Whether the pull pauses between two attempts. */
bool pull_is_backing_off(const Pull *pull);

/* Whether the next attempt would do without something that the merged image has: more time, a secret, another
 * sandbox config, policy or version. */
bool pull_lacks(const Pull *pull, const DesiredImage *merged);

/* Whether the clock of activeDeadlineSeconds runs. */
bool pull_is_timed(const Pull *pull);

/* Takes over the deadline, and the timeout of the next attempt, where those of the merged image are shorter: a request
 * for which the pull had longer ones has left. */
int pull_narrow(Pull *pull, const DesiredImage *merged);

/* For pull_plan_outcome(). */
PullResult pull_result(const Pull *pull);

/* Ends a pause: the next attempt begins in the next turn of the loop; true if so. */
bool pull_kick(Pull *pull);

/* The same, and makes the next pauses short again. */
bool pull_retry(Pull *pull);

/* The same as pull_kick() if the last attempt failed for lack of this remedy, for this registry
 * (NULL: any). A hint about the network is not for a pull with a limit of attempts. */
bool pull_hint(Pull *pull, PullRemedy remedy, const char *registry);

/* Gives turns to the pulls that wait. To be called after pulls were started or changed. */
int pulls_serve(const PullContext *context);

/* The context's pause began or ended. A pull that runs goes back to its place in the queue and keeps what
 * it has fetched, unless goes_on. */
int pull_on_pause_changed(Pull *pull, bool goes_on);

/* The gate, or the owners of the image, may have changed. */
int pull_on_gate_changed(Pull *pull);

/* The same as pull_kick() after a restart of the runtime, which may have new settings, except for a
 * pull that makes the runtime go away again and again. */
bool pull_hint_runtime(Pull *pull);

/* The chosen runtime came or went. */
int pull_on_runtime_changed(Pull *pull);

/* Borrowed, and valid until the next event. */
const ImageStatus *pull_status(const Pull *pull);
