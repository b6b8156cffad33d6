/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exposure
 *
 * Finds out whether another user of this machine may change a file that controls this process, or read a
 * file with secrets. Other users are all but root and our own, other groups all but root's. Access control
 * lists are ignored.
 */

#include <stdbool.h>
#include <sys/stat.h>

typedef enum Exposure {
        EXPOSURE_NONE,
        EXPOSURE_HIDDEN, /* a folder that others cannot enter: nothing in it matters */
        EXPOSURE_OWNER,  /* it is another user's */
        EXPOSURE_WRITE,  /* others may change it; in a folder, put another file in its place */
        EXPOSURE_READ,   /* others may read a secret */
        _EXPOSURE_MAX,
} Exposure;

/* Decide for a file, and for a folder that it is in. */
Exposure exposure_of_file(const struct stat *status, uid_t self, bool is_secret);
Exposure exposure_of_folder(const struct stat *status, uid_t self);

/* Checks the file or folder at the path, and all folders that lead there. *ret_why, owned by the
 * caller, is the fault, as the end of a sentence that begins with the path, or NULL. Returns 0, or
 * a negative errno for a local failure. */
int exposure_find(const char *path, bool is_secret, char **ret_why);
