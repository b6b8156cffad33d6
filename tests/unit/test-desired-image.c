/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Desired images
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/image/desired-image.h"

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

        assert_int_equal(desired_image_init(&desired, "nginx", "1.25"), 0);
        desired.version = 3;
        desired.created_at = 1700000000;
        assert_int_equal(desired_image_add_secret(&desired, "default", "regcred"), 0);
        assert_int_equal(desired_image_add_secret(&desired, NULL, "file"), 0);
        assert_int_equal(desired_image_add_label(&desired, "app", "web"), 0);
        assert_int_equal(desired_image_add_label(&desired, "tier", "front"), 0);
        assert_int_equal(desired_image_add_annotation(&desired, "note", ""), 0);
        assert_int_equal(desired_image_add_owner(&desired, &owner), 0);
        return desired;
}

static void test_defaults(void **state) {
        cleanup(desired_image_done) DesiredImage desired;
        char name[] = "nginx", tag[] = "1.25";

        assert_int_equal(desired_image_init(&desired, name, tag), 0);
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

static void test_copy_is_equal_and_apart(void **state) {
        cleanup(desired_image_done) DesiredImage desired = make_desired();
        cleanup(desired_image_done) DesiredImage copy;

        assert_int_equal(desired_image_copy(&desired, &copy), 0);
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
        case 12: assert_int_equal(desired_image_add_secret(desired, NULL, "more"), 0); break;
        case 13: assert_int_equal(desired_image_add_label(desired, "app", "db"), 0); break;
        case 14: assert_int_equal(desired_image_add_label(desired, "new", "db"), 0); break;
        case 15: assert_int_equal(desired_image_add_annotation(desired, "note", "x"), 0); break;
        case 16: replace(&desired->owners[0].api_version, NULL); break;
        case 17: replace(&desired->owners[0].kind, "Pod"); break;
        case 18: replace(&desired->owners[0].namespace, "other"); break;
        case 19: replace(&desired->owners[0].name, "other"); break;
        case 20: replace(&desired->owners[0].uid, "other"); break;
        case 21: replace(&desired->owners[0].field_path, "spec"); break;
        case 22: assert_int_equal(desired_image_add_owner(desired, &owner), 0); break;
        case 23: desired->refusal_limit = 4; break;
        default: fail();
        }
}

#define N_CHANGES 24

static void test_every_difference_counts(void **state) {
        for (unsigned n = 0; n < N_CHANGES; n++) {
                cleanup(desired_image_done) DesiredImage desired = make_desired();
                cleanup(desired_image_done) DesiredImage changed = make_desired();

                assert_true(desired_image_equal(&desired, &changed));
                change(&changed, n);
                if (desired_image_equal(&desired, &changed) ||
                    desired_image_equal(&changed, &desired))
                        fail_msg("change %u goes unnoticed", n);
        }
}

static void test_resource_version_does_not_count(void **state) {
        cleanup(desired_image_done) DesiredImage desired = make_desired();
        cleanup(desired_image_done) DesiredImage changed = make_desired();

        replace(&changed.owners[0].resource_version, "8");
        assert_true(desired_image_equal(&desired, &changed));
        replace(&changed.owners[0].resource_version, NULL);
        assert_true(desired_image_equal(&desired, &changed));
}

/* They are maps: a key has one value, and the order in which a source writes them means nothing. */
static void test_labels_are_a_map(void **state) {
        cleanup(desired_image_done) DesiredImage desired = make_desired();
        cleanup(desired_image_done) DesiredImage other;

        assert_int_equal(desired_image_copy(&desired, &other), 0);
        assert_int_equal(desired_image_add_label(&desired, "b", "1"), 0);
        assert_int_equal(desired_image_add_label(&desired, "a", "1"), 0);
        assert_int_equal(desired_image_add_label(&desired, "b", "2"), 0);
        assert_int_equal(desired_image_add_label(&other, "a", "1"), 0);
        assert_int_equal(desired_image_add_label(&other, "b", "2"), 0);

        assert_int_equal(desired.n_labels, 4);
        assert_true(desired_image_equal(&desired, &other));
}

static void test_order_of_secrets_counts(void **state) {
        cleanup(desired_image_done) DesiredImage a, b;

        assert_int_equal(desired_image_init(&a, "nginx", "1"), 0);
        assert_int_equal(desired_image_init(&b, "nginx", "1"), 0);
        assert_int_equal(desired_image_add_secret(&a, "ns", "one"), 0);
        assert_int_equal(desired_image_add_secret(&a, "ns", "two"), 0);
        assert_int_equal(desired_image_add_secret(&b, "ns", "two"), 0);
        assert_int_equal(desired_image_add_secret(&b, "ns", "one"), 0);
        assert_false(desired_image_equal(&a, &b));
}

static void test_list_takes_over(void **state) {
        cleanup(desired_images_done) DesiredImages list = DESIRED_IMAGES_INIT;
        cleanup(desired_image_done) DesiredImage expected = make_desired();

        for (size_t i = 0; i < 20; i++) {
                cleanup(desired_image_done) DesiredImage desired = make_desired();

                assert_int_equal(desired_images_take(&list, &desired), 0);
                assert_null(desired.name);
        }

        assert_int_equal(list.n_items, 20);
        for (size_t i = 0; i < list.n_items; i++)
                assert_true(desired_image_equal(&list.items[i], &expected));
}

static void test_done_twice(void **state) {
        DesiredImage desired = make_desired();

        desired_image_done(&desired);
        desired_image_done(&desired);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_copy_is_equal_and_apart),
                cmocka_unit_test(test_every_difference_counts),
                cmocka_unit_test(test_resource_version_does_not_count),
                cmocka_unit_test(test_labels_are_a_map),
                cmocka_unit_test(test_order_of_secrets_counts),
                cmocka_unit_test(test_list_takes_over),
                cmocka_unit_test(test_done_twice),
        };

        return cmocka_run_group_tests_name("desired image", tests, NULL, NULL);
}
