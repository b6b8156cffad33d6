/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Layers that are fetched on demand
 */

#include "agent/image/on-demand-spec.h"
#include "tests/unit/unit.h"

TEST(test_snapshotters) {
        static const struct {
                const char *label, *snapshotter;
        } rows[] = {
                { "containerd.io/gc.ref.snapshot.stargz", "stargz" },
                { "containerd.io/gc.ref.snapshot.soci", "soci" },
                { "containerd.io/gc.ref.snapshot.my.own", "my.own" },
                { "containerd.io/gc.ref.snapshot.overlayfs", NULL },
                { "containerd.io/gc.ref.snapshot.native", NULL },
                { "containerd.io/gc.ref.content.config", NULL },
                { "containerd.io/distribution.source.docker.io", NULL },
                { "", NULL },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                if (rows[i].snapshotter)
                        assert_string_equal(on_demand_snapshotter(rows[i].label),
                                            rows[i].snapshotter);
                else
                        assert_null(on_demand_snapshotter(rows[i].label));
}

/* Labels that the snapshotters write are recognised, others beside them are not. */
TEST(test_labels) {
        assert_true(on_demand_is_mark("containerd.io/snapshot/remote"));
        assert_true(on_demand_is_mark("containerd.io/snapshot/nydus-blob"));
        assert_true(on_demand_is_mark("containerd.io/snapshot/stargz"));
        assert_false(on_demand_is_mark("containerd.io/snapshot/remote/soci.size"));
        assert_false(on_demand_is_mark("containerd.io/snapshot/nydus-bootstrap"));
        assert_false(on_demand_is_mark("containerd.io/snapshot.ref"));
        assert_true(on_demand_is_digest("containerd.io/snapshot/cri.layer-digest"));
        assert_false(on_demand_is_digest("containerd.io/snapshot/cri.image-layers"));
}

#define LINE(digest, size, present) \
        "{\"digest\":\"" digest "\",\"size\":" size ",\"fetchedSize\":" present "}\n"

static const struct Lines {
        const char *name;
        const char *text;
        const char *found; /* layers found among "sha256:a" and "sha256:b" */
        bool is_complete;
} lines[] = {
        { "nothing is seen", "",
          "2 of 3 layers are fetched on demand, how much of them is on the node cannot be seen",
          false },
        { "one is not seen", LINE("sha256:a", "1000000", "1000000"),
          "2 of 3 layers are fetched on demand, how much of them is on the node cannot be seen",
          false },
        { "a part is there",
          LINE("sha256:a", "1000000", "1000000") LINE("sha256:b", "4000000", "500000"),
          "2 of 3 layers are fetched on demand, 1.5 of 5.0 MB of them are on the node", false },
        { "all is there",
          LINE("sha256:b", "4000000", "4000000") LINE("sha256:a", "1000000", "1000000"),
          "2 of 3 layers are fetched on demand, all 5.0 MB of them are on the node", true },
        { "one byte is missing",
          LINE("sha256:b", "4000000", "3999999") LINE("sha256:a", "1000000", "1000000"),
          "2 of 3 layers are fetched on demand, 5.0 of 5.0 MB of them are on the node", false },
        { "mounted twice, and another image's",
          LINE("sha256:a", "1000000", "1000000") LINE("sha256:b", "4000000", "4000000")
                  LINE("sha256:b", "4000000", "9") LINE("sha256:c", "4000000", "9"),
          "2 of 3 layers are fetched on demand, 1.0 of 5.0 MB of them are on the node", false },
        { "mounted twice, the other way round",
          LINE("sha256:a", "1000000", "1000000") LINE("sha256:b", "4000000", "9")
                  LINE("sha256:b", "4000000", "4000000"),
          "2 of 3 layers are fetched on demand, 1.0 of 5.0 MB of them are on the node", false },
        { "more than all", LINE("sha256:a", "1", "1") LINE("sha256:b", "4000000", "4000001"),
          "2 of 3 layers are fetched on demand, how much of them is on the node cannot be seen",
          false },
        { "less than nothing", LINE("sha256:a", "1", "1") LINE("sha256:b", "4", "-4"),
          "2 of 3 layers are fetched on demand, how much of them is on the node cannot be seen",
          false },
        { "no JSON among it",
          "x\n[]\n{\"digest\":7}\n\n" LINE("sha256:a", "1000000", "0")
                  LINE("sha256:b", "1000000", "0") "{\"digest\":\"sha256:b\"",
          "2 of 3 layers are fetched on demand, 0.0 of 2.0 MB of them are on the node", false },
};

TEST_ROWS(test_lines, lines, name, const struct Lines *row) {
        char *digests[] = { (char *) "sha256:a", (char *) "sha256:b" };
        ImageOnDemand found = { .n_layers = 2, .n_layers_all = 3 };
        cleanup(free_p) char *text = NULL;

        assert_int_equal(on_demand_count(row->text, strlen(row->text), digests, 2, &found), 0);
        assert_int_equal(on_demand_is_complete(&found), row->is_complete);
        text = on_demand_describe(&found);
        assert_string_equal(text, row->found);
}

/* A layer whose digest no label has cannot be looked up. */
TEST(test_unnamed_layer) {
        static const char text[] = LINE("sha256:a", "1", "1");
        char *digests[] = { (char *) "sha256:a" };
        ImageOnDemand found = { .n_layers = 2, .n_layers_all = 2 };

        assert_int_equal(on_demand_count(text, strlen(text), digests, 1, &found), 0);
        assert_false(found.is_counted);
        assert_false(on_demand_is_complete(&found));
}

TEST(test_nothing_is_on_demand) {
        assert_true(on_demand_is_complete(&(ImageOnDemand){ .n_layers_all = 3 }));
}
