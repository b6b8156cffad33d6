/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The NodeImage of this node, as the API server has it
 *
 * Its spec is what one owner ("nodeimage/UID", so that one that was deleted and created again begins
 * anew) requests; its status is what others see of that, and what they have decided themselves: an
 * entry that another writer has finished is not worked on any more.
 */

#include "agent/base/log.h"
#include "agent/cluster/status-diff.h"
#include "agent/image/images.h"
#include "agent/kube/object.h"

typedef struct ClusterNodeImage ClusterNodeImage;

int cluster_node_image_new(Log *log, Images *images, ClusterNodeImage **ret);
ClusterNodeImage *cluster_node_image_free(ClusterNodeImage *node_image);

/* What the watch shows: it is borrowed during the call. A tag that cannot be used fails alone. A spec
 * that cannot be used at all leaves the last good one in force, see cluster_node_image_error(). */
int cluster_node_image_set(ClusterNodeImage *node_image, const KubeObject *object);
/* The watch has shown everything for the first time: what a previous run knew of other objects, and
 * no owner has claimed, is forgotten. */
int cluster_node_image_on_first_sync(ClusterNodeImage *node_image);

/* The object is gone: nothing is requested for it any more. */
int cluster_node_image_clear(ClusterNodeImage *node_image);

/* NULL: there is no object. Borrowed. */
const char *cluster_node_image_uid(const ClusterNodeImage *node_image);
const char *cluster_node_image_name(const ClusterNodeImage *node_image);

/* Why the spec, or a part of it that has no status, is not used; or unset. */
const Error *cluster_node_image_error(const ClusterNodeImage *node_image);

/* What has to be written, see status_diff(). STATUS_SAME if there is no object, or none whose spec
 * could ever be used. */
int cluster_node_image_diff(const ClusterNodeImage *node_image, struct json_object **ret_patch);

/* The newest version of the object that is known; NULL: none is. Borrowed. */
const char *cluster_node_image_resource_version(const ClusterNodeImage *node_image);

/* The objects are listed anew: whatever the list shows is the newest, even if its version is lower,
 * as when the server's store was restored from a backup. What it does not show has not changed. */
void cluster_node_image_on_list(ClusterNodeImage *node_image);
/* That was all. */
void cluster_node_image_on_listed(ClusterNodeImage *node_image);

/* A patch was written, and the object has this version since: until the watch shows that, too, this
 * is what is known. The status of an older object is ignored. */
int cluster_node_image_on_written(ClusterNodeImage *node_image, struct json_object *patch,
                                  const char *resource_version);

/* Whether a request with this owner is one of the object. */
bool cluster_node_image_is_owner(const ClusterNodeImage *node_image, const char *owner);

size_t cluster_node_image_n_images(const ClusterNodeImage *node_image);

/* How many of its images are not finished. Does not count beyond this many and one more. */
unsigned cluster_node_image_n_in_work(const ClusterNodeImage *node_image, unsigned many);
