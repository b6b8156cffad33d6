/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The patches of a restart request's status
 */

#include "tests/unit/unit.h"
#include <json-c/json.h>

#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/recreate/recreate-status.h"

#define A(...) \
        { .name = (char *) "a", __VA_ARGS__ }
#define B(...) \
        { .name = (char *) "b", __VA_ARGS__ }

/* clang-format off */
static const struct Row {
        const char *name;
        RecreateStatus known;
        RecreateState known_states[2];
        RecreateStatus desired;
        RecreateState desired_states[2];
        const char *patch; /* with single quotes; NULL: none */
} rows[] = {
        { "nothing is known, nothing is desired", { 0 }, { A(), B() }, { 0 }, { A(), B() }, NULL },
        { "begins", { 0 }, { A(), B() }, { .phase = RECREATE_RECREATING }, { A(), B() },
          "{'status':{'phase':'Recreating'},'metadata':{'resourceVersion':'7'}}" },
        { "the states are written as a whole, whatever the version",
          { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_PENDING), B(.phase = RECREATE_PENDING) },
          { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_RECREATING, .is_killed = true), B(.phase = RECREATE_PENDING) },
          "{'status':{'containerRecreateStates':[{'name':'a','phase':'Recreating','isKilled':true},"
          "{'name':'b','phase':'Pending'}]}}" },
        { "a message goes away", { .phase = RECREATE_RECREATING },
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
        { "completes", { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_SUCCEEDED), B(.phase = RECREATE_FAILED) },
          { .phase = RECREATE_COMPLETED, .is_completed = true, .completed_at = 60,
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
        { "is as it should be", { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_PENDING, .message = (char *) "m"), B(.phase = RECREATE_PENDING) },
          { .phase = RECREATE_RECREATING },
          { A(.phase = RECREATE_PENDING, .message = (char *) "m"), B(.phase = RECREATE_PENDING) },
          NULL },
};
/* clang-format on */

TEST_ROWS(test_row, rows, name, const struct Row *row) {
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

TEST(test_phases) {
        for (RecreatePhase phase = 0; phase < _RECREATE_PHASE_MAX; phase++)
                assert_int_equal(recreate_phase_from_string(recreate_phase_to_string(phase)),
                                 phase);
        assert_int_equal(recreate_phase_from_string("Unheard"), RECREATE_NONE);
        assert_int_equal(recreate_phase_from_string(NULL), RECREATE_NONE);
}

static const struct SummaryRow {
        RecreateState states[2];
        bool is_success;
        const char *summary;
} summary_rows[] = {
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
        { { A(.phase = RECREATE_SUCCEEDED) }, true, "1 of 1 container restarted" },
        { { { .name = NULL } }, false, "0 of 0 containers restarted" },
};

TEST_ROWS(test_summary, summary_rows, summary, const struct SummaryRow *row) {
        RecreateStatus status = { .states = (RecreateState *) row->states };
        cleanup(free_p) char *summary = NULL;

        while (status.n_states < 2 && row->states[status.n_states].name)
                status.n_states++;

        assert_int_equal(recreate_status_summarize(&status, &summary), 0);
        assert_string_equal(summary, row->summary);
        assert_int_equal(recreate_status_is_success(&status), row->is_success);
}

TEST(test_bound) {
        cleanup(json_object_put_p) json_object *patch =
                json_tokener_parse("{\"status\":{\"a\":[1],\"b\":[{\"c\":2}]}}");
        cleanup(json_object_put_p) json_object *bound = NULL;

        assert_int_equal(recreate_status_bind(patch, "u-1", &bound), 0);
        assert_string_equal(json_to_text(bound),
                            "[{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":\"u-1\"},"
                            "{\"op\":\"add\",\"path\":\"/status/a\",\"value\":[1]},"
                            "{\"op\":\"add\",\"path\":\"/status/b\",\"value\":[{\"c\":2}]}]");
}
