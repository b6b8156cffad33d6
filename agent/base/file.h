/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Opening files of the disk from the event loop
 *
 * A FIFO, a device or a link at the path does not block the loop, and nothing is written into it.
 * Failures are negative errnos.
 */

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Fills the buffer, or reads to the end of the file. Returns the number of bytes. */
ssize_t file_read(int fd, char *buffer, size_t size);

/* Whether the file seems neither written to nor replaced since. */
bool file_is_same(const struct stat *before, const struct stat *now);

/* Opens a regular file for reading, also behind a link. -EINVAL for anything else. */
int file_open(const char *path, struct stat *ret_status, int *ret_fd);

/* Makes a folder and its missing parents, each with mode 0755 but for the umask. Other failures
 * show when the folder is used. Returns -ENOMEM or 0. */
int file_make_folders(const char *path);

/* Opens an empty temporary file for writing, with exactly this mode, in place of any other file. */
int file_create(const char *path, mode_t mode, int *ret_fd);
