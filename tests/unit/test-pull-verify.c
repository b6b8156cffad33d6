/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether what the runtime shows can be reported as the truth
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/image/pull-request.h"

#define DIGITS "6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"
#define OTHER_DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID "sha256:" DIGITS
#define OTHER "sha256:" OTHER_DIGITS

/* clang-format off */
static const struct Id {
        const char *text;
        bool is_id;
} ids[] = {
        { ID,                              true  },
        { DIGITS,                          true  },
        { OTHER,                           true  },
        { "",                              false },
        { "sha256:",                       false },
        { "sha256:" DIGITS "0",            false },
        { DIGITS "0",                      false },
        { "sha256:6efc10a0510f",           false },
        { "6efc10a0510f",                  false },
        { "SHA256:" DIGITS,                false },
        { "sha512:" DIGITS,                false },
        { "sha256:sha256:" DIGITS,         false },
        { "nginx@" ID,                     false },
        { " " ID,                          false },
        { ID "\n",                         false },
        { "sha256:6EFC10A0510F143A90B69DC564A914574973223E88418D65C1F8809E08DC0A1F", false },
        { "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1g", false },
        { "sha256:zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", false },
};

/* What the runtime shows, and what was asked for. */
static const struct Shown {
        const char *name;
        const char *id;
        const char *digests[3];
        const char *digest; /* that was asked for */
        const char *refusal; /* words of it; NULL: accepted */
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

#define N(array) (sizeof(array) / sizeof((array)[0]))

static void test_id(void **state) {
        const struct Id *id = *state;

        assert_int_equal(pull_verify_is_image_id(id->text), id->is_id);
}

static void test_shown(void **state) {
        const struct Shown *row = *state;
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
        assert_non_null(strstr(error_message(&error), row->refusal));
        assert_null(strchr(error_message(&error), '\n'));
}

int main(void) {
        struct CMUnitTest tests[N(ids) + N(shown)];
        size_t n = 0;

        for (size_t i = 0; i < N(ids); i++)
                tests[n++] = (struct CMUnitTest){
                        .name = ids[i].text,
                        .test_func = test_id,
                        .initial_state = (void *) &ids[i],
                };
        for (size_t i = 0; i < N(shown); i++)
                tests[n++] = (struct CMUnitTest){
                        .name = shown[i].name,
                        .test_func = test_shown,
                        .initial_state = (void *) &shown[i],
                };

        return _cmocka_run_group_tests("verify", tests, n, NULL, NULL);
}
