/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes what became of the desired images into the status of the NodeImage
 *
 * One write at a time, at the pace of write-pace.h, each a merge patch of all that differs at its
 * moment: what was true in between is never written late. While the server is away nothing is kept
 * but that something differs.
 */

#include "agent/cluster/node-image.h"
#include "agent/kube/client.h"

typedef struct StatusWriter StatusWriter;

/* A write was taken (NULL) or not. */
typedef void (*StatusWritten)(const Error *error, void *userdata);

typedef struct StatusWriterOptions {
        KubeClient *client;
        Log *log;
        ClusterNodeImage *node_image;
        const char *version; /* of apps.kruise.io; copied */
        StatusWritten on_written;
        /* The last write failed, but nothing is left to write: that error is over, without another
         * write. */
        void (*on_settled)(void *userdata);
        /* The object is not what it was compared with, again and again, and the watch shows nothing
         * newer. */
        int (*on_stale)(void *userdata);
        void *userdata;
} StatusWriterOptions;

int status_writer_new(const StatusWriterOptions *options, StatusWriter **ret);
StatusWriter *status_writer_free(StatusWriter *writer);

/* An image may have changed. */
int status_writer_compare(StatusWriter *writer);

/* The watch has shown the object. */
int status_writer_on_object(StatusWriter *writer);

/* Only an object that is known to be there, and its newest state, is written to. */
int status_writer_set_synced(StatusWriter *writer, bool is_synced);

/* Does not wait any longer if it is backing off: the server is known to answer. */
int status_writer_kick(StatusWriter *writer);

/* Why what is to be written is not, or unset. */
const Error *status_writer_error(const StatusWriter *writer);
