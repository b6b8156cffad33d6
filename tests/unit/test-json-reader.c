/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Members of JSON that may be missing or of any type
 */

#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "tests/unit/unit.h"

/* clang-format off */
static const struct TextsRow {
        const char *json;
        const char *text;   /* text of the member "a"; NULL: none */
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

TEST_ROWS(test_texts, texts, json, const struct TextsRow *row) {
        cleanup(json_object_put_p) json_object *json = json_tokener_parse(row->json);

        print_message("%s\n", row->json);
        assert_text(json_get_text(json, "a"), row->text);
        assert_text(json_get_filled(json, "a"), row->filled);
        assert_int_equal(json_is(json, "a", "b"), row->text && strcmp(row->text, "b") == 0);
}

TEST(test_members) {
        cleanup(json_object_put_p) json_object *json =
                json_tokener_parse("{\"o\":{\"n\":7},\"t\":\"1970-01-01T00:01:00Z\",\"x\":\"y\"}");
        json_object *member = json_get(json, "o", json_type_object);

        assert_int_equal(json_get_integer(member, "n"), 7);
        assert_ok(json_get_integer(json, "x"));
        assert_int_equal(json_get_time(json, "t"), 60);
        assert_int_equal(json_get_time(json, "x"), 0);
        assert_null(json_get(json, "o", json_type_array));
        assert_null(json_get(NULL, "o", json_type_object));
}

/* On one line, and without backslashes before slashes. */
TEST(test_to_text) {
        cleanup(json_object_put_p) json_object *json = json_tokener_parse("{ \"a\": [ \"b/c\" ] }");

        assert_string_equal(json_to_text(json), "{\"a\":[\"b/c\"]}");
}

static const struct LimitsRow {
        const char *text;
        size_t size;
        const char *why; /* NULL: it is read */
} limits_rows[] = {
        { "[[]]", 4, NULL },
        { "[[[]]]", 6, "nesting too deep" },
        { "[      ]", 8, NULL },
        { "[       ]", 9, "larger than 8 bytes" },
        { "[]\0[]", 5, "it has a NUL" },
        { "[]x", 3, "not valid JSON at byte 2" },
        { "", 0, "it ends too early" },
        { "[\"ü\"]", 6, NULL },
        { "[\"ü\xff\"]", 7, "not valid JSON at byte 4: not UTF-8" },
        { "[\"\xc3\"]", 5, "not valid JSON at byte 2: not UTF-8" },
        { "[\"\xed\xa0\x80\"]", 7, "not valid JSON at byte 2: not UTF-8" },
        { "\xe2\x82", 2, "not valid JSON at byte 0: not UTF-8" },
};

TEST_ROWS(test_limits, limits_rows, text, const struct LimitsRow *row) {
        cleanup(json_object_put_p) json_object *json = NULL;
        cleanup(error_done) Error error = ERROR_INIT;

        (void) json_parse_within(row->text, row->size, (JsonLimits){ .size = 8, .depth = 2 }, &json,
                                 &error);
        assert_int_equal(json != NULL, row->why == NULL);
        if (row->why)
                assert_contains(error_message(&error), row->why);
}

static const struct EmptyRow {
        const char *text;
        const char *emptied; /* NULL: it is as it is */
} empty_rows[] = {
        { "{\"m\":{\"l\":[{\"a\":[]},\"]}\",\"\\\"]\"],\"n\":1}}", "{\"m\":{\"l\":[],\"n\":1}}" },
        { "{\"m\":{\"l\":[]}}", "{\"m\":{\"l\":[]}}" },
        { "{\"m\":{\"l\":[1]},\"n\":{\"l\":[2]}}", "{\"m\":{\"l\":[]},\"n\":{\"l\":[]}}" },
        { "{\"m\":{\"l\":[1", "{\"m\":{\"l\":[]" },
        { "{\"m\":{\"l\":[", "{\"m\":{\"l\":[]" },
        { "{\"m\":{\"l\":[\"\\", "{\"m\":{\"l\":[]" },
        { "{\"m\":{\"l\":", NULL },
        { "{\"m\":{\"l", NULL },
        { "{\"m\":{\"l\":{\"a\":[1]}}}", NULL },
        { "{\"m\":{\"ll\":[1],\"\\\"l\":[1],\"a\":\"l\"}}", NULL },
        { "{\"m\":{\"a\":\"\\\"l\\\":[1]\"}}", NULL },
        { "{\"l\":[1],\"m\":{\"a\":{\"l\":[1]}}}", NULL },
        { "}}}{\"l\":[1]", NULL },
        { "", NULL },
};

/* The list is a member of an object at the second depth. */
TEST_ROWS(test_empty_lists, empty_rows, text, const struct EmptyRow *row) {
        cleanup(free_p) char *emptied = NULL;
        size_t size = 0;

        assert_ok(json_empty_lists(row->text, strlen(row->text), "l", 2, &emptied, &size));
        assert_int_equal(emptied != NULL, row->emptied != NULL);
        if (row->emptied) {
                assert_int_equal(size, strlen(row->emptied));
                assert_memory_equal(emptied, row->emptied, size);
        }
}

TEST(test_wipe) {
        cleanup(json_object_put_p) json_object *object = json_tokener_parse(
                "{\"a\":\"one\",\"b\":[\"two\",{\"c\":\"three\"}],\"d\":{\"e\":\"four\"},\"n\":7}");
        json_object *list = json_object_object_get(object, "b");
        json_object *const strings[] = {
                json_object_object_get(object, "a"),
                json_object_array_get_idx(list, 0),
                json_object_object_get(json_object_array_get_idx(list, 1), "c"),
                json_object_object_get(json_object_object_get(object, "d"), "e"),
        };

        json_wipe(object);
        for (size_t i = 0; i < N_ELEMENTS(strings); i++)
                for (int at = 0; at < json_object_get_string_len(strings[i]); at++)
                        assert_int_equal(json_object_get_string(strings[i])[at], '\0');
        assert_int_equal(json_object_get_string_len(strings[2]), 5);
        assert_int_equal(json_object_get_int(json_object_object_get(object, "n")), 7);
}
