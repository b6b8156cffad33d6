/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Members of JSON that may be missing or of any type
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"

/* clang-format off */
static const struct {
        const char *json;
        const char *text;   /* of the member "a"; NULL: none */
        const char *filled;
} texts[] = {
        { "{\"a\":\"b\"}",       "b",  "b"  },
        { "{\"a\":\"\"}",        "",   NULL },
        { "{\"a\":\"b\\u0000\"}", NULL, NULL },
        { "{\"a\":7}",           NULL, NULL },
        { "{\"a\":null}",        NULL, NULL },
        { "{\"b\":\"b\"}",       NULL, NULL },
        { "[\"a\"]",             NULL, NULL },
        { "\"a\"",               NULL, NULL },
        { "null",                NULL, NULL },
};
/* clang-format on */

static void assert_text(const char *text, const char *expected) {
        if (expected)
                assert_string_equal(text, expected);
        else
                assert_null(text);
}

static void test_texts(void **state) {
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                cleanup(json_object_put_p) json_object *json = json_tokener_parse(texts[i].json);

                print_message("%s\n", texts[i].json);
                assert_text(json_get_text(json, "a"), texts[i].text);
                assert_text(json_get_filled(json, "a"), texts[i].filled);
                assert_int_equal(json_is(json, "a", "b"),
                                 texts[i].text && strcmp(texts[i].text, "b") == 0);
        }
}

static void test_members(void **state) {
        cleanup(json_object_put_p) json_object *json =
                json_tokener_parse("{\"o\":{\"n\":7},\"t\":\"1970-01-01T00:01:00Z\",\"x\":\"y\"}");
        json_object *member = json_get(json, "o", json_type_object);

        assert_int_equal(json_get_integer(member, "n"), 7);
        assert_int_equal(json_get_integer(json, "x"), 0);
        assert_int_equal(json_get_time(json, "t"), 60);
        assert_int_equal(json_get_time(json, "x"), 0);
        assert_null(json_get(json, "o", json_type_array));
        assert_null(json_get(NULL, "o", json_type_object));
}

/* On one line, and without backslashes before slashes. */
static void test_to_text(void **state) {
        cleanup(json_object_put_p) json_object *json = json_tokener_parse("{ \"a\": [ \"b/c\" ] }");

        assert_string_equal(json_to_text(json), "{\"a\":[\"b/c\"]}");
}

static void test_limits(void **state) {
        static const struct {
                const char *text;
                size_t size;
                const char *why; /* NULL: it is read */
        } rows[] = {
                { "[[]]", 4, NULL },
                { "[[[]]]", 6, "nesting too deep" },
                { "[      ]", 8, NULL },
                { "[       ]", 9, "larger than 8 bytes" },
                { "[]\0[]", 5, "it has a NUL" },
                { "[]x", 3, "not valid JSON at byte 2" },
                { "", 0, "it ends too early" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                cleanup(json_object_put_p) json_object *json = NULL;
                cleanup(error_done) Error error = ERROR_INIT;

                (void) json_parse_within(rows[i].text, rows[i].size,
                                         (JsonLimits){ .size = 8, .depth = 2 }, &json, &error);
                assert_int_equal(json != NULL, rows[i].why == NULL);
                if (rows[i].why)
                        assert_non_null(strstr(error_message(&error), rows[i].why));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_members),
                cmocka_unit_test(test_to_text),
                cmocka_unit_test(test_limits),
        };

        return cmocka_run_group_tests_name("members of JSON", tests, NULL, NULL);
}
