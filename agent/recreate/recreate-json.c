/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-json.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"

int recreate_json_add(struct json_object *object, const char *key, struct json_object *value) {
        if (value && json_object_object_add(object, key, value) == 0)
                return 0;

        json_object_put(value);
        return -ENOMEM;
}

int recreate_json_append(struct json_object *list, struct json_object *value) {
        if (value && json_object_array_add(list, value) == 0)
                return 0;

        json_object_put(value);
        return -ENOMEM;
}

int recreate_json_add_text(struct json_object *object, const char *key, const char *text) {
        return recreate_json_add(object, key, json_object_new_string(text));
}

struct json_object *recreate_json_wrap(const char *key, struct json_object *value) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();

        if (!object) {
                json_object_put(value);
                return NULL;
        }

        return recreate_json_add(object, key, value) < 0 ? NULL : take_ptr(object);
}

struct json_object *recreate_json_get(struct json_object *object, const char *key, json_type type) {
        struct json_object *value;

        if (!json_object_object_get_ex(object, key, &value) || !json_object_is_type(value, type))
                return NULL;

        return value;
}

const char *recreate_json_text(struct json_object *object, const char *key) {
        struct json_object *value = recreate_json_get(object, key, json_type_string);
        const char *text = value ? json_object_get_string(value) : NULL;

        if (!text || !text[0] || strlen(text) != (size_t) json_object_get_string_len(value))
                return NULL;

        return text;
}

bool recreate_json_is(struct json_object *object, const char *key, const char *text) {
        const char *value = recreate_json_text(object, key);

        return value && strcmp(value, text) == 0;
}

const char *recreate_json_body(struct json_object *object) {
        return json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN |
                                                              JSON_C_TO_STRING_NOSLASHESCAPE);
}
