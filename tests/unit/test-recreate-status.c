/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The patches of a restart request's status
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/recreate/recreate-status.h"

#define A(...) \
        { .name = (char *) "a", __VA_ARGS__ }
#define B(...) \
        { .name = (char *) "b", __VA_ARGS__ }

static const struct Row {
        const char *name;
        RecreateStatus known;
        RecreateState known_states[2];
        RecreateStatus desired;
        RecreateState desired_states[2];
        const char *patch; /* with single quotes; NULL: none */
} rows[] = {
        { "nothing is known, nothing is desired", { 0 }, { A(), B() }, { 0 }, { A(), B() }, NULL },
        { "begins",
          { 0 },
          { A(), B() },
          { .phase = RECREATE_RECREATING },
          { A(), B() },
          "{'status':{'phase':'Recreating'},'metadata':{'resourceVersion':'7'}}" },
        { "the states are written as a whole, whatever the version",
          { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_PENDING), B(.phase = RECREATE_PENDING) },
          { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_RECREATING, .is_killed = true), B(.phase = RECREATE_PENDING) },
          "{'status':{'containerRecreateStates':[{'name':'a','phase':'Recreating','isKilled':true},"
          "{'name':'b','phase':'Pending'}]}}" },
        { "a message goes away",
          { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_PENDING, .message = (char *) "m"), B(.phase = RECREATE_PENDING) },
          { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_PENDING), B(.phase = RECREATE_PENDING) },
          "{'status':{'containerRecreateStates':[{'name':'a','phase':'Pending'},"
          "{'name':'b','phase':'Pending'}]}}" },
        { "they were written in another order",
          { .phase = RECREATE_RECREATING, .has_other_states = true },
          { A(.phase = RECREATE_PENDING), B(.phase = RECREATE_PENDING) },
          { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_PENDING), B(.phase = RECREATE_PENDING) },
          "{'status':{'containerRecreateStates':[{'name':'a','phase':'Pending'},"
          "{'name':'b','phase':'Pending'}]}}" },
        { "completes",
          { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_SUCCEEDED), B(.phase = RECREATE_FAILED) },
          { .phase = RECREATE_COMPLETED,
            .is_completed = true,
            .completed_at = 60,
            .message = (char *) "done" },
          { A(.phase = RECREATE_SUCCEEDED), B(.phase = RECREATE_FAILED) },
          "{'status':{'phase':'Completed','completionTime':'1970-01-01T00:01:00Z',"
          "'message':'done'},'metadata':{'resourceVersion':'7'}}" },
        { "is completed by another client, and a stop ends",
          { .phase = RECREATE_COMPLETED, .is_completed = true, .completed_at = 60 },
          { A(.phase = RECREATE_PENDING), B(.phase = RECREATE_PENDING) },
          { .phase = RECREATE_COMPLETED, .is_completed = true, .completed_at = 60 },
          { A(.phase = RECREATE_RECREATING, .is_killed = true), B(.phase = RECREATE_PENDING) },
          "{'status':{'containerRecreateStates':[{'name':'a','phase':'Recreating','isKilled':true},"
          "{'name':'b','phase':'Pending'}]}}" },
        { "is as it should be",
          { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_PENDING, .message = (char *) "m"), B(.phase = RECREATE_PENDING) },
          { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_PENDING, .message = (char *) "m"), B(.phase = RECREATE_PENDING) },
          NULL },
};

static void test_row(void **state) {
        const struct Row *row = *state;
        cleanup(json_object_put_p) json_object *patch = NULL;
        RecreateStatus known = row->known, desired = row->desired;
        char text[1024] = "";

        known.states = (RecreateState *) row->known_states;
        desired.states = (RecreateState *) row->desired_states;
        known.n_states = desired.n_states = 2;

        assert_int_equal(recreate_status_diff(&known, &desired, "7", &patch), 0);
        if (patch)
                strncat(text, json_to_text(patch), sizeof(text) - 1);
        for (char *at = text; *at; at++)
                if (*at == '"')
                        *at = '\'';
        assert_string_equal(text, row->patch ?: "");
}

static void test_summary(void **state) {
        static const struct {
                RecreateState states[2];
                bool is_success;
                const char *summary;
        } summaries[] = {
                { { A(.phase = RECREATE_SUCCEEDED), B(.phase = RECREATE_SUCCEEDED) },
                  true,
                  "2 of 2 containers restarted" },
                { { A(.phase = RECREATE_FAILED, .message = (char *) "kill container error: x"),
                    B(.phase = RECREATE_SUCCEEDED) },
                  false,
                  "1 of 2 containers restarted; a: kill container error: x" },
                { { A(.phase = RECREATE_FAILED), B(.phase = RECREATE_PENDING) },
                  false,
                  "0 of 2 containers restarted; a: failed" },
        };

        for (size_t i = 0; i < sizeof(summaries) / sizeof(summaries[0]); i++) {
                const RecreateStatus status = { .states = (RecreateState *) summaries[i].states,
                                                .n_states = 2 };
                cleanup(free_p) char *summary = NULL;

                assert_int_equal(recreate_status_summarize(&status, &summary), 0);
                assert_string_equal(summary, summaries[i].summary);
                assert_int_equal(recreate_status_is_success(&status), summaries[i].is_success);
        }
}

static void test_bound(void **state) {
        cleanup(json_object_put_p) json_object *patch =
                json_tokener_parse("{\"status\":{\"a\":[1],\"b\":[{\"c\":2}]}}");
        cleanup(json_object_put_p) json_object *bound = NULL;

        assert_int_equal(recreate_status_bind(patch, "u-1", &bound), 0);
        assert_string_equal(json_to_text(bound),
                            "[{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":\"u-1\"},"
                            "{\"op\":\"add\",\"path\":\"/status/a\",\"value\":[1]},"
                            "{\"op\":\"add\",\"path\":\"/status/b\",\"value\":[{\"c\":2}]}]");
}

int main(void) {
        const size_t n = sizeof(rows) / sizeof(rows[0]);
        struct CMUnitTest tests[sizeof(rows) / sizeof(rows[0]) + 2] = {
                cmocka_unit_test(test_summary),
                cmocka_unit_test(test_bound),
        };

        for (size_t i = 0; i < n; i++)
                tests[2 + i] = (struct CMUnitTest){ rows[i].name, test_row, NULL, NULL,
                                                    (void *) &rows[i] };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
