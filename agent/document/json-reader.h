/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON reader
 *
 * Reads the members of a JSON object that others wrote. An error names the path of a wrong member:
 * "spec.images.nginx.tags[0].version: expected an integer, got "x"". A member that is null counts as
 * missing, as everywhere in Kubernetes.
 */

#include <json-c/json_types.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

struct json_tokener;

#define JSON_STRING_SIZE_MAX 4096 /* longer ones are refused, except by json_read_text() */

/* Path of an object: a chain of these on the stack, up to the root, which is NULL. */
typedef struct JsonPath {
        const struct JsonPath *parent;
        const char *key; /* key of a member, or NULL for an item of a list */
        size_t index;
        bool is_secret; /* errors repeat no value of it, nor of its members */
} JsonPath;

/* Parses one JSON value in UTF-8, which need not end with a NUL. The caller owns *ret, which is
 * NULL for "null". The text is left neither in the error nor in freed memory. */
int json_parse(const char *text, size_t size, struct json_object **ret, Error *reterr);

typedef struct JsonLimits {
        size_t size;    /* in bytes */
        unsigned depth; /* nesting of lists and objects */
} JsonLimits;

#define JSON_LIMITS ((JsonLimits){ .size = INT_MAX, .depth = 32 }) /* limits of json_parse() */

/* Returns the flags with which json-c reads a text that is UTF-8. They are strict, except where the
 * strict mode of version 0.18 takes all but ASCII for control characters (json-c#875). */
int json_reading_flags(const char *text, size_t size);

/* The same within narrower limits. */
int json_parse_within(const char *text, size_t size, JsonLimits limits, struct json_object **ret,
                      Error *reterr);

/* The same for a text of others that may be anything: *ret is NULL where it is no JSON. Returns 0 or -ENOMEM. */
int json_parse_any(const char *text, size_t size, JsonLimits limits, struct json_object **ret);

/* The value of a text that is known to be JSON, owned by the caller. NULL: no memory. */
struct json_object *json_parse_known(const char *text);

/* Parses the JSON in a text that is itself a value of JSON, and keeps the result with it, from which *ret is borrowed: from
 * then on the same call needs no memory. *ret is NULL where there is no text, or no JSON in it. Returns 0 or -ENOMEM. */
int json_parse_inner(struct json_object *text, struct json_object **ret);

/* As json_tokener_parse_ex(). Before 0.17 that takes a lack of memory for bad JSON, or leaves a member or a part of a string
 * out, and then errno tells, until it reads the next number, which clears errno: so it gets the text in pieces that end
 * before numbers. *ret_end: size of what was read. Returns 0, also for bad JSON, or -ENOMEM. */
int json_parse_next(struct json_tokener *tokener, const char *text, size_t size,
                    struct json_object **ret, size_t *ret_end);

/* Copies the text, and empties the lists that are members of this name, of objects at this depth
 * (1: the outermost). json-c would take a hundred times their size. *ret is NULL where there are
 * none: the text is as it is. The copy ends with a NUL that *ret_size does not count; the caller owns it. */
int json_empty_lists(const char *text, size_t size, const char *name, unsigned depth, char **ret,
                     size_t *ret_size);
/* As json_parse(), of the text with these lists empty. depth: 0: of the text as it is. */
int json_parse_without(const char *text, size_t size, const char *name, unsigned depth,
                       struct json_object **ret, Error *reterr);

/* Refuses the value at the path, or the whole object if the path is NULL. */
int json_refuse(const JsonPath *path, Error *reterr, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Refuses a value because of its type, e.g. because it is not "an integer". */
int json_refuse_type(const JsonPath *path, struct json_object *value, const char *expected,
                     Error *reterr);

/* Refuse a value of another type, and a text with a NUL in it or of more than max bytes. */
int json_check_type(struct json_object *value, const JsonPath *path, enum json_type type,
                    Error *reterr);
int json_check_text(struct json_object *value, const JsonPath *path, size_t max, Error *reterr);

/* Each reads one member of an object whose path is given. Results are borrowed from the object.
 * Without the member, *ret is NULL; an integer is left as it was. */
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

/* The following functions read values that may be missing or of any type, such as the agent's own:
 * they return NULL or 0 then. Anything but an object has no members. A text with a NUL in it does
 * not count; an empty one does. */
struct json_object *json_get(struct json_object *object, const char *key, enum json_type type);
const char *json_get_text(struct json_object *object, const char *key);
/* Returns NULL also for an empty text. */
const char *json_get_filled(struct json_object *object, const char *key);
/* Whether the member is this text; never where that is NULL. */
bool json_is(struct json_object *object, const char *key, const char *text);
/* Returns the first item of a list whose member is this text. */
struct json_object *json_find(struct json_object *list, const char *key, const char *text);
int64_t json_get_integer(struct json_object *object, const char *key);
int64_t json_get_time(struct json_object *object, const char *key);

/* Returns the text to send; borrowed from the value. NULL: no memory. */
const char *json_to_text(struct json_object *value);
const char *json_to_text_with(struct json_object *value, int flags); /* JSON_C_TO_STRING_... */

/* The same, for the caller to own; value: NULL is no memory, too. */
int json_copy_text(struct json_object *value, char **ret);
