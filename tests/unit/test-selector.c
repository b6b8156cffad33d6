/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Label selectors, as a query has them and compared with labels
 */

#include "agent/kubectl/workload.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

/* clang-format off */
static const struct Row {
        const char *name;
        const char *selector;
        const char *text;
        const char *matched, *other; /* labels; other: NULL: there are none that it does not match */
} rows[] = {
        { "everything", "{}", "", "{'app': 'web'}", NULL },
        { "a label", "{'matchLabels': {'app': 'web'}}", "app=web", "{'app': 'web', 'x': 'y'}", "{'app': 'db'}" },
        { "a label that is missing", "{'matchLabels': {'app': 'web', 'x': 'y'}}", "app=web,x=y", "{'x': 'y', 'app': 'web'}", "{'app': 'web'}" },
        { "one of some values", "{'matchExpressions': [{'key': 'app', 'operator': 'In', 'values': ['a', 'b']}]}", "app in (a,b)", "{'app': 'b'}", "{'app': 'c'}" },
        { "one of a value without the label", "{'matchExpressions': [{'key': 'app', 'operator': 'In', 'values': ['a']}]}", "app in (a)", "{'app': 'a'}", "{}" },
        { "none of some values", "{'matchExpressions': [{'key': 'app', 'operator': 'NotIn', 'values': ['a', 'b']}]}", "app notin (a,b)", "{'app': 'c'}", "{'app': 'a'}" },
        { "none of a value without the label", "{'matchExpressions': [{'key': 'app', 'operator': 'NotIn', 'values': ['a']}]}", "app notin (a)", "{}", "{'app': 'a'}" },
        { "there", "{'matchExpressions': [{'key': 'app', 'operator': 'Exists'}]}", "app", "{'app': ''}", "{'x': 'y'}" },
        { "not there", "{'matchExpressions': [{'key': 'app', 'operator': 'DoesNotExist', 'values': []}]}", "!app", "{'x': 'y'}", "{'app': ''}" },
        { "all of them", "{'matchLabels': {'app': 'web'}, 'matchExpressions': [{'key': 'x', 'operator': 'Exists'}, {'key': 'y', 'operator': 'DoesNotExist'}]}", "app=web,x,!y", "{'app': 'web', 'x': ''}", "{'app': 'web', 'x': '', 'y': ''}" },
};
/* clang-format on */

TEST_ROWS(test_row, rows, name, const struct Row *row) {
        cleanup(json_object_put_p) json_object *selector = parse("%s", row->selector);
        cleanup(json_object_put_p) json_object *matched = parse("%s", row->matched);
        cleanup(json_object_put_p) json_object *other = row->other ? parse("%s", row->other) : NULL;
        cleanup(free_p) char *text = NULL;

        assert_ok(selector_format(selector, &text));
        assert_string_equal(text, row->text);
        assert_true(selector_matches(selector, matched));
        assert_false(other && selector_matches(selector, other));
}

TEST(test_no_selector) {
        cleanup(json_object_put_p) json_object *labels = parse("{}");

        assert_false(selector_matches(NULL, labels));
}
