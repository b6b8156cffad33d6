/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * YAML scalars
 *
 * What a scalar that is neither quoted nor tagged stands for. The words and numbers are those that
 * kubectl takes: "yes", "on" and "y" are true, "0x1f", "0o17" and "017" are integers, "1_000" is a
 * thousand, a time stamp is a string. Infinity and NaN, which JSON does not have, are strings too.
 */

#include <json-c/json_types.h>
#include <stddef.h>

typedef enum YamlType {
        YAML_TYPE_STRING,
        YAML_TYPE_NULL,
        YAML_TYPE_BOOL,
        YAML_TYPE_INTEGER,
        YAML_TYPE_FLOAT,
        _YAML_TYPE_MAX,
} YamlType;

YamlType yaml_scalar_type(const char *text);

/* The type that a tag such as "tag:yaml.org,2002:int" stands for, or _YAML_TYPE_MAX. */
YamlType yaml_scalar_tag_type(const char *tag);

/* The scalar as that type, which is the one of yaml_scalar_type(), or a string, or a float made of
 * an integer. An integer that 64 bits cannot hold becomes the nearest one that they can. Owned by
 * the caller; NULL if there is no memory, and for null, which json-c has no object for. */
struct json_object *yaml_scalar_new(YamlType type, const char *text, size_t size);
