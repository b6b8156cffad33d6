/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Files are opened without waiting for anything, whatever stands at their path
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/file.h"

/* Whole files, however they are read, and what shows that one has changed. */
static void test_read(void **state) {
        char path[] = "/tmp/test-file-XXXXXX", text[8];
        cleanup(close_p) int fd = mkstemp(path);
        struct stat before, after;
        int ends[2];

        assert_int_equal(write(fd, "text", 4), 4);
        assert_int_equal(fstat(fd, &before), 0);
        assert_true(file_is_same(&before, &before));
        assert_false(file_is_same(&before, &(struct stat){ 0 }));
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(file_read(fd, text, sizeof(text)), 4);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(file_read(fd, text, 3), 3);
        assert_memory_equal(text, "tex", 3);
        assert_int_equal(write(fd, "more", 4), 4);
        assert_int_equal(fstat(fd, &after), 0);
        assert_false(file_is_same(&before, &after));
        assert_int_equal(file_read(-1, text, sizeof(text)), -EBADF);
        assert_int_equal(unlink(path), 0);

        /* In two parts. */
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(write(ends[1], "ab", 2), 2);
        assert_int_equal(file_read(ends[0], text, 1), 1);
        assert_int_equal(write(ends[1], "cd", 2), 2);
        assert_int_equal(close(ends[1]), 0);
        assert_int_equal(file_read(ends[0], text, sizeof(text)), 3);
        assert_memory_equal(text, "bcd", 3);
        assert_int_equal(close(ends[0]), 0);
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

static void test_case(void **state) {
        const struct Case *c = *state;
        char folder[] = "/tmp/test-file-XXXXXX";
        cleanup(close_p) int reader = -1;
        cleanup(close_p) int writer = -1;
        struct stat status;

        assert_non_null(mkdtemp(folder));
        assert_int_equal(chdir(folder), 0);
        assert_int_equal(make_file("victim"), 0);
        assert_int_equal(c->make("it"), 0);

        assert_int_equal(file_open("it", &status, &reader), c->open_result);
        if (c->open_result == 0)
                assert_int_equal(status.st_size, 4);
        assert_int_equal(file_create("it", 0640, &writer), c->create_result);
        if (c->create_result == 0) {
                assert_int_equal(fstat(writer, &status), 0);
                assert_int_equal(status.st_mode, S_IFREG | 0640);
                assert_int_equal(status.st_size, 0);
        }
        assert_int_equal(stat("victim", &status), 0);
        assert_int_equal(status.st_size, 4);

        assert_int_equal(remove("it"), 0);
        assert_int_equal(remove("victim"), 0);
        assert_int_equal(chdir("/"), 0);
        assert_int_equal(rmdir(folder), 0);
}

/* As many as are missing; what is there already, or in the way, is left alone. */
static void test_folders(void **state) {
        char root[] = "/tmp/test-file-XXXXXX", path[64];
        struct stat status;

        assert_non_null(mkdtemp(root));
        (void) snprintf(path, sizeof(path), "%s/a/b/c", root);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(file_make_folders(path), 0);
                assert_int_equal(stat(path, &status), 0);
                assert_true(S_ISDIR(status.st_mode));
        }
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(make_file(path), 0);
        (void) snprintf(path, sizeof(path), "%s/a/b/c/d", root);
        assert_int_equal(file_make_folders(path), 0);
        assert_int_equal(stat(path, &status), -1);

        (void) snprintf(path, sizeof(path), "%s/a/b/c", root);
        assert_int_equal(unlink(path), 0);
        for (unsigned i = 0; i < 2; i++) {
                *strrchr(path, '/') = '\0';
                assert_int_equal(rmdir(path), 0);
        }
        assert_int_equal(rmdir(root), 0);
}

int main(void) {
        enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };
        struct CMUnitTest tests[N_CASES + 2];

        (void) alarm(60); /* the limit of a test that blocks */
        (void) umask(0077);
        for (size_t i = 0; i < N_CASES; i++)
                tests[i] = (struct CMUnitTest){
                        .name = cases[i].name,
                        .test_func = test_case,
                        .initial_state = (void *) &cases[i],
                };

        tests[N_CASES] = (struct CMUnitTest) cmocka_unit_test(test_folders);
        tests[N_CASES + 1] = (struct CMUnitTest) cmocka_unit_test(test_read);

        return cmocka_run_group_tests(tests, NULL, NULL);
}
