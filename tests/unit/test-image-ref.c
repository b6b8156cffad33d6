/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Image references
 */

#include "agent/image/image-ref.h"
#include "tests/unit/unit.h"

#define SHA256 "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define HEX32 "0123456789abcdef0123456789abcdef"
#define SHA512 "sha512:" HEX32 HEX32 HEX32 HEX32
#define CHARS_64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaz"
#define CHARS_128 CHARS_64 CHARS_64

/* clang-format off */
static const struct Case {
        const char *text;
        const char *familiar_name;
        const char *canonical_name; /* the key for credentials */
        const char *canonical;      /* the identity, and what the runtime is asked for */
} cases[] = {
        { "nginx",                            "nginx",        "docker.io/library/nginx", "docker.io/library/nginx:latest" },
        { "nginx:1.25",                       "nginx",        "docker.io/library/nginx", "docker.io/library/nginx:1.25" },
        { "docker.io/library/nginx:1.25",     "nginx",        "docker.io/library/nginx", "docker.io/library/nginx:1.25" },
        { "index.docker.io/library/nginx",    "nginx",        "docker.io/library/nginx", "docker.io/library/nginx:latest" },
        { "library/nginx",                    "nginx",        "docker.io/library/nginx", "docker.io/library/nginx:latest" },
        { "docker.io/nginx",                  "nginx",        "docker.io/library/nginx", "docker.io/library/nginx:latest" },
        { "bitnami/redis:7",                  "bitnami/redis", "docker.io/bitnami/redis", "docker.io/bitnami/redis:7" },
        { "reg.example.com/a/b",              "reg.example.com/a/b", "reg.example.com/a/b",     "reg.example.com/a/b:latest" },
        { "reg.example.com:5000/a/b:v1",      "reg.example.com:5000/a/b", "reg.example.com:5000/a/b", "reg.example.com:5000/a/b:v1" },
        { "localhost/x:1",                    "localhost/x",  "localhost/x",             "localhost/x:1" },
        { "localhost:5000/x",                 "localhost:5000/x", "localhost:5000/x",        "localhost:5000/x:latest" },
        { "nginx@" SHA256,                    "nginx",        "docker.io/library/nginx", "docker.io/library/nginx@" SHA256 },
        { "nginx:1.25@" SHA256,               "nginx",        "docker.io/library/nginx", "docker.io/library/nginx@" SHA256 },
        { "reg.example.com:5000/a/b@" SHA256, "reg.example.com:5000/a/b", "reg.example.com:5000/a/b", "reg.example.com:5000/a/b@" SHA256 },
        { "127.0.0.1:5000/a:b",               "127.0.0.1:5000/a", "127.0.0.1:5000/a",        "127.0.0.1:5000/a:b" },
        { "quay.io/org/img:tag_with.dots-1",  "quay.io/org/img", "quay.io/org/img",         "quay.io/org/img:tag_with.dots-1" },

        { "localhost",                        "localhost",    "docker.io/library/localhost", "docker.io/library/localhost:latest" },
        { "host:5000",                        "host",         "docker.io/library/host",  "docker.io/library/host:5000" },
        { "a.b",                              "a.b",          "docker.io/library/a.b",   "docker.io/library/a.b:latest" },
        { "a.b/c",                            "a.b/c",        "a.b/c",                   "a.b/c:latest" },
        { "a_b.c/d",                          NULL, NULL, "host name may have" },
        { "[::1]:5000/a/b:1",                 "[::1]:5000/a/b", "[::1]:5000/a/b",          "[::1]:5000/a/b:1" },
        { "[2001:db8::1]/repo",               "[2001:db8::1]/repo", "[2001:db8::1]/repo",      "[2001:db8::1]/repo:latest" },
        { "Reg.example.com/a",                "Reg.example.com/a", "Reg.example.com/a",       "Reg.example.com/a:latest" },
        { "Host/lower",                       "Host/lower",   "Host/lower",              "Host/lower:latest" },
        { "a__b/c---d.e_f:X",                 "a__b/c---d.e_f", "docker.io/a__b/c---d.e_f", "docker.io/a__b/c---d.e_f:X" },
        { "docker.io/library/a/b",            "library/a/b",  "docker.io/library/a/b",   "docker.io/library/a/b:latest" },
        { "x@" SHA512,                        "x",            "docker.io/library/x",     "docker.io/library/x@" SHA512 },
        { "x:" CHARS_128,                     "x",            "docker.io/library/x",     "docker.io/library/x:" CHARS_128 },

        /* Left out, "docker.io/" and "library/" would make these something else. */
        { "docker.io/localhost/x",            "docker.io/localhost/x", "docker.io/localhost/x",   "docker.io/localhost/x:latest" },
        { "docker.io/a.b/c",                  "docker.io/a.b/c", "docker.io/a.b/c",         "docker.io/a.b/c:latest" },
        { "library/" HEX32 HEX32,             "library/" HEX32 HEX32, "docker.io/library/" HEX32 HEX32, "docker.io/library/" HEX32 HEX32 ":latest" },

        /* refused references, and the words that say why */
        { "Nginx",                            NULL, NULL, "\"Nginx\": the repository must be in lower case" },
        { "reg.example.com/Team/app",         NULL, NULL, "must be in lower case" },
        { "nginx:",                           NULL, NULL, "the tag is empty" },
        { "a//b",                             NULL, NULL, "between slashes is empty" },
        { "a/",                               NULL, NULL, "between slashes is empty" },
        { "/a",                               NULL, NULL, "between slashes is empty" },
        { "",                                 NULL, NULL, "it is empty" },
        { ":tag",                             NULL, NULL, "between slashes is empty" },
        { "@" SHA256,                         NULL, NULL, "between slashes is empty" },
        { "my app",                           NULL, NULL, "it has a blank in it" },
        { "nginx\n",                          NULL, NULL, "\"nginx?\": it has a blank in it" },
        { "https://reg.example.com/a",        NULL, NULL, "must not start with a scheme" },
        { HEX32 HEX32,                      NULL, NULL, "this is the ID of an image" },
        { "-a",                               NULL, NULL, "starts or ends with a separator" },
        { "a-",                               NULL, NULL, "starts or ends with a separator" },
        { "a..b",                             NULL, NULL, "separators in a row" },
        { "a___b",                            NULL, NULL, "separators in a row" },
        { "a._b",                             NULL, NULL, "separators in a row" },
        { "a_-b",                             NULL, NULL, "separators in a row" },
        { "aa/asdf$$^/aa",                    NULL, NULL, "lower case letters, digits" },
        { "n\303\244me",                      NULL, NULL, "lower case letters, digits" },
        { "a:b:c",                            NULL, NULL, "lower case letters, digits" },
        { "a:b/c",                            NULL, NULL, "port is not a number" },
        { "reg.example.com:/c",               NULL, NULL, "port is not a number" },
        { "-reg.example.com/c",               NULL, NULL, "starts or ends with a dash" },
        { "reg..com/c",                       NULL, NULL, "host name is empty" },
        { ".com/c",                           NULL, NULL, "host name is empty" },
        { "[fe80::1%eth0]:5000/repo",         NULL, NULL, "hexadecimal digits and colons" },
        { "[::1/repo",                        NULL, NULL, "closing bracket" },
        { "[]:5000/repo",                     NULL, NULL, "closing bracket" },
        { "[::1]",                            NULL, NULL, "lower case letters" },
        { "a:.b",                             NULL, NULL, "the tag starts with a separator" },
        { "a:b+c",                            NULL, NULL, "the tag may have" },
        { "x:y" CHARS_128,                    NULL, NULL, "the tag is longer than 128" },
        { "a@",                               NULL, NULL, "the digest does not start with" },
        { "a@md5:" HEX32,                     NULL, NULL, "the digest does not start with" },
        { "a@sha256:" HEX32,                  NULL, NULL, "not as many digits" },
        { "a@" SHA256 "0",                    NULL, NULL, "not as many digits" },
        { "a@sha256:" HEX32 "0123456789ABCDEF0123456789abcdef",NULL, NULL, "lower case hexadecimal" },
        { "a@" SHA256 "@" SHA256,             NULL, NULL, "lower case hexadecimal" },
};
/* clang-format on */

