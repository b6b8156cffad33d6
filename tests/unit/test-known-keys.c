/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Known keys: which keys of documents are named, and in which line
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json_object.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/document/known-keys.h"

#define UNKNOWN(key) key ": unknown key, ignored"

/* clang-format off */
static const KnownKey item_keys[] = { { .name = "name" }, { .name = "size" }, { .name = NULL } };
static const KnownKey any_keys[] = { { .name = "*", item_keys }, { .name = NULL } };
static const KnownKey many_keys[] = {
        { .name = "one", .is_any_case = true }, { .name = "two" }, { .name = "three" }, { .name = "four" },
        { .name = "five" }, { .name = "six" }, { .name = "seven" }, { .name = "eight" },
        { .name = "nine" }, { .name = NULL },
};

static const KnownKey root_keys[] = {
        { .name = "items", item_keys }, { .name = "map", any_keys }, { .name = "many", many_keys },
        { .name = "any" }, { .name = NULL },
};
/* clang-format on */

static const struct Row {
        const char *name;
        const char *text;
        const char *unknown; /* one after the other, each with a newline */
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
          "line 1: " UNKNOWN("other") "; known here: items, map, many, any\n"
                                      "line 5: " UNKNOWN("item") "; did you mean items?\n" },
        { "several documents", "any: 1\n---\n# nothing\n---\n\nanny: 2\n",
          "line 6: " UNKNOWN("anny") "; did you mean any?\n" },
        { "a document that is not checked", "skip: 1\nx: {y: z}\n---\nanny: 2\n",
          "line 4: " UNKNOWN("anny") "; did you mean any?\n" },
        { "an alias", "items: &a\n- sise: 1\n- {name: b}\nmap:\n  k: {nam: 1}\n---\nanny: 1\n",
          "line 2: " UNKNOWN(
                  "items[0].sise") "; did you mean size?\n"
                                   "line 5: " UNKNOWN(
                                           "map.k.nam") "; did you mean name?\n"
                                                        "line 7: " UNKNOWN(
                                                                "anny") "; did you mean any?\n" },
        { "what an alias stands for",
          "any: &a\n  sise: 1\n  name: b\nitems:\n- size: 1\n- *a\nmap:\n  k: {nam: 1}\n",
          "line 6: " UNKNOWN("items[1].sise") "; did you mean size?\n"
                                              "line 8: " UNKNOWN(
                                                      "map.k.nam") "; did you mean name?\n" },
        { "JSON in lines", "{\n  \"any\": \"a:\\\"b:\\nc\",\n\n  \"itmes\": [], \"x\":\n1}",
          "line 4: " UNKNOWN("itmes") "; did you mean items?\n"
                                      "line 4: " UNKNOWN(
                                              "x") "; known here: items, map, many, any\n" },
        { "JSON, twice", "{\"any\": {\"a\": {\"b\": []}}}\n{\"anny\": 1}",
          "line 2: " UNKNOWN("anny") "; did you mean any?\n" },
        { "control codes", "\"\\e[31m\": 1\n",
          "line 1: " UNKNOWN("[\"?[31m\"]") "; known here: items, map, many, any\n" },
        { "no object", "- any\n---\nany\n", "" },
};

static const KnownKey *known_in(struct json_object *document) {
        return json_get(document, "skip", json_type_int) ? NULL : root_keys;
}

static void check(const char *text, bool is_secret, UnknownKeys *ret) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        if (documents_parse(text, strlen(text), &documents, &error) < 0)
                fail_msg("%s", error_message(&error));
        assert_int_equal(known_keys_check(&documents, known_in, is_secret, ret), 0);
}

static void test_row(void **state) {
        const struct Row *row = *state;
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;
        char found[1024] = "";

        check(row->text, false, &unknown);
        assert_int_equal(unknown.n_texts, unknown.n_found);
        for (size_t i = 0; i < unknown.n_texts; i++)
                snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s\n",
                         unknown.texts[i]);
        assert_string_equal(found, row->unknown);
}

static void test_more_than_texts(void **state) {
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;
        char text[1024] = "";

        for (int i = 0; i < UNKNOWN_KEYS_MAX + 10; i++)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), "key-%d: 1\n", i);
        check(text, false, &unknown);
        assert_int_equal(unknown.n_texts, UNKNOWN_KEYS_MAX);
        assert_int_equal(unknown.n_found, UNKNOWN_KEYS_MAX + 10);
}

/* Neither a key that is unlike all known ones, nor those above it. */
static void test_secrets(void **state) {
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;

        check("map:\n  jo:hunter2@example:\n    sise: 1\n    hunter3: 2\n", true, &unknown);
        assert_int_equal(unknown.n_texts, 2);
        assert_string_equal(unknown.texts[0], "line 3: " UNKNOWN("sise") "; did you mean size?");
        assert_string_equal(unknown.texts[1],
                            "line 4: unknown key, ignored; known here: name, size");
}

static void test_any_case(void **state) {
        static const char text[] = "many: {ONE: 1}\nITEMS: []\n";
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;

        check(text, false, &unknown);
        assert_int_equal(unknown.n_texts, 1);
        assert_string_equal(unknown.texts[0],
                            "line 2: " UNKNOWN("ITEMS") "; known here: items, map, many, any");
}

int main(void) {
        const size_t n_rows = sizeof(rows) / sizeof(rows[0]);
        struct CMUnitTest tests[sizeof(rows) / sizeof(rows[0]) + 3];
        size_t n = 0;

        for (; n < n_rows; n++)
                tests[n] = (struct CMUnitTest){
                        .name = rows[n].name,
                        .test_func = test_row,
                        .initial_state = (void *) &rows[n],
                };
        tests[n++] = (struct CMUnitTest) cmocka_unit_test(test_more_than_texts);
        tests[n++] = (struct CMUnitTest) cmocka_unit_test(test_secrets);
        tests[n++] = (struct CMUnitTest) cmocka_unit_test(test_any_case);

        return _cmocka_run_group_tests("unknown keys of", tests, n, NULL, NULL);
}
