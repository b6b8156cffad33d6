/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/json-reader.h"

#include <errno.h>
#include <json-c/json_c_version.h>
#include <json-c/json_object.h>
#include <json-c/json_tokener.h>
#include <json-c/printbuf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/base/utf8.h"
#include "agent/document/json-cleanup.h"

#define JSON_C_0_18 (18 << 8)

int json_reading_flags(const char *text, size_t size) {
        size_t i = 0;

        if (json_c_version_num() != JSON_C_0_18)
                return JSON_TOKENER_STRICT;
        while (i < size && (unsigned char) text[i] < 0x80)
                i++;
        return i < size ? 0 : JSON_TOKENER_STRICT;
}

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_of_number(char c) {
        return is_digit(c) || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
}

static bool is_blank(char c) {
        return c && strchr(" \t\r\n", c);
}

/* Makes room for the longest number: before 0.17, json-c goes on with the beginning of one for which it has no memory, and
 * clears errno as it reads that. */
static int make_room(json_tokener *tokener, const char *text, size_t size) {
        size_t longest = 0, n = 0;

        for (size_t i = 0; i < size; i++) {
                n = is_of_number(text[i]) ? n + 1 : 0;
                if (n > longest)
                        longest = n;
        }

        return printbuf_memset(tokener->pb, 0, '\0', (int) longest + 1) < 0 ? -ENOMEM : 0;
}

/* Returns where the text goes on behind the string that begins here. */
static size_t skip_string(const char *text, size_t size, size_t at) {
        for (at++; at < size && text[at] != '"'; at++)
                at += text[at] == '\\';

        return at < size ? at + 1 : size;
}

/* Returns where json-c has to stop: at the next number behind a string or member that may have failed, or behind the value,
 * which others may follow. */
static size_t find_stop(const char *text, size_t size, size_t at, size_t *depth) {
        bool may_have_failed = false, has_ended = false;

        while (at < size && !has_ended) {
                char c = text[at];

                if (may_have_failed && (c == '-' || is_digit(c)))
                        break;
                may_have_failed = may_have_failed || c == '"' || c == '}';
                at = c == '"' ? skip_string(text, size, at) : at + 1;
                *depth += c == '{' || c == '[';
                if (c == '}' || c == ']') {
                        *depth -= *depth > 0;
                        has_ended = *depth == 0;
                }
        }
        return at;
}

int json_parse_next(struct json_tokener *tokener, const char *text, size_t size,
                    struct json_object **ret, size_t *ret_end) {
        size_t begin, end = 0, depth = 0;
        json_object *json;
        int r;

        do {
                begin = end;
                end = find_stop(text, size, begin, &depth);
                r = make_room(tokener, text + begin, end - begin);
                if (r < 0)
                        return r;

                errno = 0;
                json = json_tokener_parse_ex(tokener, text + begin, (int) (end - begin));
                if (errno == ENOMEM) {
                        json_object_put(json);
                        return -ENOMEM;
                }
        } while (end < size && json_tokener_get_error(tokener) == json_tokener_continue);

        end = begin + json_tokener_get_parse_end(tokener);
        while (json_tokener_get_error(tokener) == json_tokener_success && end < size &&
               is_blank(text[end]))
                end++;
        *ret = json;
        *ret_end = end;
        return 0;
}

/* The error may repeat json-c's words, which are constant and quote nothing. */
int json_parse_within(const char *text, size_t size, JsonLimits limits, struct json_object **ret,
                      Error *reterr) {
        cleanup(json_tokener_free_p) json_tokener *tokener = NULL;
        json_object *json;
        enum json_tokener_error error;
        size_t n_valid, end;
        int r;

        if (size > limits.size)
                return error_set(reterr, ERROR_INVALID, "larger than %zu bytes", limits.size);
        if (size > 0 && memchr(text, '\0', size)) /* json-c takes it for the end */
                return error_set(reterr, ERROR_INVALID, "not valid JSON: it has a NUL");

        n_valid = utf8_valid_size(text, size);
        if (n_valid < size)
                return error_set(reterr, ERROR_INVALID, "not valid JSON at byte %zu: not UTF-8",
                                 n_valid);

        tokener = json_tokener_new_ex((int) limits.depth);
        if (!tokener)
                return -ENOMEM;

        json_tokener_set_flags(tokener, json_reading_flags(text, size));
        r = json_parse_next(tokener, text, size, &json, &end);
        if (r < 0)
                return r;
        error = json_tokener_get_error(tokener);
        if (error == json_tokener_success && end < size) {
                json_object_put(json);
                error = json_tokener_error_parse_unexpected;
        }
        if (error == json_tokener_continue)
                return error_set(reterr, ERROR_INVALID, "not valid JSON: it ends too early");
        if (error != json_tokener_success)
                return error_set(reterr, ERROR_INVALID, "not valid JSON at byte %zu: %s", end,
                                 json_tokener_error_desc(error));

        *ret = json;
        return 0;
}