static void assert_printed(int (*print)(const ImageRef *, char **), const ImageRef *ref,
                           const char *expected) {
        cleanup(free_p) char *text = NULL;

        assert_ok(print(ref, &text));
        assert_string_equal(text, expected);
}

TEST_ROWS(test_case, cases, text, const struct Case *c) {
        cleanup(error_done) Error error = ERROR_INIT;
        ImageRef ref = { .registry = "untouched" };
        ImageRef again;
        int r;

        r = image_ref_parse(c->text, SHORT_NAMES_HUB, &ref, &error);
        if (!c->familiar_name) {
                assert_true(r < 0);
                assert_int_equal(error.kind, ERROR_INVALID);
                assert_contains(error_message(&error), c->canonical);
                assert_null(strchr(error_message(&error), '\n'));
                assert_string_equal(ref.registry, "untouched");
                return;
        }

        assert_int_equal(r, 0);
        assert_printed(image_ref_familiar_name, &ref, c->familiar_name);
        assert_printed(image_ref_canonical_name, &ref, c->canonical_name);
        assert_printed(image_ref_canonical_reference, &ref, c->canonical);

        assert_ok(image_ref_parse(c->canonical, SHORT_NAMES_HUB, &again, NULL));
        assert_true(image_ref_equal(&ref, &again));
}

