/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exposure
 *
 * Whether another user of this machine may change a file that says what this process does, or read
 * one with secrets in it. Other users are all but root and the one we are, other groups all but
 * root's. Access control lists are not asked for.
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

/* The decision for one file, or for a folder that it is in. */
Exposure exposure_of_file(const struct stat *status, uid_t self, bool is_secret);
Exposure exposure_of_folder(const struct stat *status, uid_t self);

/* Checks what is at the path, a file or a folder, and all folders that lead there. *ret_why is
 * owned by the caller: what is wrong, as what follows the path in a sentence, or NULL, also if there
 * is nothing. Returns 0, or a negative errno for a local failure. */
int exposure_find(const char *path, bool is_secret, char **ret_why);
