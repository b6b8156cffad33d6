/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The annotation runtime-containers-meta: read whatever it is, written byte for byte
 */

#include "agent/inplace/containers-meta-spec.h"
#include "agent/pod/pod.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/unit.h"

TEST(test_written_as_controllers_do) {
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

        assert_ok(containers_meta_add(&meta, &entries[0]));
        assert_ok(containers_meta_add(&meta, &entries[1]));
        assert_ok(containers_meta_write(&meta, &text));
        assert_string_equal(
                text, "{\"containers\":[{\"name\":\"app\",\"containerID\":\"containerd://0123\","
                      "\"restartCount\":0,\"hashes\":{\"plainHash\":3810829014,"
                      "\"extractedEnvFromMetadataHash\":27323935}},"
                      "{\"name\":\"log\",\"containerID\":\"cri-o://45\",\"restartCount\":3,"
                      "\"hashes\":{\"plainHash\":18446744073709551615}}]}");

        assert_ok(containers_meta_parse(text, &again));
        assert_true(containers_meta_equal(&meta, &again));
        again.items[1].env_hash = 1;
        assert_false(containers_meta_equal(&meta, &again));
}

/* The metadata of as many containers as a pod may have is read as it was written. */
TEST(test_read_as_written) {
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
                assert_ok(containers_meta_add(&meta, &entry));
        }

        assert_ok(containers_meta_write(&meta, &text));
        assert_ok(containers_meta_parse(text, &again));
        assert_int_equal(again.n_items, POD_CONTAINERS_MAX);
        assert_true(containers_meta_equal(&meta, &again));
}

TEST(test_empty) {
        const ContainersMeta meta = CONTAINERS_META_INIT;
        cleanup(free_p) char *text = NULL;

        assert_ok(containers_meta_write(&meta, &text));
        assert_string_equal(text, "{\"containers\":[]}");
}

static const struct ReadLenientlyRow {
        const char *text;
        size_t n_items;
} read_leniently_rows[] = {
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

static void check_and_free(ContainersMeta *meta, size_t n_items) {
        assert_int_equal(meta->n_items, n_items);
        if (meta->n_items > 0) {
                assert_string_equal(meta->items[0].container_id, "");
                assert_int_equal(meta->items[0].restart_count, 0);
                assert_int_equal(meta->items[0].plain_hash, 0);
                assert_ptr_equal(containers_meta_find(meta, "a"), &meta->items[0]);
        }
        assert_null(containers_meta_find(meta, "none"));
        containers_meta_done(meta);
}

TEST_ROWS(test_read_leniently, read_leniently_rows, text, const struct ReadLenientlyRow *row) {
        ContainersMeta meta;

        ASSERT_WITHOUT_MEMORY(containers_meta_parse(row->text, &meta), 0,
                              check_and_free(&meta, row->n_items));
}
