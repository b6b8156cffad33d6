/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pages of a list
 */

#include "agent/kube/pages.h"
#include "tests/unit/unit.h"

static void assert_query(const KubePages *pages, const char *expected) {
        cleanup(free_p) char *query = NULL;

        assert_ok(kube_pages_query(pages, &query));
        assert_string_equal(query, expected);
}

TEST(test_turns) {
        cleanup(error_done) Error error = ERROR_INIT;
        KubePages pages = { .size = 500 };

        assert_query(&pages, "limit=500");
        assert_ok(kube_pages_turn(&pages, "a/b", NULL));
        assert_query(&pages, "limit=500&continue=a%2Fb");
        assert_true(kube_pages_turn(&pages, "a/b", &error) < 0);
        assert_string_equal(error_message(&error), "the server repeats a page of the list");
        assert_ok(kube_pages_turn(&pages, "c", NULL));
        kube_pages_rewind(&pages);
        assert_query(&pages, "limit=500");
        assert_ok(kube_pages_turn(&pages, "c", NULL));
        assert_ok(kube_pages_turn(&pages, "", NULL));
        assert_query(&pages, "limit=500");
        kube_pages_rewind(&pages);
}

static const struct Row {
        const char *name;
        ErrorKind kind;
        int code;
        unsigned size, after; /* the same: no smaller page helps */
} rows[] = {
        { "a page that is too long", ERROR_INVALID, 200, 500, 250 },
        { "the last code of success", ERROR_INVALID, 299, 3, 1 },
        { "two items", ERROR_INVALID, 200, 2, 1 },
        { "a single item", ERROR_INVALID, 200, 1, 1 },
        { "a refusal", ERROR_INVALID, 300, 500, 500 },
        { "no answer", ERROR_INVALID, 199, 500, 500 },
        { "another failure", ERROR_UNAVAILABLE, 200, 500, 500 },
};

TEST_ROWS(test_shrink, rows, name, const struct Row *row) {
        cleanup(error_done) Error error = ERROR_INIT;
        KubePages pages = { .size = row->size };

        error_set(&error, row->kind, "%s", row->name);
        assert_int_equal(kube_pages_shrink(&pages, row->code, &error), row->size != row->after);
        assert_int_equal(pages.size, row->after);
}
