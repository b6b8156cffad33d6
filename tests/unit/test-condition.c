/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The verdict on an image, the condition made of them, and the patch that carries it
 */

#include "agent/document/json-cleanup.h"
#include "agent/inplace/condition-status.h"
#include "agent/inplace/pod-patch-spec.h"
#include "tests/unit/unit.h"

#define ID_A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define RUNS                                                                            \
        .name = "app", .reference = "nginx:1.25", .is_running = true, .is_known = true, \
        .may_restart = true

TEST(test_verdict) {
        assert_int_equal(verdict_of(ID_A, ID_A), VERDICT_CURRENT);
        assert_int_equal(verdict_of(ID_A, ID_A + strlen("sha256:")), VERDICT_CURRENT);
        assert_int_equal(verdict_of(ID_A, ID_B), VERDICT_STALE);
        assert_int_equal(verdict_of(NULL, ID_B), VERDICT_UNKNOWN);
        assert_int_equal(verdict_of("", ""), VERDICT_UNKNOWN);
}

/* clang-format off */
static const struct {
        ConditionContainer container;
        const char *status, *reason, *message;
} of_one[] = {
        { { RUNS, .reference_id = ID_A, .running_id = ID_A }, "True", "Verified",
          "app runs sha256:aaaaaaaaaaaa… as asked for by nginx:1.25" },
        { { RUNS, .reference_id = ID_A, .running_id = ID_A, .has_environment = true,
            .knows_environment = true }, "True", "Verified",
          "app runs sha256:aaaaaaaaaaaa… as asked for by nginx:1.25" },
        { { RUNS, .reference_id = ID_B, .running_id = ID_A }, "False", "ImageStale",
          "container app runs sha256:aaaaaaaaaaaa… and its reference nginx:1.25 is "
          "sha256:bbbbbbbbbbbb…" },
        { { RUNS, .reference_id = ID_B, .running_id = ID_A, .is_restarting = true }, "False",
          "Restarting",
          "container app runs sha256:aaaaaaaaaaaa… and its reference nginx:1.25 is "
          "sha256:bbbbbbbbbbbb…" },
        { { RUNS, .reference_id = ID_A, .running_id = ID_A, .is_restarting = true,
            .is_environment_stale = true }, "False", "Restarting",
          "container app is restarted: its environment comes from labels or annotations "
          "that have changed" },
        { { RUNS, .reference_id = ID_A, .running_id = ID_A, .is_environment_stale = true }, "False",
          "EnvironmentStale",
          "container app has the environment of labels or annotations that have changed" },
        { { RUNS, .reference_id = ID_A, .running_id = ID_A, .is_environment_stale = true,
            .has_failed = true }, "False", "EnvironmentStale",
          "container app has the environment of labels or annotations that have changed, and "
          "a restart did not help" },
        { { .name = "app", .reference = "a", .reference_id = ID_A, .running_id = ID_A,
            .is_running = true, .is_known = true, .is_environment_stale = true }, "False",
          "CannotRestart",
          "container app has the environment of labels or annotations that have changed, and "
          "nothing would start it again" },
        { { .name = "app", .reference = "a", .reference_id = "", .running_id = "" }, "False",
          "NotRunning", "container app does not run" },
        { { RUNS, .reference_id = "", .running_id = ID_A }, "Unknown", "Unknown",
          "container app runs sha256:aaaaaaaaaaaa… and its reference nginx:1.25 is not on "
          "this node" },
        { { RUNS, .reference_id = ID_A, .running_id = ID_A, .has_environment = true }, "Unknown",
          "Unknown", "the environment of container app is unknown" },
};
/* clang-format on */

TEST(test_of_one) {
        for (size_t i = 0; i < N_ELEMENTS(of_one); i++) {
                cleanup(condition_done) Condition condition = CONDITION_INIT;

                assert_ok(condition_of(&of_one[i].container, 1, &condition));
                assert_string_equal(condition_status_of(condition.reason), of_one[i].status);
                assert_string_equal(condition_reason_to_string(condition.reason), of_one[i].reason);
                assert_string_equal(condition.message, of_one[i].message);
        }
}

