/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON merge patch (RFC 7386)
 */

#include <json-c/json_types.h>

/* Applies a patch to a document and makes *document the result, which the caller owns as it has
 * owned the document; parts of the patch may be shared with it. *document may be NULL. */
int json_merge_patch(struct json_object **document, struct json_object *patch);