int json_parse(const char *text, size_t size, struct json_object **ret, Error *reterr) {
        return json_parse_within(text, size, JSON_LIMITS, ret, reterr);
}

int json_parse_any(const char *text, size_t size, JsonLimits limits, struct json_object **ret) {
        int r;

        *ret = NULL;
        r = json_parse_within(text, size, limits, ret, /* reterr= */ NULL);
        return r == -ENOMEM ? r : 0;
}

struct json_object *json_parse_known(const char *text) {
        struct json_object *json = NULL;

        (void) json_parse_any(text, strlen(text), JSON_LIMITS, &json);
        return json;
}

static void forget_inner(struct json_object *text, void *inner) {
        (void) text;
        json_object_put(inner);
}

int json_parse_inner(struct json_object *text, struct json_object **ret) {
        struct json_object *inner = NULL;
        int r;

        *ret = NULL;
        if (!json_object_is_type(text, json_type_string))
                return 0;
        inner = json_object_get_userdata(text);
        if (!inner) {
                r = json_parse_any(json_object_get_string(text),
                                   (size_t) json_object_get_string_len(text), JSON_LIMITS, &inner);
                if (r < 0)
                        return r;
                json_object_set_userdata(text, inner, forget_inner);
        }

        *ret = inner;
        return 0;
}

/* Returns where the text goes on behind the list or object that begins here. */
static size_t skip_value(const char *text, size_t size, size_t at) {
        size_t depth = 0;

        while (at < size) {
                char c = text[at];

                at = c == '"' ? skip_string(text, size, at) : at + 1;
                if (c == '[' || c == '{')
                        depth++;
                else if ((c == ']' || c == '}') && --depth == 0)
                        break;
        }

        return at;
}

/* Whether a list follows the string from `at` to `end`, which is this name. */
static bool is_list_of(const char *text, size_t size, size_t at, size_t end, const char *name) {
        size_t n = strlen(name);

        return end - at == n + 2 && memcmp(text + at + 1, name, n) == 0 && size - end >= 2 &&
               text[end] == ':' && text[end + 1] == '[';
}

int json_empty_lists(const char *text, size_t size, const char *name, unsigned depth, char **ret,
                     size_t *ret_size) {
        cleanup(free_p) char *copy = NULL;
        size_t level = 0, n = 0, begin = 0;

        for (size_t at = 0, next; at < size; at = next) {
                char c = text[at];

                next = c == '"' ? skip_string(text, size, at) : at + 1;
                level += c == '{' || c == '[';
                level -= (c == '}' || c == ']') && level > 0;
                if (c != '"' || level != depth || !is_list_of(text, size, at, next, name))
                        continue;

                /* A list that is cut off is one byte long at least; a NUL ends the copy. */
                copy = copy ?: malloc(size + 2);
                if (!copy)
                        return -ENOMEM;
                memcpy(copy + n, text + begin, next + 2 - begin);
                n += next + 2 - begin;
                copy[n++] = ']';
                begin = next = skip_value(text, size, next + 1);
        }
        if (copy) {
                memcpy(copy + n, text + begin, size - begin);
                n += size - begin;
                copy[n] = '\0';
                *ret_size = n;
        }

        *ret = take_ptr(copy);
        return 0;
}

int json_parse_without(const char *text, size_t size, const char *name, unsigned depth,
                       struct json_object **ret, Error *reterr) {
        cleanup(text_wipe) char *shorter = NULL;
        size_t n = size;
        int r;

        r = depth > 0 ? json_empty_lists(text, size, name, depth, &shorter, &n) : 0;
        return r < 0 ? r : json_parse(shorter ?: text, n, ret, reterr);
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

        file = text_open(&message, &size);
        if (!file)
                return -ENOMEM;

        if (path) {
                write_path(file, path);
                fputs(": ", file);
        }
        va_start(args, format);
        vfprintf(file, format, args);
        va_end(args);

        if (text_close(file, &message) < 0)
                return -ENOMEM;

        return error_set(reterr, ERROR_INVALID, "%s", message);
}

