/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/json-cleanup.h"
#include "agent/view/status-rows.h"
#include "tests/unit/unit.h"

static json_object *parse(const char *text) {
        json_object *tree = json_tokener_parse(text);

        assert_non_null(tree);
        return tree;
}

TEST(test_spec_and_status_meet) {
        cleanup(json_object_put_p) json_object *tree = parse(
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

static const struct WrongTypesRow {
        const char *text;
        size_t n_rows;
} wrong_types_rows[] = {
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

/* A member of the wrong type neither crashes the view nor is taken for another value. */
TEST_ROWS(test_wrong_types, wrong_types_rows, text, const struct WrongTypesRow *row) {
        cleanup(json_object_put_p) json_object *tree = parse(row->text);
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;

        assert_int_equal(status_rows_read(tree, &rows), 0);
        assert_int_equal(rows.n_items, row->n_rows);
        if (rows.n_items > 0) {
                assert_string_equal(rows.items[0].phase, "Waiting");
                assert_int_equal(rows.items[0].started_at, 0);
        }
}

TEST(test_progress_is_a_percentage) {
        static const struct {
                const char *text;
                int progress;
        } numbers[] = { { "37", 37 }, { "-5", 0 }, { "101", 100 }, { "99999999999999", 100 } };

        for (size_t i = 0; i < N_ELEMENTS(numbers); i++) {
                cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
                cleanup(json_object_put_p) json_object *tree = NULL;
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

static const struct OwnersRow {
        const char *owners;
        const char *text;
} owners_rows[] = {
        { "[]", "" },
        { "[{'kind':'File','name':'web.yaml'}]", "folder:web.yaml" },
        { "[{'kind':'ImageSet','name':'gpu'},{'kind':'NodeImage','name':'u'}]",
          "set gpu; NodeImage" },
        { "[{'kind':'ImagePullJob','namespace':'a','name':'b'}]", "job a/b" },
        { "[{'kind':'Request','name':'17'}]", "request 17" },
        { "[{'kind':'Call','name':'17','fieldPath':'user jo'}]", "user jo, request 17" },
        { "[{'kind':'Fleet','name':'f'}]", "Fleet f" },
        { "[{}, 7]", " ;  " },
};

/* As the agent itself names those who request an image. */
TEST_ROWS(test_owners, owners_rows, owners, const struct OwnersRow *row) {
        cleanup(json_object_put_p) json_object *owners = parse(row->owners);
        cleanup(free_p) char *text = status_row_requested_by(&(StatusRow){ .owners = owners });

        assert_string_equal(text, row->text);
}

static const struct CountsRow {
        const char *phases[8];
        const char *text;
} counts_rows[] = {
        { { NULL }, "none" },
        { { "Succeeded" }, "1 pulled" },
        { { "Waiting", "Succeeded", "Failed", "Succeeded", "Succeeded" },
          "3 pulled, 1 failed, 1 waiting" },
        { { "Missing", "BackOff", "Pulling", "Pulling", "Waiting", "Molten" },
          "2 pulling, 1 retrying, 1 missing, 2 waiting" },
};

/* The head counts the shown rows, and leaves out counts of zero. */
TEST_ROWS(test_counts, counts_rows, text, const struct CountsRow *row) {
        cleanup(free_p) char *text = NULL;
        StatusRow items[8];
        StatusRows rows = { .items = items };

        for (const char *const *phase = row->phases; *phase; phase++)
                items[rows.n_items++] = (StatusRow){ .phase = *phase };
        text = status_rows_count(&rows);
        assert_string_equal(text, row->text);
}

/* Images that are present come last where only some can be shown. */
TEST(test_urgency) {
        static const char *const sorted[] = { "b Pulling", "a BackOff", "d Missing",  "e Failed",
                                              "h Failed",  "c Waiting", "f Succeeded" };
        StatusRow items[] = {
                { .image = "a", .tag = "", .phase = "BackOff" },
                { .image = "b", .tag = "", .phase = "Pulling" },
                { .image = "c", .tag = "", .phase = "Waiting" },
                { .image = "d", .tag = "", .phase = "Missing" },
                { .image = "h", .tag = "", .phase = "Failed" },
                { .image = "f", .tag = "", .phase = "Succeeded" },
                { .image = "e", .tag = "", .phase = "Failed" },
        };
        StatusRows rows = { .items = items, .n_items = N_ELEMENTS(items) };

        status_rows_sort_by_urgency(&rows);
        for (size_t i = 0; i < rows.n_items; i++) {
                char text[32];

                (void) snprintf(text, sizeof(text), "%s %s", items[i].image, items[i].phase);
                assert_string_equal(text, sorted[i]);
        }
        status_rows_sort_by_urgency(&(StatusRows){ .items = NULL });
}

TEST(test_since) {
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

TEST(test_references_of_one_image) {
        assert_true(status_reference_equal("web:1", "docker.io/library/web:1"));
        assert_true(status_reference_equal("a.example/web:1", "a.example/web:1"));
        assert_false(status_reference_equal("web:1", "docker.io/library/web:2"));
        assert_false(status_reference_equal("web:1", "a.example/web:1"));
        assert_false(status_reference_equal("BAD X:1", "BAD X:1"));
}
