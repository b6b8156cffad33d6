/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Secret file
 *
 * A small file with something secret in it, read as a whole and wiped from memory afterwards.
 */

#include <stddef.h>

#include "agent/base/error.h"

#define SECRET_FILE_SIZE_MAX (1 << 20)

typedef struct SecretFile {
        char *text; /* not ended by a NUL */
        size_t size;
} SecretFile;

#define SECRET_FILE_INIT ((SecretFile){ .text = NULL })

/* Refused, with a line that names the path, is one that is missing (ERROR_NOT_FOUND), not a regular
 * file, empty, larger than 1 MiB, or cannot be read. */
int secret_file_read(const char *path, SecretFile *ret, Error *reterr);

void secret_file_done(SecretFile *file);
