/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Why a pull failed
 *
 * What runtimes say, as they say it, with other names in it.
 */

#include "agent/image/pull-reason.h"
#include "tests/unit/unit.h"

#define PULL(ref) "failed to pull and unpack image \"" ref "\": "
#define RESOLVE(ref) PULL(ref) "failed to resolve reference \"" ref "\": "
#define HEAD "failed to do request: Head \"https://reg.example.com/v2/a/manifests/1\": "
#define COPY(url) PULL("reg.example.com/a:1") "failed to copy: httpReadSeeker: failed open: " url
#define TOKEN "failed to authorize: failed to fetch anonymous token: "
#define DIGEST "sha256:ba0ea737864968452105fe8d89689393ff1d5c93fc2320c4a83610bb002f1b2a"
#define STATUS "pulling from host reg.example.com failed with status code [manifests 1]: "
#define APP "reg.example.com/a:1"
#define ARTIFACT \
        "unable to try pulling possible OCI artifact: build image source: reading manifest 1 in reg.example.com/a: "

/* clang-format off */
static const struct Case {
        ErrorKind kind;
        PullReason reason;
        const char *text;
} cases[] = {
        /* containerd 1.6 */
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE(APP) STATUS "401 Unauthorized" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE(APP) STATUS "403 Forbidden" },
        { ERROR_INTERNAL, PULL_REASON_RATE_LIMITED, RESOLVE(APP) STATUS "429 Too Many Requests" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, RESOLVE(APP) STATUS "500 Internal Server Error" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, RESOLVE(APP) STATUS "503 Service Unavailable" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, RESOLVE(APP) STATUS "400 Bad Request" },
        { ERROR_NOT_FOUND, PULL_REASON_REGISTRY_ERROR, PULL(APP) "failed to unpack image on snapshotter overlayfs: unexpected media type text/html for " DIGEST ": not found" },
        { ERROR_NOT_FOUND, PULL_REASON_UNSUPPORTED, PULL(APP) "failed to unpack image on snapshotter overlayfs: unexpected media type application/vnd.cncf.helm.chart.v1+json for " DIGEST ": not found" },
        { ERROR_INTERNAL, PULL_REASON_TLS, RESOLVE(APP) HEAD "x509: certificate is valid for lab, not vm" },
        { ERROR_INTERNAL, PULL_REASON_INVALID_REFERENCE, "failed to parse image reference \"UPPER CASE//x\": invalid reference format: repository name must be lowercase" },
        { ERROR_INTERNAL, PULL_REASON_NO_SPACE, PULL(APP) "failed to extract layer " DIGEST ": mount callback failed on /var/lib/containerd/tmpmounts/containerd-mount1: write /var/lib/containerd/tmpmounts/containerd-mount1/big: no space left on device: unknown" },
        { ERROR_INTERNAL, PULL_REASON_NO_SPACE, PULL(APP) "failed to prepare extraction snapshot \"extract-1 " DIGEST "\": commit failed: write /var/lib/containerd/metadata.db: no space left on device" },
        { ERROR_INTERNAL, PULL_REASON_RUNTIME_UNAVAILABLE, "server is not initialized yet" },

        /* containerd, other versions */
        { ERROR_NOT_FOUND, PULL_REASON_NOT_FOUND, RESOLVE("docker.io/library/none:1") "docker.io/library/none:1: not found" },
        { ERROR_INTERNAL, PULL_REASON_NOT_FOUND, RESOLVE(APP) APP ": not found" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE(APP) "unexpected status code [manifests 1]: 401 Unauthorized" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE(APP) "unexpected status from HEAD request to https://reg.example.com/v2/a/manifests/1: 403 Forbidden" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE(APP) "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE(APP) "pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE(APP) "failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE(APP) "failed to authorize: failed to fetch oauth token: unexpected status from POST request to https://auth.docker.io/token: 401 Unauthorized - Server message: not found" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE(APP) "failed to authorize: failed to fetch oauth token: unexpected status: 400 Bad Request" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE(APP) "failed to authorize: failed to fetch oauth token: unexpected status from GET request to https://auth.docker.io/token?service=x: 400 Bad Request" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE(APP) TOKEN "unexpected status: 400 Bad Request" },
        { ERROR_INTERNAL, PULL_REASON_RATE_LIMITED, RESOLVE(APP) "failed to authorize: failed to fetch oauth token: unexpected status: 429 Too Many Requests" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, RESOLVE(APP) "failed to authorize: failed to fetch oauth token: unexpected status: 500 Internal Server Error" },
        { ERROR_INTERNAL, PULL_REASON_RATE_LIMITED, COPY("unexpected status code https://registry-1.docker.io/v2/library/busybox/manifests/" DIGEST ": 429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating and upgrading: https://www.docker.com/increase-rate-limit") },
        { ERROR_INTERNAL, PULL_REASON_RATE_LIMITED, RESOLVE(APP) "unexpected status code [manifests 1]: 429 Too Many Requests" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, COPY("unexpected status code https://reg.example.com/v2/a/blobs/" DIGEST ": 500 Internal Server Error") },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, COPY("unexpected status code https://reg.example.com/v2/a/blobs/" DIGEST "?ns=docker.io: 400 Bad Request") },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, RESOLVE(APP) TOKEN "unexpected status: 503 Service Unavailable" },
        { ERROR_NOT_FOUND, PULL_REASON_REGISTRY_ERROR, COPY("could not fetch content descriptor " DIGEST " (application/vnd.docker.distribution.manifest.v2+json) from remote: not found") },
        { ERROR_INTERNAL, PULL_REASON_TLS, RESOLVE(APP) HEAD "x509: certificate signed by unknown authority" },
        { ERROR_INTERNAL, PULL_REASON_TLS, RESOLVE(APP) HEAD "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2024-01-01T00:00:00Z is after 2023-01-01T00:00:00Z" },
        { ERROR_INTERNAL, PULL_REASON_TLS, RESOLVE(APP) HEAD "remote error: tls: certificate required" },
        { ERROR_INTERNAL, PULL_REASON_TLS, RESOLVE(APP) HEAD "http: server gave HTTP response to HTTPS client" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_UNREACHABLE, RESOLVE(APP) HEAD "dial tcp 10.0.0.1:443: connect: connection refused" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_UNREACHABLE, RESOLVE(APP) HEAD "dial tcp: lookup reg.example.com on 10.0.0.2:53: no such host" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_UNREACHABLE, RESOLVE(APP) HEAD "dial tcp: lookup reg.example.com: Temporary failure in name resolution" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_UNREACHABLE, RESOLVE(APP) HEAD "dial tcp: lookup reg.example.com on 127.0.0.11:53: read udp 127.0.0.1:44688->127.0.0.11:53: i/o timeout" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_UNREACHABLE, RESOLVE(APP) HEAD "dial tcp 10.0.0.1:443: connect: no route to host" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_UNREACHABLE, RESOLVE(APP) HEAD "net/http: TLS handshake timeout" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_UNREACHABLE, RESOLVE(APP) HEAD "EOF" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_UNREACHABLE, PULL(APP) "failed to copy: read tcp 10.0.0.3:43318->10.0.0.1:443: read: connection reset by peer" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_UNREACHABLE, PULL(APP) "failed to copy: unexpected EOF" },
        { ERROR_TIMEOUT, PULL_REASON_REGISTRY_UNREACHABLE, RESOLVE(APP) TOKEN "Get \"https://auth.docker.io/token?scope=repository%3Alibrary%2Fnginx%3Apull&service=registry.docker.io\": dial tcp 10.0.0.1:443: i/o timeout" },
        { ERROR_TIMEOUT, PULL_REASON_DEADLINE, RESOLVE(APP) HEAD "context deadline exceeded" },
        { ERROR_TIMEOUT, PULL_REASON_DEADLINE, "Deadline Exceeded" },
        { ERROR_INTERNAL, PULL_REASON_NO_PROGRESS, PULL(APP) "failed to copy: context canceled" },
        { ERROR_CANCELED, PULL_REASON_NO_PROGRESS, RESOLVE(APP) HEAD "dial tcp 10.0.0.1:443: operation was canceled" },
        { ERROR_CANCELED, PULL_REASON_NO_PROGRESS, "CANCELLED" },
        { ERROR_INTERNAL, PULL_REASON_NO_SPACE, PULL(APP) "failed to extract layer " DIGEST ": write /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/105/fs/usr/lib/x: no space left on device: unknown" },
        { ERROR_INTERNAL, PULL_REASON_NO_SPACE, PULL(APP) "failed to copy: failed to send write: write /var/lib/containerd/io.containerd.content.v1.content/ingest/1/data: no space left on device: unknown" },
        { ERROR_INTERNAL, PULL_REASON_NO_SPACE, PULL(APP) "failed to prepare extraction snapshot \"extract-1 " DIGEST "\": disk quota exceeded" },
        { ERROR_INTERNAL, PULL_REASON_WRONG_CONTENT, PULL(APP) "failed commit on ref \"layer-" DIGEST "\": unexpected commit digest " DIGEST ", expected " DIGEST ": failed precondition" },
        { ERROR_INTERNAL, PULL_REASON_WRONG_CONTENT, PULL(APP) "failed commit on ref \"layer-" DIGEST "\": \"layer-" DIGEST "\" failed size validation: 10068781 != 9333267: failed precondition" },
        { ERROR_INTERNAL, PULL_REASON_WRONG_CONTENT, PULL(APP) "failed commit on ref \"layer-" DIGEST "\": unexpected commit size 41461321, expected 13804441: unknown" },
        { ERROR_INTERNAL, PULL_REASON_WRONG_CONTENT, PULL(APP) "failed to copy: short read: expected 1024 bytes but got 512: unexpected EOF" },
        { ERROR_INTERNAL, PULL_REASON_WRONG_CONTENT, PULL(APP) "failed to extract layer " DIGEST ": archive/tar: invalid tar header: unknown" },
        { ERROR_NOT_FOUND, PULL_REASON_UNSUPPORTED, PULL(APP) "no match for platform in manifest " DIGEST ": not found" },
        { ERROR_NOT_FOUND, PULL_REASON_UNSUPPORTED, PULL(APP) "no match for platform in manifest: not found" },
        { ERROR_INTERNAL, PULL_REASON_UNSUPPORTED, PULL(APP) "mismatched image rootfs and manifest layers" },
        { ERROR_UNSUPPORTED, PULL_REASON_UNSUPPORTED, PULL(APP) "not implemented: media type \"application/vnd.docker.distribution.manifest.v1+prettyjws\" is no longer supported since containerd v2.1, please rebuild the image" },
        { ERROR_NOT_FOUND, PULL_REASON_UNKNOWN, PULL(APP) "failed to extract layer " DIGEST ": failed to get reader from content store: content digest " DIGEST ": not found" },
        { ERROR_INTERNAL, PULL_REASON_INVALID_REFERENCE, "failed to parse image reference \"nginx:sha256:12\": invalid reference format" },
        { ERROR_INTERNAL, PULL_REASON_INVALID_CREDENTIALS, "failed to parse auth config: illegal base64 data at input byte 4" },

        /* CRI-O */
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, "Error reading manifest latest in docker.io/crio/busybox: errors:\ndenied: requested access to the resource is denied\nunauthorized: authentication required\n" },
        { ERROR_INTERNAL, PULL_REASON_NOT_FOUND, "initializing source docker://reg.example.com/a:1: reading manifest 1 in reg.example.com/a: manifest unknown: manifest unknown" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_UNREACHABLE, "pinging container registry reg.example.com: Get \"https://reg.example.com/v2/\": dial tcp 34.199.40.84:80: i/o timeout" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_UNREACHABLE, "error pinging docker registry reg.example.com: Get \"https://reg.example.com/v2/\": proxyconnect tcp: dial tcp: lookup http: Temporary failure in name resolution" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, "initializing source docker://reg.example.com/a:1: reading manifest 1 in reg.example.com/a: received unexpected HTTP status: 503 Service Unavailable" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, "pinging container registry reg.example.com: invalid status code from registry 502 (Bad Gateway)" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, "initializing source docker://reg.example.com/a:1: Requesting bearer token: invalid status code from registry 400 (Bad Request)" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, "initializing source docker://reg.example.com/a:1: Requesting bearer token: invalid status code from registry 503 (Service Unavailable)" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, "initializing source docker://reg.example.com/a:1: Requesting bearer token: received unexpected HTTP status: 400 Bad Request" },
        { ERROR_INTERNAL, PULL_REASON_NOT_FOUND, "initializing source docker://team/redirects: reading manifest 1 in team/redirects: manifest unknown" },
        { ERROR_INTERNAL, PULL_REASON_UNSUPPORTED, "choosing image instance: no image found in manifest list for architecture amd64, variant \"\", OS linux" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, ARTIFACT "StatusCode: 403, \"\"" },
        { ERROR_INTERNAL, PULL_REASON_NOT_FOUND, ARTIFACT "StatusCode: 404, \"\"" },
        { ERROR_INTERNAL, PULL_REASON_RATE_LIMITED, ARTIFACT "StatusCode: 429, \"\"" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, ARTIFACT "StatusCode: 418, \"\"" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, "reading blob " DIGEST ": fetching blob: StatusCode: 403, \"\"" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, "reading blob " DIGEST ": fetching blob: StatusCode: 404, \"\"" },
        { ERROR_INTERNAL, PULL_REASON_WRONG_CONTENT, "parsing image configuration: Download config.json digest " DIGEST " does not match expected " DIGEST },
        { ERROR_INTERNAL, PULL_REASON_WRONG_CONTENT, "writing blob: Digest did not match, expected " DIGEST ", got " DIGEST },
        { ERROR_INTERNAL, PULL_REASON_INVALID_REFERENCE, "short-name \"nginx\" did not resolve to an alias and no unqualified-search registries are defined in \"/etc/containers/registries.conf\"" },

        /* gRPC, when the runtime is not there; the agent's own words */
        { ERROR_UNAVAILABLE, PULL_REASON_RUNTIME_UNAVAILABLE, "failed to connect to all addresses; last error: UNKNOWN: unix:/run/containerd/containerd.sock: Connection refused" },
        { ERROR_UNAVAILABLE, PULL_REASON_RUNTIME_UNAVAILABLE, "Socket closed" },
        { ERROR_UNAVAILABLE, PULL_REASON_RUNTIME_UNAVAILABLE, "/run/containerd/containerd.sock: no such file" },
        { ERROR_UNAVAILABLE, PULL_REASON_RUNTIME_UNAVAILABLE, NULL },
        { ERROR_INTERNAL, PULL_REASON_RUNTIME_UNAVAILABLE, "Stream removed" },
        { ERROR_UNAVAILABLE, PULL_REASON_REGISTRY_UNREACHABLE, RESOLVE(APP) HEAD "dial tcp 10.0.0.1:443: connect: connection refused" },
        { ERROR_INVALID, PULL_REASON_INVALID_REFERENCE, "invalid image reference \"Nginx\": the repository must be in lower case" },

        /* Only the kind of the error decides. */
        { ERROR_NOT_FOUND, PULL_REASON_NOT_FOUND, "" },
        { ERROR_DENIED, PULL_REASON_UNAUTHORIZED, "sorry" },
        { ERROR_TIMEOUT, PULL_REASON_DEADLINE, "sorry" },
        { ERROR_INTERNAL, PULL_REASON_UNKNOWN, "sorry" },
        { ERROR_INTERNAL, PULL_REASON_UNKNOWN, NULL },

        /* Names that sound like a reason */
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE("localhost:5000/not-found-app:429") "unexpected status code [manifests 429]: 401 Unauthorized" },
        { ERROR_NOT_FOUND, PULL_REASON_NOT_FOUND, RESOLVE("localhost:5000/unauthorized/toomanyrequests:x509") "localhost:5000/unauthorized/toomanyrequests:x509: not found" },
        { ERROR_NOT_FOUND, PULL_REASON_NOT_FOUND, RESOLVE("unauthorized.example.com/a:eof") "unauthorized.example.com/a:eof: not found" },
        { ERROR_INTERNAL, PULL_REASON_REGISTRY_ERROR, COPY("unexpected status code https://reg.example.com/v2/toomanyrequests/unauthorized/blobs/" DIGEST ": 502 Bad Gateway") },
        { ERROR_INTERNAL, PULL_REASON_NOT_FOUND, "reading manifest unauthorized in reg.example.com/toomanyrequests: manifest unknown" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, RESOLVE("localhost:5000/a:toomanyrequests") "pulling from host localhost:5000 failed with status code [manifests toomanyrequests]: 403 Forbidden" },
        { ERROR_INTERNAL, PULL_REASON_UNKNOWN, PULL("reg.example.com/snapshot:1") "something else" },
        { ERROR_INTERNAL, PULL_REASON_UNKNOWN, "failed to pull \"a not found" "\" and it is \"unauthorized\": sorry" },
        { ERROR_INTERNAL, PULL_REASON_UNKNOWN, "variant \"\" is \"unauthorized\": sorry" },
        { ERROR_INTERNAL, PULL_REASON_UNKNOWN, "cannot pull unauthorized:429 today" },
        { ERROR_INTERNAL, PULL_REASON_UNAUTHORIZED, "an open \" quote: unauthorized" },
};
/* clang-format on */

