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

static int merge_member(json_object *document, const char *key, json_object *value) {
        json_object *member;
        int r;

        if (!value) {
                json_object_object_del(document, key);
                return 0;
        }

        member = json_object_get(json_object_object_get(document, key));
        r = json_merge_patch(&member, value);
        if (r >= 0 && json_object_object_add(document, key, member) == 0)
                return 0;

        json_object_put(member);
        return -ENOMEM;
}

int json_merge_patch(json_object **document, json_object *patch) {
        int r = 0;

        if (!json_object_is_type(patch, json_type_object)) {
                json_object_put(*document);
                *document = json_object_get(patch);
                return 0;
        }

        if (!json_object_is_type(*document, json_type_object)) {
                json_object_put(*document);
                *document = json_object_new_object();
                if (!*document)
                        return -ENOMEM;
        }

        json_object_object_foreach(patch, key, value) {
                r = r < 0 ? r : merge_member(*document, key, value);
        }

        return r;
}
