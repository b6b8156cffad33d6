/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is written into a NodeImage of our own
 *
 * Bodies for the API server, made from what it says: the Node, and our object as it is now. A Node
 * may be the whole object or its metadata alone. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>

#include "agent/base/error.h"

/* A NodeImage as it is created: named like the node, owned by it, with its labels and ours, and
 * without images. version: of apps.kruise.io. The caller owns *ret. Refuses what is no Node. */
int registration_spec_body(struct json_object *node, const char *version, struct json_object **ret,
                           Error *reterr);

/* A Node that runs no containers of its own. */
bool registration_spec_is_virtual(struct json_object *node);

/* The object carries our label. */
bool registration_spec_is_ours(struct json_object *object);

/* Gives the object the labels of the Node, and takes all others away but our own. *ret is a merge
 * patch, which the server refuses if the object has changed, owned by the caller; NULL if the labels
 * are as they should be. */
int registration_spec_patch_labels(struct json_object *object, struct json_object *node,
                                   struct json_object **ret);
