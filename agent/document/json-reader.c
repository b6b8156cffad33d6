/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/json-reader.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/json_tokener.h>
#include <json-c/printbuf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/rfc3339.h"

/* Wipes the tokener, which keeps the last string it has read. */
static void tokener_done(json_tokener **tokener) {
        if (!*tokener)
                return;

        if ((*tokener)->pb && (*tokener)->pb->buf)
                explicit_bzero((*tokener)->pb->buf, (size_t) (*tokener)->pb->size);
        json_tokener_free(*tokener);
}

/* The error may repeat json-c's words, which are constant and quote nothing. */
int json_parse_within(const char *text, size_t size, JsonLimits limits, struct json_object **ret,
                      Error *reterr) {
        cleanup(tokener_done) json_tokener *tokener = NULL;
        json_object *json;
        enum json_tokener_error error;

        if (size > limits.size)
                return error_set(reterr, ERROR_INVALID, "larger than %zu bytes", limits.size);
        if (size > 0 && memchr(text, '\0', size)) /* json-c takes it for the end */
                return error_set(reterr, ERROR_INVALID, "not valid JSON: it has a NUL");

        tokener = json_tokener_new_ex((int) limits.depth);
        if (!tokener)
                return -ENOMEM;

        json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
        json = json_tokener_parse_ex(tokener, text, (int) size);
        error = json_tokener_get_error(tokener);
        if (error == json_tokener_continue)
                return error_set(reterr, ERROR_INVALID, "not valid JSON: it ends too early");
        if (error != json_tokener_success)
                return error_set(reterr, ERROR_INVALID, "not valid JSON at byte %zu: %s",
                                 json_tokener_get_parse_end(tokener),
                                 json_tokener_error_desc(error));

        *ret = json;
        return 0;
}

int json_parse(const char *text, size_t size, struct json_object **ret, Error *reterr) {
        return json_parse_within(text, size, JSON_LIMITS, ret, reterr);
}

static inline void close_file_p(FILE **file) {
        if (*file)
                fclose(*file);
}

/* "spec", "[0]" or, if it would not be clear where the key ends, "["a.b"]". */
static void write_path(FILE *file, const JsonPath *path) {
        static const char plain[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
        size_t size;

        if (path->parent)
                write_path(file, path->parent);

        if (!path->key) {
                fprintf(file, "[%zu]", path->index);
                return;
        }

        size = strspn(path->key, plain);
        if (size > 0 && size < QUOTE_SIZE && !path->key[size])
                fprintf(file, "%s%s", path->parent ? "." : "", path->key);
        else
                fprintf(file, "[%s]", quote(path->key, (char[QUOTE_SIZE]){ 0 }));
}

int json_refuse(const JsonPath *path, Error *reterr, const char *format, ...) {
        cleanup(free_p) char *message = NULL;
        size_t size;
        FILE *file;
        va_list args;
        bool is_written;

        file = open_memstream(&message, &size);
        if (!file)
                return -ENOMEM;

        if (path) {
                write_path(file, path);
                fputs(": ", file);
        }
        va_start(args, format);
        vfprintf(file, format, args);
        va_end(args);

        is_written = !ferror(file);
        if (fclose(file) != 0 || !is_written)
                return -ENOMEM;

        return error_set(reterr, ERROR_INVALID, "%s", message);
}

int json_refuse_type(const JsonPath *path, struct json_object *value, const char *expected,
                     Error *reterr) {
        switch (json_object_get_type(value)) {
        case json_type_null: return json_refuse(path, reterr, "expected %s, got nothing", expected);
        case json_type_object:
                return json_refuse(path, reterr, "expected %s, got an object", expected);
        case json_type_array: return json_refuse(path, reterr, "expected %s, got a list", expected);
        case json_type_string:
                return json_refuse(path, reterr, "expected %s, got %s", expected,
                                   quote(json_object_get_string(value), (char[QUOTE_SIZE]){ 0 }));
        case json_type_double:
        case json_type_boolean:
        case json_type_int: break;
        }

        return json_refuse(path, reterr, "expected %s, got %.64s", expected,
                           json_object_get_string(value));
}

static int read_member(struct json_object *object, const JsonPath *path, json_type type,
                       const char *expected, struct json_object **ret, Error *reterr) {
        struct json_object *value = NULL;

        (void) json_object_object_get_ex(object, path->key, &value);
        if (value && !json_object_is_type(value, type))
                return json_refuse_type(path, value, expected, reterr);

        *ret = value;
        return 0;
}

int json_read_object(struct json_object *object, const JsonPath *path, const char *key,
                     struct json_object **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };

        return read_member(object, &here, json_type_object, "an object", ret, reterr);
}

