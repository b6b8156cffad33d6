/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An object of the API, in JSON or in protobuf, with what all objects have
 */

#include <json-c/json_types.h>
#include <stddef.h>
#include <stdint.h>

typedef struct KubeObject {
        const char *namespace; /* "" if there is none */
        const char *name;
        const char *uid;
        const char *resource_version;
        struct json_object *json; /* the object; NULL if it came as protobuf */
        const uint8_t *bytes;     /* the object's own message, without envelope; NULL if JSON */
        size_t n_bytes;
} KubeObject;
