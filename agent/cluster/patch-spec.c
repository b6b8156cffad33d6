/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/patch-spec.h"

#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/cluster/observed-status.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"

struct json_object *patch_guard(struct json_object *object) {
        static const char *const keys[] = { "uid", "resourceVersion" };
        cleanup(json_object_put_p) json_object *guard = json_object_new_object();
        struct json_object *metadata = observed_member(object, "metadata", json_type_object);

        for (size_t i = 0; guard && i < sizeof(keys) / sizeof(keys[0]); i++) {
                struct json_object *value = observed_member(metadata, keys[i], json_type_string);

                if (value && patch_add(guard, keys[i], json_object_get(value)) < 0)
                        return NULL;
        }

        return take_ptr(guard);
}
