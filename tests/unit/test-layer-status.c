/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What snapshotters show of layers, in folders that stand for their mounts
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/layer-status.h"

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
        assert_int_equal(fclose(file), 0);
}

static void make_folder(const Fixture *fixture, const char *name) {
        cleanup(free_p) char *path = NULL;

        assert_true(asprintf(&path, "%s/%s", fixture->folder, name) > 0);
        assert_int_equal(mkdir(path, 0700), 0);
}

static int set_up(void **state) {
        Fixture *fixture = calloc(1, sizeof(*fixture));

        strcpy(fixture->folder, "/tmp/layer-status-XXXXXX");
        assert_non_null(mkdtemp(fixture->folder));
        make_folder(fixture, "a b");
        make_folder(fixture, "a b/.stargz-snapshotter");
        write_file(fixture, "a b/.stargz-snapshotter/sha256:a.json", "{\"digest\":\n\"a\"}\n");
        make_folder(fixture, "c");
        make_folder(fixture, "c/.soci-snapshotter");
        write_file(fixture, "c/.soci-snapshotter/sha256:c.json", "{\"digest\":\"c\"}");
        *state = fixture;
        return 0;
}

static int tear_down(void **state) {
        cleanup(free_p) Fixture *fixture = *state;
        cleanup(free_p) char *command = NULL;

        assert_true(asprintf(&command, "rm -r %s", fixture->folder) > 0);
        assert_int_equal(system(command), 0);
        return 0;
}

/* What is printed for mounts whose folders have %s in their place. */
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
        assert_int_equal(fclose(file), 0);
        assert_string_equal(printed, expected);
}

static void test_mounts(void **state) {
        assert_printed(*state, "stargz %s/a\\040b fuse.rawBridge " OPTIONS "\n",
                       "{\"digest\": \"a\"} \n");
        assert_printed(*state, "soci %s/c fuse.rawBridge " OPTIONS "\n", "{\"digest\":\"c\"}\n");
        assert_printed(*state, "soci %s/gone fuse.rawBridge " OPTIONS "\n", "");
        assert_printed(*state, "proc /proc proc rw 0 0\n# %s\n", "");
}

/* Any user may mount something and call it so. */
static void test_mounts_of_others(void **state) {
        assert_printed(*state, "stargz %s/c fuse.rawBridge " OPTIONS "\n", "");
        assert_printed(*state, "soci %s/c ext4 " OPTIONS "\n", "");
        assert_printed(*state, "soci %s/c fuse.rawBridge rw,group_id=0 0 0\n", "");
        assert_printed(*state, "soci %s/c fuse.rawBridge rw,user_id=1000,group_id=0 0 0\n", "");
        assert_printed(*state, "sshfs %s/c fuse.sshfs " OPTIONS "\n", "");
}

static void test_no_mounts(void **state) {
        assert_int_equal(layer_status_print("/nowhere", stderr), EXIT_FAILURE);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_mounts, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_mounts_of_others, set_up, tear_down),
                cmocka_unit_test(test_no_mounts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
