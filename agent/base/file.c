/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"

/* Checks the type before opening, because opening a device can have effects, and again when it is
 * open, because the file may have been replaced. */
int file_open(const char *path, struct stat *ret_status, int *ret_fd) {
        cleanup(close_p) int fd = -1;
        struct stat status;

        if (stat(path, &status) < 0)
                return -errno;
        if (!S_ISREG(status.st_mode))
                return -EINVAL;

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 || fstat(fd, &status) < 0)
                return -errno;
        if (!S_ISREG(status.st_mode))
                return -EINVAL;

        *ret_status = status;
        *ret_fd = take_fd(&fd);
        return 0;
}

ssize_t file_read(int fd, char *buffer, size_t size) {
        size_t n_read = 0;

        while (n_read < size) {
                ssize_t n = read(fd, buffer + n_read, size - n_read);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                n_read += (size_t) n;
        }

        return (ssize_t) n_read;
}

static bool is_same_time(struct timespec before, struct timespec now) {
        return before.tv_sec == now.tv_sec && before.tv_nsec == now.tv_nsec;
}

bool file_is_same(const struct stat *before, const struct stat *now) {
        return before->st_dev == now->st_dev && before->st_ino == now->st_ino &&
               before->st_size == now->st_size && is_same_time(before->st_mtim, now->st_mtim) &&
               is_same_time(before->st_ctim, now->st_ctim);
}

int file_create(const char *path, mode_t mode, int *ret_fd) {
        cleanup(close_p) int fd = -1;

        if (unlink(path) < 0 && errno != ENOENT)
                return -errno;

        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0 || fchmod(fd, mode) < 0)
                return -errno;

        *ret_fd = take_fd(&fd);
        return 0;
}

int file_make_folders(const char *path) {
        cleanup(free_p) char *folder = strdup(path);

        if (!folder)
                return -ENOMEM;

        for (char *slash = strchr(folder + 1, '/'); folder[0] && slash;
             slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                (void) mkdir(folder, 0755);
                *slash = '/';
        }
        (void) mkdir(folder, 0755);
        return 0;
}
