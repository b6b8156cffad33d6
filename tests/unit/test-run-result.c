/* SPDX-License-Identifier: Apache-2.0 */

/* Results of the runs that the controller starts. */

#include "tests/unit/unit.h"

#include <json-c/json.h>

#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/run-result.h"

static json_object *make(const char *outcome, const char *reason) {
        json_object *result;

        assert_ok(run_result(outcome, reason, &result));
        return result;
}

TEST(test_result) {
        cleanup(json_object_put_p) json_object *done = make("updated", NULL);
        cleanup(json_object_put_p) json_object *failed = make("failed", "no such pod");

        assert_string_equal(json_to_text(done), "{\"outcome\":\"updated\"}");
        assert_string_equal(json_to_text(failed),
                            "{\"outcome\":\"failed\",\"reason\":\"no such pod\"}");
}

static const struct LongRow {
        const char *name;
        const char *character;
} long_rows[] = {
        { "letters", "x" },
        { "characters that JSON escapes", "\x01" },
        { "characters of several bytes", "\xE2\x82\xAC" },
};

/* Each of many pods has its reason. */
TEST_ROWS(test_long_reason, long_rows, name, const struct LongRow *row) {
        size_t n = RUN_RESULT_MAX, size = strlen(row->character);
        cleanup(free_p) char *reason = calloc(n + 1, size);
        cleanup(json_object_put_p) json_object *result = NULL;
        cleanup(json_object_put_p) json_object *read = NULL;
        const char *text;

        assert_non_null(reason);
        for (size_t i = 0; i < n; i++)
                (void) memcpy(reason + i * size, row->character, size);
        result = make("updated", reason);
        text = json_to_text(result);
        assert_true(strlen(text) < RUN_RESULT_MAX);
        assert_ok(json_parse(text, strlen(text), &read, NULL));
        assert_string_equal(json_get_text(read, "outcome"), "updated");
        text = json_get_text(read, "reason");
        assert_true(strlen(text) > 4000);
        assert_string_equal(text + strlen(text) - 3, "...");
}
