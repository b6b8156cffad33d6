/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/json-fields.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/quote.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"

/* clang-format off */
static const json_type types[] = {
        [JSON_ANY]     = json_type_null,
        [JSON_WORD]    = json_type_string,
        [JSON_STRING]  = json_type_string,
        [JSON_TEXT]    = json_type_string,
        [JSON_TEXTS]   = json_type_array,
        [JSON_BOOLEAN] = json_type_boolean,
        [JSON_INTEGER] = json_type_int,
        [JSON_TIME]    = json_type_string,
        [JSON_OBJECT]  = json_type_object,
        [JSON_LIST]    = json_type_array,
};
/* clang-format on */

/* Gets the member; *ret is NULL if it is missing, or an empty text or list. */
static int get_value(const JsonField *field, struct json_object *object, const JsonPath *path,
                     struct json_object **ret, Error *reterr) {
        size_t size_max = field->kind == JSON_TEXT ? SIZE_MAX : JSON_STRING_SIZE_MAX;
        json_type type = types[field->kind];
        struct json_object *value = NULL;
        int r = 0;

        (void) json_object_object_get_ex(object, field->key, &value);
        if (value && type == json_type_string)
                r = json_check_text(value, path, size_max, reterr);
        else if (value && type != json_type_null)
                r = json_check_type(value, path, type, reterr);
        if (r < 0)
                return r;

        if ((type == json_type_string && json_object_get_string_len(value) == 0) ||
            (value && type == json_type_array && json_object_array_length(value) == 0))
                value = NULL;
        *ret = value;
        return 0;
}

static size_t item_size(const JsonField *field) {
        return field->kind == JSON_TEXTS ? sizeof(char *) : field->item_size;
}

static int read_item(const JsonField *field, struct json_object *item, const JsonPath *path,
                     void *ret, const void *context, Error *reterr) {
        int r;

        if (field->on_value)
                return field->on_value(item, path, ret, context, reterr);
        if (field->kind == JSON_LIST)
                return json_check_type(item, path, json_type_object, reterr)
                               ?: json_fields_read(field->fields, item, path, ret, context, reterr);

        r = json_check_text(item, path, SIZE_MAX, reterr);
        return r < 0 ? r : text_copy(json_object_get_string(item), ret);
}

/* Counts an item before it is read, so that json_fields_done() finds it after a failure, too. */
static int read_items(const JsonField *field, struct json_object *list, const JsonPath *path,
                      char *record, const void *context, Error *reterr) {
        size_t ignored, n = list ? json_object_array_length(list) : 0;
        size_t *n_items = field->n_offset > 0 ? (size_t *) (record + field->n_offset) : &ignored;
        char *items;
        int r = 0;

        if (field->max > 0 && n > (size_t) field->max)
                return json_refuse(path, reterr, "has more than %zu items", (size_t) field->max);

        items = calloc(n + 1, item_size(field));
        if (!items)
                return -ENOMEM;

        *(void **) (record + field->offset) = items;
        for (size_t i = 0; r >= 0 && i < n; i++) {
                *n_items = i + 1;
                r = read_item(field, json_object_array_get_idx(list, i),
                              &(JsonPath){ .parent = path, .index = i },
                              items + i * item_size(field), context, reterr);
        }
        return r;
}

static int store_integer(const JsonField *field, int64_t number, int64_t *ret) {
        if (field->max == 0 || number >= field->min)
                *ret = field->max == 0 || number < field->max ? number : field->max;
        return 0;
}

static int store_time(const char *text, const JsonPath *path, int64_t *ret, Error *reterr) {
        if (rfc3339_parse(text, ret) >= 0)
                return 0;

        return json_refuse(path, reterr, "expected a time such as 2026-01-31T12:00:00Z, got %s",
                           quote(text, (char[QUOTE_SIZE]){ 0 }));
}

/* Stores a value, or NULL for a missing one. */
static int store(const JsonField *field, struct json_object *value, const JsonPath *path, void *ret,
                 const void *context, Error *reterr) {
        if (field->on_text)
                return field->on_text(json_object_get_string(value), path, ret, context, reterr);
        if (field->on_value)
                return field->on_value(value, path, ret, context, reterr);
        if (field->kind == JSON_OBJECT)
                return json_fields_read(field->fields, value, path, ret, context, reterr);

        if (!value)
                return 0;

        if (field->kind == JSON_STRING || field->kind == JSON_TEXT)
                return text_set(ret, json_object_get_string(value));
        if (field->kind == JSON_TIME)
                return store_time(json_object_get_string(value), path, ret, reterr);
        if (field->kind == JSON_INTEGER)
                return store_integer(field, json_object_get_int64(value), ret);
        if (field->kind == JSON_BOOLEAN)
                *(bool *) ret = json_object_get_boolean(value);
        return 0;
}

static int read_field(const JsonField *field, struct json_object *object, const JsonPath *parent,
                      char *record, const void *context, Error *reterr) {
        const JsonPath path = { .parent = parent,
                                .key = field->key,
                                .is_secret = field->is_secret };
        struct json_object *value;
        int r;

        r = get_value(field, object, &path, &value, reterr);
        if (r < 0)
                return r;

        if (!value && field->empty)
                return json_refuse(&path, reterr, "%s", field->empty);
        if (!value && field->is_required)
                return json_refuse(parent, reterr, "has no %s", field->key);

        if (field->kind == JSON_TEXTS || field->kind == JSON_LIST)
                return read_items(field, value, &path, record, context, reterr);
        return store(field, value, &path, record + field->offset, context, reterr);
}

/* Finds the field of the key, or the end of the table. */
static const JsonField *find(const JsonField *fields, const char *key) {
        while (fields->key && strcmp(fields->key, key) != 0)
                fields++;
        return fields;
}

int json_fields_read(const JsonField *fields, struct json_object *object, const JsonPath *path,
                     void *ret, const void *context, Error *reterr) {
        int r = 0;

        if (json_object_is_type(object, json_type_object)) {
                json_object_object_foreach(object, key, value) {
                        (void) value;
                        if (find(fields, key)->kind == JSON_NO_OTHERS)
                                return json_refuse(&(JsonPath){ .parent = path, .key = key },
                                                   reterr, "there is no such field");
                }
        }

        for (; r >= 0 && fields->key; fields++)
                r = read_field(fields, object, path, ret, context, reterr);
        return r;
}

static void done_items(const JsonField *field, char *record) {
        char **texts = *(char ***) (record + field->offset), *items = (char *) texts;

        if (field->kind == JSON_TEXTS)
                for (char **text = texts; text && *text; text++)
                        text_wipe(text);
        else
                for (size_t i = 0; i < *(size_t *) (record + field->n_offset); i++)
                        json_fields_done(field->fields, items + i * field->item_size);

        free(items);
        *(void **) (record + field->offset) = NULL;
        if (field->n_offset > 0)
                *(size_t *) (record + field->n_offset) = 0;
}

void json_fields_done(const JsonField *fields, void *record) {
        for (; fields->key; fields++) {
                void *value = (char *) record + fields->offset;

                if (fields->kind == JSON_STRING || fields->kind == JSON_TEXT)
                        text_wipe(value);
                else if (fields->kind == JSON_OBJECT && fields->fields)
                        json_fields_done(fields->fields, value);
                else if (fields->kind == JSON_TEXTS || fields->kind == JSON_LIST)
                        done_items(fields, record);
        }
}
