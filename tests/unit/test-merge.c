/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Several asks for one image
 */

#include "agent/image/desired-image.h"
#include "tests/unit/unit.h"

#define N_DESIRED 3

/* A number of three desired images, and the merged number. */
typedef struct Rule {
        const char *name;
        size_t offset;
        int64_t given[N_DESIRED];
        int64_t merged;
} Rule;

#define VERSION offsetof(DesiredImage, version)
#define CREATED_AT offsetof(DesiredImage, created_at)
#define TIMEOUT offsetof(DesiredImage, timeout_sec)
#define BACKOFF_LIMIT offsetof(DesiredImage, backoff_limit)
#define REFUSAL_LIMIT offsetof(DesiredImage, refusal_limit)
#define DEADLINE offsetof(DesiredImage, active_deadline_sec)
#define TTL offsetof(DesiredImage, ttl_sec)

/* clang-format off */
static const Rule rules[] = {
        { "the newest version",               VERSION,       { 3, 7, 5 },              7 },
        { "the only version",                 VERSION,       { 0, 0, 2 },              2 },
        { "the earliest creation",            CREATED_AT,    { 300, 100, 200 },        100 },
        { "the only known creation",          CREATED_AT,    { 0, 0, 200 },            200 },
        { "the earliest known creation",      CREATED_AT,    { 0, 300, 200 },          200 },
        { "no known creation",                CREATED_AT,    { 0, 0, 0 },              0 },
        { "the most patient time-out",        TIMEOUT,       { 60, 600, 10 },          600 },
        { "the most attempts",                BACKOFF_LIMIT, { 0, 3, 1 },              3 },
        { "any number of attempts",           BACKOFF_LIMIT, { 9, DESIRED_IMAGE_NO_LIMIT, 1 },
          DESIRED_IMAGE_NO_LIMIT },
        { "the most refusals",                REFUSAL_LIMIT, { 0, 3, 1 },              3 },
        { "any number of refusals",           REFUSAL_LIMIT, { 9, DESIRED_IMAGE_NO_LIMIT, 1 },
          DESIRED_IMAGE_NO_LIMIT },
        { "the latest deadline",              DEADLINE,      { 10, 30, 20 },           30 },
        { "no deadline, first",               DEADLINE,      { DESIRED_IMAGE_NO_LIMIT, 30, 20 }, DESIRED_IMAGE_NO_LIMIT },
        { "no deadline, last",                DEADLINE,      { 10, 30, DESIRED_IMAGE_NO_LIMIT }, DESIRED_IMAGE_NO_LIMIT },
        { "a deadline that is over at once",  DEADLINE,      { 0, 0, 0 },              0 },
        { "the longest lifetime",             TTL,           { 10, 30, 20 },           30 },
        { "no end of the lifetime",           TTL,           { 10, DESIRED_IMAGE_NO_LIMIT, 20 }, DESIRED_IMAGE_NO_LIMIT },
        { "no lifetime at all",               TTL,           { 0, 0, 0 },              0 },
};

/* The policies of three desired images. */
static const struct Policy {
        const char *name;
        PullPolicy given[N_DESIRED];
        PullPolicy merged;
} policies[] = {
        { "all are content with what is there",
          { PULL_POLICY_IF_NOT_PRESENT, PULL_POLICY_IF_NOT_PRESENT, PULL_POLICY_IF_NOT_PRESENT },
          PULL_POLICY_IF_NOT_PRESENT },
        { "the first one is not",
          { PULL_POLICY_ALWAYS, PULL_POLICY_IF_NOT_PRESENT, PULL_POLICY_IF_NOT_PRESENT },
          PULL_POLICY_ALWAYS },
        { "the last one is not",
          { PULL_POLICY_IF_NOT_PRESENT, PULL_POLICY_IF_NOT_PRESENT, PULL_POLICY_ALWAYS },
          PULL_POLICY_ALWAYS },
};
/* clang-format on */

#define N_RULES N_ELEMENTS(rules)
#define N_POLICIES N_ELEMENTS(policies)

static DesiredImage make_desired(void) {
        DesiredImage desired;

        assert_ok(desired_image_init(&desired, "nginx", "1.25"));
        return desired;
}

