/* SPDX-License-Identifier: Apache-2.0 */

/*
 * JSON is nearly a part of YAML, but libyaml refuses pairs of surrogates, tabs before the first
 * bracket and keys of more than a thousand characters. So json-c comes first. What it cannot do,
 * finding keys that are given twice and bounding the number of values, is done by counting commas
 * and colons before and members after.
 */

#include "agent/document/documents-read.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/json_tokener.h>
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

/* Everything that JSON has outside its strings: json-c knows comments and infinities besides. */
#define OUTSIDE_STRINGS " \t\r\n{}[],:+-.0123456789Eaeflnrstu"

typedef struct Census {
        size_t n_values;  /* at most that many */
        size_t n_members; /* of all objects, if no key is given twice */
        bool is_doubtful; /* it is not JSON, or has what a C string cannot hold */
} Census;

DEFINE_CLEANUP(struct json_tokener *, json_tokener_free)

/* Returns the offset behind the string that begins at the offset. */
static size_t skip_string(const char *text, size_t size, size_t i, Census *census) {
        for (i++; i < size && text[i] != '"'; i++) {
                if ((unsigned char) text[i] < ' ')
                        census->is_doubtful = true;
                if (text[i] != '\\')
                        continue;
                if (size - i > 5 && memcmp(text + i, "\\u0000", 6) == 0)
                        census->is_doubtful = true;
                i++;
        }

        return i + 1;
}

static Census take_census(const char *text, size_t size) {
        Census census = { .n_values = 0 };
        size_t i = 0;

        while (i < size) {
                if (text[i] == '"') {
                        i = skip_string(text, size, i, &census);
                        continue;
                }

                if (text[i] == ',' || text[i] == '{' || text[i] == '[')
                        census.n_values++;
                if (text[i] == ':')
                        census.n_members++;
                if (!strchr(OUTSIDE_STRINGS, text[i]) || text[i] == '\0')
                        census.is_doubtful = true;
                i++;
        }

        return census;
}

static size_t count_members(struct json_object *value) {
        size_t n = 0;

        if (json_object_is_type(value, json_type_array))
                for (size_t i = 0; i < json_object_array_length(value); i++)
                        n += count_members(json_object_array_get_idx(value, i));

        if (json_object_is_type(value, json_type_object)) {
                json_object_object_foreach(value, key, member) {
                        (void) key;
                        n += 1 + count_members(member);
                }
        }

        return n;
}

static size_t skip_blanks(const char *text, size_t size, size_t i) {
        while (i < size &&
               (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n'))
                i++;
        return i;
}

/* Returns 1 if all of it was read, 0 if it is not JSON. */
static int read_values(const char *text, size_t size, Documents *documents, size_t *ret_members) {
        cleanup(json_tokener_free_p) struct json_tokener *tokener = NULL;
        size_t n_members = 0;
        int r;

        tokener = json_tokener_new_ex(DOCUMENTS_DEPTH_MAX);
        if (!tokener)
                return -ENOMEM;
        json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_ALLOW_TRAILING_CHARS |
                                                JSON_TOKENER_VALIDATE_UTF8);

        for (size_t i = skip_blanks(text, size, 0); i < size; i = skip_blanks(text, size, i)) {
                struct json_object *value;

                if (text[i] != '{' && text[i] != '[')
                        return 0;

                json_tokener_reset(tokener);
                value = json_tokener_parse_ex(tokener, text + i, (int) (size - i));
                if (json_tokener_get_error(tokener) != json_tokener_success)
                        return 0;

                i += json_tokener_get_parse_end(tokener);
                n_members += count_members(value);
                r = documents_take(documents, value);
                if (r < 0)
                        return r;
        }

        *ret_members = n_members;
        return 1;
}

int documents_read_json(const char *text, size_t size, Documents *ret, bool *ret_understood,
                        Error *reterr) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        Census census = take_census(text, size);
        size_t n_members;
        int r;

        *ret_understood = false;
        if (census.is_doubtful)
                return 0;
        if (census.n_values > DOCUMENTS_VALUES_MAX)
                return error_set(reterr, ERROR_INVALID, "has more than %d values",
                                 DOCUMENTS_VALUES_MAX);

        r = read_values(text, size, &documents, &n_members);
        if (r <= 0)
                return r;
        if (n_members != census.n_members)
                return 0;

        *ret = documents;
        documents = DOCUMENTS_INIT;
        *ret_understood = true;
        return 0;
}
