/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-json.h"

#include <json-c/json.h>
#include <string.h>

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
