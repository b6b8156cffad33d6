/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The verdict on an image, the condition made of them, and the patch that carries it
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/inplace/condition-status.h"
#include "agent/inplace/pod-patch-spec.h"

#define ID_A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define RUNS                                                                            \
        .name = "app", .reference = "nginx:1.25", .is_running = true, .is_known = true, \
        .comes_back = true

static void test_verdict(void **state) {
        assert_int_equal(verdict_of(ID_A, ID_A), VERDICT_CURRENT);
        assert_int_equal(verdict_of(ID_A, ID_A + strlen("sha256:")), VERDICT_CURRENT);
        assert_int_equal(verdict_of(ID_A, ID_B), VERDICT_STALE);
        assert_int_equal(verdict_of(NULL, ID_B), VERDICT_UNKNOWN);
        assert_int_equal(verdict_of("", ""), VERDICT_UNKNOWN);
        assert_string_equal(verdict_to_string(VERDICT_STALE), "Stale");
}

static const struct {
        ConditionContainer container;
        const char *status, *reason, *message;
} of_one[] = {
        { { RUNS, .reference_id = ID_A, .running_id = ID_A },
          "True",
          "Verified",
          "app runs sha256:aaaaaaaaaaaa… as asked for by nginx:1.25" },
        { { RUNS, .reference_id = ID_A, .running_id = ID_A, .has_environment = true,
            .knows_environment = true },
          "True",
          "Verified",
          "app runs sha256:aaaaaaaaaaaa… as asked for by nginx:1.25" },
        { { RUNS, .reference_id = ID_B, .running_id = ID_A },
          "False",
          "ImageStale",
          "container app runs sha256:aaaaaaaaaaaa… and its reference nginx:1.25 is "
          "sha256:bbbbbbbbbbbb…" },
        { { RUNS, .reference_id = ID_B, .running_id = ID_A, .is_restarting = true },
          "False",
          "Restarting",
          "container app runs sha256:aaaaaaaaaaaa… and its reference nginx:1.25 is "
          "sha256:bbbbbbbbbbbb…" },
        { { RUNS, .reference_id = ID_A, .running_id = ID_A, .is_restarting = true,
            .is_environment_stale = true },
          "False",
          "Restarting",
          "container app is restarted: its environment comes from labels or annotations "
          "that have changed" },
        { { RUNS, .reference_id = ID_A, .running_id = ID_A, .is_environment_stale = true },
          "False",
          "EnvironmentStale",
          "container app has the environment of labels or annotations that have changed" },
        { { RUNS, .reference_id = ID_A, .running_id = ID_A, .is_environment_stale = true,
            .has_failed = true },
          "False",
          "EnvironmentStale",
          "container app has the environment of labels or annotations that have changed, and "
          "a restart did not help" },
        { { .name = "app",
            .reference = "a",
            .reference_id = ID_A,
            .running_id = ID_A,
            .is_running = true,
            .is_known = true,
            .is_environment_stale = true },
          "False",
          "CannotRestart",
          "container app has the environment of labels or annotations that have changed, and "
          "nothing would start it again" },
        { { .name = "app", .reference = "a", .reference_id = "", .running_id = "" },
          "False",
          "NotRunning",
          "container app does not run" },
        { { RUNS, .reference_id = "", .running_id = ID_A },
          "Unknown",
          "Unknown",
          "container app runs sha256:aaaaaaaaaaaa… and its reference nginx:1.25 is not on "
          "this node" },
        { { RUNS, .reference_id = ID_A, .running_id = ID_A, .has_environment = true },
          "Unknown",
          "Unknown",
          "the environment of container app is unknown" },
};

static void test_of_one(void **state) {
        for (size_t i = 0; i < sizeof(of_one) / sizeof(of_one[0]); i++) {
                cleanup(condition_done) Condition condition = CONDITION_INIT;

                assert_int_equal(condition_of(&of_one[i].container, 1, &condition), 0);
                assert_string_equal(condition_status_of(condition.reason), of_one[i].status);
                assert_string_equal(condition_reason_to_string(condition.reason), of_one[i].reason);
                assert_string_equal(condition.message, of_one[i].message);
        }
}

