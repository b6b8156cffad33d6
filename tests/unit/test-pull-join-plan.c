/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Images of pulls that other processes began
 */

#include "agent/image/pull-join-plan.h"
#include "tests/unit/unit.h"

#define N_MAX 4
#define NO 9 /* no image */

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define INDEX "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define APP "registry.example/app"
#define FROM "registry.example=app\n"

/* A pull from FROM that began at the time, and one from other sources. */
#define PULL(name, began_sec)                                                     \
        {                                                                         \
                .digest = name, .sources = FROM, .digests = name "\n", .began = { \
                        .tv_sec = began_sec                                       \
                }                                                                 \
        }
#define PULL_FROM(name, from, all)                                                         \
        {                                                                                  \
                .digest = name, .sources = from, .digests = all, .began = {.tv_sec = 100 } \
        }

/* An image for which a pod waits since the time, and one that the runtime holds. */
#define WAITS(name, since_sec) \
        { .key = name, .since = { .tv_sec = since_sec }, .is_missing = true }
#define HELD(name) \
        { .key = name }
#define JOINED(name, with) \
        { .key = name, .is_missing = true, .manifest = with }

/* clang-format off */
static const struct Case {
        const char *name;
        JoinPull pulls[N_MAX];
        JoinImage images[N_MAX];
        JoinResult results[N_MAX]; /* result of each pull */
        size_t joined[N_MAX]; /* image of each pull */
} cases[] = {
        { "no pod waits", { PULL(A, 100) }, { { .key = NULL } }, { JOIN_NONE }, { NO } },
        { "one pod waits", { PULL(A, 100) }, { WAITS(APP ":1", 99) }, { JOIN_IMAGE }, { 0 } },
        { "of another repository", { PULL(A, 100) }, { WAITS(APP "le:1", 99), WAITS("registry.example/ap:1", 99) },
          { JOIN_NONE }, { NO } },
        { "of another registry", { PULL(A, 100) }, { WAITS("registry.example.org/app:1", 99) }, { JOIN_NONE }, { NO } },
        { "the store leaves the port out", { PULL_FROM(A, FROM, "") }, { WAITS("registry.example:5000/app:1", 99) },
          { JOIN_IMAGE }, { 0 } },
        { "an address with colons", { PULL_FROM(A, "::1=app\n", "") }, { WAITS("[::1]:5000/app:1", 99) },
          { JOIN_IMAGE }, { 0 } },
        { "a blob of several repositories", { PULL_FROM(A, "other=app\nregistry.example=base,app,more\n", "") },
          { WAITS(APP ":1", 99) }, { JOIN_IMAGE }, { 0 } },
        { "Docker Hub", { PULL_FROM(A, "docker.io=library/nginx\n", "") }, { WAITS("docker.io/library/nginx:1", 99) },
          { JOIN_IMAGE }, { 0 } },
        { "no source", { PULL_FROM(A, "", "") }, { WAITS(APP ":1", 99) }, { JOIN_NONE }, { NO } },
        { "a key that is no reference", { PULL(A, 100) }, { WAITS("A:B:C", 99), WAITS(APP ":1", 99) },
          { JOIN_IMAGE }, { 1 } },

        { "two tags that wait, nothing tells which", { PULL(A, 100) }, { WAITS(APP ":1", 99), WAITS(APP ":2", 99) },
          { JOIN_REPOSITORY }, { 0 } },
        { "two tags at once", { PULL(A, 100), PULL(B, 100) }, { WAITS(APP ":1", 99), WAITS(APP ":2", 99) },
          { JOIN_REPOSITORY, JOIN_REPOSITORY }, { 0, 0 } },
        { "the second pod came later", { PULL(A, 100) }, { WAITS(APP ":2", 102), WAITS(APP ":1", 99) },
          { JOIN_IMAGE }, { 1 } },
        { "so the other pull is the second's", { PULL(B, 103), PULL(A, 100) }, { WAITS(APP ":1", 99), WAITS(APP ":2", 102) },
          { JOIN_IMAGE, JOIN_IMAGE }, { 1, 0 } },
        { "a pod of which the agent learns late", { PULL(A, 100) }, { WAITS(APP ":1", 101) }, { JOIN_IMAGE }, { 0 } },
        { "a pod that came after the pull", { PULL(A, 100) }, { WAITS(APP ":1", 102) }, { JOIN_NONE }, { NO } },
        { "a time that is not known", { PULL(A, 100) }, { WAITS(APP ":1", 0) }, { JOIN_IMAGE }, { 0 } },

        { "a digest", { PULL(A, 100) }, { WAITS(APP "@" B, 99), WAITS(APP "@" A, 99) }, { JOIN_IMAGE }, { 1 } },
        { "the digest of the index", { PULL_FROM(A, FROM, INDEX "\n" A "\n") }, { WAITS(APP "@" INDEX, 99) },
          { JOIN_IMAGE }, { 0 } },
        { "a digest leaves the tag to the other", { PULL(A, 100), PULL(B, 100) },
          { WAITS(APP ":1", 99), WAITS(APP "@" A, 99) }, { JOIN_IMAGE, JOIN_IMAGE }, { 1, 0 } },
        { "the digest alone is no proof", { PULL_FROM(A, "docker.io=other\n", A "\n") }, { WAITS(APP "@" A, 99) },
          { JOIN_NONE }, { NO } },

        { "an image that is renewed", { PULL(A, 100) }, { HELD(APP ":1") }, { JOIN_IMAGE }, { 0 } },
        { "a missing image comes first", { PULL(A, 100) }, { HELD(APP ":1"), WAITS(APP ":2", 99) }, { JOIN_IMAGE }, { 1 } },
        { "joined before", { PULL(A, 100) }, { WAITS(APP ":1", 99), JOINED(APP ":2", A) }, { JOIN_IMAGE }, { 1 } },
        { "joined before, and held now", { PULL(A, 100) }, { WAITS(APP ":1", 99), { .key = APP ":2", .manifest = A } },
          { JOIN_IMAGE }, { 1 } },
        { "joined with another before", { PULL(B, 100) }, { JOINED(APP ":1", A), WAITS(APP ":2", 99) },
          { JOIN_IMAGE }, { 1 } },
        { "no tag of one name under two registries",
          { PULL_FROM(A, "one.example=app\ntwo.example=app\n", "") },
          { WAITS("one.example/app:1", 99), WAITS("two.example/app:1", 99) }, { JOIN_NONE }, { NO } },
};
/* clang-format on */

TEST_ROWS(test_join, cases, name, const struct Case *row) {
        Join joins[N_MAX] = { 0 };
        size_t n_pulls = 0, n_images = 0;

        while (n_pulls < N_MAX && row->pulls[n_pulls].digest)
                n_pulls++;
        while (n_images < N_MAX && row->images[n_images].key)
                n_images++;

        assert_ok(pull_join_plan(row->pulls, n_pulls, row->images, n_images, joins));
        for (size_t i = 0; i < n_pulls; i++) {
                assert_int_equal(joins[i].result, row->results[i]);
                if (row->results[i] != JOIN_NONE)
                        assert_int_equal(joins[i].image, row->joined[i]);
        }
}