TEST_ROWS(test_case, cases, text, const struct Case *c) {
        Error error = { .kind = c->kind, .message = (char *) c->text };

        assert_string_equal(pull_reason_to_string(pull_reason_from_error(&error)),
                            pull_reason_to_string(c->reason));
}

TEST(test_every_reason_is_written_and_read) {
        for (PullReason reason = PULL_REASON_NONE; reason < _PULL_REASON_MAX; reason++) {
                assert_non_null(pull_reason_to_string(reason));
                assert_int_equal(pull_reason_from_string(pull_reason_to_string(reason)), reason);
                assert_true(strlen(pull_reason_advice(reason)) > 0);
        }

        assert_int_equal(pull_reason_from_string("nonsense"), PULL_REASON_UNKNOWN);
        assert_int_equal(pull_reason_from_string(""), PULL_REASON_UNKNOWN);
}

TEST(test_every_kind_has_a_reason) {
        for (ErrorKind kind = ERROR_NONE + 1; kind < _ERROR_KIND_MAX; kind++) {
                Error error = { .kind = kind };

                assert_int_not_equal(pull_reason_from_error(&error), PULL_REASON_NONE);
        }
}

/* After these and no others another credential is tried, or no attempt at all is made. */
TEST(test_remedies) {
        for (PullReason reason = PULL_REASON_NONE; reason < _PULL_REASON_MAX; reason++) {
                PullRemedy remedy = pull_reason_remedy(reason);

                assert_int_equal(remedy == PULL_REMEDY_CREDENTIALS,
                                 reason == PULL_REASON_NOT_FOUND ||
                                         reason == PULL_REASON_UNAUTHORIZED ||
                                         reason == PULL_REASON_INVALID_CREDENTIALS ||
                                         reason == PULL_REASON_RATE_LIMITED);
                assert_int_equal(remedy == PULL_REMEDY_NONE,
                                 reason == PULL_REASON_INVALID_REFERENCE ||
                                         reason == PULL_REASON_INVALID_SPEC ||
                                         reason == PULL_REASON_INCOMPLETE ||
                                         reason == PULL_REASON_UNSUPPORTED);
        }
}