static void test_of_several(void **state) {
        const ConditionContainer containers[] = {
                { RUNS, .reference_id = ID_A, .running_id = ID_A },
                { .name = "log", .reference = "b", .reference_id = "", .running_id = "" },
                { RUNS, .reference_id = ID_B, .running_id = ID_A },
        };
        cleanup(condition_done) Condition condition = CONDITION_INIT;
        cleanup(condition_done) Condition good = CONDITION_INIT;

        assert_int_equal(condition_of(containers, 3, &condition), 0);
        assert_int_equal(condition.reason, CONDITION_IMAGE_STALE);
        assert_string_equal(
                condition.message,
                "container log does not run; container app runs sha256:aaaaaaaaaaaa… and "
                "its reference nginx:1.25 is sha256:bbbbbbbbbbbb…");
        assert_int_equal(condition_of(containers, 1, &good), 0);
        assert_int_equal(good.reason, CONDITION_VERIFIED);
}

static void test_long_message(void **state) {
        ConditionContainer containers[100];

        for (size_t n = 1; n <= 100; n++) {
                cleanup(condition_done) Condition condition = CONDITION_INIT;

                containers[n - 1] =
                        (ConditionContainer){ RUNS, .reference_id = ID_A, .running_id = ID_A };
                assert_int_equal(condition_of(containers, n, &condition), 0);
                assert_true(strlen(condition.message) <= CONDITION_MESSAGE_MAX);
                if (n == 100)
                        assert_non_null(strstr(condition.message + 1000, "…"));
        }
}

static const char *text_of(json_object *json) {
        return json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE);
}

static void test_patch(void **state) {
        PodPatch patch = { .meta = "{\"a/b\":1}", .changed_sec = -1 };
        cleanup(json_object_put_p) json_object *meta = NULL, *both = NULL, *same = NULL;

        assert_int_equal(pod_patch_make(&patch, &meta), 0);
        assert_string_equal(text_of(meta),
                            "{\"metadata\":{\"annotations\":{"
                            "\"apps.kruise.io/runtime-containers-meta\":\"{\\\"a/b\\\":1}\"}}}");

        patch.status = "False";
        patch.reason = "Restarting";
        patch.message = "m";
        patch.changed_sec = 0;
        assert_int_equal(pod_patch_make(&patch, &both), 0);
        assert_non_null(strstr(text_of(both),
                               "},\"status\":{\"conditions\":[{\"type\":"
                               "\"inplaced.io/InPlaceVerified\",\"status\":\"False\","
                               "\"reason\":\"Restarting\",\"message\":\"m\","
                               "\"lastTransitionTime\":\"1970-01-01T00:00:00Z\"}]}}"));

        patch.meta = NULL;
        patch.changed_sec = -1;
        assert_int_equal(pod_patch_make(&patch, &same), 0);
        assert_null(strstr(text_of(same), "annotations"));
        assert_null(strstr(text_of(same), "lastTransitionTime"));
}

static void test_patch_of_gate(void **state) {
        PodPatch patch = { .gate = "Started", .opened_sec = 0, .changed_sec = -1 };
        cleanup(json_object_put_p) json_object *gate = NULL, *both = NULL;

        assert_int_equal(pod_patch_make(&patch, &gate), 0);
        assert_string_equal(text_of(gate),
                            "{\"status\":{\"conditions\":[{\"type\":\"inplaced.io/Ready\","
                            "\"status\":\"True\",\"reason\":\"Started\",\"message\":\"\","
                            "\"lastTransitionTime\":\"1970-01-01T00:00:00Z\"}]}}");

        patch.status = "True";
        patch.reason = "Verified";
        patch.message = "m";
        assert_int_equal(pod_patch_make(&patch, &both), 0);
        assert_non_null(strstr(text_of(both), "\"reason\":\"Verified\""));
        assert_non_null(strstr(text_of(both), "\"reason\":\"Started\""));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_verdict),    cmocka_unit_test(test_of_one),
                cmocka_unit_test(test_of_several), cmocka_unit_test(test_long_message),
                cmocka_unit_test(test_patch),      cmocka_unit_test(test_patch_of_gate),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
