/* SPDX-License-Identifier: Apache-2.0 */

/*
 * JSON with each allocation failing: it is whole, or there was no memory, but nothing is missing
 */

#include <json-c/json.h>

#include "agent/document/documents.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/unit.h"

#define TEN "0123456789"
#define QUOTED "\\\"a\\\":\\\"b\\\","

/* The table of an object is made larger for its eleventh member, and a buffer for a string or number of more than 32 bytes.
 * Behind each of them is a number, which clears errno. */
/* clang-format off */
static const struct WholeRow {
        const char *text;
} whole[] = {
        { "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":10,\"k\":11,\"l\":12,\"m\":13}" },
        { "{\"a\":\"x\",\"b\":\"x\",\"c\":\"x\",\"d\":{},\"e\":[],\"f\":6,\"g\":true,\"h\":\"x\",\"i\":\"x\",\"j\":\"x\","
          "\"k\":{\"a\":[\"x\",{\"b\":\"" TEN TEN TEN TEN TEN "\"}]},\"l\":[-1,2,3],\"m\":\"x\",\"n\":2.5}" },
        { "[{\"a\":\"" QUOTED QUOTED QUOTED QUOTED QUOTED QUOTED QUOTED QUOTED "\"},7,{\"b\":8},9]" },
        { "{\"" TEN TEN TEN TEN TEN "\":0,\"a\":[]}" },
        { "[0." TEN TEN TEN TEN TEN ",1]" },
        { "[\"x\",0." TEN TEN TEN ",1]" },
        { "[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34],35]" },
        { "{\"a\":null,\"b\":[null,{\"c\":null}],\"d\":1}" },
};
/* clang-format on */

static void assert_whole(json_object *json, const char *text) {
        assert_non_null(json);
        assert_string_equal(json_to_text(json), text);
}

TEST_ROWS(test_parse, whole, text, const struct WholeRow *row) {
        bool has_failed;

        do {
                cleanup(json_object_put_p) json_object *json = NULL;
                int r;

                failing_memory_begin();
                r = json_parse(row->text, strlen(row->text), &json, NULL);
                has_failed = failing_memory_end();
                if (r < 0)
                        assert_true(has_failed && r == -ENOMEM);
                else
                        assert_whole(json, row->text);
        } while (has_failed);
}

TEST_ROWS(test_documents, whole, text, const struct WholeRow *row) {
        bool has_failed;

        do {
                cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
                int r;

                failing_memory_begin();
                r = documents_parse(row->text, strlen(row->text), &documents, NULL);
                has_failed = failing_memory_end();
                if (r < 0) {
                        assert_true(has_failed && r == -ENOMEM);
                        continue;
                }
                assert_int_equal(documents.n_items, 1);
                assert_whole(documents.items[0], row->text);
        } while (has_failed);
}

TEST_ROWS(test_to_text, whole, text, const struct WholeRow *row) {
        bool has_failed;

        do {
                cleanup(json_object_put_p) json_object *json = json_tokener_parse(row->text);
                const char *text;

                failing_memory_begin();
                text = json_to_text(json);
                has_failed = failing_memory_end();
                assert_true(text || has_failed);
                if (text)
                        assert_string_equal(text, row->text);
        } while (has_failed);
}

TEST_ROWS(test_copy, whole, text, const struct WholeRow *row) {
        cleanup(json_object_put_p) json_object *json = json_tokener_parse(row->text);
        bool has_failed;

        do {
                cleanup(json_object_put_p) json_object *copy = NULL;

                failing_memory_begin();
                copy = json_copy(json);
                has_failed = failing_memory_end();
                assert_true(copy || has_failed);
                if (copy)
                        assert_whole(copy, row->text);
        } while (has_failed);
}

TEST(test_merge_patch) {
        cleanup(json_object_put_p) json_object *patch =
                json_tokener_parse("{\"a\":{\"b\":2,\"c\":null},\"d\":[1]}");
        bool has_failed;

        do {
                cleanup(json_object_put_p) json_object *json =
                        json_tokener_parse("{\"a\":{\"c\":\"x\"},\"e\":\"y\"}");
                int r;

                failing_memory_begin();
                r = json_merge_patch(&json, patch);
                has_failed = failing_memory_end();
                if (r < 0)
                        assert_true(has_failed && r == -ENOMEM);
                else
                        assert_whole(json, "{\"a\":{\"b\":2},\"e\":\"y\",\"d\":[1]}");
        } while (has_failed);
}

/* Once it was parsed, it is there without memory, and a copy of the text is a text. */
TEST(test_inner) {
        cleanup(json_object_put_p) json_object *json =
                json_tokener_parse("{\"a\":\"{\\\"b\\\":[1]}\",\"c\":\"{\",\"d\":1}");
        json_object *text = json_get(json, "a", json_type_string), *inner = NULL;
        cleanup(json_object_put_p) json_object *copy = NULL;
        bool has_failed;
        int r;

        do {
                failing_memory_begin();
                r = json_parse_inner(text, &inner);
                has_failed = failing_memory_end();
                assert_true(r == 0 || (has_failed && r == -ENOMEM && !inner));
        } while (r < 0);
        assert_whole(inner, "{\"b\":[1]}");

        failing_memory.nth = 0;
        failing_memory_begin();
        assert_ok(json_parse_inner(text, &inner));
        assert_false(failing_memory_end());
        assert_whole(inner, "{\"b\":[1]}");

        assert_ok(json_parse_inner(json_get(json, "c", json_type_string), &inner));
        assert_null(inner);
        assert_ok(json_parse_inner(json_get(json, "d", json_type_int), &inner));
        assert_null(inner);

        copy = json_copy(json);
        assert_true(json_object_equal(copy, json));
        assert_null(json_object_get_userdata(json_get(copy, "a", json_type_string)));
}