static const struct RefusalsRow {
        const char *text;
        bool is_refusal;
} refusals_rows[] = {
        { "docker.io/library/helo:1: not found", true },
        { "pull access denied, repository does not exist", true },
        { "unexpected status: 401 Unauthorized", true },
        { "unexpected status: 403 Forbidden", true },
        { "dial tcp: lookup nosuch.example on 10.0.0.1:53: no such host", true },
        { "dial tcp: lookup r.example on 10.0.0.1:53: server misbehaving", false },
        { "lookup r.example: Temporary failure in name resolution", false },
        { "dial tcp 10.0.0.1:443: connect: connection refused", false },
        { "429 Too Many Requests", false },
        { "unexpected status: 503 Service Unavailable", false },
        { "x509: certificate signed by unknown authority", false },
        { "no space left on device", false },
};

/* The registry refuses plainly, or does not exist. */
TEST_ROWS(test_refusals, refusals_rows, text, const struct RefusalsRow *row) {
        Error error = { .kind = ERROR_INTERNAL, .message = (char *) row->text };

        if (pull_reason_is_refusal(pull_reason_from_error(&error), row->text) != row->is_refusal)
                fail_msg("%s", row->text);
}

/* The error is borrowed: finding the reason must not write into its text. */
TEST(test_text_is_left_alone) {
        char text[] = "Failed \"TO\" pull HTTPS://x: 401 Unauthorized";
        Error error = { .kind = ERROR_INTERNAL, .message = text };

        assert_int_equal(pull_reason_from_error(&error), PULL_REASON_UNAUTHORIZED);
        assert_string_equal(text, "Failed \"TO\" pull HTTPS://x: 401 Unauthorized");
}
