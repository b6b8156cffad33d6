/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Documents: what a text means, and how it is refused
 */

#include "tests/unit/unit.h"
#include <json-c/json_object.h>

#include "agent/document/documents.h"

#define ZEROS_60 "000000000000000000000000000000000000000000000000000000000000"

#define TEXT(s) .text = (s), .size = sizeof(s) - 1

/* clang-format off */
/* The documents as JSON, with a blank between two of them; or else the refusal. */
static const struct Story {
        const char *name;
        const char *text;
        size_t size;
        const char *json;
        const char *refusal;
} stories[] = {
        { "nothing", TEXT(""), .json = "" },
        { "comments only", TEXT("# a\n---\n# b\n---\n"), .json = "" },
        { "null", TEXT("null\n---\n~\n"), .json = "" },
        { "a mapping", TEXT("a: b\nc: [1, x]\n"), .json = "{\"a\":\"b\",\"c\":[1,\"x\"]}" },
        { "several documents", TEXT("---\na: 1\n---\n---\nb: 2\n...\n"),
          .json = "{\"a\":1} {\"b\":2}" },
        { "a scalar", TEXT("hello"), .json = "\"hello\"" },
        { "an empty mapping", TEXT("{}"), .json = "{}" },
        { "a byte order mark", TEXT("\xef\xbb\xbf" "a: 1\n"), .json = "{\"a\":1}" },
        { "carriage returns", TEXT("a: 1\r\nb: 2\r\n"), .json = "{\"a\":1,\"b\":2}" },
        { "a version directive", TEXT("%YAML 1.2\n---\na: 1\n"), .json = "{\"a\":1}" },
        { "a block of text", TEXT("a: |\n  x\n  y\n"), .json = "{\"a\":\"x\\ny\\n\"}" },
        { "booleans", TEXT("[true, True, yes, on, y, false, No, OFF, n, yES, tRue]"),
          .json = "[true,true,true,true,true,false,false,false,false,\"yES\",\"tRue\"]" },
        { "nulls", TEXT("[null, Null, NULL, ~, nUll, '']"),
          .json = "[null,null,null,null,\"nUll\",\"\"]" },
        { "integers", TEXT("[0, -1, +2, 0x1F, 0X1f, 0o17, 0O17, 017, 0b101, 0B101, 1_000, -0x10]"),
          .json = "[0,-1,2,31,31,15,15,15,5,5,1000,-16]" },
        { "no integers", TEXT("[0x, 0o8, 0b2, 1-2, +-1, _1, 1:30, -, +, 1.2.3, 0xg]"),
          .json = "[\"0x\",\"0o8\",\"0b2\",\"1-2\",\"+-1\",\"_1\",\"1:30\",\"-\",\"+\",\"1.2.3\","
          "\"0xg\"]" },
        { "large integers",
          TEXT( "[9223372036854775807, 9223372036854775808, 99999999999999999999, "
          "-99999999999999999999]" ),
          .json = "[9223372036854775807,9223372036854775808,18446744073709551615,"
          "-9223372036854775808]" },
        { "floats", TEXT("[1.5, -1.25, 1.10, 01.5, 1e3, .5, 0e1, 08]"),
          .json = "[1.5,-1.25,1.10,1.5,1000.0,0.5,0.0,8.0]" },
        { "no floats", TEXT("[., .e1, 1e, 1e+, 1.5x, .inf, .nan, 1e999]"),
          .json = "[\".\",\".e1\",\"1e\",\"1e+\",\"1.5x\",\".inf\",\".nan\",\"1e999\"]" },
        { "numbers as long as numbers get, and short ones behind them",
          TEXT("[" ZEROS_60 "123, 7, " ZEROS_60 "_1__23, 0x" ZEROS_60 "f, 8, 1." ZEROS_60 "5, 9]"),
          .json = "[83,7,83,15,8,1." ZEROS_60 "5,9]" },
        { "longer numbers", TEXT("[" ZEROS_60 "1234, 0x" ZEROS_60 "ff, 0." ZEROS_60 "25]"),
          .json = "[\"" ZEROS_60 "1234\",\"0x" ZEROS_60 "ff\",\"0." ZEROS_60 "25\"]" },
        { "a time", TEXT("t: 2026-01-31T12:00:00Z"), .json = "{\"t\":\"2026-01-31T12:00:00Z\"}" },
        { "quotes", TEXT("['1', \"true\", 'it''s', \"\\u00e9\"]"),
          .json = "[\"1\",\"true\",\"it's\",\"é\"]" },
        { "tags", TEXT("[!!str 1, !!str true, !!int 7, !!float 7, !!bool on, !!null ~]"),
          .json = "[\"1\",\"true\",7,7.0,true,null]" },
        { "tags of containers", TEXT("!!map {a: !!seq [1]}"), .json = "{\"a\":[1]}" },
        { "keys are what is written", TEXT("{1: a, true: b, y: c, 'd': e, '': f}"),
          .json = "{\"1\":\"a\",\"true\":\"b\",\"y\":\"c\",\"d\":\"e\",\"\":\"f\"}" },
        { "JSON with tabs", TEXT("\t{\n\t\"a\":\t1\n}\n"), .json = "{\"a\":1}" },
        { "JSON with a pair of surrogates", TEXT("{\"a\":\"\\ud83d\\ude00\"}"),
          .json = "{\"a\":\"😀\"}" },
        { "JSON with a colon on the next line", TEXT("{\"a\"\n:1}"), .json = "{\"a\":1}" },
        { "JSON with large numbers", TEXT("[9223372036854775807,18446744073709551615,1e3,-0]"),
          .json = "[9223372036854775807,18446744073709551615,1e3,0]" },
        { "JSON, several times", TEXT("{\"a\":1}\n{\"b\":2}[3]"),
          .json = "{\"a\":1} {\"b\":2} [3]" },
        { "JSON between YAML", TEXT("{\"a\":1}\n---\nb: 2\n"), .json = "{\"a\":1} {\"b\":2}" },
        { "colons and brackets in JSON strings", TEXT("{\"a:b,{[\":\":\\\"]\"}"),
          .json = "{\"a:b,{[\":\":\\\"]\"}" },
        { "a YAML flow that is no JSON", TEXT("{a: yes, 'b': [1, ], # c\n d: .inf}"),
          .json = "{\"a\":true,\"b\":[1],\"d\":\".inf\"}" },
        { "an alias", TEXT("a: &x {b: 1}\nc: *x\n"), .json = "{\"a\":{\"b\":1},\"c\":{\"b\":1}}" },
        { "an alias of a null", TEXT("a: &x\nc: *x\n"), .json = "{\"a\":null,\"c\":null}" },
        { "an anchor again", TEXT("[&x 1, *x, &x 2, *x]"), .json = "[1,1,2,2]" },
        { "an alias of another document", TEXT("a: &x 1\n---\nb: *x\n"),
          .refusal = "line 3, column 4: there is no anchor \"x\" before this alias" },
        { "an alias inside its anchor", TEXT("a: &x [1, *x]\n"),
          .refusal = "line 1, column 11: there is no anchor \"x\" before this alias" },
        { "a wrong indentation", TEXT("a:\n  b: 1\n c: 2\n"),
          .refusal = "line 3, column 2: did not find expected key" },
        { "a tab as indentation", TEXT("a:\n\tb: 1\n"),
          .refusal = "line 2, column 1: found character that cannot start any token; YAML allows "
          "no tab here" },
        { "a tab behind other characters", TEXT("\303\244: 1\nb:\n\tc: 1\n"),
          .refusal = "line 3, column 1: found character that cannot start any token; YAML allows "
          "no tab here" },
        { "another character in its place", TEXT("a: 1\nb: @\n"),
          .refusal = "line 2, column 4: found character that cannot start any token" },
        { "an open bracket", TEXT("a: [1, 2\n"),
          .refusal = "line 2, column 1: did not find expected ',' or ']'" },
        { "JSON that ends early", TEXT("{\"a\":{\"b\":1}"),
          .refusal = "line 2, column 1: did not find expected ',' or '}'" },
        { "an error in the second document", TEXT("a: 1\n---\nb: 'x\n"),
          .refusal = "line 4, column 1: found unexpected end of stream" },
        { "the same key again", TEXT("a: 1\nb:\n  c: 1\n  c: 2\n"),
          .refusal = "line 4, column 3: the key \"c\" is given twice" },
        { "the same key again in JSON", TEXT("{\"a\":1,\n \"a\":2}"),
          .refusal = "line 2, column 2: the key \"a\" is given twice" },
        { "the same key, differently written", TEXT("{\"a\":1,\n \"\\u0061\":2}"),
          .refusal = "line 2, column 2: the key \"a\" is given twice" },
        { "a key that would break the line", TEXT("? \"a\\n\\\"b\"\n: 1\n? \"a\\n\\\"b\"\n: 2\n"),
          .refusal = "line 3, column 3: the key \"a?\\\"b\" is given twice" },
        { "a merge key", TEXT("a: &x {b: 1}\nc:\n  <<: *x\n"),
          .refusal = "line 3, column 3: merge keys (<<) are not supported" },
        { "a mapping as a key", TEXT("? {a: 1}\n: 2\n"),
          .refusal = "line 1, column 3: a key has to be a scalar" },
        { "an unknown tag", TEXT("a: !!binary aGk=\n"),
          .refusal = "line 1, column 4: the tag \"tag:yaml.org,2002:binary\" is not supported" },
        { "a tag that lies", TEXT("a: !!int x\n"),
          .refusal = "line 1, column 4: \"x\" does not fit its tag" },
        { "bytes that are not UTF-8", TEXT("a: é\nb: \xff\n"),
          .refusal = "line 2, column 4: this is not UTF-8" },
        { "an overlong sequence in JSON", TEXT("{\"é\":\"\xc0\x80\"}"),
          .refusal = "line 1, column 7: this is not UTF-8" },
        { "an encoded surrogate", TEXT("a: \xed\xa0\x80\n"),
          .refusal = "line 1, column 4: this is not UTF-8" },
        { "UTF-8 that ends early", TEXT("a: \xe2\x82"),
          .refusal = "line 1, column 4: this is not UTF-8" },
        { "a NUL", TEXT("a: é\nb: x\0y\n"),
          .refusal = "line 2, column 5: control characters are not allowed" },
        { "an escaped NUL", TEXT("a: \"x\\0y\"\n"),
          .refusal = "line 1, column 4: a string cannot have a NUL in it" },
        { "an escaped NUL in JSON", TEXT("{\"a\\u0000b\":1}"),
          .refusal = "line 1, column 2: a string cannot have a NUL in it" },
};
/* clang-format on */

