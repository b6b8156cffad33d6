/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The NodeImage of this node, as the API server has it
 *
 * Its spec is what one owner ("nodeimage/UID", so that one that was deleted and created again begins
 * anew) requests of the images. What became of them is written into its status, at the pace of
 * write-pace.h; an entry that another writer has finished is not worked on any more. A tag that cannot be
 * used fails alone; a spec that cannot be used at all leaves the last good one in force. While the server
 * is away everything goes on, and is reported when it is back.
 */

#include "agent/base/diagnosis-visitor.h"
#include "agent/base/log.h"
#include "agent/image/images.h"
#include "agent/kube/client.h"
#include "agent/kube/event.h"

typedef struct ClusterNodeImage ClusterNodeImage;

typedef struct ClusterNodeImageOptions {
        KubeClient *client; /* borrowed, as all pointers are unless it is said */
        KubeEvents *events;
        Log *log;
        Metrics *metrics; /* may be NULL */
        Images *images;
        const char *node_name; /* copied */
        bool must_register;    /* make a NodeImage if no controller does */

        void (*on_changed)(void *userdata); /* what the functions below say may differ */
        void *userdata;
} ClusterNodeImageOptions;

/* Begins to watch. */
int cluster_node_image_new(const ClusterNodeImageOptions *options, ClusterNodeImage **ret);
/* Lets go of the images. Takes NULL, returns NULL. */
ClusterNodeImage *cluster_node_image_free(ClusterNodeImage *node_image);

/* Does not wait any longer where it is backing off: the server is known to answer. */
int cluster_node_image_kick(ClusterNodeImage *node_image);

/* A request is done, or refused: if it is one of the object, an event says so. */
void cluster_node_image_on_done(ClusterNodeImage *node_image, const Image *image,
                                const ImageRequest *request);

/* Why NodeImages are not watched, or not known yet; NULL: they are. Borrowed. */
const char *cluster_node_image_obstacle(const ClusterNodeImage *node_image);

/* Why they cannot be watched now, as kube_resource_error(), and why the last status is not written; or
 * unset. Borrowed. */
const Error *cluster_node_image_watch_error(const ClusterNodeImage *node_image);
const Error *cluster_node_image_write_error(const ClusterNodeImage *node_image);

int cluster_node_image_visit(const ClusterNodeImage *node_image, const DiagnosisVisitor *visitor);
