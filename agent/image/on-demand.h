/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the layers of an image are kept
 *
 * Asks containerd which snapshots an image has, from the topmost layer down, and whether their snapshotter
 * fetches them on demand; if so, how much has arrived (agent/layer-status.h, run as another process). With
 * one of containerd's own snapshotters, that is one more call for each image.
 */

#include <systemd/sd-event.h>

#include "agent/image/on-demand-spec.h"
#include "cri/runtimes.h"

/* Shared by all questions. Borrowed, has to outlive them. */
typedef struct OnDemandContext {
        sd_event *event;
        const Runtimes *runtimes;
        uint64_t stall_usec; /* limit of a silence while pulls wait for layers; 0: none */
        unsigned
                unsupported_by; /* the connection that cannot be asked, counted from 1; 0 at first */
} OnDemandContext;

typedef struct OnDemandAsk OnDemandAsk;

/* The error is the runtime's. Runs once, not from within the question; may drop it. */
typedef int (*OnDemandFound)(const ImageOnDemand *found, const Error *error, void *userdata);

/* 1: on_found will run. 0: this runtime cannot be asked, as it seems to have all layers on the disk. */
int on_demand_ask(OnDemandContext *context, const char *image_id, OnDemandFound on_found,
                  void *userdata, OnDemandAsk **ret);

/* on_found does not run any more. Returns NULL. */
OnDemandAsk *on_demand_drop(OnDemandAsk *ask);
