/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A guarded write: what is sent, what its answer means, and when the next one may be sent
 */

#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"

#include <json-c/json.h>
#include <stdio.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/patch.h"
#include "agent/kube/retry.h"

static struct Seen {
        unsigned n_answers;
        KubePatchOutcome outcome;
        char version[32];
        char message[256];
} seen;

static int on_answered(const KubePatchAnswer *answer, void *userdata) {
        seen.n_answers++;
        seen.outcome = answer->outcome;
        (void) snprintf(seen.version, sizeof(seen.version), "%s", answer->version ?: "-");
        (void) snprintf(seen.message, sizeof(seen.message), "%s",
                        answer->error ? error_message(answer->error) : "");
        return 0;
}

static KubePatch patch;

static int set_up(void **state) {
        fake_kube_open();
        patch = (KubePatch){ .client = &fake_kube };
        seen = (struct Seen){ .n_answers = 0 };
        return 0;
}

static int tear_down(void **state) {
        kube_patch_done(&patch);
        fake_kube_close();
        return 0;
}

static uint64_t rest_usec(void) {
        return patch.rest_usec > fake_clock.now_usec ? patch.rest_usec - fake_clock.now_usec : 0;
}

/* A merge patch of the object's status, guarded by its version. */
static void send_digest(KubePatchVerb verb, uint64_t digest) {
        cleanup(json_object_put_p) json_object *body = json_tokener_parse("{\"status\":1}");
        const KubePatchRequest request = {
                .verb = verb,
                .path = { .group = "apps.kruise.io",
                          .version = "v1beta1",
                          .resource = "nodeimages",
                          .name = "node-1",
                          .subresource = "status" },
                .body = body,
                .version = "7",
                .digest = digest,
                .on_answered = on_answered,
        };

        assert_int_equal(kube_patch_send(&patch, &request), 0);
}

static const struct {
        const char *name;
        KubePatchVerb verb;
        const char *body, *uid, *version, *subresource;
        const char *method, *path, *type, *sent;
} requests[] = {
        { "version", KUBE_PATCH_MERGE, "{\"status\":1}", NULL, "7", "status", "PATCH",
          "/api/v1/namespaces/d/pods/p/status", KUBE_MERGE_PATCH,
          "{\"status\":1,\"metadata\":{\"resourceVersion\":\"7\"}}" },
        { "uid", KUBE_PATCH_STRATEGIC, "{}", "u", NULL, NULL, "PATCH",
          "/api/v1/namespaces/d/pods/p", KUBE_STRATEGIC_MERGE_PATCH,
          "{\"metadata\":{\"uid\":\"u\"}}" },
        { "both, beside a change", KUBE_PATCH_MERGE, "{\"metadata\":{\"labels\":{\"a\":null}}}",
          "u", "7", NULL, "PATCH", "/api/v1/namespaces/d/pods/p", KUBE_MERGE_PATCH,
          "{\"metadata\":{\"labels\":{\"a\":null},\"uid\":\"u\",\"resourceVersion\":\"7\"}}" },
        { "without a guard", KUBE_PATCH_MERGE, "{\"status\":1}", NULL, NULL, NULL, "PATCH",
          "/api/v1/namespaces/d/pods/p", KUBE_MERGE_PATCH, "{\"status\":1}" },
        { "steps", KUBE_PATCH_STEPS, "[{\"op\":\"test\"}]", NULL, NULL, NULL, "PATCH",
          "/api/v1/namespaces/d/pods/p", KUBE_JSON_PATCH, "[{\"op\":\"test\"}]" },
        { "create", KUBE_PATCH_CREATE, "{\"spec\":{}}", NULL, NULL, NULL, "POST",
          "/api/v1/namespaces/d/pods/p", KUBE_JSON, "{\"spec\":{}}" },
        { "delete", KUBE_PATCH_DELETE, NULL, "u", "7", NULL, "DELETE",
          "/api/v1/namespaces/d/pods/p", KUBE_JSON,
          "{\"preconditions\":{\"uid\":\"u\",\"resourceVersion\":\"7\"},"
          "\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\"}" },
        { "get", KUBE_PATCH_GET, NULL, NULL, NULL, NULL, "GET", "/api/v1/namespaces/d/pods/p", NULL,
          NULL },
};

