/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/socket-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/base/cleanup.h"

/* Whether a process answers there, even if it is in another way, or too busy. */
static bool is_served(const struct sockaddr_un *address) {
        cleanup(close_p) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        return fd >= 0 && (connect(fd, (const struct sockaddr *) address, sizeof(*address)) == 0 ||
                           errno == EAGAIN || errno == EPROTOTYPE);
}

static int make_way(const struct sockaddr_un *address, Error *reterr) {
        const char *path = address->sun_path;
        struct stat status;

        if (lstat(path, &status) < 0)
                return 0;
        if (!S_ISSOCK(status.st_mode))
                return error_set(reterr, ERROR_CONFLICT,
                                 "%s exists and is not a socket; move it away or choose another "
                                 "path with --socket",
                                 path);
        if (is_served(address))
                return error_set(reterr, ERROR_CONFLICT,
                                 "%s is served by another process; stop that one or choose another "
                                 "path with --socket",
                                 path);
        if (unlink(path) < 0)
                return error_set(reterr, ERROR_DENIED, "cannot remove the stale socket %s: %s",
                                 path, strerror(errno));
        return 0;
}

/* The umask gives the mode with the file: a chmod() after it might change a file that another user
 * has put there meanwhile. gRPC's threads, which share the umask, make no files. */
static int bind_private(int fd, const struct sockaddr_un *address) {
        mode_t before = umask(0117);
        int r = bind(fd, (const struct sockaddr *) address, sizeof(*address));
        int error = errno;

        umask(before);
        return r < 0 ? -error : 0;
}

/* Refuses what another user may have put in place of the socket: a file that is ours, but hard-linked
 * here, has two names. */
static int check_file(const struct stat *status) {
        return S_ISSOCK(status->st_mode) && status->st_uid == geteuid() && status->st_nlink == 1
                       ? 0
                       : -EEXIST;
}

/* Changes the group only where it has to: a filter of system calls may not let us. */
static int give_to_group(int fd, const struct stat *status, gid_t group) {
        if (group == (gid_t) -1 || status->st_gid == group)
                return 0;

        return fchownat(fd, "", (uid_t) -1, group, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* From here on the file is known by its descriptor and not by its name. */
static int take_file(const char *path, gid_t group, SocketFile *ret) {
        cleanup(close_p) int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct stat status;
        int r;

        if (fd < 0 || fstat(fd, &status) < 0)
                return -errno;

        r = check_file(&status);
        if (r < 0)
                return r;

        ret->path = strdup(path);
        ret->device = status.st_dev;
        ret->inode = status.st_ino;
        return ret->path ? give_to_group(fd, &status, group) : -ENOMEM;
}

static int refuse(const char *path, int r, Error *reterr) {
        return r == -ENOMEM ? r
                            : error_set(reterr, ERROR_DENIED, "cannot listen on %s: %s", path,
                                        strerror(-r));
}

int socket_file_listen(const char *path, gid_t group, SocketFile *ret, int *ret_fd, Error *reterr) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        cleanup(close_p) int fd = -1;
        int r;

        if (strlen(path) >= sizeof(address.sun_path))
                return error_set(reterr, ERROR_INVALID,
                                 "%s is longer than the %zu bytes that a socket's path may have; "
                                 "choose a shorter one with --socket",
                                 path, sizeof(address.sun_path) - 1);
        strcpy(address.sun_path, path);

        r = make_way(&address, reterr);
        if (r < 0)
                return r;

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;

        r = bind_private(fd, &address);
        if (r < 0)
                return refuse(path, r, reterr);

        r = take_file(path, group, ret);
        if (r < 0)
                return refuse(path, r, reterr);

        if (listen(fd, SOMAXCONN) < 0)
                return refuse(path, -errno, reterr);

        *ret_fd = take_fd(&fd);
        return 0;
}

void socket_file_remove(SocketFile *file) {
        struct stat status;

        if (file->path && lstat(file->path, &status) == 0 && status.st_dev == file->device &&
            status.st_ino == file->inode)
                (void) unlink(file->path);
        free(take_ptr(file->path));
}
