/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Files are opened without waiting for anything, whatever stands at their path
 */

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/base/file.h"

/* Files are read as a whole in each way, and their status shows that one has changed. */
TEST(test_read) {
        char path[] = "/tmp/test-file-XXXXXX", text[8];
        cleanup(close_p) int fd = mkstemp(path);
        struct stat before, after;
        int ends[2];

        assert_int_equal(write(fd, "text", 4), 4);
        assert_ok(fstat(fd, &before));
        assert_true(file_is_same(&before, &before));
        assert_false(file_is_same(&before, &(struct stat){ 0 }));
        assert_ok(lseek(fd, 0, SEEK_SET));
        assert_int_equal(file_read(fd, text, sizeof(text)), 4);
        assert_ok(lseek(fd, 0, SEEK_SET));
        assert_int_equal(file_read(fd, text, 3), 3);
        assert_memory_equal(text, "tex", 3);
        assert_int_equal(write(fd, "more", 4), 4);
        assert_ok(fstat(fd, &after));
        assert_false(file_is_same(&before, &after));
        assert_int_equal(file_read(-1, text, sizeof(text)), -EBADF);
        assert_ok(unlink(path));

        /* In two parts. */
        assert_ok(pipe(ends));
        assert_int_equal(write(ends[1], "ab", 2), 2);
        assert_int_equal(file_read(ends[0], text, 1), 1);
        assert_int_equal(write(ends[1], "cd", 2), 2);
        assert_ok(close(ends[1]));
        assert_int_equal(file_read(ends[0], text, sizeof(text)), 3);
        assert_memory_equal(text, "bcd", 3);
        assert_ok(close(ends[0]));
}

static int make_nothing(const char *path) {
        return 0;
}

static int make_file(const char *path) {
        cleanup(close_p) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

        return write(fd, "text", 4) == 4 ? 0 : -1;
}

static int make_fifo(const char *path) {
        return mkfifo(path, 0600);
}

static int make_link(const char *path) {
        return symlink("victim", path);
}

static int make_folder(const char *path) {
        return mkdir(path, 0700);
}

static const struct Case {
        const char *name;
        int (*make)(const char *path);
        int open_result;
        int create_result;
} cases[] = {
        { "nothing", make_nothing, -ENOENT, 0 },       { "a file", make_file, 0, 0 },
        { "a FIFO", make_fifo, -EINVAL, 0 },           { "a link", make_link, 0, 0 },
        { "a folder", make_folder, -EINVAL, -EISDIR },
};

TEST_ROWS(test_case, cases, name, const struct Case *c) {
        char folder[] = "/tmp/test-file-XXXXXX";
        cleanup(close_p) int reader = -1;
        cleanup(close_p) int writer = -1;
        struct stat status;

        assert_non_null(mkdtemp(folder));
        assert_ok(chdir(folder));
        assert_ok(make_file("victim"));
        assert_int_equal(c->make("it"), 0);

        assert_int_equal(file_open("it", &status, &reader), c->open_result);
        if (c->open_result == 0)
                assert_int_equal(status.st_size, 4);
        assert_int_equal(file_create("it", 0640, &writer), c->create_result);
        if (c->create_result == 0) {
                assert_ok(fstat(writer, &status));
                assert_int_equal(status.st_mode, S_IFREG | 0640);
                assert_int_equal(status.st_size, 0);
        }
        assert_ok(stat("victim", &status));
        assert_int_equal(status.st_size, 4);

        assert_ok(remove("it"));
        assert_ok(remove("victim"));
        assert_ok(chdir("/"));
        assert_ok(rmdir(folder));
}

/* Makes as many folders as are missing; existing ones, and files in the way, are left alone. */
TEST(test_folders) {
        char root[] = "/tmp/test-file-XXXXXX", path[64];
        struct stat status;

        assert_non_null(mkdtemp(root));
        (void) snprintf(path, sizeof(path), "%s/a/b/c", root);
        for (int i = 0; i < 2; i++) {
                assert_ok(file_make_folders(path));
                assert_ok(stat(path, &status));
                assert_true(S_ISDIR(status.st_mode));
        }
        assert_ok(rmdir(path));
        assert_ok(make_file(path));
        (void) snprintf(path, sizeof(path), "%s/a/b/c/d", root);
        assert_ok(file_make_folders(path));
        assert_int_equal(stat(path, &status), -1);

        (void) snprintf(path, sizeof(path), "%s/a/b/c", root);
        assert_ok(unlink(path));
        for (unsigned i = 0; i < 2; i++) {
                *strrchr(path, '/') = '\0';
                assert_ok(rmdir(path));
        }
        assert_ok(rmdir(root));
}

int main(void) {
        (void) alarm(60); /* the limit of a test that blocks */
        (void) umask(0077);

        return unit_run();
}
