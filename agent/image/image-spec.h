/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Image spec
 *
 * Reads the desired images of a NodeImage (apps.kruise.io, v1alpha1 or v1beta1). Refuses, with its path, a
 * member that the agent could not distinguish or carry out; accepts a name or tag that no registry could
 * have, because that concerns one image alone and belongs into its status.
 *
 * A file is refused as a whole: its author reads the reason. Without a backoffLimit its images are tried
 * without end. An object of the API server has many authors, who read nothing but the status of their own
 * tag, so each tag of it is refused alone; and as with OpenKruise, a tag without a backoffLimit gets three
 * more attempts.
 */

#include <json-c/json_types.h>

#include "agent/base/error.h"
#include "agent/document/known-keys.h"
#include "agent/image/desired-image.h"

#define IMAGE_SPEC_IMAGES_MAX 4096
#define IMAGE_SPEC_TAGS_MAX 16384 /* limit of all images together */

/* Makes a desired image for each tag of each image, in the order of the object. Everything is copied.
 * The caller owns *ret, which is not touched by a failure. */
int image_spec_parse(struct json_object *node_image, DesiredImages *ret, Error *reterr);

/* The same, but a fault of a tag, or of a part that all tags of an image share, becomes the fault
 * of these desired images. Parts without a tag are left out; the first such fault goes to *skipped,
 * which must be unset. Refuses only objects that are not a NodeImage with images. */
int image_spec_parse_each(struct json_object *node_image, DesiredImages *ret, Error *skipped,
                          Error *reterr);

/* The same for an image set, whose images are tried without end if they have no backoffLimit: a node may begin while
 * the registry is away, and no controller requests them once more. */
int image_spec_parse_set(struct json_object *node_image, DesiredImages *ret, Error *skipped,
                         Error *reterr);

/* The same for the agent's own file, which has all desired images from all sources, without a limit
 * of their sum. */
int image_spec_parse_own(struct json_object *node_image, DesiredImages *ret, Error *skipped,
                         Error *reterr);

/* Finds unknown keys of NodeImages, but none in a status. Other documents are not checked. */
int image_spec_check_keys(const Documents *documents, UnknownKeys *ret);