static char *to_json(const Documents *documents) {
        char *all = strdup("");

        for (size_t i = 0; i < documents->n_items; i++) {
                char *longer = NULL;

                assert_true(asprintf(&longer, "%s%s%s", all, i > 0 ? " " : "",
                                     json_object_to_json_string_ext(
                                             documents->items[i],
                                             JSON_C_TO_STRING_PLAIN |
                                                     JSON_C_TO_STRING_NOSLASHESCAPE)) >= 0);
                free(all);
                all = longer;
        }

        return all;
}

TEST_ROWS(test_story, stories, name, const struct Story *story) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *json = NULL;
        int r;

        r = documents_parse(story->text, story->size, &documents, &error);
        if (story->refusal) {
                assert_int_equal(error.kind, ERROR_INVALID);
                assert_string_equal(error_message(&error), story->refusal);
                assert_true(r < 0);
                assert_int_equal(documents.n_items, 0);
                return;
        }

        if (r < 0)
                fail_msg("%s", error_message(&error));
        json = to_json(&documents);
        assert_string_equal(json, story->json);
}

static void assert_refused(const char *text, size_t size, const char *refusal) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        assert_true(documents_parse(text, size, &documents, &error) < 0);
        assert_string_equal(error_message(&error), refusal);
}

static void assert_taken(const char *text, size_t size) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        if (documents_parse(text, size, &documents, &error) < 0)
                fail_msg("%s", error_message(&error));
        assert_int_equal(documents.n_items, 1);
}

