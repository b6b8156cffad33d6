/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Some of the images of a NodeImage object
 *
 * Takes out of spec and status whatever was not selected, so that each way of printing shows the same.
 * The counts of the status stay those of the node.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/base/error.h"

typedef struct StatusSelection {
        char *const *
                images; /* in any spelling; a name without tag and digest is all its tags; borrowed */
        size_t n_images; /* 0: all */
        bool only_failed;
        bool is_partial; /* of an object with some of the images: what is not in it is not refused */
} StatusSelection;

/* An image of the selection that is malformed, or is not in the object, is refused. */
int status_select(json_object *node_image, const StatusSelection *selection, Error *reterr);
