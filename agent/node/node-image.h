/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes this node as a NodeImage object, and reads it back
 *
 * The spec has the merged desired images and the status their state, in the schema of
 * apps.kruise.io/v1alpha1 (compatible with OpenKruise's NodeImage). The owners of an image are its
 * ownerReferences, of kind File or Request of inplaced.io/v1, with the version as resourceVersion once
 * the request is done. Two annotations have the expired requests, and the outcome of those that another
 * pull than the last one finished. So the object has all that the agent needs when it starts again.
 */

#include <stdio.h>

#include "agent/image/images.h"

typedef struct NodeImageOptions {
        const Images *images;
        const char *node_name;
        const char *runtime;      /* a sentence about the runtime; NULL: leave it out */
        const Image *const *only; /* some of the images; NULL: all */
        size_t n_only;
} NodeImageOptions;

/* Writes it entry by entry, so that a thousand images take no more memory than one. */
int node_image_write(const NodeImageOptions *options, FILE *file);

/* Makes a text of it that the caller owns. */
int node_image_to_text(const NodeImageOptions *options, char **ret);

/* A hash of all that the object has about an image. Never 0. */
uint64_t node_image_fingerprint(const Image *image);

/* Returns 1 if an owner cannot say yet what it desires, so that its desired images of the previous run count,
 * or 0. */
typedef int (*NodeImageLacks)(const char *owner, void *userdata);

/* Restores from an earlier object finished images with their owners, and the requests that were
 * open, also those that their owners cannot repeat. Leaves out tags that it cannot read, the first of which
 * goes to *reterr, and fails if the text is no such object. */
int node_image_restore(Images *images, const char *text, size_t size, NodeImageLacks lacks,
                       void *userdata, Error *reterr);
