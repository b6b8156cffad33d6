/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/json-patch.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/document/json-cleanup.h"

int patch_add(struct json_object *object, const char *key, struct json_object *value) {
        if (object && value && json_object_object_add(object, key, value) == 0)
                return 0;

        json_object_put(value);
        return -ENOMEM;
}

int patch_add_text(struct json_object *object, const char *key, const char *text) {
        return patch_add(object, key, text ? json_object_new_string(text) : NULL);
}

int patch_add_number(struct json_object *object, const char *key, uint64_t number) {
        return patch_add(object, key, json_object_new_uint64(number));
}

int patch_add_bool(struct json_object *object, const char *key, bool value) {
        return patch_add(object, key, json_object_new_boolean(value));
}

int patch_add_filled(struct json_object *object, const char *key, const char *text) {
        return text && text[0] ? patch_add_text(object, key, text) : 0;
}

int patch_add_nonzero(struct json_object *object, const char *key, int64_t number) {
        return number != 0 ? patch_add(object, key, json_object_new_int64(number)) : 0;
}

int patch_add_time(struct json_object *object, const char *key, int64_t time) {
        char text[RFC3339_SIZE];

        return time != 0 ? patch_add_text(object, key, rfc3339_format(time, text)) : 0;
}

int patch_add_null(struct json_object *object, const char *key) {
        return object && json_object_object_add(object, key, NULL) == 0 ? 0 : -ENOMEM;
}

int patch_append(struct json_object *list, struct json_object *value) {
        if (list && value && json_object_array_add(list, value) == 0)
                return 0;

        json_object_put(value);
        return -ENOMEM;
}

int patch_clear(struct json_object **object) {
        json_object_put(*object);
        *object = json_object_new_object();
        return *object ? 0 : -ENOMEM;
}

struct json_object *patch_wrap(const char *key, struct json_object *value) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();

        return patch_add(object, key, value) < 0 ? NULL : take_ptr(object);
}

int patch_append_step(struct json_object *list, const char *op, const char *path,
                      struct json_object *value) {
        cleanup(json_object_put_p) json_object *owned = value;
        cleanup(json_object_put_p) json_object *step = json_object_new_object();

        if (!path || patch_add_text(step, "op", op) < 0 || patch_add_text(step, "path", path) < 0 ||
            (strcmp(op, "remove") != 0 && patch_add(step, "value", take_ptr(owned)) < 0))
                return -ENOMEM;

        return patch_append(list, take_ptr(step));
}

/* Leaves behind the value that json_parse_inner() keeps with a text: json-c cannot copy it. */
static int copy_without_inner(json_object *value, json_object *parent, const char *key,
                              size_t index, json_object **ret) {
        int r = json_c_shallow_copy_default(value, parent, key, index, ret);

        return r == 1 && json_object_is_type(value, json_type_string) ? 2 : r;
}

struct json_object *json_copy(struct json_object *value) {
        json_object *copy = NULL;

        return json_object_deep_copy(value, &copy, copy_without_inner) < 0 ? NULL : copy;
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

        if (!json_object_is_type(*document, json_type_object) && patch_clear(document) < 0)
                return -ENOMEM;

        json_object_object_foreach(patch, key, value) {
                r = r < 0 ? r : merge_member(*document, key, value);
        }

        return r;
}