static char *repeat(const char *first, const char *text, size_t n, const char *last) {
        char *all = malloc(strlen(first) + n * strlen(text) + strlen(last) + 1), *to = all;

        to = stpcpy(to, first);
        for (size_t i = 0; i < n; i++)
                to = stpcpy(to, text);
        strcpy(to, last);
        return all;
}

TEST(test_depth) {
        char text[2 * (DOCUMENTS_DEPTH_MAX + 1)];

        for (size_t depth = DOCUMENTS_DEPTH_MAX; depth <= DOCUMENTS_DEPTH_MAX + 1; depth++) {
                memset(text, '[', depth);
                memset(text + depth, ']', depth);
                if (depth <= DOCUMENTS_DEPTH_MAX)
                        assert_taken(text, 2 * depth);
                else
                        assert_refused(text, 2 * depth,
                                       "line 1, column 65: more than 64 levels deep");
        }
}

TEST(test_number_of_values) {
        cleanup(free_p) char *json = repeat("[1", ",1", DOCUMENTS_VALUES_MAX - 2, "]");
        cleanup(free_p) char *yaml = repeat("", "- 1\n", DOCUMENTS_VALUES_MAX - 1, "");
        cleanup(free_p) char *aliases = repeat("- &a 1\n", "- *a\n", DOCUMENTS_VALUES_MAX - 2, "");
        cleanup(free_p) char *more_json = repeat("[1", ",1", DOCUMENTS_VALUES_MAX, "]");
        cleanup(free_p) char *more_yaml = repeat("", "- 1\n", DOCUMENTS_VALUES_MAX, "");

        assert_taken(json, strlen(json));
        assert_taken(yaml, strlen(yaml));
        assert_taken(aliases, strlen(aliases));
        assert_refused(more_json, strlen(more_json), "has more than 200000 values");
        assert_refused(more_yaml, strlen(more_yaml),
                       "line 200000, column 3: more than 200000 values");
}

