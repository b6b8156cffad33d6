/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * YAML from a JSON tree
 */

#include <json-c/json.h>

/* The tree as one YAML document, in block style, pure ASCII. Reading it gives the same tree back: a
 * string that looks like a number, a truth value or nothing is quoted. NULL if there is no
 * memory. */
char *yaml_from_json(json_object *tree);
