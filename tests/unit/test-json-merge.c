/* SPDX-License-Identifier: Apache-2.0 */

/*
 * JSON merge patch: the examples of RFC 7386, appendix A; and what makes bodies
 */

#include "tests/unit/unit.h"
#include <json-c/json.h>

#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"

static const struct ExamplesRow {
        const char *document;
        const char *patch;
        const char *result;
} examples[] = {
        { "{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}" },
        { "{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}" },
        { "{\"a\":\"b\"}", "{\"a\":null}", "{}" },
        { "{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}" },
        { "{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}" },
        { "{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}" },
        { "{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}" },
        { "{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}" },
        { "[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]" },
        { "{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]" },
        { "{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}" },
        { "[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}" },
        { "{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}" },
};

TEST_ROWS(test_examples, examples, document, const struct ExamplesRow *row) {
        json_object *document = json_tokener_parse(row->document);
        json_object *patch = json_tokener_parse(row->patch);

        assert_ok(json_merge_patch(&document, patch));
        assert_string_equal(json_object_to_json_string_ext(document, JSON_C_TO_STRING_PLAIN),
                            row->result);
        json_object_put(document);
        json_object_put(patch);
}

TEST(test_nothing_is_an_empty_document) {
        json_object *patch = json_tokener_parse("{\"a\":1}"), *document = NULL;

        assert_ok(json_merge_patch(&document, patch));
        json_object_put(patch);
        assert_string_equal(json_object_to_json_string_ext(document, JSON_C_TO_STRING_PLAIN),
                            "{\"a\":1}");
        json_object_put(document);
}

/* Steps have a value, or fail without one, but for those that remove. */
TEST(test_steps) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        assert_ok(patch_append_step(list, "add", "/a", json_object_new_int(1)));
        assert_ok(patch_append_step(list, "remove", "/b", NULL));
        assert_true(patch_append_step(list, "add", "/c", NULL) < 0);
        assert_true(patch_append_step(list, "add", NULL, json_object_new_int(1)) < 0);
        assert_string_equal(
                json_object_to_json_string_ext(list, JSON_C_TO_STRING_PLAIN |
                                                             JSON_C_TO_STRING_NOSLASHESCAPE),
                "[{\"op\":\"add\",\"path\":\"/a\",\"value\":1},{\"op\":\"remove\",\"path\":\"/b\"}]");
}

/* Without memory for the object or the value, the value goes. */
TEST(test_additions) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();

        assert_true(patch_add(NULL, "a", json_object_new_int(1)) < 0);
        assert_true(patch_append(NULL, json_object_new_int(1)) < 0);
        assert_true(patch_add_null(NULL, "a") < 0);
        assert_true(patch_add(object, "a", NULL) < 0);
        assert_ok(patch_add_filled(object, "a", NULL));
        assert_ok(patch_add_filled(object, "a", ""));
        assert_ok(patch_add_filled(object, "b", "c"));
        assert_string_equal(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN),
                            "{\"b\":\"c\"}");
}
