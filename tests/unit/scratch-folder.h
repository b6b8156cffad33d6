/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Folders of tests, the files in them, and their removal with all that a test has left
 */

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "tests/unit/unit.h"

#define SCRATCH_SIZE 32

/* The caller owns it. */
static inline char *scratch_path(const char *folder, const char *name) {
        char *path;

        assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
        return path;
}

static inline int remove_item(const char *path, const struct stat *status, int type,
                              struct FTW *ftw) {
        return remove(path);
}

static inline void remove_tree(const char *path) {
        assert_ok(nftw(path, remove_item, 16, FTW_DEPTH | FTW_PHYS));
}

static inline void scratch_make(char folder[static SCRATCH_SIZE]) {
        strcpy(folder, "/tmp/inplaced-XXXXXX");
        assert_non_null(mkdtemp(folder));
}

/* Removes a folder with at most this file: nothing temporary is left in it. */
static inline void scratch_remove(const char *folder, const char *name) {
        cleanup(free_p) char *path = scratch_path(folder, name);

        (void) unlink(path);
        assert_ok(rmdir(folder));
}

static inline void scratch_folder(const char *folder, const char *name) {
        cleanup(free_p) char *path = scratch_path(folder, name);

        assert_ok(mkdir(path, 0700));
}

/* Writes in place, at once. */
static inline void write_file(const char *path, const char *text) {
        cleanup(close_p) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* The file can be run, too. */
static inline void scratch_write(const char *folder, const char *name, const char *text) {
        cleanup(free_p) char *path = scratch_path(folder, name);

        write_file(path, text);
        assert_ok(chmod(path, 0700));
}
