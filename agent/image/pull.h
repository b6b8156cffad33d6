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
#include "agent/image/progress.h"
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
        DiskGuard *disk;
        PullKeySource keys;
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

/* Another owner desires it too: while it waits it takes the turn that comes first. */
int pull_join(Pull *pull, const char *owner);

/* Whether its success will be what this desired image asks for too. */
bool pull_covers(const Pull *pull, const DesiredImage *desired);

/* Whether its failure is one of this desired image too, which joined it; late: when it had its turn already, so
 * that there was less time left for the desired image than it gives itself. */
bool pull_fails_for(const Pull *pull, const DesiredImage *desired, bool is_late);

/* Gives turns to the pulls that wait. To be called after pulls were started or changed. */
int pulls_serve(const PullContext *context);

/* The chosen runtime came or went. */
int pull_on_runtime_changed(Pull *pull);

/* Borrowed, and valid until the next event. */
const ImageStatus *pull_status(const Pull *pull);
