/* SPDX-License-Identifier: Apache-2.0 */

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/ctl/view.h"

/* One JSON value and how it is written as YAML. */
static const struct Row {
        const char *json;
        const char *yaml;
} rows[] = {
        { "\"plain\"", "plain" },
        { "\"nginx:1.25\"", "nginx:1.25" },
        { "\"/run/x.sock\"", "/run/x.sock" },
        { "\"a: b\"", "'a: b'" },
        { "\"a #b\"", "'a #b'" },
        { "\"ends with:\"", "'ends with:'" },
        { "\"\"", "\"\"" },
        { "\"1.25\"", "\"1.25\"" },
        { "\"012\"", "\"012\"" },
        { "\"1e3\"", "\"1e3\"" },
        { "\"0x1f\"", "\"0x1f\"" },
        { "\".5\"", "\".5\"" },
        { "\".inf\"", "\".inf\"" },
        { "\"-1\"", "\"-1\"" },
        { "\"2024-05-01\"", "\"2024-05-01\"" },
        { "\"true\"", "\"true\"" },
        { "\"No\"", "\"No\"" },
        { "\"OFF\"", "\"OFF\"" },
        { "\"y\"", "\"y\"" },
        { "\"null\"", "\"null\"" },
        { "\"~\"", "\"~\"" },
        { "\"<<\"", "\"<<\"" },
        { "\"=\"", "\"=\"" },
        { "\"*alias\"", "\"*alias\"" },
        { "\"- item\"", "\"- item\"" },
        { "\"two\\nlines\"", "'two\n\n  lines'" },
        { "\"\\u001b[2J\"", "\"\\e[2J\"" },
        { "\"caf\xC3\xA9\"", "\"caf\\xE9\"" },
        { "1", "1" },
        { "-7", "-7" },
        { "0.5", "0.5" },
        { "true", "true" },
        { "null", "null" },
        { "[]", "[]" },
        { "{}", "{}" },
        { "[1, \"1\"]", "\n- 1\n- \"1\"" },
        { "{\"b\": {\"no\": [{\"c\": 1}]}}", "\n  b:\n    \"no\":\n    - c: 1" },
};

static void test_yaml(void **state) {
        const struct Row *row = *state;
        cleanup(free_p) char *json = NULL, *expected = NULL, *yaml = NULL;
        cleanup(json_put_p) json_object *tree = NULL;
        const char *space = row->yaml[0] == '\n' ? "" : " ";

        assert_true(asprintf(&json, "{\"k\": %s}", row->json) > 0);
        assert_true(asprintf(&expected, "k:%s%s\n", space, row->yaml) > 0);
        tree = json_tokener_parse(json);
        yaml = yaml_from_json(tree);
        assert_string_equal(yaml, expected);
}

static void test_json_obeys_no_terminal(void **state) {
        cleanup(json_put_p) json_object *tree = json_object_new_object();
        cleanup(free_p) char *text = NULL;

        json_object_object_add(tree, "k",
                               json_object_new_string("\x1b\x7f\xC2\x9B\xE2\x80\xAE\xFF/"
                                                      "caf\xC3\xA9 \xF3\xA0\x81\x81"));
        text = output_json(tree);
        assert_string_equal(text, "{\n  \"k\": \"\\u001b\\u007f\\u009b\\u202e\xEF\xBF\xBD/"
                                  "caf\xC3\xA9 \\udb40\\udc41\"\n}\n");
}

static void test_json_stays_the_same_value(void **state) {
        cleanup(json_put_p) json_object *tree = json_object_new_object(), *again = NULL;
        cleanup(free_p) char *text = NULL;

        json_object_object_add(tree, "k",
                               json_object_new_string("\x1b\x7f\xC2\x9B\"\\\xF3\xA0\x81\x81"));
        text = output_json(tree);
        again = json_tokener_parse(text);
        assert_true(json_object_equal(tree, again));
}

static void test_what_the_agent_sends_is_read(void **state) {
        static const char *const refused[] = { "", "[]", "null", "{", "\"x\"", "{\"a\": }" };
        cleanup(json_put_p) json_object *good = NULL;

        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
                cleanup(error_done) Error error = ERROR_INIT;
                json_object *tree = NULL;

                assert_true(output_parse(refused[i], &tree, &error) < 0);
                assert_int_equal(error.kind, ERROR_INTERNAL);
                assert_null(tree);
        }

        assert_int_equal(output_parse("{\"a\": \"\xFF\"}", &good, NULL), 0);
        assert_string_equal(json_object_get_string(json_object_object_get(good, "a")),
                            "\xEF\xBF\xBD");
}

/* The widest give way first, and none of those that may not. */
static void test_widths(void **state) {
        static const TableColumn fixed = { .title = "FIXED" },
                                 cut = { .title = "CUT", .may_be_cut = true };
        static const TableColumn *const columns[] = { &cut, &fixed, &cut };
        static const struct {
                size_t widths[3];
                size_t line_width;
                size_t expected[3];
        } cases[] = {
                { { 30, 20, 26 }, 80, { 30, 20, 26 } },
                { { 31, 20, 26 }, 80, { 30, 20, 26 } },
                { { 50, 20, 10 }, 80, { 46, 20, 10 } },
                { { 50, 20, 50 }, 80, { 28, 20, 28 } },
                { { 50, 20, 50 }, 30, { TABLE_CUT_WIDTH, 20, TABLE_CUT_WIDTH } },
                { { 3, 70, 99 }, 80, { 3, 70, TABLE_CUT_WIDTH } },
                { { 0, 0, 0 }, 0, { 0, 0, 0 } },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                size_t widths[3];

                memcpy(widths, cases[i].widths, sizeof(widths));
                table_fit_widths(widths, columns, 3, cases[i].line_width);
                assert_memory_equal(widths, cases[i].expected, sizeof(widths));
        }
}

int main(void) {
        struct CMUnitTest tests[sizeof(rows) / sizeof(rows[0]) + 4] = {
                cmocka_unit_test(test_json_obeys_no_terminal),
                cmocka_unit_test(test_json_stays_the_same_value),
                cmocka_unit_test(test_what_the_agent_sends_is_read),
                cmocka_unit_test(test_widths),
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                tests[4 + i] = (struct CMUnitTest){
                        .name = rows[i].json,
                        .test_func = test_yaml,
                        .initial_state = (void *) &rows[i],
                };

        if (!setlocale(LC_CTYPE, "C.UTF-8"))
                return EXIT_FAILURE;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
