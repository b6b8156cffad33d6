/* SPDX-License-Identifier: Apache-2.0 */

/*
 * JSON merge patch: the examples of RFC 7386, appendix A
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "agent/document/json-patch.h"

static const struct {
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

static void test_examples(void **state) {
        for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
                json_object *document = json_tokener_parse(examples[i].document);
                json_object *patch = json_tokener_parse(examples[i].patch);

                assert_int_equal(json_merge_patch(&document, patch), 0);
                assert_string_equal(json_object_to_json_string_ext(document,
                                                                   JSON_C_TO_STRING_PLAIN),
                                    examples[i].result);
                json_object_put(document);
                json_object_put(patch);
        }
}

static void test_nothing_is_an_empty_document(void **state) {
        json_object *patch = json_tokener_parse("{\"a\":1}"), *document = NULL;

        assert_int_equal(json_merge_patch(&document, patch), 0);
        json_object_put(patch);
        assert_string_equal(json_object_to_json_string_ext(document, JSON_C_TO_STRING_PLAIN),
                            "{\"a\":1}");
        json_object_put(document);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_examples),
                cmocka_unit_test(test_nothing_is_an_empty_document),
        };

        return cmocka_run_group_tests_name("json merge patch", tests, NULL, NULL);
}
