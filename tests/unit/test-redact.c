/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the removal of secrets from the URLs in a text
 */

#include "agent/base/error.h"
#include "agent/base/redact.h"
#include "tests/unit/unit.h"

static const struct Case {
        const char *name;
        const char *text;
        const char *result; /* NULL: as it was */
} cases[] = {
        { "no URL", "pull access denied: a@b, 10:30, and/or c? d=e #1", NULL },
        { "a URL without secrets", "Get \"https://blob.example:5000/v2/a\": EOF", NULL },
        { "containerd's own",
          "failed to copy: Get \"https://user:PASS@blob.example/a?sig=S&x=1\": EOF",
          "failed to copy: Get \"https://blob.example/a\": EOF" },
        { "a user alone", "https://TOKEN@blob.example/a", "https://blob.example/a" },
        { "an @ in the password", "https://user:P@SS@blob.example/a", "https://blob.example/a" },
        { "a slash in the password", "https://user:P/SS@blob.example/a", "https://blob.example/a" },
        { "a question mark in it", "https://user:P?SS@blob.example/a", "https://blob.example/a" },
        { "a blank in it", "parse \"https://user:P SS@blob.example/a\": bad",
          "parse \"https://blob.example/a\": bad" },
        { "a quote in it", "parse \"https://user:P\\\"SS@blob.example/a\": bad",
          "parse \"https://blob.example/a\": bad" },
        { "a digest in the path", "https://r.example/v2/a@sha256:beef", NULL },
        { "upper case", "HTTPS://USER:PASS@HOST/A?SIG=S", "HTTPS://HOST/A" },
        { "another scheme", "s3+x.y-z://user:PASS@host", "s3+x.y-z://host" },
        { "a fragment", "https://host/a#access_token=S.", "https://host/a." },
        { "query and fragment", "https://host?sig=S#frag, next", "https://host, next" },
        { "a query of one word", "https://host/a?SECRET next", "https://host/a next" },
        { "several", "http://u:P@a/?s=1 then https://u:P@b/c?s=2 or x",
          "http://a/ then https://b/c or x" },
        { "several, and commas", "http://a:1,http://u:P@b:2/c", "http://a:1,http://b:2/c" },
        { "hosts and commas", "http://a:1,http://b:2;http://c", NULL },
        { "several lines", "https://u:P@a?s=1\nhttps://u:P@b\tc", "https://a\nhttps://b\tc" },
        { "one in another's query", "https://a/?to=https://u:P@b/", "https://a/" },
        { "one in another's path", "https://a/https://u:P@b/c?s=1", "https://a/https://b/c" },
        { "punctuation behind it", "(see 'https://host/a?s=1').", "(see 'https://host/a')." },
        { "a bracket behind it", "<https://u:P@host/a?s=1>", "<https://host/a>" },
        { "an old Go's", "Get https://u:P@host:443/a?s=1: dial tcp",
          "Get https://host:443/a: dial tcp" },
        { "a port and a colon", "Get https://host:443: dial tcp 1.2.3.4:443: refused", NULL },
        { "IPv6", "https://u:P@[fe80::1]:443/a and https://[::1]/",
          "https://[fe80::1]:443/a and https://[::1]/" },
        { "IPv6 behind it all", "dial [https://u:P@[::1]], https://[::1]: no",
          "dial [https://[::1]], https://[::1]: no" },
        { "no host behind the user", "https://u:P@host:name/a", "https://" },
        { "IPv6 cut", "https://[::1", "https://" },
        { "an empty host", "unix:///run/c.sock and file:///a?b=c",
          "unix:///run/c.sock and file:///a" },
        { "quoted in quotes", "msg=\"Get \\\"https://u:P@host/a?s=1\\\": EOF\"",
          "msg=\"Get \\\"https://host/a\\\": EOF\"" },
        { "a quote in quotes in quotes", "\"\\\"x \\\\\\\"https://u:P@host/?s=\\\\\\\" y\\\"\"",
          "\"\\\"x \\\\\\\"https://host/\\\\\\\" y\\\"\"" },
        { "JSON's slashes", "{\"url\":\"https:\\/\\/u:P@host\\/a?s=1\",\"b\":2}",
          "{\"url\":\"https:\\/\\/host\\/a\",\"b\":2}" },
        { "JSON's characters", "https:\\u002F\\u002fu:P\\u0040host\\u002fa\\u003fs=1 b",
          "https:\\u002F\\u002fhost\\u002fa b" },
        { "percent-encoded", "to=https%3A%2F%2Fu%3AP%40host%2fa%3Fs%3D1 b",
          "to=https%3A%2F%2Fhost%2fa b" },
        { "percent-encoded twice", "https%253A%252F%252Fu%253AP%2540host%252Fa%253Fs b",
          "https%253A%252F%252Fhost%252Fa b" },
        { "an encoded ? in a path is none", "https://host/a%3Fb%40c", NULL },
        { "cut in the password", "Get \"https://user:PASS", "Get \"https://" },
        { "cut in it by dots", "Get \"https://user:PASS...", "Get \"https://..." },
        { "cut in it, with an ellipsis", "Get https://user:PASS\xe2\x80\xa6 end",
          "Get https:// end" },
        { "cut in a long number", "https://user:123456", "https://" },
        { "cut in the query", "https://host/a?si", "https://host/a" },
        { "cut behind the slashes", "https://", NULL },
        { "cut between the slashes", "https:/", NULL },
        { "without a scheme", "Get \"//user:P@host/a?s=1\" or //u:P@b", "Get \"//host/a\" or //b" },
        { "slashes in a path", "/a//b:c@d", NULL },
        { "a path with a query", "GET /v2/a/blobs?sig=S&x=1 403", "GET /v2/a/blobs 403" },
        { "a host with a query", "blob.example/a?X-Amz-Signature=S: 403", "blob.example/a: 403" },
        { "a question", "is https://host/a there? yes=1", NULL },
        { "an ID of a container", "containerd://0123456789abcdef", NULL },
        { "nothing", "", NULL },
};

