/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON reader
 *
 * Reads the members of a JSON object that others wrote, and when one is not what it should be
 * names it by its path: "spec.images.nginx.tags[0].version: expected an integer, got "x"". A
 * member that is null is one that is not there, as everywhere in Kubernetes.
 */

#include <json-c/json_types.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

#define JSON_STRING_SIZE_MAX 4096 /* longer ones are refused, except by json_read_text() */

/* Where an object is: a chain of these on the stack, up to the root, which is NULL. */
typedef struct JsonPath {
        const struct JsonPath *parent;
        const char *key; /* key of a member, or NULL for an item of a list */
        size_t index;
} JsonPath;

/* Parses one JSON value in UTF-8, which need not end with a NUL. The caller owns *ret, which is NULL for
 * "null". Neither the error nor the memory that was used meanwhile has any of the text in it afterwards. */
int json_parse(const char *text, size_t size, struct json_object **ret, Error *reterr);

typedef struct JsonLimits {
        size_t size;    /* in bytes */
        unsigned depth; /* nesting of lists and objects */
} JsonLimits;

#define JSON_LIMITS ((JsonLimits){ .size = INT_MAX, .depth = 32 }) /* limits of json_parse() */

/* The same within narrower limits. */
int json_parse_within(const char *text, size_t size, JsonLimits limits, struct json_object **ret,
                      Error *reterr);

/* Refuses what is at the path, or the object as a whole if that is NULL. */
int json_refuse(const JsonPath *path, Error *reterr, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Refuses a value because of its type, e.g. because it is not "an integer". */
int json_refuse_type(const JsonPath *path, struct json_object *value, const char *expected,
                     Error *reterr);

/* Each reads one member of an object whose path is given. What they return is borrowed from the
 * object. If the member is not there, *ret is NULL, or as it was for an integer. */
int json_read_object(struct json_object *object, const JsonPath *path, const char *key,
                     struct json_object **ret, Error *reterr);
int json_read_list(struct json_object *object, const JsonPath *path, const char *key,
                   struct json_object **ret, Error *reterr);
int json_read_string(struct json_object *object, const JsonPath *path, const char *key,
                     const char **ret, Error *reterr);
int json_read_text(struct json_object *object, const JsonPath *path, const char *key,
                   const char **ret, Error *reterr);
int json_read_integer(struct json_object *object, const JsonPath *path, const char *key,
                      int64_t *ret, Error *reterr);

/* *ret is as it was if the member is not there. */
int json_read_boolean(struct json_object *object, const JsonPath *path, const char *key, bool *ret,
                      Error *reterr);

/* The following functions read values that may be missing or of any type, such as the agent's own:
 * they return NULL or 0 then. Anything but an object has no members. A text with a NUL in it does
 * not count; an empty one does. */
struct json_object *json_get(struct json_object *object, const char *key, enum json_type type);
const char *json_get_text(struct json_object *object, const char *key);
/* Returns NULL also for an empty text. */
const char *json_get_filled(struct json_object *object, const char *key);
/* Whether the member is this text. */
bool json_is(struct json_object *object, const char *key, const char *text);
int64_t json_get_integer(struct json_object *object, const char *key);
int64_t json_get_time(struct json_object *object, const char *key);

/* As it is sent to others; borrowed from the value. NULL: no memory. */
const char *json_to_text(struct json_object *value);

/* A time as Kubernetes writes them (RFC 3339), in seconds since the epoch. */
int json_read_time(struct json_object *object, const JsonPath *path, const char *key, int64_t *ret,
                   Error *reterr);
