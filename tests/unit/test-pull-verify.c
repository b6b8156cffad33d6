/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests whether an image that the runtime shows can be reported as the truth
 */

#include "agent/image/pull-request.h"
#include "tests/unit/unit.h"

#define DIGITS "6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"
#define OTHER_DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID "sha256:" DIGITS
#define OTHER "sha256:" OTHER_DIGITS

/* clang-format off */
/* Images that the runtime shows, for a requested digest. */
static const struct Shown {
        const char *name;
        const char *id;
        const char *digests[3];
        const char *digest; /* requested digest */
        const char *refusal; /* words of the refusal; NULL: accepted */
} shown[] = {
        { "a tag",                          ID, { "nginx@" OTHER },                   NULL,  NULL },
        { "a tag, with an empty digest",    ID, { "nginx@" OTHER },                   "",    NULL },
        { "a tag, of an image without any", ID, { NULL },                             NULL,  NULL },
        { "the digest itself",              ID, { "nginx@" OTHER },                   OTHER, NULL },
        { "one of several digests",         ID, { "a@" ID, "b.example:5/c@" OTHER },  OTHER, NULL },
        { "digits alone, as CRI-O says",    DIGITS, { "nginx@" OTHER },               OTHER, NULL },
        { "another digest",                 ID, { "nginx@" ID },                      OTHER, "another image" },
        { "none of several digests",        ID, { "a@" ID, "b@" ID },                 OTHER, "another image" },
        { "no digest at all",               ID, { NULL },                             OTHER, "another image" },
        { "the digest without a name",      ID, { OTHER },                            OTHER, "another image" },
        { "a longer digest",                ID, { "nginx@" OTHER "0" },               OTHER, "another image" },
        { "a shorter digest",               ID, { "nginx@sha256:0123" },              OTHER, "another image" },
        { "the ID is not the digest",       OTHER, { "nginx@" ID },                   OTHER, "another image" },
        { "no ID",                          "", { "nginx@" OTHER },                   OTHER, "image ID" },
        { "no ID for a tag",                "", { NULL },                             NULL,  "image ID" },
        { "a name as ID",                   "nginx:1.25\n", { NULL },                 NULL,  "image ID" },
};
/* clang-format on */

TEST_ROWS(test_shown, shown, name, const struct Shown *row) {
        CriImage image = RUNTIME__V1__IMAGE__INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        image.id = (char *) row->id;
        image.repo_digests = (char **) row->digests;
        while (row->digests[image.n_repo_digests])
                image.n_repo_digests++;

        r = pull_verify_image(&image, row->digest, &error);
        if (!row->refusal) {
                assert_int_equal(r, 0);
                assert_int_equal(error.kind, ERROR_NONE);
                return;
        }

        assert_true(r < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_contains(error_message(&error), row->refusal);
        assert_null(strchr(error_message(&error), '\n'));
}

/* clang-format off */
static const struct Resolved {
        const char *asked;
        const char *answer; /* answer of PullImage */
        const char *tags[3];
        const char *digests[3];
        const char *resolved;
        bool is_digest_wanted;
} resolutions[] = {
        { "foo/evil:1",           "evil.example/foo/evil@" OTHER, { "docker.io/foo/evil:1", "evil.example/foo/evil:1" }, { NULL }, "resolved to evil.example/foo/evil:1", true },
        { "ubi",                  "reg.example/ubi9@" OTHER, { "reg.example/ubi9:latest" }, { NULL }, "resolved to reg.example/ubi9@" OTHER, true },
        { "foo/evil:1",           NULL, { "a.io/other:1", "evil.example/foo/evil:1" }, { NULL }, "resolved to evil.example/foo/evil:1", true },
        { "foo/evil:1",           ID,   { "evil.example/foo/evil:1" }, { NULL }, "resolved to evil.example/foo/evil:1", true },
        { "foo/evil:1",           NULL, { "docker.io/foo/evil:1", "evil.example/foo/evil:1" }, { NULL }, "resolved to docker.io/foo/evil:1, evil.example/foo/evil:1", true },
        { "nginx:1",              NULL, { "docker.io/library/nginx:2" }, { "docker.io/library/nginx@" OTHER }, "resolved to docker.io/library/nginx@" OTHER, true },
        { "nginx@" OTHER,         NULL, { NULL }, { "docker.io/library/nginx@" OTHER }, "resolved to docker.io/library/nginx@" OTHER, true },
        { "nginx:1",              NULL, { NULL }, { NULL }, NULL, true },
        { "docker.io/foo/evil:1", "docker.io/foo/evil@" OTHER, { "docker.io/foo/evil:1" }, { NULL }, NULL, true },
        { "r.io/a:1",             ID,   { "r.io/a:1" }, { "r.io/b@" ID, "r.io/a@" OTHER }, "resolved to r.io/a@" OTHER, true },
        { "r.io/a:2",             ID,   { "r.io/a:1" }, { "r.io/a@" ID, "r.io/a@" OTHER }, "resolved to r.io/a@" ID ", r.io/a@" OTHER, true },
        { "r.io/a:3",             ID,   { "r.io/a:1" }, { "r.io/a@" OTHER }, NULL, false },
        { "r.io/a@" OTHER,        ID,   { NULL }, { "r.io/a@" OTHER }, NULL, true },
};
/* clang-format on */

static size_t count(const char *const *texts) {
        size_t n = 0;

        while (texts[n])
                n++;
        return n;
}

TEST_ROWS(test_resolved, resolutions, asked, const struct Resolved *row) {
        cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_SUCCEEDED };
        CriImage image = RUNTIME__V1__IMAGE__INIT;
        ImageRef ref;

        image.id = (char *) DIGITS;
        image.repo_tags = (char **) row->tags;
        image.n_repo_tags = count(row->tags);
        image.repo_digests = (char **) row->digests;
        image.n_repo_digests = count(row->digests);
        assert_ok(image_ref_parse(row->asked, SHORT_NAMES_SEARCHED, &ref, NULL));
        assert_ok(
                pull_verify_take(&image, &ref, row->is_digest_wanted, row->answer, &status, NULL));
        assert_string_equal(status.image_id, ID);
        if (row->resolved)
                assert_string_equal(image_status_message(&status), row->resolved);
        else
                assert_null(image_status_message(&status));
}