static bool is_secret(const JsonPath *path) {
        while (path && !path->is_secret)
                path = path->parent;
        return path;
}

int json_refuse_type(const JsonPath *path, struct json_object *value, const char *expected,
                     Error *reterr) {
        if (is_secret(path))
                return json_refuse(path, reterr, "expected %s", expected);

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

int json_check_type(struct json_object *value, const JsonPath *path, json_type type,
                    Error *reterr) {
        static const char *const expected[] = {
                [json_type_boolean] = "true or false",
                [json_type_int] = "an integer",
                [json_type_object] = "an object",
                [json_type_array] = "a list",
                [json_type_string] = "a string (in quotes)",
        };

        return json_object_is_type(value, type)
                       ? 0
                       : json_refuse_type(path, value, expected[type], reterr);
}

int json_check_text(struct json_object *value, const JsonPath *path, size_t max, Error *reterr) {
        size_t size = (size_t) json_object_get_string_len(value);
        int r;

        r = json_check_type(value, path, json_type_string, reterr);
        if (r < 0)
                return r;

        if (strlen(json_object_get_string(value)) != size)
                return json_refuse(path, reterr, "has a NUL in it");
        if (size > max)
                return json_refuse(path, reterr, "is longer than %zu bytes", max);
        return 0;
}

static int read_member(struct json_object *object, const JsonPath *path, json_type type,
                       struct json_object **ret, Error *reterr) {
        struct json_object *value = NULL;
        int r = 0;

        (void) json_object_object_get_ex(object, path->key, &value);
        if (value)
                r = json_check_type(value, path, type, reterr);
        if (r >= 0)
                *ret = value;
        return r;
}

int json_read_object(struct json_object *object, const JsonPath *path, const char *key,
                     struct json_object **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };

        return read_member(object, &here, json_type_object, ret, reterr);
}

int json_read_list(struct json_object *object, const JsonPath *path, const char *key,
                   struct json_object **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };

        return read_member(object, &here, json_type_array, ret, reterr);
}

static int read_text(struct json_object *object, const JsonPath *path, size_t max, const char **ret,
                     Error *reterr) {
        struct json_object *value = NULL;
        int r = 0;

        (void) json_object_object_get_ex(object, path->key, &value);
        if (value)
                r = json_check_text(value, path, max, reterr);
        if (r >= 0)
                *ret = json_object_get_string(value);
        return r;
}

int json_read_text(struct json_object *object, const JsonPath *path, const char *key,
                   const char **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };

        return read_text(object, &here, SIZE_MAX, ret, reterr);
}

int json_read_string(struct json_object *object, const JsonPath *path, const char *key,
                     const char **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };

        return read_text(object, &here, JSON_STRING_SIZE_MAX, ret, reterr);
}

int json_read_integer(struct json_object *object, const JsonPath *path, const char *key,
                      int64_t *ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };
        struct json_object *value = NULL;
        int r;

        r = read_member(object, &here, json_type_int, &value, reterr);
        if (r < 0)
                return r;

        if (value)
                *ret = json_object_get_int64(value);
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

        return value && text_equal(value, text);
}

struct json_object *json_find(struct json_object *list, const char *key, const char *text) {
        size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;

        for (size_t i = 0; i < n; i++)
                if (json_is(json_object_array_get_idx(list, i), key, text))
                        return json_object_array_get_idx(list, i);

        return NULL;
}

/* Without memory, json-c cuts the text off. errno stays: it may be the reason why a stream has failed before. */
const char *json_to_text_with(struct json_object *value, int flags) {
        int before = errno;
        const char *text;

        errno = 0;
        text = json_object_to_json_string_ext(value, flags);
        if (errno == ENOMEM)
                return NULL;

        errno = before;
        return text;
}

const char *json_to_text(struct json_object *value) {
        return json_to_text_with(value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

int json_copy_text(struct json_object *value, char **ret) {
        const char *text = value ? json_to_text(value) : NULL;

        return text ? text_copy(text, ret) : -ENOMEM;
}

int64_t json_get_integer(struct json_object *object, const char *key) {
        return json_object_get_int64(json_get(object, key, json_type_int));
}

int64_t json_get_time(struct json_object *object, const char *key) {
        const char *text = json_get_text(object, key);
        int64_t time;

        return text && rfc3339_parse(text, &time) == 0 ? time : 0;
}
