/* SPDX-License-Identifier: Apache-2.0 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/ctl/status-rows.h"
#include "agent/ctl/view.h"

static json_object *parse(const char *text) {
        json_object *tree = json_tokener_parse(text);

        assert_non_null(tree);
        return tree;
}

static void test_spec_and_status_meet(void **state) {
        cleanup(json_put_p) json_object *tree = parse(
                "{\"spec\": {\"images\": {"
                "  \"nginx\": {\"tags\": [{\"tag\": \"2\"}, {\"tag\": \"1\","
                "    \"imagePullPolicy\": \"Always\", \"createdAt\": \"1970-01-01T00:00:05Z\"}]},"
                "  \"app\": {\"tags\": [{\"tag\": \"x\"}]}}},"
                " \"status\": {\"imageStatuses\": {"
                "  \"nginx\": {\"tags\": [{\"tag\": \"1\", \"phase\": \"Succeeded\","
                "    \"progress\": 100, \"imageID\": \"nginx@sha256:01\","
                "    \"startTime\": \"1970-01-01T00:00:10Z\","
                "    \"completionTime\": \"1970-01-01T00:01:00Z\"}]},"
                "  \"old\": {\"tags\": [{\"tag\": \"y\", \"phase\": \"Failed\","
                "    \"message\": \"gone\"}]}}}}");
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        const StatusRow *row;

        assert_int_equal(status_rows_read(tree, &rows), 0);
        assert_int_equal(rows.n_items, 4);

        assert_string_equal(rows.items[0].image, "app");
        assert_string_equal(rows.items[0].phase, "Waiting");

        row = &rows.items[1];
        assert_string_equal(row->image, "nginx");
        assert_string_equal(row->tag, "1");
        assert_string_equal(row->policy, "Always");
        assert_string_equal(row->phase, "Succeeded");
        assert_int_equal(row->progress, 100);
        assert_string_equal(row->image_id, "nginx@sha256:01");
        assert_int_equal(row->created_at, 5);
        assert_int_equal(row->started_at, 10);
        assert_int_equal(row->completed_at, 60);

        assert_string_equal(rows.items[2].tag, "2");
        assert_string_equal(rows.items[3].image, "old");
        assert_string_equal(rows.items[3].message, "gone");
}

/* Nothing that has another type than it should may crash it or be taken for something else. */
static void test_wrong_types(void **state) {
        static const struct {
                const char *text;
                size_t n_rows;
        } documents[] = {
                { "{}", 0 },
                { "[]", 0 },
                { "{\"spec\": 1, \"status\": []}", 0 },
                { "{\"spec\": {\"images\": []}}", 0 },
                { "{\"spec\": {\"images\": {\"a\": 1, \"b\": null, \"c\": {\"tags\": {}}}}}", 0 },
                { "{\"spec\": {\"images\": {\"a\": {\"tags\": [1, null, {\"tag\": 5}]}}}}", 1 },
                { "{\"status\": {\"imageStatuses\": {\"a\": {\"tags\": [{\"tag\": \"1\","
                  "\"phase\": 3, \"progress\": \"x\", \"startTime\": \"soon\"}]}}}}",
                  1 },
        };

        for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
                cleanup(json_put_p) json_object *tree = parse(documents[i].text);
                cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;

                assert_int_equal(status_rows_read(tree, &rows), 0);
                assert_int_equal(rows.n_items, documents[i].n_rows);
                if (rows.n_items > 0) {
                        assert_string_equal(rows.items[0].phase, "Waiting");
                        assert_int_equal(rows.items[0].started_at, 0);
                }
        }
}

static void test_progress_is_a_percentage(void **state) {
        static const struct {
                const char *text;
                int progress;
        } numbers[] = { { "37", 37 }, { "-5", 0 }, { "101", 100 }, { "99999999999999", 100 } };

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
                cleanup(json_put_p) json_object *tree = NULL;
                cleanup(free_p) char *text = NULL;

                assert_true(asprintf(&text,
                                     "{\"status\": {\"imageStatuses\": {\"a\": {\"tags\": "
                                     "[{\"tag\": \"1\", \"progress\": %s}]}}}}",
                                     numbers[i].text) > 0);
                tree = parse(text);
                assert_int_equal(status_rows_read(tree, &rows), 0);
                assert_int_equal(rows.items[0].progress, numbers[i].progress);
        }
}

