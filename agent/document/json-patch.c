/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/json-patch.h"

#include <errno.h>
#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"

int patch_add(struct json_object *object, const char *key, struct json_object *value) {
        if (value && json_object_object_add(object, key, value) == 0)
                return 0;

        json_object_put(value);
        return -ENOMEM;
}

int patch_add_text(struct json_object *object, const char *key, const char *text) {
        return patch_add(object, key, json_object_new_string(text));
}

int patch_add_null(struct json_object *object, const char *key) {
        return json_object_object_add(object, key, NULL) == 0 ? 0 : -ENOMEM;
}

int patch_append(struct json_object *list, struct json_object *value) {
        if (value && json_object_array_add(list, value) == 0)
                return 0;

        json_object_put(value);
        return -ENOMEM;
}

struct json_object *patch_wrap(const char *key, struct json_object *value) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();

        if (!object) {
                json_object_put(value);
                return NULL;
        }

        return patch_add(object, key, value) < 0 ? NULL : take_ptr(object);
}