/* clang-format off */
static const struct Searched {
        const char *text;
        const char *shown_name; /* NULL: refused */
        const char *canonical;
} searched[] = {
        { "nginx",                       "nginx",                   "nginx:latest"                   },
        { "nginx:1.25",                  "nginx",                   "nginx:1.25"                     },
        { "foo/evil:1",                  "foo/evil",                "foo/evil:1"                     },
        { "library/nginx:1",             "library/nginx",           "library/nginx:1"                },
        { "nginx@" SHA256,               "nginx",                   "nginx@" SHA256                  },
        { "docker.io/nginx:1.25",        "docker.io/library/nginx", "docker.io/library/nginx:1.25"   },
        { "docker.io/library/nginx",     "docker.io/library/nginx", "docker.io/library/nginx:latest" },
        { "index.docker.io/foo/evil:1",  "docker.io/foo/evil",      "docker.io/foo/evil:1"           },
        { "localhost/x:1",               "localhost/x",             "localhost/x:1"                  },
        { "reg.example.com:5000/a/b@" SHA256, "reg.example.com:5000/a/b", "reg.example.com:5000/a/b@" SHA256 },
        { "localhost",                   "localhost",               "localhost:latest"               },
        { "Nginx",                       NULL,                      "must be in lower case"          },
        { HEX32 HEX32 ":1",              NULL,                      "this is the ID of an image"     },
        { "a/",                          NULL,                      "between slashes is empty"       },
};
/* clang-format on */

/* Where the runtime searches, a name stays as it was written: it cannot become another registry's, and one
 * that names its registry is sent with it. */
TEST_ROWS(test_searched, searched, text, const struct Searched *c) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *shown = NULL;
        ImageRef ref, again;

        if (!c->shown_name) {
                assert_true(image_ref_parse(c->text, SHORT_NAMES_SEARCHED, &ref, &error) < 0);
                assert_contains(error_message(&error), c->canonical);
                return;
        }

        assert_ok(image_ref_parse(c->text, SHORT_NAMES_SEARCHED, &ref, NULL));
        assert_printed(image_ref_canonical_reference, &ref, c->canonical);
        assert_printed(image_ref_canonical_name, &ref, c->shown_name);
        assert_ok(image_ref_shown_name(&ref, SHORT_NAMES_SEARCHED, &shown));
        assert_string_equal(shown, c->shown_name);
        assert_int_equal(image_ref_is_searched(&ref),
                         !strchr(shown, '.') && strcmp(shown, "localhost/x"));
        assert_ok(image_ref_from_node_image(shown, image_ref_tag_or_digest(&ref),
                                            SHORT_NAMES_SEARCHED, &again, NULL));
        assert_true(image_ref_equal(&ref, &again));
}

