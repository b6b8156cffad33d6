/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests questions to programs that make credentials, and their answers
 */

#include "agent/base/rfc3339.h"
#include "agent/kube/exec-credential-spec.h"
#include "tests/unit/unit.h"

#define NOW "2026-01-31T12:00:00Z"
#define SECRET "hunter2"
#define PEM "-----BEGIN X-----\\nhunter2\\n-----END X-----\\n"

#define HEAD "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" EXEC_CREDENTIAL_V1 "\""
#define STATUS(members) HEAD ",\"status\":{" members "}}"
#define TOKEN "\"token\":\"hunter2\""

/* clang-format off */

static const struct Refusal {
        const char *name;
        const char *answer;
        const char *message;
} refusals[] = {
        { "nothing", "", "is empty" },
        { "a bare token", SECRET "\n", "is neither a YAML nor a JSON object" },
        { "half of it", "{\"kind\":\"ExecCredential\"", NULL },
        { "two", STATUS(TOKEN) STATUS(TOKEN), "has more than one document" },
        { "another kind", "{\"kind\":\"hunter2\"}", "kind: expected \"ExecCredential\"" },
        { "a kind of another type", "{\"kind\":[\"hunter2\"]}", "kind: expected a string (in quotes)" },
        { "another version", "{\"kind\":\"ExecCredential\",\"apiVersion\":\"hunter2\"}",
          "apiVersion: expected \"client.authentication.k8s.io/v1\"" },
        { "no status", HEAD "}", "status: is missing" },
        { "a status of another type", HEAD ",\"status\":\"hunter2\"}", "status: expected an object" },
        { "an empty status", STATUS(""), "status: has neither a token nor a certificate" },
        { "an empty token", STATUS("\"token\":\"\""), "status: has neither a token nor a certificate" },
        { "a token that is no text", STATUS("\"token\":[\"hunter2\"]"),
          "status.token: expected a string (in quotes)" },
        { "a token of two lines", STATUS("\"token\":\"hunter2\\r\\nhunter2\""),
          "status.token: has a control character in it" },
        { "a certificate alone", STATUS("\"clientCertificateData\":\"" PEM "\""),
          "status: has only one of certificate and key" },
        { "a key alone", STATUS(TOKEN ",\"clientKeyData\":\"" PEM "\""),
          "status: has only one of certificate and key" },
        { "a key that is none", STATUS("\"clientKeyData\":\"hunter2\""),
          "status.clientKeyData: is not PEM" },
        { "a time that is none", STATUS(TOKEN ",\"expirationTimestamp\":\"hunter2\""),
          "status.expirationTimestamp: expected a time such as 2026-01-31T12:00:00Z" },
        { "an expired one", STATUS(TOKEN ",\"expirationTimestamp\":\"" NOW "\""),
          "status.expirationTimestamp: it expired at 2026-01-31T12:00:00Z, and here it is "
          "2026-01-31T12:00:00Z" },
        { "a tag where the token should be", "status: !hunter2", "line 1, column 9: this cannot be understood" },
};

/* When it expires, and when it is renewed, in seconds from now. */
static const struct Lifetime {
        const char *expires_at;
        int64_t lifetime_sec;
        int64_t renew_sec;
} lifetimes[] = {
        { "2026-01-31T12:00:01Z",           1,     1 },
        { "2026-01-31T12:00:20Z",          20,    18 },
        { "2026-01-31T12:05:00Z",         300,   270 },
        { "2026-01-31T13:00:00+00:00",   3600,  3570 },
        { "2026-02-01T12:00:00.999Z",   86400, 86370 },
};

/* clang-format on */

static int64_t now(void) {
        int64_t time;

        assert_ok(rfc3339_parse(NOW, &time));
        return time;
}

static int parse(const char *answer, ExecCredential *credential, Error *error) {
        return exec_credential_parse(answer, strlen(answer), EXEC_CREDENTIAL_V1, now(), credential,
                                     error);
}

TEST_ROWS(test_refusal, refusals, name, const struct Refusal *refusal) {
        ExecCredential credential = EXEC_CREDENTIAL_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        assert_true(parse(refusal->answer, &credential, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        if (refusal->message)
                assert_string_equal(error_message(&error), refusal->message);
        assert_null(strstr(error_message(&error), SECRET));
        assert_null(credential.token);
}

TEST(test_token) {
        cleanup(exec_credential_done) ExecCredential credential = EXEC_CREDENTIAL_INIT;

        assert_ok(parse(STATUS(TOKEN ",\"else\":1"), &credential, NULL));
        assert_string_equal(credential.token, SECRET);
        assert_null(credential.certificate);
        assert_null(credential.key);
        assert_true(credential.expires_at == INT64_MAX);
        assert_true(credential.renew_at == INT64_MAX);
}

TEST(test_certificate) {
        cleanup(exec_credential_done) ExecCredential credential = EXEC_CREDENTIAL_INIT;

        assert_ok(
                parse(STATUS("\"clientCertificateData\":\"" PEM "\",\"clientKeyData\":\"" PEM "\""),
                      &credential, NULL));
        assert_null(credential.token);
        assert_string_equal(credential.certificate,
                            "-----BEGIN X-----\nhunter2\n-----END X-----\n");
        assert_string_equal(credential.key, credential.certificate);
}

TEST_ROWS(test_lives, lifetimes, expires_at, const struct Lifetime *row) {
        cleanup(exec_credential_done) ExecCredential credential = EXEC_CREDENTIAL_INIT;
        char answer[512];

        (void) snprintf(answer, sizeof(answer), STATUS(TOKEN ",\"expirationTimestamp\":\"%s\""),
                        row->expires_at);
        assert_ok(parse(answer, &credential, NULL));
        assert_int_equal(credential.expires_at - now(), row->lifetime_sec);
        assert_int_equal(credential.renew_at - now(), row->renew_sec);
}

TEST(test_request) {
        cleanup(free_p) char *request = NULL;

        assert_ok(exec_credential_request(EXEC_CREDENTIAL_V1BETA1, NULL, &request));
        assert_string_equal(request,
                            "{\"spec\":{\"interactive\":false},\"kind\":\"ExecCredential\","
                            "\"apiVersion\":\"" EXEC_CREDENTIAL_V1BETA1 "\"}");
}

TEST(test_request_with_cluster) {
        const ExecCredentialCluster cluster = {
                .server = "https://[::1]:6443",
                .tls_server_name = "api",
                .ca = "abc",
                .is_unverified = true,
                .proxy = "http://proxy",
                .config = "{\"audience\":[1,2.5,null]}",
        };
        cleanup(free_p) char *request = NULL;

        assert_ok(exec_credential_request(EXEC_CREDENTIAL_V1, &cluster, &request));
        assert_string_equal(
                request,
                "{\"spec\":{\"interactive\":false,\"cluster\":{\"server\":\"https://[::1]:6443\","
                "\"tls-server-name\":\"api\",\"certificate-authority-data\":\"YWJj\","
                "\"proxy-url\":\"http://proxy\",\"config\":{\"audience\":[1,2.5,null]},"
                "\"insecure-skip-tls-verify\":true}},\"kind\":\"ExecCredential\","
                "\"apiVersion\":\"" EXEC_CREDENTIAL_V1 "\"}");
}
