/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The bodies of writes to a NodeImage that the agent made
 *
 * Made from the Node and from the object as it is now. A Node may be the whole object or its metadata
 * alone. An annotation has the version of the agent that maintains the object. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

#define REGISTRATION_VERSION_ANNOTATION "inplaced.io/agent-version"

/* Makes a new NodeImage: named like the node, owned by it, with its labels and the agent's, and
 * without images. version: of apps.kruise.io. The caller owns *ret. Fails if the object is no
 * Node. */
int registration_spec_body(struct json_object *node, const char *version, struct json_object **ret,
                           Error *reterr);

/* Returns whether the Node is virtual and runs no containers of its own. */
bool registration_spec_is_virtual(struct json_object *node);

/* The object has the agent's label. */
bool registration_spec_is_ours(struct json_object *object);

/* Sets the object's labels to those of the Node and the agent's own, and sets the annotation. *ret
 * is a merge patch, owned by the caller, which the server refuses if the object has changed; NULL
 * if nothing differs. */
int registration_spec_patch_metadata(struct json_object *object, struct json_object *node,
                                     struct json_object **ret);

/* The tags to remove from the spec: those that finished, in the requested version, longer than
 * their ttlSecondsAfterFinished ago. */
typedef struct TidyPlan {
        struct json_object *patch; /* owned by the caller; NULL: there is nothing to remove */
        size_t n_tags;             /* number of tags that the patch removes */
        uint64_t digest;           /* digest of these with their end, see repeat.h */
        int64_t next_at;           /* when the next tag is due; INT64_MAX: none */
} TidyPlan;

/* Makes a merge patch that the server refuses if the object has changed. Removes an image without
 * tags as well. Times are seconds since the epoch. */
int tidy_spec_plan(struct json_object *object, int64_t now, TidyPlan *ret);