TEST(test_short_names) {
        ImageRef hub, full, asked;

        assert_int_equal(short_names_of("cri-o"), SHORT_NAMES_SEARCHED);
        assert_int_equal(short_names_of("containerd"), SHORT_NAMES_HUB);
        assert_int_equal(short_names_of("docker"), SHORT_NAMES_HUB);
        assert_int_equal(short_names_of(""), SHORT_NAMES_HUB);

        assert_ok(image_ref_parse("nginx", SHORT_NAMES_HUB, &hub, NULL));
        assert_ok(image_ref_parse("nginx", SHORT_NAMES_SEARCHED, &asked, NULL));
        assert_ok(image_ref_parse("docker.io/nginx", SHORT_NAMES_SEARCHED, &full, NULL));
        assert_false(image_ref_equal(&hub, &asked));
        assert_true(image_ref_equal(&hub, &full));
}

static const struct MayResolveToRow {
        const char *searched;
        const char *full;
        bool may;
} may_resolve_to_rows[] = {
        { "nginx:1", "docker.io/library/nginx:1", true },
        { "nginx:1", "quay.io/nginx:1", true },
        { "nginx:1", "quay.io/nginx:2", false },
        { "nginx:1", "quay.io/mynginx:1", false },
        { "foo/evil:1", "a.b:5000/foo/evil:1", true },
        { "foo/evil:1", "a.b:5000/evil:1", false },
        { "evil@" SHA256, "a.b/evil@" SHA256, true },
};

TEST_ROWS(test_may_resolve_to, may_resolve_to_rows, searched, const struct MayResolveToRow *row) {
        ImageRef name, full;

        /* clang-format off */
        /* clang-format on */
        assert_ok(image_ref_parse(row->searched, SHORT_NAMES_SEARCHED, &name, NULL));
        assert_ok(image_ref_parse(row->full, SHORT_NAMES_SEARCHED, &full, NULL));
        assert_int_equal(image_ref_may_resolve_to(&name, &full), row->may);
}

#define DIGITS "6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"
#define OTHER_DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* clang-format off */
static const struct Id {
        const char *text;
        bool is_id;
} ids[] = {
        { "sha256:" DIGITS,                              true  },
        { DIGITS,                          true  },
        { "sha256:" OTHER_DIGITS,                           true  },
        { "",                              false },
        { "sha256:",                       false },
        { "sha256:" DIGITS "0",            false },
        { DIGITS "0",                      false },
        { "sha256:6efc10a0510f",           false },
        { "6efc10a0510f",                  false },
        { "SHA256:" DIGITS,                false },
        { "sha512:" DIGITS,                false },
        { "sha256:sha256:" DIGITS,         false },
        { "nginx@sha256:" DIGITS,                     false },
        { " sha256:" DIGITS,                          false },
        { "sha256:" DIGITS "\n",                         false },
        { "sha256:6EFC10A0510F143A90B69DC564A914574973223E88418D65C1F8809E08DC0A1F", false },
        { "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1g", false },
        { "sha256:zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", false },
};
/* clang-format on */

TEST(test_image_ids) {
        for (size_t i = 0; i < N_ELEMENTS(ids); i++) {
                cleanup(free_p) char *normal = NULL;

                assert_int_equal(image_id_is_valid(ids[i].text), ids[i].is_id);
                assert_ok(image_id_normalize(ids[i].text, &normal));
                if (ids[i].is_id)
                        assert_true(strncmp(normal, "sha256:", 7) == 0 && strlen(normal) == 71);
                else
                        assert_string_equal(normal, ids[i].text);
        }

        assert_true(image_id_equal(DIGITS, "sha256:" DIGITS));
        assert_true(image_id_equal("sha256:" DIGITS, DIGITS));
        assert_false(image_id_equal(DIGITS, "sha256:" OTHER_DIGITS));
        assert_false(image_id_equal(NULL, NULL));
        assert_false(image_id_equal(DIGITS, NULL));
}

