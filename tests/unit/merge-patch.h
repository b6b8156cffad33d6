/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Applies merge patches as an API server does (RFC 7386)
 */

#include <json-c/json.h>
#include <stdlib.h>

#include "agent/document/json-patch.h"

static inline struct json_object *copy_json(struct json_object *source) {
        struct json_object *copy = source ? json_copy(source) : NULL;

        if (source && !copy)
                abort();
        return copy;
}

/* Consumes the target and returns the patched one. */
static inline struct json_object *apply_merge_patch(struct json_object *target,
                                                    struct json_object *patch) {
        if (!json_object_is_type(patch, json_type_object)) {
                json_object_put(target);
                return copy_json(patch);
        }
        if (!json_object_is_type(target, json_type_object)) {
                json_object_put(target);
                target = json_object_new_object();
        }

        json_object_object_foreach(patch, key, value) {
                struct json_object *old = NULL, *new;

                if (!value) {
                        json_object_object_del(target, key);
                        continue;
                }
                (void) json_object_object_get_ex(target, key, &old);
                new = apply_merge_patch(json_object_get(old), value);
                if (new != old)
                        json_object_object_add(target, key, new);
                else
                        json_object_put(new);
        }

        return target;
}
