/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON in the rows of a table, with ' for ", made as printf() does
 *
 * The caller owns it. What is no JSON fails the test; "null" is NULL.
 */

#include <json-c/json.h>

#include "agent/document/json-cleanup.h"
#include "tests/unit/unit.h"

static json_object *parse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static json_object *parse(const char *format, ...) {
        cleanup(free_p) char *text = NULL;
        json_object *json = NULL;
        va_list arguments;

        va_start(arguments, format);
        assert_true(vasprintf(&text, format, arguments) >= 0);
        va_end(arguments);
        for (char *c = text; *c; c++)
                if (*c == '\'')
                        *c = '"';
        json = json_tokener_parse(text);
        if (!json && strcmp(text, "null") != 0)
                fail_msg("%s", text);
        return json;
}

static inline void assert_json(json_object *json, const char *expected) {
        cleanup(json_object_put_p) json_object *other = parse("%s", expected);

        if (!json_object_equal(json, other))
                fail_msg("%s\n      instead of %s",
                         json_object_to_json_string_ext(json,
                                                        JSON_C_TO_STRING_PLAIN |
                                                                JSON_C_TO_STRING_NOSLASHESCAPE),
                         expected);
}
