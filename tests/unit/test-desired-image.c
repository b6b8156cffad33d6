/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Desired images
 */

#include "agent/base/hash.h"
#include "agent/image/desired-image.h"
#include "tests/unit/unit.h"

static const OwnerRef owner = {
        .api_version = (char *) "apps.kruise.io/v1beta1",
        .kind = (char *) "ImagePullJob",
        .namespace = (char *) "default",
        .name = (char *) "job",
        .uid = (char *) "1234",
        .resource_version = (char *) "7",
};

/* Something of everything. */
static DesiredImage make_desired(void) {
        DesiredImage desired;

        assert_ok(desired_image_init(&desired, "nginx", "1.25"));
        desired.version = 3;
        desired.created_at = 1700000000;
        assert_ok(desired_image_add_secret(&desired, "default", "regcred"));
        assert_ok(desired_image_add_secret(&desired, NULL, "file"));
        assert_ok(desired_image_add_label(&desired, "app", "web"));
        assert_ok(desired_image_add_label(&desired, "tier", "front"));
        assert_ok(desired_image_add_annotation(&desired, "note", ""));
        assert_ok(desired_image_add_owner(&desired, &owner));
        return desired;
}

TEST(test_defaults) {
        cleanup(desired_image_done) DesiredImage desired;
        char name[] = "nginx", tag[] = "1.25";

        assert_ok(desired_image_init(&desired, name, tag));
        name[0] = tag[0] = 'X';
        assert_string_equal(desired.name, "nginx");
        assert_string_equal(desired.tag, "1.25");
        assert_int_equal(desired.policy, PULL_POLICY_ALWAYS);
        assert_int_equal(desired.timeout_sec, 600);
        assert_int_equal(desired.backoff_limit, DESIRED_IMAGE_NO_LIMIT);
        assert_int_equal(desired.refusal_limit, DESIRED_IMAGE_NO_LIMIT);
        assert_int_equal(desired.active_deadline_sec, DESIRED_IMAGE_NO_LIMIT);
        assert_int_equal(desired.ttl_sec, DESIRED_IMAGE_NO_LIMIT);
        assert_int_equal(desired.version, 0);
        assert_int_equal(desired.n_secrets + desired.n_labels + desired.n_annotations +
                                 desired.n_owners,
                         0);
}

TEST(test_copy_is_equal_and_apart) {
        cleanup(desired_image_done) DesiredImage desired = make_desired();
        cleanup(desired_image_done) DesiredImage copy;

        assert_ok(desired_image_copy(&desired, &copy));
        assert_true(desired_image_equal(&desired, &copy));
        assert_ptr_not_equal(desired.name, copy.name);
        assert_ptr_not_equal(desired.owners[0].uid, copy.owners[0].uid);
        assert_string_equal(copy.owners[0].resource_version, "7");
        assert_null(copy.owners[0].field_path);
        assert_null(copy.secrets[1].namespace);
        assert_string_equal(copy.secrets[1].name, "file");
        assert_string_equal(copy.annotations[0].value, "");
}

static void replace(char **text, const char *with) {
        free(*text);
        *text = with ? strdup(with) : NULL;
}

/* Each one changes a single thing, and the desired image is another one then. */
static void change(DesiredImage *desired, unsigned n) {
        switch (n) {
        case 0: replace(&desired->name, "redis"); break;
        case 1: replace(&desired->tag, "1.26"); break;
        case 2: desired->version++; break;
        case 3: desired->created_at++; break;
        case 4: desired->policy = PULL_POLICY_IF_NOT_PRESENT; break;
        case 5: desired->timeout_sec++; break;
        case 6: desired->backoff_limit++; break;
        case 7: desired->active_deadline_sec = 1; break;
        case 8: desired->ttl_sec = 1; break;
        case 9: replace(&desired->secrets[0].namespace, "other"); break;
        case 10: replace(&desired->secrets[1].namespace, ""); break;
        case 11: replace(&desired->secrets[0].name, "other"); break;
        case 12: assert_ok(desired_image_add_secret(desired, NULL, "more")); break;
        case 13: assert_ok(desired_image_add_label(desired, "app", "db")); break;
        case 14: assert_ok(desired_image_add_label(desired, "new", "db")); break;
        case 15: assert_ok(desired_image_add_annotation(desired, "note", "x")); break;
        case 16: replace(&desired->owners[0].api_version, NULL); break;
        case 17: replace(&desired->owners[0].kind, "Pod"); break;
        case 18: replace(&desired->owners[0].namespace, "other"); break;
        case 19: replace(&desired->owners[0].name, "other"); break;
        case 20: replace(&desired->owners[0].uid, "other"); break;
        case 21: replace(&desired->owners[0].field_path, "spec"); break;
        case 22: assert_ok(desired_image_add_owner(desired, &owner)); break;
        case 23: desired->refusal_limit = 4; break;
        case 24: desired->is_complete = true; break;
        case 25: desired->is_resolved = true; break;
        case 26: desired->is_pinned = true; break;
        default: fail();
        }
}

