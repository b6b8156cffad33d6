/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Opening files of the disk from the event loop
 *
 * Whatever stands at the path, a FIFO, a device or a link, does not block the loop, and nothing is
 * written into it. Failures are negative errnos.
 */

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Fills the buffer, or reads to the end of the file: the number of bytes. */
ssize_t file_read(int fd, char *buffer, size_t size);

/* Nothing shows that the file has been written to or replaced since. */
bool file_is_same(const struct stat *before, const struct stat *now);

/* Opens for reading what is a regular file, also behind a link. -EINVAL for anything else. */
int file_open(const char *path, struct stat *ret_status, int *ret_fd);

/* Makes a folder and those above it that are missing, each with mode 0755 but for the umask. What cannot
 * be made shows when something is put into it. Returns -ENOMEM or 0. */
int file_make_folders(const char *path);

/* Opens an empty file for writing, with exactly this mode, in place of whatever stood there: a
 * temporary file, which will be renamed. */
int file_create(const char *path, mode_t mode, int *ret_fd);
