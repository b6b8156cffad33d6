/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A node that waits for its images
 *
 * Writes the condition "inplaced.io/ImagesReady" of this node's own Node: True when all images that image sets
 * request of it are there (images-ready-plan.h decides). If there is a startup taint, the agent removes it from the
 * Node when the server has that condition, and never puts it back. While this is on, image sets compare with the
 * labels of the Node itself, which are known earlier than those of its NodeImage.
 *
 * The condition is written only when it changes, or when another writer has changed it, with growing pauses.
 */

#include "agent/base/diagnosis-visitor.h"
#include "agent/base/log.h"
#include "agent/cluster/image-sets.h"

#define IMAGES_READY_CONDITION "inplaced.io/ImagesReady"

typedef struct ImagesReady ImagesReady;

/* The part of the configuration. */
typedef struct ImagesReadySettings {
        bool is_on;
        uint64_t deadline_usec;    /* 0: none */
        const char *startup_taint; /* key of it; NULL: none */
} ImagesReadySettings;

/* All is borrowed and has to outlive it. */
typedef struct ImagesReadyOptions {
        KubeClient *client;
        Log *log;
        Metrics *metrics; /* may be NULL */
        Images *images;
        ImageSets *sets;
        const char *node_name;
        ImagesReadySettings settings;
} ImagesReadyOptions;

/* Begins to watch the Node. */
int images_ready_new(const ImagesReadyOptions *options, ImagesReady **ret);
/* Takes NULL, returns NULL. */
ImagesReady *images_ready_free(ImagesReady *ready);

/* Ends pauses, because the server is known to answer. */
int images_ready_kick(ImagesReady *ready);

int images_ready_visit(const ImagesReady *ready, const DiagnosisVisitor *visitor);
