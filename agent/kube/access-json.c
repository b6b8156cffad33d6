/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/access-json.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

/* Errors may quote from the text, such as a password that begins with "!" and so is a tag. Such an
 * error is replaced by one that names only the place. */
static int refuse_text(const Error *error, Error *reterr) {
        const char *message = error_message(error);
        const char *colon = strchr(message, ':');

        if (!colon || !strchr(message, '"'))
                return error_copy(reterr, error);

        return error_set(reterr, error->kind, "%.*s: this cannot be understood",
                         (int) (colon - message), message);
}

int access_json_parse(const char *text, size_t size, Documents *ret, Error *reterr) {
        cleanup(documents_wipe) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = documents_parse(text, size, &documents, &error);
        if (error.kind != ERROR_NONE)
                return refuse_text(&error, reterr);
        if (r < 0)
                return r;

        if (documents.n_items == 0)
                return error_set(reterr, ERROR_INVALID, "is empty");
        if (documents.n_items > 1)
                return error_set(reterr, ERROR_INVALID, "has more than one document");
        if (!json_object_is_type(documents.items[0], json_type_object))
                return error_set(reterr, ERROR_INVALID, "is neither a YAML nor a JSON object");

        *ret = documents;
        documents = DOCUMENTS_INIT;
        return 0;
}

static int check_type(struct json_object *value, const JsonPath *path, json_type type,
                      const char *expected, Error *reterr) {
        if (json_object_is_type(value, type))
                return 0;

        return json_refuse(path, reterr, "expected %s", expected);
}

int access_json_check_object(struct json_object *item, const JsonPath *path, Error *reterr) {
        return check_type(item, path, json_type_object, "an object", reterr);
}

static int read_member(struct json_object *object, const JsonPath *path, json_type type,
                       const char *expected, struct json_object **ret, Error *reterr) {
        struct json_object *value = NULL;
        int r;

        (void) json_object_object_get_ex(object, path->key, &value);
        if (value) {
                r = check_type(value, path, type, expected, reterr);
                if (r < 0)
                        return r;
        }

        *ret = value;
        return 0;
}

int access_json_read_object(struct json_object *object, const JsonPath *path, const char *key,
                            struct json_object **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };

        return read_member(object, &here, json_type_object, "an object", ret, reterr);
}

int access_json_read_list(struct json_object *object, const JsonPath *path, const char *key,
                          struct json_object **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };

        return read_member(object, &here, json_type_array, "a list", ret, reterr);
}

int access_json_copy_text(struct json_object *item, const JsonPath *path, char **ret,
                          Error *reterr) {
        char *copy;
        int r;

        r = check_type(item, path, json_type_string, "a string (in quotes)", reterr);
        if (r < 0)
                return r;
        if (strlen(json_object_get_string(item)) != (size_t) json_object_get_string_len(item))
                return json_refuse(path, reterr, "has a NUL in it");

        copy = strdup(json_object_get_string(item));
        if (!copy)
                return -ENOMEM;

        *ret = copy;
        return 0;
}

int access_json_read_text(struct json_object *object, const JsonPath *path, const char *key,
                          char **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };
        struct json_object *value = NULL;

        (void) json_object_object_get_ex(object, key, &value);
        if (!value || (json_object_is_type(value, json_type_string) &&
                       json_object_get_string_len(value) == 0))
                return 0;

        return access_json_copy_text(value, &here, ret, reterr);
}

int access_json_read_bool(struct json_object *object, const JsonPath *path, const char *key,
                          bool *ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };
        struct json_object *value;
        int r;

        r = read_member(object, &here, json_type_boolean, "true or false", &value, reterr);
        if (r < 0)
                return r;

        if (value)
                *ret = json_object_get_boolean(value);
        return 0;
}
