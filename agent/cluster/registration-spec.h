/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is written into a NodeImage of our own
 *
 * Bodies for the API server, made from what it says: the Node, and our object as it is now. A Node
 * may be the whole object or its metadata alone. An annotation has the version of the agent that keeps
 * the object. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

#define REGISTRATION_VERSION_ANNOTATION "inplaced.io/agent-version"

/* A NodeImage as it is created: named like the node, owned by it, with its labels and ours, and
 * without images. version: of apps.kruise.io. The caller owns *ret. Refuses what is no Node. */
int registration_spec_body(struct json_object *node, const char *version, struct json_object **ret,
                           Error *reterr);

/* A Node that runs no containers of its own. */
bool registration_spec_is_virtual(struct json_object *node);

/* The object carries our label. */
bool registration_spec_is_ours(struct json_object *object);

/* Gives the object the labels of the Node, and takes all others away but our own; and our annotation. *ret is
 * a merge patch, which the server refuses if the object has changed, owned by the caller; NULL if all is as
 * it should be. */
int registration_spec_patch_metadata(struct json_object *object, struct json_object *node,
                                     struct json_object **ret);

/* Which tags may leave the spec: those that are finished, in the version that is asked for, since longer
 * than their ttlSecondsAfterFinished. */
typedef struct TidyPlan {
        struct json_object *patch; /* owned by the caller; NULL: there is nothing to remove */
        size_t n_tags;             /* that the patch removes */
        uint64_t digest;           /* of these, see repeat.h: another end is another one */
        int64_t next_at;           /* when the next one of the others is due; INT64_MAX: none is */
} TidyPlan;

/* The patch is a merge patch of the object, which the server refuses if the object has changed. An
 * image that has no tags left leaves too. Times are seconds since the epoch. */
int tidy_spec_plan(struct json_object *object, int64_t now, TidyPlan *ret);
