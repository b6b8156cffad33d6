/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Documents
 *
 * What -o json and -o yaml print is one tree. The texts in it come from outside: bytes that are not
 * UTF-8 are replaced, and what a terminal would obey is escaped as the format allows.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/cleanup.h"
#include "agent/base/error.h"
#include "agent/ctl/options.h"

static inline void json_put_p(json_object **tree) {
        json_object_put(*tree);
}

/* Prints it to stdout as JSON or as YAML; any other format counts as JSON. */
int output_tree(OutputFormat format, json_object *tree);

/* The tree as JSON text with a line feed at its end. NULL if there is no memory. */
char *output_json(json_object *tree);

/* Reads a document that the agent sent. */
int output_parse(const char *text, json_object **ret, Error *reterr);

/* Append to an array, or add a member to an object; false if there is no memory. */
bool output_append(json_object *array, json_object *value);                /* taken over */
bool output_add(json_object *object, const char *key, json_object *value); /* taken over */
bool output_add_string(json_object *object, const char *key, const char *value);
bool output_add_number(json_object *object, const char *key, uint64_t value);
bool output_add_bool(json_object *object, const char *key, bool value);
bool output_add_strings(json_object *object, const char *key, char *const *values, size_t n);
