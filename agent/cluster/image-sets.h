/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Image sets: images for the nodes of now and later
 *
 * A set is a NodeImage that is named like no node, with the label "inplaced.io/set" and a label selector in the
 * annotation "inplaced.io/node-selector", which may be empty. The agent of each node that the selector matches
 * requests the images of its spec as one more owner ("set/NAME"). It compares with the labels of the node's own
 * NodeImage, which are those of the Node, or with those of the Node itself (images-ready.h). No controller takes part. What becomes of the images is in the status of the node's own
 * NodeImage (node-image.h), beside those of its spec.
 */

#include "agent/base/diagnosis-visitor.h"
#include "agent/base/list.h"
#include "agent/base/log.h"
#include "agent/image/images.h"
#include "agent/kube/client.h"

typedef struct ImageSets ImageSets;

/* All is borrowed, and has to outlive it. */
typedef struct ImageSetsOptions {
        KubeClient *client;
        Log *log;
        Metrics *metrics; /* may be NULL */
        Images *images;
} ImageSetsOptions;

/* Begins to watch. No set matches before the labels are known. */
int image_sets_new(const ImageSetsOptions *options, ImageSets **ret);
/* Leaves the requests to images_free(). Takes NULL, returns NULL. */
ImageSets *image_sets_free(ImageSets *sets);

/* Ends a pause, because the server is known to answer. */
int image_sets_kick(ImageSets *sets);

/* The labels of this node: a JSON object, or NULL for none. Copied. */
int image_sets_set_labels(ImageSets *sets, struct json_object *labels);

/* Whether the labels need not be waited for any longer: they may never be known. */
int image_sets_waive_labels(ImageSets *sets, bool is_waived);

/* Whether all sets were shown, and the labels too. */
bool image_sets_are_known(const ImageSets *sets);

/* The same, or whether that need not be waited for. sets: may be NULL. */
bool image_sets_are_settled(const ImageSets *sets);

/* Embedded in its owner. The sets of this node, or whether they are known, may have changed. */
typedef struct ImageSetsWatcher ImageSetsWatcher;
struct ImageSetsWatcher {
        LIST_LINKS(ImageSetsWatcher);
        int (*on_changed)(void *userdata);
        void *userdata;
};

void image_sets_watch(ImageSets *sets, ImageSetsWatcher *watcher);
void image_sets_unwatch(ImageSets *sets, ImageSetsWatcher *watcher);

/* How the nodes of a set take turns. */
typedef struct ImageSetLimits {
        const char *name;
        unsigned parallelism; /* nodes that pull from one registry at a time; 0: any number */
        unsigned first;       /* nodes that pull before all others; 0: all begin at once */
        uint64_t digest;      /* digest of its images, whatever their order */
} ImageSetLimits;

/* Whether any set has limits. */
bool image_sets_have_limits(const ImageSets *sets);
/* Returns the limits of a set that this node serves, by the owner of its requests. Borrowed; NULL: it has none, or is no
 * such set. */
const ImageSetLimits *image_sets_limits(const ImageSets *sets, const char *owner);

/* Shows the images that sets request of this node, those of one set after the other. Stops when the visitor
 * returns less than 0, and returns that. sets: may be NULL. */
typedef int (*ImageSetsVisitor)(const char *owner, const DesiredImage *desired, void *userdata);
int image_sets_each(const ImageSets *sets, ImageSetsVisitor visitor, void *userdata);

/* Reports faulty sets. */
int image_sets_visit(const ImageSets *sets, const DiagnosisVisitor *visitor);