static void test_requests(void **state) {
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                cleanup(json_object_put_p) json_object *body = NULL;
                const KubePatchRequest request = {
                        .verb = requests[i].verb,
                        .path = { .version = "v1",
                                  .namespace = "d",
                                  .resource = "pods",
                                  .name = "p",
                                  .subresource = requests[i].subresource },
                        .body = body =
                                requests[i].body ? json_tokener_parse(requests[i].body) : NULL,
                        .uid = requests[i].uid,
                        .version = requests[i].version,
                        .on_answered = on_answered,
                };
                const KubeRequest *sent;

                print_message("%s\n", requests[i].name);
                assert_int_equal(kube_patch_send(&patch, &request), 0);
                sent = &fake_kube.calls[0]->request;
                assert_string_equal(sent->method, requests[i].method);
                assert_string_equal(sent->path, requests[i].path);
                assert_string_equal(sent->accept, KUBE_METADATA_ONLY);
                assert_string_equal(sent->content_type ?: "", requests[i].type ?: "");
                assert_string_equal(sent->body ?: "", requests[i].sent ?: "");
                assert_int_equal(fake_kube_answer(200, "{}"), 0);
        }
}

static void test_whole_object(void **state) {
        const KubePatchRequest request = {
                .verb = KUBE_PATCH_GET,
                .path = { .version = "v1", .resource = "nodes", .name = "n" },
                .on_answered = on_answered,
                .accept = KUBE_JSON,
        };

        assert_int_equal(kube_patch_send(&patch, &request), 0);
        assert_string_equal(fake_kube.calls[0]->request.accept, KUBE_JSON);
}

/* clang-format off */
static const struct {
        int code;
        KubePatchOutcome outcome;
        uint64_t rest_usec;
        unsigned n_failures;
        const char *message;
} answers[] = {
        { 200, KUBE_PATCH_TAKEN,    0,                        0, "" },
        { 409, KUBE_PATCH_CONFLICT, KUBE_PATCH_CONFLICT_USEC, 0, "code 409" },
        { 404, KUBE_PATCH_GONE,     KUBE_RETRY_MIN_USEC,      1, "code 404" },
        { 422, KUBE_PATCH_REFUSED,  KUBE_RETRY_MIN_USEC,      1, "code 422" },
        { 401, KUBE_PATCH_REFUSED,  KUBE_RETRY_MIN_USEC,      1, "code 401" },
        { 403, KUBE_PATCH_REFUSED,  KUBE_RETRY_MIN_USEC,      1,
          "the right to patch nodeimages/status.apps.kruise.io is missing: code 403" },
        { 503, KUBE_PATCH_UNKNOWN,  KUBE_RETRY_MIN_USEC,      1, "code 503" },
        { 429, KUBE_PATCH_UNKNOWN,  KUBE_RETRY_MIN_USEC,      1, "code 429" },
        { 0,   KUBE_PATCH_UNKNOWN,  KUBE_RETRY_MIN_USEC,      1, "code 0" },
};
/* clang-format on */

static void test_answers(void **state) {
        for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
                print_message("%d\n", answers[i].code);
                kube_patch_succeed(&patch);
                send_digest(KUBE_PATCH_MERGE, 0);
                assert_int_equal(fake_kube_answer(answers[i].code, "{}"), 0);
                assert_int_equal(seen.n_answers, i + 1);
                assert_int_equal(seen.outcome, answers[i].outcome);
                assert_string_equal(seen.message, answers[i].message);
                assert_int_equal(patch.n_failures, answers[i].n_failures);
                assert_in_range(rest_usec(), answers[i].rest_usec * 4 / 5,
                                answers[i].rest_usec * 6 / 5);
        }
}

/* The decision of a webhook or a policy is none about a right, and one right is not another. */
static void test_rights(void **state) {
        static const char *const denials[] = {
                "admission webhook \"x\" denied the request: no",
                "pods \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied "
                "request: no",
        };
        const KubeReply reply = { .code = 403, .body = "" };
        const KubePatchRequest get = {
                .verb = KUBE_PATCH_GET,
                .path = { .version = "v1", .resource = "nodes", .name = "n" },
                .on_answered = on_answered,
        };

        for (size_t i = 0; i < sizeof(denials) / sizeof(denials[0]); i++) {
                const Error denial = { .kind = ERROR_DENIED, .message = (char *) denials[i] };

                send_digest(KUBE_PATCH_MERGE, 0);
                assert_int_equal(fake_kube.calls[0]->request.on_replied(&reply, &denial, &patch),
                                 0);
                assert_string_equal(seen.message, denials[i]);
        }

        assert_int_equal(kube_patch_send(&patch, &get), 0);
        assert_int_equal(fake_kube_answer(403, "{}"), 0);
        assert_string_equal(seen.message, "the right to get nodes is missing: code 403");
}

static void test_version(void **state) {
        static const char *const bodies[][2] = {
                { "{\"metadata\":{\"resourceVersion\":\"12\"}}", "12" },
                { "{\"metadata\":{\"resourceVersion\":12}}", "-" },
                { "{\"metadata\":{\"resourceVersion\":\"\"}}", "-" },
                { "{\"metadata\":{}}", "-" },
                { "{\"metadata\":7}", "-" },
                { "[]", "-" },
                { "null", "-" },
                { "{", "-" },
                { "", "-" },
        };

        for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
                send_digest(KUBE_PATCH_MERGE, 0);
                assert_int_equal(fake_kube_answer(200, bodies[i][0]), 0);
                assert_int_equal(seen.outcome, KUBE_PATCH_TAKEN);
                assert_string_equal(seen.version, bodies[i][1]);
        }
}

