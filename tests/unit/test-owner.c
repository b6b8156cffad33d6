/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the owners of requests for images
 */

#include "agent/node/owner.h"
#include "tests/unit/unit.h"

#define API "inplaced.io/v1"

/* clang-format off */
static const struct Owner {
        const char *owner;
        const char *kind; /* NULL: it is none of ours */
        const char *name;
        const char *words;
} owners[] = {
        { "file/web.yaml",         "File",    "web.yaml",       "folder:web.yaml"       },
        { "request/7f3a0c",        "Request", "7f3a0c",         "request 7f3a0c"        },
        { "call/7f3a0c",           "Call",    "7f3a0c",         "request 7f3a0c"        },
        { "nodeimage/0-1",         "NodeImage", "0-1",          "NodeImage"             },
        { "set/gpu",               "ImageSet",  "gpu",          "set gpu"               },
        { "file/",                 "File",    "",               "folder:"               },
        { "file/request/x",        "File",    "request/x",      "folder:request/x"      },
        { "file/a b%s\303\251",    "File",    "a b%s\303\251",  "folder:a b%s\303\251"  },
        { "file",                  NULL,      NULL,             NULL },
        { "files/web.yaml",        NULL,      NULL,             NULL },
        { "File/web.yaml",         NULL,      NULL,             NULL },
        { "default/job",           NULL,      NULL,             NULL },
        { "",                      NULL,      NULL,             NULL },
};

/* Files, and the owners of their requests. */
static const struct File {
        const char *name;
        const char *owner;
} files[] = {
        { "web.yaml",           "file/web.yaml"            },
        { "",                   "file/"                    },
        { "caf\303\251%41.yaml", "file/caf\303\251%41.yaml" },
        { "\377.yaml",          "file/./%FF.yaml"          },
        { "\303\251\376%",      "file/./%C3%A9%FE%25"      },
        { "\303",               "file/./%C3"               },
};

/* References to objects that are none of ours. */
static const struct Stranger {
        const char *name;
        OwnerRef reference;
} strangers[] = {
        { "all is missing",          { .api_version = NULL } },
        { "no version of the API",   { .kind = (char *) "File", .name = (char *) "x" } },
        { "another version",         { .api_version = (char *) "inplaced.io/v2",
                                       .kind = (char *) "File", .name = (char *) "x" } },
        { "another API",             { .api_version = (char *) "apps.kruise.io/v1alpha1",
                                       .kind = (char *) "ImagePullJob", .name = (char *) "x" } },
        { "no kind",                 { .api_version = (char *) API, .name = (char *) "x" } },
        { "an unknown kind",         { .api_version = (char *) API,
                                       .kind = (char *) "Pod", .name = (char *) "x" } },
        { "a kind in lower case",    { .api_version = (char *) API,
                                       .kind = (char *) "file", .name = (char *) "x" } },
};
/* clang-format on */

#define N_OWNERS N_ELEMENTS(owners)
#define N_STRANGERS N_ELEMENTS(strangers)

TEST_ROWS(test_owner, owners, owner, const struct Owner *owner) {
        cleanup(free_p) char *words = NULL;
        OwnerRef reference;

        if (!owner->kind) {
                assert_null(owner_kind(owner->owner));
                assert_null(owner_name(owner->owner));
                return;
        }

        assert_string_equal(owner_kind(owner->owner), owner->kind);
        assert_string_equal(owner_name(owner->owner), owner->name);
        assert_ptr_equal(owner_name(owner->owner) + strlen(owner->name),
                         owner->owner + strlen(owner->owner));

        reference = owner_to_reference(owner->owner, &(DesiredImage){ .n_owners = 0 });
        assert_ok(owner_reference_to_words(&reference, &words));
        assert_string_equal(words, owner->words);
}

/* The desired image of a request says who called. */
TEST(test_caller) {
        OwnerRef callers[] = {
                { .name = (char *) "other", .uid = (char *) "1" },
                { .name = (char *) "7f3a",
                  .uid = (char *) "1000",
                  .field_path = (char *) "jo (uid 1000, pid 4242)" },
        };
        const DesiredImage desired = { .owners = callers, .n_owners = 2 };
        OwnerRef reference = owner_to_reference("call/7f3a", &desired);
        cleanup(free_p) char *words = NULL;

        assert_string_equal(reference.kind, "Call");
        assert_string_equal(reference.uid, "1000");
        assert_ok(owner_reference_to_words(&reference, &words));
        assert_string_equal(words, "jo (uid 1000, pid 4242), request 7f3a");
        assert_string_equal(owner_to_reference("call/other", &desired).uid, "1");
        assert_null(owner_to_reference("file/7f3a", &desired).uid);
}

TEST(test_words_of_the_cluster) {
        static const struct {
                OwnerRef reference;
                const char *words;
        } rows[] = {
                { { .kind = (char *) "ImagePullJob",
                    .namespace = (char *) "team",
                    .name = (char *) "warm" },
                  "job team/warm" },
                { { .kind = (char *) "Node", .name = (char *) "n1" }, "Node n1" },
                { { .name = NULL }, "? " },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(free_p) char *words = NULL;

                assert_ok(owner_reference_to_words(&rows[i].reference, &words));
                assert_string_equal(words, rows[i].words);
        }
}

TEST(test_file) {
        for (size_t i = 0; i < N_ELEMENTS(files); i++) {
                cleanup(free_p) char *owner = NULL;

                assert_ok(owner_of_file(files[i].name, &owner));
                assert_string_equal(owner, files[i].owner);
        }
}

/* As a reference and back. */
TEST(test_there_and_back) {
        for (size_t i = 0; i < N_OWNERS; i++) {
                const OwnerRef reference = {
                        .api_version = (char *) API,
                        .kind = (char *) owner_kind(owners[i].owner),
                        .name = (char *) owner_name(owners[i].owner),
                };
                cleanup(free_p) char *again = NULL;

                if (!reference.kind)
                        continue;
                assert_ok(owner_from_reference(&reference, &again));
                assert_string_equal(again, owners[i].owner);
        }
}

TEST_ROWS(test_stranger, strangers, name, const struct Stranger *stranger) {
        char *owner = NULL;

        assert_true(owner_from_reference(&stranger->reference, &owner) < 0);
        assert_null(owner);
}

TEST(test_reference_without_a_name) {
        const OwnerRef reference = { .api_version = (char *) API, .kind = (char *) "Request" };
        cleanup(free_p) char *owner = NULL;

        assert_ok(owner_from_reference(&reference, &owner));
        assert_string_equal(owner, "request/");
}
