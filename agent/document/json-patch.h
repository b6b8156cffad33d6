/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Making documents, bodies and merge patches (RFC 7386), and applying such a patch
 *
 * The functions return 0 or -ENOMEM. A value that is added is taken over also when that fails, and NULL for
 * one, or for what it is added to, means that there was no memory to make it: so calls can be put inside each
 * other.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

int patch_add(struct json_object *object, const char *key, struct json_object *value);
int patch_add_text(struct json_object *object, const char *key, const char *text);
int patch_add_number(struct json_object *object, const char *key, uint64_t number);
int patch_add_bool(struct json_object *object, const char *key, bool value);

/* Add nothing for a text that is NULL or empty, for 0, and for a time (in seconds since the epoch) that is 0. */
int patch_add_filled(struct json_object *object, const char *key, const char *text);
int patch_add_nonzero(struct json_object *object, const char *key, int64_t number);
int patch_add_time(struct json_object *object, const char *key, int64_t time);

/* Adds a member that the patch removes. */
int patch_add_null(struct json_object *object, const char *key);

int patch_append(struct json_object *list, struct json_object *value);

/* Appends a step of a JSON patch (RFC 6902); "remove" has no value. path: NULL is no memory, too. */
int patch_append_step(struct json_object *list, const char *op, const char *path,
                      struct json_object *value);

/* Replaces *object by an empty one. *object is owned. 0, or -ENOMEM, with NULL. */
int patch_clear(struct json_object **object);

/* Returns {"key": value}, owned by the caller; NULL: no memory. */
struct json_object *patch_wrap(const char *key, struct json_object *value);

/* Returns a copy that shares nothing with the value, owned by the caller; NULL: no value, or no memory. */
struct json_object *json_copy(struct json_object *value);

/* Applies a merge patch to a document and makes *document the result, which the caller owns as it has
 * owned the document; parts of the patch may be shared with it. *document may be NULL. */
int json_merge_patch(struct json_object **document, struct json_object *patch);