#define N_CHANGES 27

TEST(test_every_difference_counts) {
        for (unsigned n = 0; n < N_CHANGES; n++) {
                cleanup(desired_image_done) DesiredImage desired = make_desired();
                cleanup(desired_image_done) DesiredImage changed = make_desired();

                assert_true(desired_image_equal(&desired, &changed));
                change(&changed, n);
                if (desired_image_equal(&desired, &changed) ||
                    desired_image_equal(&changed, &desired))
                        fail_msg("change %u goes unnoticed", n);
                if (desired_image_hash(HASH64_START, &desired) ==
                    desired_image_hash(HASH64_START, &changed))
                        fail_msg("the hash misses change %u", n);
        }
}

TEST(test_resource_version_does_not_count) {
        cleanup(desired_image_done) DesiredImage desired = make_desired();
        cleanup(desired_image_done) DesiredImage changed = make_desired();

        replace(&changed.owners[0].resource_version, "8");
        assert_true(desired_image_equal(&desired, &changed));
        replace(&changed.owners[0].resource_version, NULL);
        assert_true(desired_image_equal(&desired, &changed));
}

/* They are maps: a key has one value, and the order in which a source writes them means nothing. */
TEST(test_labels_are_a_map) {
        cleanup(desired_image_done) DesiredImage desired = make_desired();
        cleanup(desired_image_done) DesiredImage other;

        assert_ok(desired_image_copy(&desired, &other));
        assert_ok(desired_image_add_label(&desired, "b", "1"));
        assert_ok(desired_image_add_label(&desired, "a", "1"));
        assert_ok(desired_image_add_label(&desired, "b", "2"));
        assert_ok(desired_image_add_label(&other, "a", "1"));
        assert_ok(desired_image_add_label(&other, "b", "2"));

        assert_int_equal(desired.n_labels, 4);
        assert_true(desired_image_equal(&desired, &other));
}

/* A tag in the status file has its own secrets and sandbox config instead of those that the name has. */
TEST(test_shared_is_cleared) {
        cleanup(desired_image_done) DesiredImage desired = make_desired();

        desired_image_clear_shared(&desired);
        assert_int_equal(desired.n_secrets, 0);
        assert_int_equal(desired.n_labels, 0);
        assert_int_equal(desired.n_annotations, 0);
        assert_int_equal(desired.n_owners, 1);
        assert_ok(desired_image_add_label(&desired, "app", "db"));
        assert_int_equal(desired.n_labels, 1);
        assert_string_equal(desired.labels[0].value, "db");
}

TEST(test_order_of_secrets_counts) {
        cleanup(desired_image_done) DesiredImage a, b;

        assert_ok(desired_image_init(&a, "nginx", "1"));
        assert_ok(desired_image_init(&b, "nginx", "1"));
        assert_ok(desired_image_add_secret(&a, "ns", "one"));
        assert_ok(desired_image_add_secret(&a, "ns", "two"));
        assert_ok(desired_image_add_secret(&b, "ns", "two"));
        assert_ok(desired_image_add_secret(&b, "ns", "one"));
        assert_false(desired_image_equal(&a, &b));
}

TEST(test_list_takes_over) {
        cleanup(desired_images_done) DesiredImages list = DESIRED_IMAGES_INIT;
        cleanup(desired_image_done) DesiredImage expected = make_desired();

        for (size_t i = 0; i < 20; i++) {
                cleanup(desired_image_done) DesiredImage desired = make_desired();

                assert_ok(desired_images_take(&list, &desired));
                assert_null(desired.name);
        }

        assert_int_equal(list.n_items, 20);
        for (size_t i = 0; i < list.n_items; i++)
                assert_true(desired_image_equal(&list.items[i], &expected));
}

TEST(test_done_twice) {
        DesiredImage desired = make_desired();

        desired_image_done(&desired);
        desired_image_done(&desired);
}
