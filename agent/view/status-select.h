/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Selects images of a NodeImage object
 *
 * Removes all other images from spec and status, so that each output format shows the same. The counts
 * of the status stay those of the node.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/base/error.h"

typedef struct StatusSelection {
        char *const *images; /* in any spelling; a name alone means all its tags; borrowed */
        size_t n_images;     /* 0: all */
        bool only_failed;
        bool is_partial; /* the object has only some images: do not refuse missing ones */
} StatusSelection;

/* Fails if an image of the selection is malformed or missing. */
int status_select(json_object *node_image, const StatusSelection *selection, Error *reterr);
