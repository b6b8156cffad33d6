/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the reading of snapshotters' layers, in folders that stand for their mounts
 */

#include <sys/stat.h>

#include "agent/layer-status.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define OPTIONS "rw,relatime,user_id=0,group_id=0,allow_other 0 0"

typedef struct Fixture {
        char folder[64];
} Fixture;

static void write_file(const Fixture *fixture, const char *name, const char *text) {
        cleanup(free_p) char *path = NULL;
        FILE *file;

        assert_true(asprintf(&path, "%s/%s", fixture->folder, name) > 0);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_ok(fclose(file));
}

static void make_folder(const Fixture *fixture, const char *name) {
        cleanup(free_p) char *path = NULL;

        assert_true(asprintf(&path, "%s/%s", fixture->folder, name) > 0);
        assert_ok(mkdir(path, 0700));
}

static void open_fixture(Fixture *fixture) {
        strcpy(fixture->folder, "/tmp/layer-status-XXXXXX");
        assert_non_null(mkdtemp(fixture->folder));
        make_folder(fixture, "a b");
        make_folder(fixture, "a b/.stargz-snapshotter");
        write_file(fixture, "a b/.stargz-snapshotter/sha256:a.json", "{\"digest\":\n\"a\"}\n");
        make_folder(fixture, "c");
        make_folder(fixture, "c/.soci-snapshotter");
        write_file(fixture, "c/.soci-snapshotter/sha256:c.json", "{\"digest\":\"c\"}");
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
        write_file(fixture, "mounts", text);
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
