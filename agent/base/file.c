/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"

/* To open a device can do something by itself, so it is asked before what it is; and again when it is
 * open, since it may be something else by then. */
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
