/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Making bodies and merge patches (RFC 7386), and applying such a patch
 *
 * The functions return 0 or -ENOMEM. A value that is added is taken over also when that fails, and NULL for
 * one means that there was no memory to make it: so calls can be put inside each other.
 */

#include <json-c/json_types.h>

int patch_add(struct json_object *object, const char *key, struct json_object *value);
int patch_add_text(struct json_object *object, const char *key, const char *text);

/* Adds a member that the patch removes. */
int patch_add_null(struct json_object *object, const char *key);

int patch_append(struct json_object *list, struct json_object *value);

/* Returns {"key": value}, owned by the caller; NULL: no memory. */
struct json_object *patch_wrap(const char *key, struct json_object *value);

/* Applies a merge patch to a document and makes *document the result, which the caller owns as it has
 * owned the document; parts of the patch may be shared with it. *document may be NULL. */
int json_merge_patch(struct json_object **document, struct json_object *patch);