static DesiredImage merge_two(const DesiredImage *a, const DesiredImage *b) {
        const DesiredImage *desired_images[] = { a, b };
        DesiredImage merged;

        assert_ok(desired_image_merge(desired_images, 2, &merged));
        return merged;
}

static int64_t *number(DesiredImage *desired, size_t offset) {
        return (int64_t *) ((char *) desired + offset);
}

static void desired_done(DesiredImage (*desired_images)[N_DESIRED]) {
        for (size_t i = 0; i < N_DESIRED; i++)
                desired_image_done(&(*desired_images)[i]);
}

TEST_ROWS(test_rule, rules, name, const Rule *rule) {
        cleanup(desired_done)
                DesiredImage desired_images[N_DESIRED] = { make_desired(), make_desired(),
                                                           make_desired() };
        const DesiredImage *list[N_DESIRED] = { &desired_images[0], &desired_images[1],
                                                &desired_images[2] };
        cleanup(desired_image_done) DesiredImage merged;

        for (size_t i = 0; i < N_DESIRED; i++)
                *number(&desired_images[i], rule->offset) = rule->given[i];
        assert_ok(desired_image_merge(list, N_DESIRED, &merged));
        assert_int_equal(*number(&merged, rule->offset), rule->merged);
}

TEST_ROWS(test_policy, policies, name, const struct Policy *policy) {
        cleanup(desired_done)
                DesiredImage desired_images[N_DESIRED] = { make_desired(), make_desired(),
                                                           make_desired() };
        const DesiredImage *list[N_DESIRED] = { &desired_images[0], &desired_images[1],
                                                &desired_images[2] };
        cleanup(desired_image_done) DesiredImage merged;

        for (size_t i = 0; i < N_DESIRED; i++)
                desired_images[i].policy = policy->given[i];
        assert_ok(desired_image_merge(list, N_DESIRED, &merged));
        assert_int_equal(merged.policy, policy->merged);
}

TEST(test_one_asks_for_all_layers) {
        cleanup(desired_image_done) DesiredImage a = make_desired(), b = make_desired();
        cleanup(desired_image_done) DesiredImage merged;

        b.is_complete = true;
        merged = merge_two(&a, &b);
        assert_true(merged.is_complete);
        assert_false(merged.is_pinned);
}

TEST(test_one_asks_for_a_pin) {
        cleanup(desired_image_done) DesiredImage a = make_desired(), b = make_desired();
        cleanup(desired_image_done) DesiredImage merged;

        b.is_pinned = true;
        merged = merge_two(&a, &b);
        assert_true(merged.is_pinned);
}

TEST(test_one_request_stays_as_it_is) {
        cleanup(desired_image_done) DesiredImage desired = make_desired();
        cleanup(desired_image_done) DesiredImage merged;
        const DesiredImage *list = &desired;

        desired.version = 4;
        desired.ttl_sec = 60;
        assert_ok(desired_image_add_label(&desired, "app", "web"));
        assert_ok(desired_image_add_secret(&desired, NULL, "regcred"));
        assert_ok(desired_image_merge(&list, 1, &merged));
        assert_true(desired_image_equal(&merged, &desired));
        assert_ptr_not_equal(merged.name, desired.name);
}

TEST(test_names_of_the_first) {
        cleanup(desired_image_done) DesiredImage a = make_desired();
        cleanup(desired_image_done) DesiredImage b;
        cleanup(desired_image_done) DesiredImage merged;

        assert_ok(desired_image_init(&b, "docker.io/library/nginx", "1.25"));
        merged = merge_two(&b, &a);
        assert_string_equal(merged.name, "docker.io/library/nginx");
}

/* A secret is one and the same if name and namespace are; no namespace is an empty one. */
TEST(test_secrets_are_united) {
        cleanup(desired_image_done) DesiredImage a = make_desired();
        cleanup(desired_image_done) DesiredImage b = make_desired();
        cleanup(desired_image_done) DesiredImage merged;
        char text[64] = "";

        assert_ok(desired_image_add_secret(&a, "ns", "one"));
        assert_ok(desired_image_add_secret(&a, NULL, "two"));
        assert_ok(desired_image_add_secret(&b, "ns", "three"));
        assert_ok(desired_image_add_secret(&b, "", "two"));
        assert_ok(desired_image_add_secret(&b, "other", "one"));
        assert_ok(desired_image_add_secret(&b, "ns", "one"));

        merged = merge_two(&a, &b);
        for (size_t i = 0; i < merged.n_secrets; i++)
                sprintf(text + strlen(text), "%s/%s ", merged.secrets[i].namespace ?: "",
                        merged.secrets[i].name);
        assert_string_equal(text, "ns/one /two ns/three other/one ");
}

