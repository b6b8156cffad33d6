/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file of a listening Unix socket
 *
 * Makes the file with its group and mode, and removes it again. The folder may be one in which other
 * users can put files: none of these is followed, changed or removed.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "agent/base/error.h"

/* The file that was made, whatever has its name by now. */
typedef struct SocketFile {
        char *path; /* NULL: none */
        dev_t device;
        ino_t inode;
} SocketFile;

/* Listens there, with mode 0660 and that group; (gid_t) -1: the one that it gets by itself. The
 * socket file of a process that does not listen any more is replaced; a file that is not a socket, or
 * a socket that is served, is left alone and refused in words. The caller owns both results, the file
 * also after a failure. */
int socket_file_listen(const char *path, gid_t group, SocketFile *ret, int *ret_fd, Error *reterr);

/* Removes the file, unless another process has replaced it. To be called before the socket is closed:
 * as long as it is open no other file gets its inode. */
void socket_file_remove(SocketFile *file);
