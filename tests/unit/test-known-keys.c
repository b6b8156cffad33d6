/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Known keys: which keys of documents are named, and in which line
 */

#include "tests/unit/unit.h"

#include "agent/document/json-reader.h"
#include "agent/document/known-keys.h"

#define UNKNOWN(key) key ": unknown key, ignored"

/* clang-format off */
static const JsonField item_keys[] = { { .key = "name" }, { .key = "size" }, { .key = NULL } };
static const JsonField any_keys[] = { { .key = "*", .fields = item_keys }, { .key = NULL } };
static const JsonField many_keys[] = {
        { .key = "one", .is_any_case = true }, { .key = "two" }, { .key = "three" }, { .key = "four" },
        { .key = "five" }, { .key = "six" }, { .key = "seven" }, { .key = "eight" },
        { .key = "nine" }, { .key = NULL },
};

static const JsonField root_keys[] = {
        { .key = "items", .fields = item_keys }, { .key = "map", .fields = any_keys }, { .key = "many", .fields = many_keys },
        { .key = "any" }, { .key = NULL },
};
/* clang-format on */

/* clang-format off */
static const struct Row {
        const char *name;
        const char *text;
        const char *unknown; /* unknown keys, each with a newline */
} rows[] = {
        { "nothing unknown", "items: [{name: a, size: 1}]\nany: {x: {y: z}}\nmap: {k: {name: b}}\n",
          "" },
        { "a mistyped key", "any: 1\nitmes: []\n",
          "line 2: " UNKNOWN("itmes") "; did you mean items?\n" },
        { "a key in other letters", "Items: []\n",
          "line 1: " UNKNOWN("Items") "; did you mean items?\n" },
        { "a key in a list", "items:\n- name: a\n- name: b\n  sise: 2\n",
          "line 4: " UNKNOWN("items[1].sise") "; did you mean size?\n" },
        { "a key below any other", "map:\n  \"a.b\":\n    nam: x\n",
          "line 3: " UNKNOWN("map[\"a.b\"].nam") "; did you mean name?\n" },
        { "a key like no other", "items:\n- colour: red\n",
          "line 2: " UNKNOWN("items[0].colour") "; known here: name, size\n" },
        { "a key where many are known", "many:\n  fourteen: red\n",
          "line 2: " UNKNOWN("many.fourteen") "\n" },
        { "what is below an unknown key",
          "other:\n  items:\n  - sise: 1\n    deep: {er: 2}\nitem: 1\n",
          "line 1: " UNKNOWN( "other" ) "; known here: items, map, many, any\n" "line 5: " UNKNOWN(
          "item" ) "; did you mean items?\n" },
        { "several documents", "any: 1\n---\n# nothing\n---\n\nanny: 2\n",
          "line 6: " UNKNOWN("anny") "; did you mean any?\n" },
        { "a document that is not checked", "skip: 1\nx: {y: z}\n---\nanny: 2\n",
          "line 4: " UNKNOWN("anny") "; did you mean any?\n" },
        { "an alias", "items: &a\n- sise: 1\n- {name: b}\nmap:\n  k: {nam: 1}\n---\nanny: 1\n",
          "line 2: " UNKNOWN( "items[0].sise" ) "; did you mean size?\n" "line 5: " UNKNOWN(
          "map.k.nam" ) "; did you mean name?\n" "line 7: " UNKNOWN( "anny" )
          "; did you mean any?\n" },
        { "what an alias stands for",
          "any: &a\n  sise: 1\n  name: b\nitems:\n- size: 1\n- *a\nmap:\n  k: {nam: 1}\n",
          "line 6: " UNKNOWN( "items[1].sise" ) "; did you mean size?\n" "line 8: " UNKNOWN(
          "map.k.nam" ) "; did you mean name?\n" },
        { "JSON in lines", "{\n  \"any\": \"a:\\\"b:\\nc\",\n\n  \"itmes\": [], \"x\":\n1}",
          "line 4: " UNKNOWN( "itmes" ) "; did you mean items?\n" "line 4: " UNKNOWN( "x" )
          "; known here: items, map, many, any\n" },
        { "JSON, twice", "{\"any\": {\"a\": {\"b\": []}}}\n{\"anny\": 1}",
          "line 2: " UNKNOWN("anny") "; did you mean any?\n" },
        { "control codes", "\"\\e[31m\": 1\n",
          "line 1: " UNKNOWN("[\"?[31m\"]") "; known here: items, map, many, any\n" },
        { "no object", "- any\n---\nany\n", "" },
};
/* clang-format on */

static const JsonField *known_in(struct json_object *document) {
        return json_get(document, "skip", json_type_int) ? NULL : root_keys;
}

static void check(const char *text, bool is_secret, UnknownKeys *ret) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        if (documents_parse(text, strlen(text), &documents, &error) < 0)
                fail_msg("%s", error_message(&error));
        assert_ok(known_keys_check(&documents, known_in, is_secret, ret));
}

TEST_ROWS(test_row, rows, name, const struct Row *row) {
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;
        char found[1024] = "";

        check(row->text, false, &unknown);
        assert_int_equal(unknown.n_texts, unknown.n_found);
        for (size_t i = 0; i < unknown.n_texts; i++)
                snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s\n",
                         unknown.texts[i]);
        assert_string_equal(found, row->unknown);
}

TEST(test_more_than_texts) {
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;
        char text[1024] = "";

        for (int i = 0; i < UNKNOWN_KEYS_MAX + 10; i++)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), "key-%d: 1\n", i);
        check(text, false, &unknown);
        assert_int_equal(unknown.n_texts, UNKNOWN_KEYS_MAX);
        assert_int_equal(unknown.n_found, UNKNOWN_KEYS_MAX + 10);
}

/* A key that is unlike all known ones gets no suggestion, nor do those above it. */
TEST(test_secrets) {
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;

        check("map:\n  jo:hunter2@example:\n    sise: 1\n    hunter3: 2\n", true, &unknown);
        assert_int_equal(unknown.n_texts, 2);
        assert_string_equal(unknown.texts[0], "line 3: " UNKNOWN("sise") "; did you mean size?");
        assert_string_equal(unknown.texts[1],
                            "line 4: unknown key, ignored; known here: name, size");
}

TEST(test_any_case) {
        static const char text[] = "many: {ONE: 1}\nITEMS: []\n";
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;

        check(text, false, &unknown);
        assert_int_equal(unknown.n_texts, 1);
        assert_string_equal(unknown.texts[0],
                            "line 2: " UNKNOWN("ITEMS") "; known here: items, map, many, any");
}