int json_read_list(struct json_object *object, const JsonPath *path, const char *key,
                   struct json_object **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };

        return read_member(object, &here, json_type_array, "a list", ret, reterr);
}

int json_read_boolean(struct json_object *object, const JsonPath *path, const char *key, bool *ret,
                      Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };
        struct json_object *value = NULL;
        int r;

        r = read_member(object, &here, json_type_boolean, "true or false", &value, reterr);
        if (r >= 0 && value)
                *ret = json_object_get_boolean(value);
        return r;
}

int json_read_text(struct json_object *object, const JsonPath *path, const char *key,
                   const char **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };
        struct json_object *value = NULL;
        int r;

        r = read_member(object, &here, json_type_string, "a string (in quotes)", &value, reterr);
        if (r < 0)
                return r;

        if (value &&
            strlen(json_object_get_string(value)) != (size_t) json_object_get_string_len(value))
                return json_refuse(&here, reterr, "has a NUL in it");

        *ret = value ? json_object_get_string(value) : NULL;
        return 0;
}

int json_read_string(struct json_object *object, const JsonPath *path, const char *key,
                     const char **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };
        const char *text;
        int r;

        r = json_read_text(object, path, key, &text, reterr);
        if (r < 0)
                return r;
        if (text && strlen(text) > JSON_STRING_SIZE_MAX)
                return json_refuse(&here, reterr, "is longer than %d bytes", JSON_STRING_SIZE_MAX);

        *ret = text;
        return 0;
}

int json_read_integer(struct json_object *object, const JsonPath *path, const char *key,
                      int64_t *ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };
        struct json_object *value = NULL;
        int r;

        r = read_member(object, &here, json_type_int, "an integer", &value, reterr);
        if (r < 0)
                return r;

        if (value)
                *ret = json_object_get_int64(value);
        return 0;
}

int json_read_time(struct json_object *object, const JsonPath *path, const char *key, int64_t *ret,
                   Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };
        const char *text;
        int r;

        r = json_read_string(object, path, key, &text, reterr);
        if (r < 0 || !text)
                return r;

        if (rfc3339_parse(text, ret) < 0)
                return json_refuse(&here, reterr,
                                   "expected a time such as 2026-01-31T12:00:00Z, got %s",
                                   quote(text, (char[QUOTE_SIZE]){ 0 }));
        return 0;
}

struct json_object *json_get(struct json_object *object, const char *key, enum json_type type) {
        struct json_object *value;

        if (!json_object_is_type(object, json_type_object) ||
            !json_object_object_get_ex(object, key, &value) || !json_object_is_type(value, type))
                return NULL;

        return value;
}

const char *json_get_text(struct json_object *object, const char *key) {
        struct json_object *value = json_get(object, key, json_type_string);
        const char *text = json_object_get_string(value);

        return text && strlen(text) == (size_t) json_object_get_string_len(value) ? text : NULL;
}

const char *json_get_filled(struct json_object *object, const char *key) {
        const char *text = json_get_text(object, key);

        return text && text[0] ? text : NULL;
}

bool json_is(struct json_object *object, const char *key, const char *text) {
        const char *value = json_get_text(object, key);

        return value && strcmp(value, text) == 0;
}

const char *json_to_text(struct json_object *value) {
        return json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN |
                                                             JSON_C_TO_STRING_NOSLASHESCAPE);
}

int64_t json_get_integer(struct json_object *object, const char *key) {
        return json_object_get_int64(json_get(object, key, json_type_int));
}

int64_t json_get_time(struct json_object *object, const char *key) {
        const char *text = json_get_text(object, key);
        int64_t time;

        return text && rfc3339_parse(text, &time) == 0 ? time : 0;
}