TEST(test_of_several) {
        const ConditionContainer containers[] = {
                { RUNS, .reference_id = ID_A, .running_id = ID_A },
                { .name = "log", .reference = "b", .reference_id = "", .running_id = "" },
                { RUNS, .reference_id = ID_B, .running_id = ID_A },
        };
        cleanup(condition_done) Condition condition = CONDITION_INIT;
        cleanup(condition_done) Condition good = CONDITION_INIT;

        assert_ok(condition_of(containers, 3, &condition));
        assert_int_equal(condition.reason, CONDITION_IMAGE_STALE);
        assert_string_equal(
                condition.message,
                "container log does not run; container app runs sha256:aaaaaaaaaaaa… and "
                "its reference nginx:1.25 is sha256:bbbbbbbbbbbb…");
        assert_ok(condition_of(containers, 1, &good));
        assert_int_equal(good.reason, CONDITION_VERIFIED);
}

TEST(test_long_message) {
        ConditionContainer containers[100];

        for (size_t n = 1; n <= 100; n++) {
                cleanup(condition_done) Condition condition = CONDITION_INIT;

                containers[n - 1] =
                        (ConditionContainer){ RUNS, .reference_id = ID_A, .running_id = ID_A };
                assert_ok(condition_of(containers, n, &condition));
                assert_true(strlen(condition.message) <= CONDITION_MESSAGE_MAX);
                if (n == 100)
                        assert_contains(condition.message + 1000, "…");
        }
}

static const char *text_of(json_object *json) {
        return json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE);
}

TEST(test_patch) {
        PodPatch patch = { .meta = "{\"a/b\":1}", .changed_sec = -1 };
        cleanup(json_object_put_p) json_object *meta = NULL, *both = NULL, *same = NULL;

        assert_ok(pod_patch_make(&patch, &meta));
        assert_string_equal(text_of(meta),
                            "{\"metadata\":{\"annotations\":{"
                            "\"apps.kruise.io/runtime-containers-meta\":\"{\\\"a/b\\\":1}\"}}}");

        patch.status = "False";
        patch.reason = "Restarting";
        patch.message = "m";
        patch.changed_sec = 0;
        assert_ok(pod_patch_make(&patch, &both));
        assert_contains(text_of(both), "},\"status\":{\"conditions\":[{\"type\":"
                                       "\"inplaced.io/InPlaceVerified\",\"status\":\"False\","
                                       "\"reason\":\"Restarting\",\"message\":\"m\","
                                       "\"lastTransitionTime\":\"1970-01-01T00:00:00Z\"}]}}");

        patch.meta = NULL;
        patch.changed_sec = -1;
        assert_ok(pod_patch_make(&patch, &same));
        assert_null(strstr(text_of(same), "annotations"));
        assert_null(strstr(text_of(same), "lastTransitionTime"));
}

TEST(test_patch_of_gate) {
        PodPatch patch = { .gate = "Started", .opened_sec = 0, .changed_sec = -1 };
        cleanup(json_object_put_p) json_object *gate = NULL, *both = NULL;

        assert_ok(pod_patch_make(&patch, &gate));
        assert_string_equal(text_of(gate),
                            "{\"status\":{\"conditions\":[{\"type\":\"inplaced.io/Ready\","
                            "\"status\":\"True\",\"reason\":\"Started\",\"message\":\"\","
                            "\"lastTransitionTime\":\"1970-01-01T00:00:00Z\"}]}}");

        patch.status = "True";
        patch.reason = "Verified";
        patch.message = "m";
        assert_ok(pod_patch_make(&patch, &both));
        assert_contains(text_of(both), "\"reason\":\"Verified\"");
        assert_contains(text_of(both), "\"reason\":\"Started\"");
}
