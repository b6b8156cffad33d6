/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The annotation runtime-containers-meta: read whatever it is, written byte for byte
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/inplace/containers-meta-spec.h"
#include "agent/pod/pod.h"

static void test_written_as_controllers_do(void **state) {
        static const ContainersMetaEntry entries[] = {
                { .name = "app",
                  .container_id = "containerd://0123",
                  .restart_count = 0,
                  .plain_hash = 3810829014,
                  .env_hash = 27323935 },
                { .name = "log",
                  .container_id = "cri-o://45",
                  .restart_count = 3,
                  .plain_hash = UINT64_MAX },
        };
        cleanup(containers_meta_done) ContainersMeta meta = CONTAINERS_META_INIT;
        cleanup(containers_meta_done) ContainersMeta again = CONTAINERS_META_INIT;
        cleanup(free_p) char *text = NULL;

        assert_int_equal(containers_meta_add(&meta, &entries[0]), 0);
        assert_int_equal(containers_meta_add(&meta, &entries[1]), 0);
        assert_int_equal(containers_meta_write(&meta, &text), 0);
        assert_string_equal(
                text, "{\"containers\":[{\"name\":\"app\",\"containerID\":\"containerd://0123\","
                      "\"restartCount\":0,\"hashes\":{\"plainHash\":3810829014,"
                      "\"extractedEnvFromMetadataHash\":27323935}},"
                      "{\"name\":\"log\",\"containerID\":\"cri-o://45\",\"restartCount\":3,"
                      "\"hashes\":{\"plainHash\":18446744073709551615}}]}");

        assert_int_equal(containers_meta_parse(text, &again), 0);
        assert_true(containers_meta_equal(&meta, &again));
        again.items[1].env_hash = 1;
        assert_false(containers_meta_equal(&meta, &again));
}

/* What is written for as many containers as a pod may have is what is read back. */
static void test_read_as_written(void **state) {
        cleanup(containers_meta_done) ContainersMeta meta = CONTAINERS_META_INIT;
        cleanup(containers_meta_done) ContainersMeta again = CONTAINERS_META_INIT;
        cleanup(free_p) char *text = NULL;

        for (size_t i = 0; i < POD_CONTAINERS_MAX; i++) {
                char name[32];
                const ContainersMetaEntry entry = {
                        .name = name,
                        .container_id = (char *) "containerd://0",
                        .restart_count = UINT32_MAX,
                        .plain_hash = UINT64_MAX,
                        .env_hash = UINT32_MAX,
                };

                (void) snprintf(name, sizeof(name), "container-%zu", i);
                assert_int_equal(containers_meta_add(&meta, &entry), 0);
        }

        assert_int_equal(containers_meta_write(&meta, &text), 0);
        assert_int_equal(containers_meta_parse(text, &again), 0);
        assert_int_equal(again.n_items, POD_CONTAINERS_MAX);
        assert_true(containers_meta_equal(&meta, &again));
}

static void test_empty(void **state) {
        const ContainersMeta meta = CONTAINERS_META_INIT;
        cleanup(free_p) char *text = NULL;

        assert_int_equal(containers_meta_write(&meta, &text), 0);
        assert_string_equal(text, "{\"containers\":[]}");
}

static void test_read_leniently(void **state) {
        static const struct {
                const char *text;
                size_t n_items;
        } cases[] = {
                { NULL, 0 },
                { "", 0 },
                { "null", 0 },
                { "{", 0 },
                { "[]", 0 },
                { "{\"containers\":7}", 0 },
                { "{\"containers\":[1,null,\"x\",{},{\"name\":7}]}", 0 },
                { "{\"containers\":[{\"name\":\"a\"}]}", 1 },
                { "{\"more\":1,\"containers\":[{\"name\":\"a\",\"hashes\":[],\"restartCount\":-1,"
                  "\"containerID\":{}},{\"name\":\"b\"}]}",
                  2 },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                cleanup(containers_meta_done) ContainersMeta meta = CONTAINERS_META_INIT;

                assert_int_equal(containers_meta_parse(cases[i].text, &meta), 0);
                assert_int_equal(meta.n_items, cases[i].n_items);
                if (meta.n_items > 0) {
                        assert_string_equal(meta.items[0].container_id, "");
                        assert_int_equal(meta.items[0].restart_count, 0);
                        assert_int_equal(meta.items[0].plain_hash, 0);
                        assert_ptr_equal(containers_meta_find(&meta, "a"), &meta.items[0]);
                }
                assert_null(containers_meta_find(&meta, "none"));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_written_as_controllers_do),
                cmocka_unit_test(test_read_as_written),
                cmocka_unit_test(test_empty),
                cmocka_unit_test(test_read_leniently),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
