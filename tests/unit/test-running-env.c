/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The environment of a container, from what containerd and CRI-O report about it
 */

#include "agent/inplace/running-env-spec.h"
#include "agent/pod/env-hash.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/unit.h"

static const struct FoundRow {
        const char *info;
        const char *a;
        const char *b;
} found_rows[] = {
        { "{\"runtimeSpec\":{\"process\":{\"env\":[\"PATH=/bin\",\"A=1\",\"B=x=y\"]}}}", "1",
          "x=y" },
        { "{\"runtimeSpec\":{\"process\":{\"env\":[\"A=1\",\"AB=3\",\"A=2\",7]}}}", "2", "" },
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

TEST_ROWS(test_found, found_rows, info, const struct FoundRow *row) {
        static char *const names[] = { "B", "A", NULL };
        EnvValue values[] = { { "A", row->a }, { "B", row->b } };
        uint32_t expected, found;

        assert_ok(env_hash(values, 2, &expected));
        ASSERT_WITHOUT_MEMORY(running_env_hash(row->info, names, &found, NULL), 0,
                              assert_int_equal(found, expected));
}

/* It would take much memory, and names the same variables again. */
TEST(test_request_beside_the_process) {
        static char *const names[] = { "A", NULL };
        const EnvValue value = { "A", "1" };
        char info[400] = "{\"config\":{\"envs\":";
        uint32_t expected, found;

        for (size_t i = 0; i < 70; i++)
                strcat(info, "[");
        for (size_t i = 0; i < 70; i++)
                strcat(info, "]");
        strcat(info, "},\"runtimeSpec\":{\"process\":{\"env\":[\"A=1\"]}}}");
        assert_ok(env_hash(&value, 1, &expected));
        assert_ok(running_env_hash(info, names, &found, NULL));
        assert_int_equal(found, expected);
}

TEST(test_nothing_counts) {
        static char *const names[] = { NULL };
        uint32_t found;

        assert_ok(running_env_hash("{\"config\":{\"envs\":[]}}", names, &found, NULL));
        assert_int_equal(found, ENV_HASH_NONE);
}

/* A search for each name through all variables would take minutes. */
TEST(test_many) {
        enum { N = 100000, SIZE = 24 };
        cleanup(free_p) char *info = malloc((size_t) N * SIZE + 100), *texts = malloc(N * SIZE);
        cleanup(free_p) char **names = calloc(N + 1, sizeof(*names));
        cleanup(free_p) EnvValue *values = calloc(N, sizeof(*values));
        uint32_t expected, found;
        char *end = stpcpy(info, "{\"runtimeSpec\":{\"process\":{\"env\":[\"\"");

        for (size_t i = 0; i < N; i++) {
                names[N - 1 - i] = texts + i * SIZE;
                snprintf(texts + i * SIZE, SIZE, "N%zu", i);
                values[i] = (EnvValue){ .name = texts + i * SIZE, .value = i % 2 ? "a" : "b" };
                end += sprintf(end, ",\"%s=%s\"", values[i].name, values[i].value);
        }
        stpcpy(end, "]}}}");

        assert_ok(env_hash(values, N, &expected));
        assert_ok(running_env_hash(info, names, &found, NULL));
        assert_int_equal(found, expected);
}

TEST(test_refused) {
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

        for (size_t i = 0; i < N_ELEMENTS(infos); i++) {
                cleanup(error_done) Error error = ERROR_INIT;
                uint32_t found = 7;

                assert_true(running_env_hash(infos[i], names, &found, &error) < 0);
                assert_int_equal(error.kind, ERROR_INVALID);
                assert_null(strstr(error_message(&error), "secret"));
                assert_int_equal(found, 7);
        }
}
