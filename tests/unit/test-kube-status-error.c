/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the meaning of an API server's refusals
 */

#include "agent/kube/status-error-spec.h"
#include "tests/unit/unit.h"

#define STATUS(message) "{\"kind\":\"Status\",\"code\":1,\"message\":\"" message "\"}"

/* Unknown { type { "v1", "Status" }, raw { status: "Failure", message: "no" } }. */
#define PROTOBUF                                                \
        "k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x0d\x12\x07" \
        "Failure\x1a\x02no"

#define LETTERS_10 "abcdefghij"
#define LETTERS_40 LETTERS_10 LETTERS_10 LETTERS_10 LETTERS_10
#define LETTERS_90 LETTERS_40 LETTERS_40 LETTERS_10

#define TEXT(text) text, sizeof(text) - 1

static const struct Case {
        const char *name;
        int code;
        const char *body;
        size_t size;
        ErrorKind kind;
        const char *message;
} cases[] = {
        { "the message of a Status", 403, TEXT(STATUS("pods is forbidden")), ERROR_DENIED,
          "pods is forbidden" },
        { "on one line", 422, TEXT(STATUS("a\\n b\\t\\u0001c\\r\\n")), ERROR_INVALID, "a  b  c" },
        { "a sentence", 429, TEXT(STATUS("please try again later.\\n")), ERROR_UNAVAILABLE,
          "please try again later" },
        { "another kind", 500, TEXT("{\"kind\":\"Pod\",\"message\":\"x\"}"), ERROR_UNAVAILABLE,
          "the server answered 500" },
        { "a message that is no text", 404, TEXT("{\"kind\":\"Status\",\"message\":{}}"),
          ERROR_NOT_FOUND, "the server answered 404" },
        { "an empty message", 409, TEXT(STATUS("")), ERROR_CONFLICT, "the server answered 409" },
        { "half of a Status", 410, TEXT("{\"kind\":\"Status\",\"mess"), ERROR_GONE,
          "the server answered 410" },
        { "a list", 400, TEXT("[1]"), ERROR_INVALID, "the server answered 400" },
        { "a text", 404, TEXT("404 page not found\n"), ERROR_NOT_FOUND, "404 page not found" },
        { "a text of one letter", 404, TEXT("x"), ERROR_NOT_FOUND, "x" },
        { "a page", 502, TEXT("<html>\n<body>"), ERROR_UNAVAILABLE, "the server answered 502" },
        { "nothing", 503, TEXT(""), ERROR_UNAVAILABLE, "the server answered 503" },
        { "a Status in protobuf", 403, TEXT(PROTOBUF), ERROR_DENIED, "no" },
        { "behind fields of a fixed size", 403,
          TEXT("k8s\0\x2d\x01\x02\x03\x04\x31\x01\x02\x03\x04\x05\x06\x07\x08\x0a\x0c\x0a\x02v1"
               "\x12\x06Status\x12\x04\x1a\x02no"),
          ERROR_DENIED, "no" },
        { "a size of two bytes", 403,
          TEXT("k8s\0\x1a\xb4\x01" LETTERS_90 LETTERS_90 "\x0a\x0c\x0a\x02v1\x12\x06Status"
               "\x12\x85\x01\x1a\x82\x01" LETTERS_90 LETTERS_40),
          ERROR_DENIED, LETTERS_90 LETTERS_40 },
        { "cut in its message", 403, PROTOBUF, sizeof(PROTOBUF) - 2, ERROR_DENIED,
          "the server answered 403" },
        { "only the magic", 403, TEXT("k8s\0"), ERROR_DENIED, "the server answered 403" },
        { "a size beyond the end", 403, TEXT("k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
          ERROR_DENIED, "the server answered 403" },
        { "a number without end", 403, TEXT("k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
          ERROR_DENIED, "the server answered 403" },
        { "a field of an unknown sort", 403, TEXT("k8s\0\x0f"), ERROR_DENIED,
          "the server answered 403" },
};

TEST_ROWS(test_message, cases, name, const struct Case *c) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *body = malloc(c->size + 1); /* a read behind it is an error */

        body = realloc(body, c->size > 0 ? c->size : 1);
        memcpy(body, c->body, c->size);
        kube_status_error(c->code, body, c->size, &error);
        assert_int_equal(error.kind, c->kind);
        assert_string_equal(error.message, c->message);
}

/* Secrets are removed before the message is cut, which might leave a part of them. */
TEST(test_long_message_with_secret) {
        cleanup(error_done) Error error = ERROR_INIT;
        char body[1024];
        int size;

        size = snprintf(body, sizeof(body), "%0490d https://%0300d@host/", 0, 7);
        kube_status_error(502, body, (size_t) size, &error);
        assert_contains(error.message, "0 https://host/");
}

TEST(test_every_cut_of_protobuf) {
        for (size_t size = 0; size < sizeof(PROTOBUF); size++) {
                cleanup(error_done) Error error = ERROR_INIT;
                cleanup(free_p) char *body = malloc(size > 0 ? size : 1);

                memcpy(body, PROTOBUF, size);
                kube_status_error(400, body, size, &error);
                assert_int_equal(error.kind, ERROR_INVALID);
        }
}

/* Cut in front of a character, not inside of it. */
TEST(test_long_message) {
        cleanup(error_done) Error error = ERROR_INIT;
        char body[2000] = "yy";

        for (size_t i = 0; i < 300; i++)
                strcat(body, "x\xc3\xa9");
        kube_status_error(500, body, strlen(body), &error);
        assert_int_equal(strlen(error.message), 510);
        assert_int_equal(error.message[509], 'x');
}

static const struct Kind {
        int code;
        ErrorKind kind;
} kinds[] = {
        { 400, ERROR_INVALID },     { 401, ERROR_DENIED },      { 403, ERROR_DENIED },
        { 404, ERROR_NOT_FOUND },   { 405, ERROR_UNSUPPORTED }, { 406, ERROR_UNSUPPORTED },
        { 408, ERROR_TIMEOUT },     { 409, ERROR_CONFLICT },    { 410, ERROR_GONE },
        { 413, ERROR_INVALID },     { 415, ERROR_UNSUPPORTED }, { 422, ERROR_INVALID },
        { 429, ERROR_UNAVAILABLE }, { 500, ERROR_UNAVAILABLE }, { 501, ERROR_UNAVAILABLE },
        { 503, ERROR_UNAVAILABLE }, { 504, ERROR_TIMEOUT },     { 302, ERROR_INVALID },
};

TEST(test_kinds) {
        for (size_t i = 0; i < N_ELEMENTS(kinds); i++)
                assert_int_equal(kube_status_kind(kinds[i].code), kinds[i].kind);
}
