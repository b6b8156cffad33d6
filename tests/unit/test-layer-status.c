/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the reading of snapshotters' layers, in folders that stand for their mounts
 */

#include "agent/layer-status.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define OPTIONS "rw,relatime,user_id=0,group_id=0,allow_other 0 0"

typedef struct Fixture {
        char folder[64];
} Fixture;

static void open_fixture(Fixture *fixture) {
        scratch_make(fixture->folder);
        scratch_folder(fixture->folder, "a b");
        scratch_folder(fixture->folder, "a b/.stargz-snapshotter");
        scratch_write(fixture->folder, "a b/.stargz-snapshotter/sha256:a.json",
                      "{\"digest\":\n\"a\"}\n");
        scratch_folder(fixture->folder, "c");
        scratch_folder(fixture->folder, "c/.soci-snapshotter");
        scratch_write(fixture->folder, "c/.soci-snapshotter/sha256:c.json", "{\"digest\":\"c\"}");
}

static void close_fixture(Fixture *fixture) {
        remove_tree(fixture->folder);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

/* Checks the output for mounts whose folders replace %s. */
static void assert_printed(Fixture *fixture, const char *mounts, const char *expected) {
        cleanup(free_p) char *path = NULL, *text = NULL, *printed = NULL;
        size_t size;
        FILE *file;

        assert_true(asprintf(&text, mounts, fixture->folder) > 0);
        scratch_write(fixture->folder, "mounts", text);
        assert_true(asprintf(&path, "%s/mounts", fixture->folder) > 0);
        file = open_memstream(&printed, &size);
        assert_non_null(file);
        assert_int_equal(layer_status_print(path, file), EXIT_SUCCESS);
        assert_ok(fclose(file));
        assert_string_equal(printed, expected);
}

TEST_F(test_mounts, Fixture *fixture) {
        assert_printed(fixture, "stargz %s/a\\040b fuse.rawBridge " OPTIONS "\n",
                       "{\"digest\": \"a\"} \n");
        assert_printed(fixture, "soci %s/c fuse.rawBridge " OPTIONS "\n", "{\"digest\":\"c\"}\n");
        assert_printed(fixture, "soci %s/gone fuse.rawBridge " OPTIONS "\n", "");
        assert_printed(fixture, "proc /proc proc rw 0 0\n# %s\n", "");
}

/* Any user may mount something and call it so. */
TEST_F(test_mounts_of_others, Fixture *fixture) {
        assert_printed(fixture, "stargz %s/c fuse.rawBridge " OPTIONS "\n", "");
        assert_printed(fixture, "soci %s/c ext4 " OPTIONS "\n", "");
        assert_printed(fixture, "soci %s/c fuse.rawBridge rw,group_id=0 0 0\n", "");
        assert_printed(fixture, "soci %s/c fuse.rawBridge rw,user_id=1000,group_id=0 0 0\n", "");
        assert_printed(fixture, "sshfs %s/c fuse.sshfs " OPTIONS "\n", "");
}

TEST(test_no_mounts) {
        assert_int_equal(layer_status_print("/nowhere", stderr), EXIT_FAILURE);
}
