/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Strings that may be NULL
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/text.h"

static void test_copies(void **state) {
        char *text = (char *) "before";

        assert_int_equal(text_copy(NULL, &text), 0);
        assert_null(text);
        assert_int_equal(text_copy("a/b", &text), 0);
        assert_string_equal(text, "a/b");

        /* The new text is a part of the one that it replaces. */
        assert_int_equal(text_set(&text, text + 2), 0);
        assert_string_equal(text, "b");
        assert_int_equal(text_set(&text, NULL), 0);
        assert_null(text);
}

static void test_equality(void **state) {
        assert_true(text_equal(NULL, NULL));
        assert_true(text_equal("a", "a"));
        assert_false(text_equal("a", "b"));
        assert_false(text_equal("", NULL));
        assert_false(text_equal(NULL, ""));
}

static void test_format(void **state) {
        char *text = (char *) "before";

        assert_int_equal(text_format(&text, "%s is %d", "a", 1), 0);
        assert_string_equal(text, "a is 1");
        free(text);
}

/* A character that the C locale does not have: the one failure that needs no lack of memory. */
static void test_format_that_fails(void **state) {
        char *text = (char *) "before";

        assert_int_equal(text_format(&text, "%ls", L"\u00e9"), -ENOMEM);
        assert_null(text);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_copies),
                cmocka_unit_test(test_equality),
                cmocka_unit_test(test_format),
                cmocka_unit_test(test_format_that_fails),
        };

        return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
