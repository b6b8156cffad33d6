/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * nodeimage.json: the status of a node without an API server
 *
 * Written whole and atomically after each change; changes that come in quick succession share a
 * write, so that writing never takes more than a small part of the time. Read once at the start: it
 * is the memory that survives kill -9. A file that is lost or broken costs no more than asking the
 * runtime again what it holds.
 */

#include "agent/image/images.h"
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
        bool in_cluster;       /* take over the desired images that the API server had last */
        StateFileRuntime get_runtime;
        void *userdata;
} StateFileOptions;

/* Restores what the previous run left, and writes after each change from now on. A directory that
 * cannot be written is a problem, no failure: see state_file_get_error(). */
int state_file_new(const StateFileOptions *options, StateFile **ret);

/* Writes what is not written yet. Returns NULL. */
StateFile *state_file_free(StateFile *file);

/* Something else than an image has changed. */
int state_file_touch(StateFile *file);

/* What is true now is in the file when this returns, if the file can be written at all. */
int state_file_write_now(StateFile *file);

const char *state_file_path(const StateFile *file);

/* Why the last write failed, or unset. */
const Error *state_file_get_error(const StateFile *file);