TEST_ROWS(test_case, cases, name, const struct Case *c) {
        cleanup(free_p) char *text = strdup(c->text);

        assert_string_equal(redact_text(text), c->result ?: c->text);
        assert_string_equal(redact_text(text), c->result ?: c->text);
}

/* A URL that is cut anywhere is understood: its secrets are not shown, except for a part that may
 * be a name or a port. */
TEST(test_every_cut) {
        static const char whole[] =
                "Get \"https://me:PASSWORD@host/a?sig=SIGNATURE#FRAGMENT\": EOF";

        for (size_t size = 0; size < sizeof(whole); size++) {
                cleanup(free_p) char *text = malloc(size > 0 ? size : 1); /* nothing behind it */
                size_t n;

                memcpy(text, whole, size);
                n = redact_urls(text, size);
                assert_true(n <= size);
                assert_null(memmem(text, n, "P", 1));
                assert_null(memmem(text, n, "SIG", 3));
                assert_null(memmem(text, n, "FRAG", 4));
        }
}

TEST(test_time_is_linear) {
        const size_t n = 1 << 18;
        cleanup(free_p) char *text = malloc(6 * n);

        for (size_t i = 0; i < n; i++)
                memcpy(text + 6 * i, i % 2 > 0 ? "a://b:" : "a:/?@%", 6);
        (void) redact_urls(text, 6 * n);
        memset(text, 'a', 6 * n);
        assert_int_equal(redact_urls(text, 6 * n), 6 * n);
        for (size_t i = 0; i < n; i++)
                memcpy(text + 6 * i, "a://b/", 6);
        assert_int_equal(redact_urls(text, 6 * n), 6 * n);
}

TEST(test_errors_are_redacted) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) error_set(&error, ERROR_DENIED, "%s: %s", "pull", "https://u:P@host/?s=1");
        assert_string_equal(error_message(&error), "pull: https://host/");
}
