/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * nodeimage.json: the status of a node without an API server
 *
 * The agent writes it whole and atomically after each change; changes in quick succession share a
 * write, so that writing never takes more than a small part of the time. It reads the file once at the
 * start, since this is the state that survives kill -9. It does not sync the file: after a power failure,
 * requests whose callers have left may be lost. If the file is lost or broken, the agent only asks the
 * runtime for its images again.
 */

#include "agent/image/images.h"
#include "agent/node/node-image.h"
#include "agent/observe/metrics.h"

typedef struct StateFile StateFile;

/* Returns the sentence about the runtime. Borrowed from the caller. */
typedef const char *(*StateFileRuntime)(void *userdata);

typedef struct StateFileOptions {
        sd_event *event;
        Log *log;
        Metrics *metrics;      /* may be NULL */
        Images *images;        /* borrowed, has to outlive the file */
        const char *directory; /* copied */
        const char *node_name; /* copied */
        NodeImageLacks lacks;  /* only called by state_file_new() */
        StateFileRuntime get_runtime;
        void *userdata;
} StateFileOptions;

/* Restores the state of the previous run, and writes after each change from now on. A directory
 * that cannot be written is a problem, but no failure: see state_file_get_error(). */
int state_file_new(const StateFileOptions *options, StateFile **ret);

/* Writes a pending change. Returns NULL. */
StateFile *state_file_free(StateFile *file);

/* Notes a change of something else than an image. */
int state_file_touch(StateFile *file);

/* Writes the current state before it returns, if the file can be written at all. */
int state_file_write_now(StateFile *file);

const char *state_file_path(const StateFile *file);

/* Why the last write failed, or unset. */
const Error *state_file_get_error(const StateFile *file);
