/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Wishes
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/image/wish.h"

static const OwnerRef owner = {
        .api_version = (char *) "apps.kruise.io/v1beta1",
        .kind = (char *) "ImagePullJob",
        .namespace = (char *) "default",
        .name = (char *) "job",
        .uid = (char *) "1234",
        .resource_version = (char *) "7",
};

/* Something of everything. */
static ImageWish make_wish(void) {
        ImageWish wish;

        assert_int_equal(image_wish_init(&wish, "nginx", "1.25"), 0);
        wish.version = 3;
        wish.created_at = 1700000000;
        assert_int_equal(image_wish_add_secret(&wish, "default", "regcred"), 0);
        assert_int_equal(image_wish_add_secret(&wish, NULL, "file"), 0);
        assert_int_equal(image_wish_add_label(&wish, "app", "web"), 0);
        assert_int_equal(image_wish_add_label(&wish, "tier", "front"), 0);
        assert_int_equal(image_wish_add_annotation(&wish, "note", ""), 0);
        assert_int_equal(image_wish_add_owner(&wish, &owner), 0);
        return wish;
}

static void test_defaults(void **state) {
        cleanup(image_wish_done) ImageWish wish;
        char name[] = "nginx", tag[] = "1.25";

        assert_int_equal(image_wish_init(&wish, name, tag), 0);
        name[0] = tag[0] = 'X';
        assert_string_equal(wish.name, "nginx");
        assert_string_equal(wish.tag, "1.25");
        assert_int_equal(wish.policy, PULL_POLICY_ALWAYS);
        assert_int_equal(wish.timeout_sec, 600);
        assert_int_equal(wish.backoff_limit, 3);
        assert_int_equal(wish.active_deadline_sec, WISH_NO_LIMIT);
        assert_int_equal(wish.ttl_sec, WISH_NO_LIMIT);
        assert_int_equal(wish.version, 0);
        assert_int_equal(wish.n_secrets + wish.n_labels + wish.n_annotations + wish.n_owners, 0);
}

static void test_copy_is_equal_and_apart(void **state) {
        cleanup(image_wish_done) ImageWish wish = make_wish();
        cleanup(image_wish_done) ImageWish copy;

        assert_int_equal(image_wish_copy(&wish, &copy), 0);
        assert_true(image_wish_equal(&wish, &copy));
        assert_ptr_not_equal(wish.name, copy.name);
        assert_ptr_not_equal(wish.owners[0].uid, copy.owners[0].uid);
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

/* Each one changes a single thing, and the wish is another one then. */
static void change(ImageWish *wish, unsigned n) {
        switch (n) {
        case 0: replace(&wish->name, "redis"); break;
        case 1: replace(&wish->tag, "1.26"); break;
        case 2: wish->version++; break;
        case 3: wish->created_at++; break;
        case 4: wish->policy = PULL_POLICY_IF_NOT_PRESENT; break;
        case 5: wish->timeout_sec++; break;
        case 6: wish->backoff_limit++; break;
        case 7: wish->active_deadline_sec = 1; break;
        case 8: wish->ttl_sec = 1; break;
        case 9: replace(&wish->secrets[0].namespace, "other"); break;
        case 10: replace(&wish->secrets[1].namespace, ""); break;
        case 11: replace(&wish->secrets[0].name, "other"); break;
        case 12: assert_int_equal(image_wish_add_secret(wish, NULL, "more"), 0); break;
        case 13: assert_int_equal(image_wish_add_label(wish, "app", "db"), 0); break;
        case 14: assert_int_equal(image_wish_add_label(wish, "new", "db"), 0); break;
        case 15: assert_int_equal(image_wish_add_annotation(wish, "note", "x"), 0); break;
        case 16: replace(&wish->owners[0].api_version, NULL); break;
        case 17: replace(&wish->owners[0].kind, "Pod"); break;
        case 18: replace(&wish->owners[0].namespace, "other"); break;
        case 19: replace(&wish->owners[0].name, "other"); break;
        case 20: replace(&wish->owners[0].uid, "other"); break;
        case 21: replace(&wish->owners[0].field_path, "spec"); break;
        case 22: assert_int_equal(image_wish_add_owner(wish, &owner), 0); break;
        default: fail();
        }
}

#define N_CHANGES 23

static void test_every_difference_counts(void **state) {
        for (unsigned n = 0; n < N_CHANGES; n++) {
                cleanup(image_wish_done) ImageWish wish = make_wish();
                cleanup(image_wish_done) ImageWish changed = make_wish();

                assert_true(image_wish_equal(&wish, &changed));
                change(&changed, n);
                if (image_wish_equal(&wish, &changed) || image_wish_equal(&changed, &wish))
                        fail_msg("change %u goes unnoticed", n);
        }
}

static void test_resource_version_does_not_count(void **state) {
        cleanup(image_wish_done) ImageWish wish = make_wish();
        cleanup(image_wish_done) ImageWish changed = make_wish();

        replace(&changed.owners[0].resource_version, "8");
        assert_true(image_wish_equal(&wish, &changed));
        replace(&changed.owners[0].resource_version, NULL);
        assert_true(image_wish_equal(&wish, &changed));
}

/* They are maps: a key has one value, and the order in which a source writes them means nothing. */
static void test_labels_are_a_map(void **state) {
        cleanup(image_wish_done) ImageWish wish = make_wish();
        cleanup(image_wish_done) ImageWish other;

        assert_int_equal(image_wish_copy(&wish, &other), 0);
        assert_int_equal(image_wish_add_label(&wish, "b", "1"), 0);
        assert_int_equal(image_wish_add_label(&wish, "a", "1"), 0);
        assert_int_equal(image_wish_add_label(&wish, "b", "2"), 0);
        assert_int_equal(image_wish_add_label(&other, "a", "1"), 0);
        assert_int_equal(image_wish_add_label(&other, "b", "2"), 0);

        assert_int_equal(wish.n_labels, 4);
        assert_true(image_wish_equal(&wish, &other));
}

static void test_order_of_secrets_counts(void **state) {
        cleanup(image_wish_done) ImageWish a, b;

        assert_int_equal(image_wish_init(&a, "nginx", "1"), 0);
        assert_int_equal(image_wish_init(&b, "nginx", "1"), 0);
        assert_int_equal(image_wish_add_secret(&a, "ns", "one"), 0);
        assert_int_equal(image_wish_add_secret(&a, "ns", "two"), 0);
        assert_int_equal(image_wish_add_secret(&b, "ns", "two"), 0);
        assert_int_equal(image_wish_add_secret(&b, "ns", "one"), 0);
        assert_false(image_wish_equal(&a, &b));
}

static void test_list_takes_over(void **state) {
        cleanup(wish_list_done) WishList list = WISH_LIST_INIT;
        cleanup(image_wish_done) ImageWish expected = make_wish();

        for (size_t i = 0; i < 20; i++) {
                cleanup(image_wish_done) ImageWish wish = make_wish();

                assert_int_equal(wish_list_take(&list, &wish), 0);
                assert_null(wish.name);
        }

        assert_int_equal(list.n_items, 20);
        for (size_t i = 0; i < list.n_items; i++)
                assert_true(image_wish_equal(&list.items[i], &expected));
}

static void test_done_twice(void **state) {
        ImageWish wish = make_wish();

        image_wish_done(&wish);
        image_wish_done(&wish);
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

        return cmocka_run_group_tests_name("wish", tests, NULL, NULL);
}
