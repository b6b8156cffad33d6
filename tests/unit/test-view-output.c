/* SPDX-License-Identifier: Apache-2.0 */

#include <locale.h>

#include "agent/document/json-cleanup.h"
#include "agent/view/output.h"
#include "agent/view/table.h"
#include "tests/unit/unit.h"

/* A JSON value and its YAML form. */
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

TEST_ROWS(test_yaml, rows, json, const struct Row *row) {
        cleanup(free_p) char *json = NULL, *expected = NULL, *yaml = NULL;
        cleanup(json_object_put_p) json_object *tree = NULL;
        const char *space = row->yaml[0] == '\n' ? "" : " ";

        assert_true(asprintf(&json, "{\"k\": %s}", row->json) > 0);
        assert_true(asprintf(&expected, "k:%s%s\n", space, row->yaml) > 0);
        tree = json_tokener_parse(json);
        yaml = yaml_from_json(tree);
        assert_string_equal(yaml, expected);
}

TEST(test_json_obeys_no_terminal) {
        cleanup(json_object_put_p) json_object *tree = json_object_new_object();
        cleanup(free_p) char *text = NULL;

        json_object_object_add(tree, "k",
                               json_object_new_string("\x1b\x7f\xC2\x9B\xE2\x80\xAE\xFF/"
                                                      "caf\xC3\xA9 \xF3\xA0\x81\x81"));
        text = output_json(tree);
        assert_string_equal(text, "{\n  \"k\": \"\\u001b\\u007f\\u009b\\u202e\xEF\xBF\xBD/"
                                  "caf\xC3\xA9 \\udb40\\udc41\"\n}\n");
}

TEST(test_json_stays_the_same_value) {
        cleanup(json_object_put_p) json_object *tree = json_object_new_object(), *again = NULL;
        cleanup(free_p) char *text = NULL;

        json_object_object_add(tree, "k",
                               json_object_new_string("\x1b\x7f\xC2\x9B\"\\\xF3\xA0\x81\x81"));
        text = output_json(tree);
        again = json_tokener_parse(text);
        assert_true(json_object_equal(tree, again));
}

/* The emitter of YAML refuses such bytes. */
TEST(test_yaml_of_bytes_that_are_not_utf8) {
        cleanup(json_object_put_p) json_object *tree = json_object_new_object();
        cleanup(free_p) char *text = NULL;

        json_object_object_add(tree, "k", json_object_new_string("a\xFF"));
        text = yaml_from_json(tree);
        assert_non_null(text);
        assert_string_equal(text, "k: \"a\\uFFFD\"\n");
}

TEST(test_what_the_agent_sends_is_read) {
        static const char *const refused[] = { "", "[]", "null", "{", "\"x\"", "{\"a\": }" };
        cleanup(json_object_put_p) json_object *good = NULL;

        for (size_t i = 0; i < N_ELEMENTS(refused); i++) {
                cleanup(error_done) Error error = ERROR_INIT;
                json_object *tree = NULL;

                assert_true(output_parse(refused[i], &tree, &error) < 0);
                assert_int_equal(error.kind, ERROR_INTERNAL);
                assert_null(tree);
        }

        assert_ok(output_parse("{\"a\": \"\xFF\"}", &good, NULL));
        assert_string_equal(json_object_get_string(json_object_object_get(good, "a")),
                            "\xEF\xBF\xBD");
}

/* The widest columns give way first, and fixed columns do not. */
TEST(test_widths) {
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

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                size_t widths[3];

                memcpy(widths, cases[i].widths, sizeof(widths));
                table_fit_widths(widths, columns, 3, cases[i].line_width);
                assert_memory_equal(widths, cases[i].expected, sizeof(widths));
        }
}

int main(void) {
        if (!setlocale(LC_CTYPE, "C.UTF-8"))
                return EXIT_FAILURE;
        return unit_run();
}

/* A cell is replaced before the table is printed; the others stay. */
TEST(test_cell_is_replaced) {
        static const TableColumn columns[] = { { .title = "NAME" }, { .title = "STATE" } };
        cleanup(table_free_p) Table *table = NULL;
        char text[64] = "";
        FILE *file = fmemopen(text, sizeof(text), "w");

        assert_non_null(file);
        assert_ok(table_new(columns, 2, false, &table));
        assert_ok(table_add_row(table, (const char *const[]){ "a", "waits" }));
        assert_ok(table_add_row(table, (const char *const[]){ "b", "waits" }));
        assert_ok(table_set_cell(table, 1, 1, "runs"));
        assert_ok(table_print_to(table, file));
        assert_ok(fclose(file));
        assert_string_equal(text, "NAME  STATE\na     waits\nb     runs\n");
}
