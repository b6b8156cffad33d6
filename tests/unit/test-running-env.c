/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The environment of a container, from what containerd and CRI-O report about it
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/inplace/running-env-spec.h"
#include "agent/pod/env-hash.h"

static void test_found(void **state) {
        static char *const names[] = { "B", "A", NULL };
        static const struct {
                const char *info;
                const char *a;
                const char *b;
        } cases[] = {
                { "{\"runtimeSpec\":{\"process\":{\"env\":[\"PATH=/bin\",\"A=1\",\"B=x=y\"]}}}",
                  "1", "x=y" },
                { "{\"runtimeSpec\":{\"process\":{\"env\":[\"A=1\",\"AB=3\",\"A=2\",7]}}}", "2",
                  "" },
                { "{\"runtimeSpec\":{\"process\":{\"env\":[\"A= two\\nlines\\\" \",\"B\"]}}}",
                  " two\nlines\" ", "" },
                { "{\"runtimeSpec\":{\"process\":{\"env\":[]}}}", "", "" },
                { "{\"config\":{\"envs\":[{\"key\":\"A\",\"value\":\"1\"},{\"key\":\"B\"},"
                  "{\"key\":\"A\",\"value\":\"2\"},null]}}",
                  "2", "" },
                { "{\"runtimeSpec\":{\"process\":{}},\"config\":{\"envs\":[{\"key\":\"B\","
                  "\"value\":\"ü\"}]}}",
                  "", "ü" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                EnvValue values[] = { { "A", cases[i].a }, { "B", cases[i].b } };
                uint32_t expected, found;

                assert_int_equal(env_hash(values, 2, &expected), 0);
                assert_int_equal(running_env_hash(cases[i].info, names, &found, NULL), 0);
                assert_int_equal(found, expected);
        }
}

static void test_nothing_counts(void **state) {
        static char *const names[] = { NULL };
        uint32_t found;

        assert_int_equal(running_env_hash("{\"config\":{\"envs\":[]}}", names, &found, NULL), 0);
        assert_int_equal(found, ENV_HASH_NONE);
}

static void test_refused(void **state) {
        static char *const names[] = { "A", NULL };
        static const char *const infos[] = {
                "",
                "{",
                "[]",
                "7",
                "{}",
                "{\"runtimeSpec\":7,\"config\":[]}",
                "{\"runtimeSpec\":{\"process\":{\"env\":{\"A\":\"secret\"}}}}",
                "{\"runtimeSpec\":{\"process\":{\"env\":[\"A=secret\"",
        };

        for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); i++) {
                cleanup(error_done) Error error = ERROR_INIT;
                uint32_t found = 7;

                assert_true(running_env_hash(infos[i], names, &found, &error) < 0);
                assert_int_equal(error.kind, ERROR_INVALID);
                assert_null(strstr(error_message(&error), "secret"));
                assert_int_equal(found, 7);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_found),
                cmocka_unit_test(test_nothing_counts),
                cmocka_unit_test(test_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