/* What was read says nothing about whether it can be written. */
static void test_read_does_not_reset(void **state) {
        for (unsigned i = 1; i <= 3; i++) {
                send_digest(KUBE_PATCH_GET, 0);
                assert_int_equal(fake_kube_answer(200,
                                                  "{\"metadata\":{\"resourceVersion\":\"12\"}}"),
                                 0);
                assert_string_equal(seen.version, "-");
                send_digest(KUBE_PATCH_MERGE, 0);
                assert_int_equal(fake_kube_answer(503, ""), 0);
                assert_int_equal(patch.n_failures, i);
        }

        kube_patch_succeed(&patch);
        assert_int_equal(patch.n_failures, 0);
        assert_int_equal(kube_patch_when_usec(&patch, 0), 0);
}

/* What is changed back is written later each time; what is refused was not written. */
static void test_repeats(void **state) {
        uint64_t now;

        send_digest(KUBE_PATCH_MERGE, 5);
        assert_int_equal(fake_kube_answer(409, ""), 0);
        kube_patch_rest(&patch, 0);
        assert_int_equal(kube_patch_when_usec(&patch, 5), 0);

        assert_true(sd_event_now(fake_kube.event, CLOCK_MONOTONIC, &now) >= 0);
        for (unsigned i = 0; i < 3; i++) {
                send_digest(KUBE_PATCH_MERGE, 5);
                assert_int_equal(fake_kube_answer(200, "{}"), 0);
                assert_true(kube_patch_when_usec(&patch, 5) >= now + (REPEAT_MIN_USEC << i));
        }
        assert_int_equal(kube_patch_when_usec(&patch, 6), 0);
        assert_int_equal(kube_patch_when_usec(&patch, 0), 0);

        kube_patch_rest(&patch, 3600 * (uint64_t) 1000000);
        assert_int_equal(kube_patch_when_usec(&patch, 5), patch.rest_usec);
}

/* What the watch explains soon, or never. */
static void test_conflicts(void **state) {
        for (unsigned i = 1; i <= 6; i++) {
                send_digest(KUBE_PATCH_GET, 0);
                assert_int_equal(fake_kube_answer(200, "{}"), 0);
                send_digest(KUBE_PATCH_MERGE, 0);
                assert_int_equal(fake_kube_answer(409, ""), 0);
                assert_int_equal(patch.n_conflicts, i);
                assert_int_equal(patch.n_failures, 0);
                assert_int_equal(rest_usec() > KUBE_PATCH_CONFLICT_USEC,
                                 i >= KUBE_PATCH_CONFLICTS_MAX);
        }

        send_digest(KUBE_PATCH_MERGE, 0);
        assert_int_equal(fake_kube_answer(200, "{}"), 0);
        kube_patch_conflict(&patch, NULL);
        assert_int_equal(patch.n_conflicts, 7);
        send_digest(KUBE_PATCH_MERGE, 0);
        assert_int_equal(fake_kube_answer(200, "{\"metadata\":{\"resourceVersion\":\"12\"}}"), 0);
        assert_int_equal(patch.n_conflicts, 0);

        kube_patch_conflict(&patch, NULL);
        send_digest(KUBE_PATCH_MERGE, 0);
        assert_int_equal(fake_kube_answer(503, ""), 0);
        assert_int_equal(patch.n_conflicts, 0);
}

static void test_cancel(void **state) {
        send_digest(KUBE_PATCH_MERGE, 0);
        kube_patch_cancel(&patch);
        assert_int_equal(fake_kube.n_calls, 0);
        send_digest(KUBE_PATCH_MERGE, 0);
        assert_int_equal(fake_kube_answer(200, "{}"), 0);
        assert_int_equal(seen.n_answers, 1);
}

static void test_versions(void **state) {
        static const struct {
                const char *version, *than;
                bool is_older;
        } versions[] = {
                { "9", "10", true },
                { "10", "10", false },
                { "11", "10", false },
                { "99", "100", true },
                { "x", "10", false },
                { "9", "x", false },
                { "", "10", false },
                { "9", "", false },
                { "9", "99999999999999999999999", true },
        };

        for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
                if (kube_version_is_older(versions[i].version, versions[i].than) !=
                    versions[i].is_older)
                        fail_msg("\"%s\", \"%s\"", versions[i].version, versions[i].than);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_requests, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_whole_object, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_answers, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_rights, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_version, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_read_does_not_reset, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_repeats, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_conflicts, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_cancel, set_up, tear_down),
                cmocka_unit_test(test_versions),
        };

        return cmocka_run_group_tests_name("a guarded write", tests, NULL, NULL);
}
