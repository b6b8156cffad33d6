/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The NodeImage of this node, as the API server has it
 *
 * One owner ("nodeimage/UID", so that a recreated object begins anew) requests the images of the spec.
 * The agent writes their status, at the pace of write-pace.h; it leaves an entry alone that another writer
 * has finished. An invalid tag fails alone; with an invalid spec the last good one stays in force. While
 * the server is away the agent goes on, and reports when it is back.
 */

#include "agent/base/diagnosis-visitor.h"
#include "agent/base/log.h"
#include "agent/cluster/image-sets.h"
#include "agent/image/images.h"
#include "agent/kube/client.h"
#include "agent/kube/event.h"

typedef struct ClusterNodeImage ClusterNodeImage;

typedef struct ClusterNodeImageOptions {
        KubeClient *client; /* borrowed, as all pointers unless noted */
        KubeEvents *events;
        Log *log;
        Metrics *metrics; /* may be NULL */
        Images *images;
        const char *node_name; /* copied */
        bool must_register;    /* make a NodeImage if no controller does */
        bool has_other_labels; /* image sets get the labels of the node from elsewhere */

        void (*on_changed)(void *userdata); /* results of the functions below may have changed */
        void *userdata;
} ClusterNodeImageOptions;

/* Begins to watch. */
int cluster_node_image_new(const ClusterNodeImageOptions *options, ClusterNodeImage **ret);
/* Releases the images. Takes NULL, returns NULL. */
ClusterNodeImage *cluster_node_image_free(ClusterNodeImage *node_image);

/* Ends all back-offs, since the server is known to answer. */
int cluster_node_image_kick(ClusterNodeImage *node_image);

/* The image sets of this node, borrowed; NULL: it serves none, as a controller makes the NodeImage. */
ImageSets *cluster_node_image_sets(const ClusterNodeImage *node_image);

/* Emits an event for a request that is done or refused, if it is one of the object's. */
void cluster_node_image_on_done(ClusterNodeImage *node_image, const Image *image,
                                const ImageRequest *request);

/* Why NodeImages are not watched or not synced yet; NULL: they are. Borrowed. */
const char *cluster_node_image_obstacle(const ClusterNodeImage *node_image);

/* Why NodeImages cannot be watched now, as kube_resource_error(), and why the last status is not
 * written; or unset. Borrowed. */
const Error *cluster_node_image_watch_error(const ClusterNodeImage *node_image);
const Error *cluster_node_image_write_error(const ClusterNodeImage *node_image);

int cluster_node_image_visit(const ClusterNodeImage *node_image, const DiagnosisVisitor *visitor);
