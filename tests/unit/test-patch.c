/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A guarded write: what is sent, what its answer means, and when the next one may be sent
 */

#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/unit.h"

#include <json-c/json.h>
#include <time.h>

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
        kube_patch_cancel(&patch);
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

        assert_ok(kube_patch_send(&patch, &request));
}

static const struct RequestsRow {
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

TEST_ROWS_F(test_requests, requests, name, const struct RequestsRow *row, void *unused) {
        cleanup(json_object_put_p) json_object *body = NULL;
        const KubePatchRequest request = {
                .verb = row->verb,
                .path = { .version = "v1",
                          .namespace = "d",
                          .resource = "pods",
                          .name = "p",
                          .subresource = row->subresource },
                .body = body = row->body ? json_tokener_parse(row->body) : NULL,
                .uid = row->uid,
                .version = row->version,
                .on_answered = on_answered,
        };
        const KubeRequest *sent;

        print_message("%s\n", row->name);
        assert_ok(kube_patch_send(&patch, &request));
        sent = &fake_kube.calls[0]->request;
        assert_string_equal(sent->method, row->method);
        assert_string_equal(sent->path, row->path);
        assert_string_equal(sent->accept, KUBE_METADATA_ONLY);
        assert_string_equal(sent->content_type ?: "", row->type ?: "");
        assert_string_equal(sent->body ?: "", row->sent ?: "");
        assert_ok(fake_kube_answer(200, "{}"));
}

TEST_SET_UP(test_whole_object) {
        const KubePatchRequest request = {
                .verb = KUBE_PATCH_GET,
                .path = { .version = "v1", .resource = "nodes", .name = "n" },
                .on_answered = on_answered,
                .accept = KUBE_JSON,
                .reply_max = 1000,
        };

        assert_ok(kube_patch_send(&patch, &request));
        assert_string_equal(fake_kube.calls[0]->request.accept, KUBE_JSON);
        assert_int_equal(fake_kube.calls[0]->request.reply_max, 1000);
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

TEST_SET_UP(test_answers) {
        for (size_t i = 0; i < N_ELEMENTS(answers); i++) {
                print_message("%d\n", answers[i].code);
                kube_patch_succeed(&patch);
                send_digest(KUBE_PATCH_MERGE, 0);
                assert_ok(fake_kube_answer(answers[i].code, "{}"));
                assert_int_equal(seen.n_answers, i + 1);
                assert_int_equal(seen.outcome, answers[i].outcome);
                assert_string_equal(seen.message, answers[i].message);
                assert_int_equal(patch.n_failures, answers[i].n_failures);
                assert_in_range(rest_usec(), answers[i].rest_usec * 4 / 5,
                                answers[i].rest_usec * 6 / 5);
        }
}

/* The decision of a webhook or a policy is none about a right, and one right is not another. */
TEST_SET_UP(test_rights) {
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

        for (size_t i = 0; i < N_ELEMENTS(denials); i++) {
                const Error denial = { .kind = ERROR_DENIED, .message = (char *) denials[i] };

                send_digest(KUBE_PATCH_MERGE, 0);
                assert_int_equal(fake_kube.calls[0]->request.on_replied(&reply, &denial, &patch),
                                 0);
                assert_string_equal(seen.message, denials[i]);
        }

        assert_ok(kube_patch_send(&patch, &get));
        assert_ok(fake_kube_answer(403, "{}"));
        assert_string_equal(seen.message, "the right to get nodes is missing: code 403");
}

TEST_SET_UP(test_version) {
        static const char *const bodies[][2] = {
                { "{\"metadata\":{\"resourceVersion\":\"12\"}}", "12" },
                { "{\"metadata\":{\"managedFields\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],"
                  "\"resourceVersion\":\"12\"}}",
                  "12" },
                { "{\"metadata\":{\"resourceVersion\":12}}", "-" },
                { "{\"metadata\":{\"resourceVersion\":\"\"}}", "-" },
                { "{\"metadata\":{}}", "-" },
                { "{\"metadata\":7}", "-" },
                { "[]", "-" },
                { "null", "-" },
                { "{", "-" },
                { "", "-" },
        };

        for (size_t i = 0; i < N_ELEMENTS(bodies); i++) {
                send_digest(KUBE_PATCH_MERGE, 0);
                assert_ok(fake_kube_answer(200, bodies[i][0]));
                assert_int_equal(seen.outcome, KUBE_PATCH_TAKEN);
                assert_string_equal(seen.version, bodies[i][1]);
        }
}

/* A read that succeeds says nothing about whether the object can be written. */
TEST_SET_UP(test_read_does_not_reset) {
        for (unsigned i = 1; i <= 3; i++) {
                send_digest(KUBE_PATCH_GET, 0);
                assert_ok(fake_kube_answer(200, "{\"metadata\":{\"resourceVersion\":\"12\"}}"));
                assert_string_equal(seen.version, "-");
                send_digest(KUBE_PATCH_MERGE, 0);
                assert_ok(fake_kube_answer(503, ""));
                assert_int_equal(patch.n_failures, i);
        }

        kube_patch_succeed(&patch);
        assert_int_equal(patch.n_failures, 0);
        assert_int_equal(kube_patch_when_usec(&patch, 0), 0);
}

/* A patch that others revert is repeated more slowly each time; a refused patch was not written. */
TEST_SET_UP(test_repeats) {
        uint64_t now;

        send_digest(KUBE_PATCH_MERGE, 5);
        assert_ok(fake_kube_answer(409, ""));
        kube_patch_rest(&patch, 0);
        assert_int_equal(kube_patch_when_usec(&patch, 5), 0);

        assert_true(sd_event_now(fake_kube.event, CLOCK_MONOTONIC, &now) >= 0);
        for (unsigned i = 0; i < 3; i++) {
                send_digest(KUBE_PATCH_MERGE, 5);
                assert_ok(fake_kube_answer(200, "{}"));
                assert_true(kube_patch_when_usec(&patch, 5) >= now + (REPEAT_MIN_USEC << i));
        }
        assert_int_equal(kube_patch_when_usec(&patch, 6), 0);
        assert_int_equal(kube_patch_when_usec(&patch, 0), 0);

        kube_patch_rest(&patch, 3600 * (uint64_t) 1000000);
        assert_int_equal(kube_patch_when_usec(&patch, 5), patch.rest_usec);
}

/* Conflicts that the watch explains soon, or never. */
TEST_SET_UP(test_conflicts) {
        for (unsigned i = 1; i <= 6; i++) {
                send_digest(KUBE_PATCH_GET, 0);
                assert_ok(fake_kube_answer(200, "{}"));
                send_digest(KUBE_PATCH_MERGE, 0);
                assert_ok(fake_kube_answer(409, ""));
                assert_int_equal(patch.n_conflicts, i);
                assert_int_equal(patch.n_failures, 0);
                assert_int_equal(rest_usec() > KUBE_PATCH_CONFLICT_USEC,
                                 i >= KUBE_PATCH_CONFLICTS_MAX);
        }

        send_digest(KUBE_PATCH_MERGE, 0);
        assert_ok(fake_kube_answer(200, "{}"));
        kube_patch_conflict(&patch, NULL);
        assert_int_equal(patch.n_conflicts, 7);
        send_digest(KUBE_PATCH_MERGE, 0);
        assert_ok(fake_kube_answer(200, "{\"metadata\":{\"resourceVersion\":\"12\"}}"));
        assert_int_equal(patch.n_conflicts, 0);

        kube_patch_conflict(&patch, NULL);
        send_digest(KUBE_PATCH_MERGE, 0);
        assert_ok(fake_kube_answer(503, ""));
        assert_int_equal(patch.n_conflicts, 0);
}

TEST_SET_UP(test_cancel) {
        send_digest(KUBE_PATCH_MERGE, 0);
        kube_patch_cancel(&patch);
        assert_int_equal(fake_kube.n_calls, 0);
        send_digest(KUBE_PATCH_MERGE, 0);
        assert_ok(fake_kube_answer(200, "{}"));
        assert_int_equal(seen.n_answers, 1);
}

TEST(test_versions) {
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

        for (size_t i = 0; i < N_ELEMENTS(versions); i++)
                if (kube_version_is_older(versions[i].version, versions[i].than) !=
                    versions[i].is_older)
                        fail_msg("\"%s\", \"%s\"", versions[i].version, versions[i].than);
}