TEST(test_size) {
        cleanup(free_p) char *text = malloc(DOCUMENTS_SIZE_MAX + 1);

        memset(text, 'x', DOCUMENTS_SIZE_MAX + 1);
        assert_taken(text, DOCUMENTS_SIZE_MAX);
        assert_refused(text, DOCUMENTS_SIZE_MAX + 1, "is larger than 4 MiB");
}

/* Ten aliases of ten aliases of ten ... take no time and no memory. */
TEST(test_aliases_count_as_copies) {
        cleanup(free_p) char *wide = strdup("a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n");
        cleanup(free_p) char *deep = strdup("- &a0 [1]\n");
        cleanup(free_p) char *large = repeat("- &a ", "x", (1 << 20), "\n- [*a,*a,*a]\n- *a\n");

        for (int i = 1; i < 10; i++) {
                char *longer = NULL;

                assert_true(
                        asprintf(
                                &longer,
                                "%sa%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n",
                                wide, i, i, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1,
                                i - 1, i - 1) >= 0);
                free(wide);
                wide = longer;
        }
        assert_refused(wide, strlen(wide), "line 6, column 10: more than 200000 values");

        for (int i = 1; i < 70; i++) {
                char *longer = NULL;

                assert_true(asprintf(&longer, "%s- &a%d [*a%d]\n", deep, i, i - 1) >= 0);
                free(deep);
                deep = longer;
        }
        assert_refused(deep, strlen(deep), "line 64, column 9: more than 64 levels deep");

        assert_refused(large, strlen(large), "line 3, column 3: more than 4 MiB of text");
}

TEST(test_number_of_anchors) {
        cleanup(free_p) char *some = repeat("", "- &a 1\n", 256, "");
        cleanup(free_p) char *more = repeat("", "- &a 1\n", 257, "");

        assert_taken(some, strlen(some));
        assert_refused(more, strlen(more), "line 257, column 3: more than 256 anchors");
}

/* libyaml takes minutes for a text that has nothing else. */
TEST(test_number_of_directives) {
        cleanup(free_p) char *text = NULL;
        cleanup(free_p) char *line = repeat("", "%TAG !x! x\n", 200000, "--- 1\n");

        assert_true(asprintf(&text, "%%TAG !a! a\n--- 1\n...\n%s", line) >= 0);
        assert_refused(text, strlen(text), "line 67, column 1: too many %TAG directives");
}

/* A text that is cut anywhere is taken or refused, and never read beyond its end. */
TEST(test_cut_anywhere) {
        for (size_t i = 0; i < N_ELEMENTS(stories); i++)
                for (size_t size = 0; size <= stories[i].size; size++) {
                        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
                        cleanup(error_done) Error error = ERROR_INIT;
                        cleanup(free_p) char *text = malloc(size + (size == 0));
                        int r;

                        memcpy(text, stories[i].text, size);
                        r = documents_parse(text, size, &documents, &error);
                        assert_int_equal(r < 0, error.kind == ERROR_INVALID);
                }
}