/* Labels of one and annotations of another one would describe a pod that does not exist. */
TEST(test_sandbox_is_not_mixed) {
        cleanup(desired_image_done) DesiredImage none = make_desired();
        cleanup(desired_image_done) DesiredImage labels = make_desired();
        cleanup(desired_image_done) DesiredImage both = make_desired();
        cleanup(desired_image_done) DesiredImage merged;
        const DesiredImage *list[] = { &none, &labels, &both };

        assert_ok(desired_image_add_label(&labels, "app", "web"));
        assert_ok(desired_image_add_label(&both, "tier", "front"));
        assert_ok(desired_image_add_annotation(&both, "note", "x"));
        assert_ok(desired_image_merge(list, 3, &merged));
        assert_int_equal(merged.n_labels, 1);
        assert_string_equal(merged.labels[0].key, "app");
        assert_int_equal(merged.n_annotations, 0);
}

/* The first one that has any gives all of it. */
TEST(test_sandbox_of_the_second) {
        cleanup(desired_image_done) DesiredImage a = make_desired();
        cleanup(desired_image_done) DesiredImage b = make_desired();
        cleanup(desired_image_done) DesiredImage merged;

        assert_ok(desired_image_add_label(&b, "app", "web"));
        assert_ok(desired_image_add_annotation(&b, "note", "x"));
        assert_ok(desired_image_add_annotation(&b, "other", "y"));
        merged = merge_two(&a, &b);
        assert_true(desired_image_equal_sandbox(&merged, &b));
}

TEST(test_sandbox_of_annotations_alone) {
        cleanup(desired_image_done) DesiredImage a = make_desired();
        cleanup(desired_image_done) DesiredImage b = make_desired();
        cleanup(desired_image_done) DesiredImage merged;

        assert_ok(desired_image_add_annotation(&a, "note", "x"));
        assert_ok(desired_image_add_label(&b, "app", "web"));
        merged = merge_two(&a, &b);
        assert_int_equal(merged.n_labels, 0);
        assert_string_equal(merged.annotations[0].value, "x");
}

TEST(test_all_owners_are_kept) {
        const OwnerRef owners[] = {
                { .kind = (char *) "ImagePullJob", .name = (char *) "one", .uid = (char *) "1" },
                { .kind = (char *) "ImagePullJob", .name = (char *) "two", .uid = (char *) "2" },
        };
        cleanup(desired_image_done) DesiredImage a = make_desired();
        cleanup(desired_image_done) DesiredImage b = make_desired();
        cleanup(desired_image_done) DesiredImage merged;

        assert_ok(desired_image_add_owner(&a, &owners[0]));
        assert_ok(desired_image_add_owner(&b, &owners[1]));
        merged = merge_two(&a, &b);
        assert_int_equal(merged.n_owners, 2);
        assert_string_equal(merged.owners[0].uid, "1");
        assert_string_equal(merged.owners[1].uid, "2");
}

static void randomize(DesiredImage *desired) {
        for (size_t i = 0; i < N_RULES; i++)
                *number(desired, rules[i].offset) = random() % 10;
        desired->policy = (PullPolicy) (random() % _PULL_POLICY_MAX);
        desired->ttl_sec -= 1;
        desired->active_deadline_sec -= 1;
}

/* It does not matter who came first. */
TEST(test_order_of_numbers_means_nothing) {
        for (unsigned seed = 0; seed < 2000; seed++) {
                cleanup(desired_image_done) DesiredImage a = make_desired();
                cleanup(desired_image_done) DesiredImage b = make_desired();
                cleanup(desired_image_done) DesiredImage there, back;

                srandom(seed);
                randomize(&a);
                randomize(&b);
                there = merge_two(&a, &b);
                back = merge_two(&b, &a);
                if (!desired_image_equal(&there, &back))
                        fail_msg("seed %u: the order matters", seed);
        }
}