static void test_summary(void **state) {
        static const struct {
                const char *message;
                const char *summary;
        } messages[] = {
                { "NotFound: rpc error: code = NotFound desc = (x): not found; check the name and "
                  "the tag (attempt 2 of 4)",
                  "NotFound (attempt 2 of 4): check the name and the tag" },
                { "NotFound: no; check it (attempt 12)",
                  "NotFound (attempt 12): check the name and the tag" },
                { "DeadlineExceeded: pulling exceeds the activeDeadlineSeconds (5); before that: "
                  "NotFound: no (attempt 1 of 4)",
                  "DeadlineExceeded after NotFound (attempt 1 of 4): allow more time, or check the "
                  "network between node and registry" },
                { "DeadlineExceeded: pulling exceeds the activeDeadlineSeconds (5)",
                  "DeadlineExceeded: allow more time, or check the network between node and "
                  "registry" },
                { "Unknown: (attempt ", "Unknown: check the log of the container runtime" },
                { "Something: else", "Something: else" },
                { "NotFound", "NotFound" },
                { "(attempt 1 of 4)", "(attempt 1 of 4)" },
                { "", "" },
        };

        for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
                const StatusRow row = { .message = messages[i].message };
                cleanup(free_p) char *summary = status_row_summary(&row);

                assert_string_equal(summary, messages[i].summary);
        }
}

static void test_is_left(void **state) {
        static const struct {
                const char *owners; /* NULL: not known */
                const char *phase;
                bool is_left;
        } rows[] = {
                { "[{'kind': 'Call', 'resourceVersion': '0'}]", "Succeeded", true },
                { "[{'kind': 'Request', 'resourceVersion': '0'}]", "Failed", true },
                { "[{'kind': 'Call', 'resourceVersion': '0'}]", "Missing", false },
                { "[{'kind': 'Call'}]", "Pulling", false },
                { "[{'kind': 'Call', 'resourceVersion': '0'}, {'kind': 'Call'}]", "Succeeded",
                  false },
                { "[{'kind': 'Call', 'resourceVersion': '0'}, {'kind': 'File', "
                  "'resourceVersion': '0'}]",
                  "Succeeded", false },
                { "[{'kind': 'ImagePullJob', 'resourceVersion': '0'}]", "Succeeded", false },
                { "[1]", "Succeeded", false },
                { "[]", "Succeeded", false },
                { NULL, "Succeeded", false },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char text[160] = "null";
                cleanup(json_put_p) json_object *owners = NULL;

                if (rows[i].owners)
                        (void) snprintf(text, sizeof(text), "%s", rows[i].owners);
                for (char *c = text; *c; c++)
                        if (*c == '\'')
                                *c = '"';
                owners = json_tokener_parse(text);
                if (status_row_is_left(&(StatusRow){ .phase = rows[i].phase, .owners = owners }) !=
                    rows[i].is_left)
                        fail_msg("%s of %s", rows[i].phase, text);
        }
}

static void test_since(void **state) {
        assert_int_equal(status_row_since(&(StatusRow){ .created_at = 1 }), 1);
        assert_int_equal(status_row_since(&(StatusRow){ .created_at = 1, .started_at = 2 }), 2);
        assert_int_equal(status_row_since(&(StatusRow){
                                 .created_at = 1, .started_at = 2, .completed_at = 3 }),
                         3);
        /* It was there, and is missing now. */
        assert_int_equal(status_row_since(&(StatusRow){
                                 .started_at = 2, .completed_at = 3, .changed_at = 4 }),
                         4);
        assert_int_equal(status_row_since(&(StatusRow){ .image = "a" }), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_spec_and_status_meet),
                cmocka_unit_test(test_wrong_types),
                cmocka_unit_test(test_progress_is_a_percentage),
                cmocka_unit_test(test_summary),
                cmocka_unit_test(test_is_left),
                cmocka_unit_test(test_since),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