/* A NodeImage holds the familiar name and the tag apart; together they are the same image. */
TEST_ROWS(test_from_node_image, cases, text, const struct Case *row) {
        ImageRef ref, from;

        if (!row->familiar_name)
                return;

        assert_ok(image_ref_parse(row->text, SHORT_NAMES_HUB, &ref, NULL));
        assert_ok(image_ref_from_node_image(row->familiar_name, image_ref_tag_or_digest(&ref),
                                            SHORT_NAMES_HUB, &from, NULL));
        assert_true(image_ref_equal(&ref, &from));
        assert_ok(image_ref_from_node_image(row->canonical_name, image_ref_tag_or_digest(&ref),
                                            SHORT_NAMES_HUB, &from, NULL));
        assert_true(image_ref_equal(&ref, &from));
}

static const struct NodeImageIsRefusedRow {
        const char *name;
        const char *tag;
        const char *words;
} node_image_is_refused_rows[] = {
        { "nginx:1", "1", "does not belong in the name" },
        { "nginx@" SHA256, "1", "does not belong in the name" },
        { "", "1", "invalid image name \"\": it is empty" },
        { "Nginx", "1", "lower case" },
        { HEX32 HEX32, "1", "ID of an image" },
        { "nginx", "", "invalid image tag \"\": the tag is empty" },
        { "nginx", "sha256:12", "not as many digits" },
        { "nginx", "1@" SHA256, "the digest does not start with" },
        { "nginx", "a b", "the tag may have" },
};

TEST_ROWS(test_node_image_is_refused, node_image_is_refused_rows, name,
          const struct NodeImageIsRefusedRow *row) {
        cleanup(error_done) Error error = ERROR_INIT;
        ImageRef ref;

        assert_true(image_ref_from_node_image(row->name, row->tag, SHORT_NAMES_HUB, &ref, &error) <
                    0);
        assert_contains(error_message(&error), row->words);
}

TEST(test_different_images_differ) {
        static const char *const texts[] = { "nginx",           "nginx:1",
                                             "nginx@" SHA256,   "other",
                                             "quay.io/nginx",   "localhost/nginx",
                                             "team/nginx",      "host:1/nginx",
                                             "quay.io/a/nginx", "quay.io:443/nginx" };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++)
                for (size_t j = 0; j < N_ELEMENTS(texts); j++) {
                        ImageRef a, b;

                        assert_ok(image_ref_parse(texts[i], SHORT_NAMES_HUB, &a, NULL));
                        assert_ok(image_ref_parse(texts[j], SHORT_NAMES_HUB, &b, NULL));
                        assert_int_equal(image_ref_equal(&a, &b), i == j);
                }
}

/* A registry of the given size, then a repository of one letter. */
static int parse_name_of_size(size_t size, Error *reterr) {
        char text[512] = "a.";
        ImageRef ref;

        for (size_t i = 2; i < size; i++)
                text[i] = 'a';
        text[size - 2] = '/';
        return image_ref_parse(text, SHORT_NAMES_HUB, &ref, reterr);
}

TEST(test_longest_name) {
        cleanup(error_done) Error error = ERROR_INIT;

        assert_int_equal(parse_name_of_size(255, NULL), 0);
        assert_true(parse_name_of_size(256, &error) < 0);
        assert_contains(error_message(&error), "longer than 255");
        assert_true(strlen(error_message(&error)) < 200);
}

/* Parts that are left out count in the length. */
TEST(test_longest_familiar_name) {
        char text[300];
        ImageRef ref;

        memset(text, 'a', sizeof(text));
        text[255 - strlen("docker.io/library/")] = '\0';
        assert_ok(image_ref_parse(text, SHORT_NAMES_HUB, &ref, NULL));

        memset(text, 'a', sizeof(text));
        text[256 - strlen("docker.io/library/")] = '\0';
        assert_true(image_ref_parse(text, SHORT_NAMES_HUB, &ref, NULL) < 0);
}

TEST(test_huge_text) {
        cleanup(free_p) char *text = malloc(1 << 20);
        ImageRef ref;

        assert_non_null(text);
        memset(text, '/', 1 << 20);
        text[(1 << 20) - 1] = '\0';
        assert_true(image_ref_parse(text, SHORT_NAMES_HUB, &ref, NULL) < 0);
        memset(text, 'a', (1 << 20) - 1);
        assert_true(image_ref_parse(text, SHORT_NAMES_HUB, &ref, NULL) < 0);
}
