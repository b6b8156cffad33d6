/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests which other users may write or read a file
 */

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "agent/base/exposure.h"

#define SELF 7

/* clang-format off */
static const struct Case {
        const char *name;
        mode_t mode;
        uid_t uid;
        gid_t gid;
        Exposure as_file, as_secret, as_folder;
} cases[] = {
        { "root's alone",           0600,  0,    0, EXPOSURE_NONE,  EXPOSURE_NONE,  EXPOSURE_HIDDEN },
        { "ours alone",             0700,  SELF, 5, EXPOSURE_NONE,  EXPOSURE_NONE,  EXPOSURE_HIDDEN },
        { "another user's",         0600,  8,    0, EXPOSURE_OWNER, EXPOSURE_OWNER, EXPOSURE_OWNER },
        { "all may read",           0755,  0,    0, EXPOSURE_NONE,  EXPOSURE_READ,  EXPOSURE_NONE },
        { "all may list",           0644,  0,    0, EXPOSURE_NONE,  EXPOSURE_READ,  EXPOSURE_HIDDEN },
        { "all may write",          0666,  0,    0, EXPOSURE_WRITE, EXPOSURE_WRITE, EXPOSURE_HIDDEN },
        { "all may do all",         0777,  0,    0, EXPOSURE_WRITE, EXPOSURE_WRITE, EXPOSURE_WRITE },
        { "like /tmp",              01777, 0,    0, EXPOSURE_WRITE, EXPOSURE_WRITE, EXPOSURE_NONE },
        { "a group may read",       0640,  0,    5, EXPOSURE_NONE,  EXPOSURE_READ,  EXPOSURE_HIDDEN },
        { "a group may write",      0770,  0,    5, EXPOSURE_WRITE, EXPOSURE_WRITE, EXPOSURE_WRITE },
        { "a group may enter",      0710,  0,    5, EXPOSURE_NONE,  EXPOSURE_NONE,  EXPOSURE_NONE },
        { "root's group may write", 0770,  0,    0, EXPOSURE_NONE,  EXPOSURE_NONE,  EXPOSURE_HIDDEN },
};
/* clang-format on */

TEST_ROWS(test_case, cases, name, const struct Case *c) {
        const struct stat status = { .st_mode = c->mode, .st_uid = c->uid, .st_gid = c->gid };

        assert_int_equal(exposure_of_file(&status, SELF, false), c->as_file);
        assert_int_equal(exposure_of_file(&status, SELF, true), c->as_secret);
        assert_int_equal(exposure_of_folder(&status, SELF), c->as_folder);
}

static void assert_found(const char *path, const char *why) {
        cleanup(free_p) char *found = NULL;

        assert_int_equal(exposure_find(path, true, &found), 0);
        if (why)
                assert_string_equal(found, why);
        else
                assert_null(found);
}

/* The folders on the way count, also those of a link. */
TEST(test_way) {
        char folder[] = "/tmp/test-exposure-XXXXXX";
        cleanup(close_p) int fd = -1;
        char way[64], file[96], link[96], other[64], why[128];

        assert_non_null(mkdtemp(folder));
        (void) snprintf(way, sizeof(way), "%s/way", folder);
        (void) snprintf(file, sizeof(file), "%s/file", way);
        (void) snprintf(other, sizeof(other), "%s/other", folder);
        (void) snprintf(link, sizeof(link), "%s/link", other);
        assert_ok(mkdir(way, 0700));
        assert_ok(mkdir(other, 0700));
        assert_ok(symlink("../way/file", link));
        fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);

        assert_ok(fchmod(fd, 0666));
        assert_found(file, NULL);
        assert_ok(chmod(folder, 0755));
        assert_ok(chmod(way, 0755));
        assert_found(file, "other users may write it (mode 0666)");
        assert_ok(fchmod(fd, 0644));
        assert_found(file, "other users may read it (mode 0644)");
        assert_found(link, "other users may read it (mode 0644)");
        assert_ok(fchmod(fd, 0600));
        assert_found(file, NULL);
        assert_found(link, NULL);

        assert_ok(chmod(other, 0777));
        (void) snprintf(why, sizeof(why), "other users may write the folder %s (mode 0777)", other);
        assert_found(link, why);
        assert_found(other, "other users may write it (mode 0777)");
        assert_found(file, NULL);
        assert_found("/nowhere/at/all", NULL);
        assert_found("/", NULL);

        assert_ok(unlink(link));
        assert_ok(unlink(file));
        assert_ok(rmdir(other));
        assert_ok(rmdir(way));
        assert_ok(rmdir(folder));
}
