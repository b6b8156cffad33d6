/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Small things with JSON, for the readers of objects
 */

#include <json-c/json_types.h>
#include <stdbool.h>

/* Borrowed; NULL if it is missing or of another type, as is the member of what is no object. */
struct json_object *recreate_json_get(struct json_object *object, const char *key, json_type type);

/* Borrowed; NULL if it is missing, empty, no text, or has a NUL in it. */
const char *recreate_json_text(struct json_object *object, const char *key);

/* Its member is this text. */
bool recreate_json_is(struct json_object *object, const char *key, const char *text);

/* As it is sent; borrowed from the object. NULL: no memory. */
const char *recreate_json_body(struct json_object *object);
