/* SPDX-License-Identifier: Apache-2.0 */

/* Questions about rights, and the rows of the table. */

#include "tests/unit/unit.h"

#include "agent/kubectl/rights-plan.h"
#include "tests/unit/quoted-json.h"

TEST(test_reviews) {
        static const Right rights[] = {
                { "patch", "", "pods", "status", 0, false, true },
                { "list", "g", "things", NULL, 0, true, false },
        };
        static const char *const expected[] = {
                "{'verb':'patch','group':'','resource':'pods','subresource':'status','namespace':'n'}",
                "{'verb':'list','group':'g','resource':'things','name':'x'}",
        };

        for (size_t i = 0; i < 2; i++) {
                cleanup(json_object_put_p) json_object *review = NULL;
                json_object *spec, *found;

                assert_ok(right_review(&rights[i], rights[i].verbs, "n", i == 1 ? "x" : NULL,
                                       &review));
                assert_true(json_object_object_get_ex(review, "spec", &spec));
                assert_true(json_object_object_get_ex(spec, "resourceAttributes", &found));
                assert_json(found, expected[i]);
        }
}

static const struct AnswersRow {
        const char *text;
        bool is_allowed;
} answers_rows[] = {
        { "{'status':{'allowed':true}}", true },
        { "{'status':{'allowed':false}}", false },
        { "{'status':{'allowed':'true'}}", false },
        { "{}", false },
};

TEST_ROWS(test_answers, answers_rows, text, const struct AnswersRow *row) {
        cleanup(json_object_put_p) json_object *review = parse("%s", row->text);

        assert_int_equal(right_is_allowed(review), row->is_allowed);
}

/* A command about a workload asks for one right by the workload's name. */
TEST(test_rights_with_names) {
        for (RightsTask task = 0; task < _RIGHTS_TASK_MAX; task++) {
                size_t n = 0;

                for (size_t i = 0; i < n_right_specs; i++)
                        n += right_has_name(&right_specs[i], task);
                assert_int_equal(n, (int) task < _WORKLOAD_KIND_MAX ? 1 : 0);
        }
}

/* No right is there twice, and each task has its own. */
TEST(test_table) {
        for (RightsTask task = 0; task < _RIGHTS_TASK_MAX; task++) {
                assert_non_null(rights_task_to_string(task));
                assert_int_not_equal(rights_own(task)->tasks & 1u << task, 0);
        }
        for (size_t i = 0; i < n_right_specs; i++)
                for (size_t k = 0; k < i; k++)
                        if (strcmp(right_specs[i].resource, right_specs[k].resource) == 0 &&
                            strcmp(right_specs[i].group, right_specs[k].group) == 0 &&
                            !right_specs[i].subresource && !right_specs[k].subresource &&
                            strstr(right_specs[i].verbs, right_specs[k].verbs))
                                assert_int_equal(right_specs[i].tasks & right_specs[k].tasks, 0);
}
