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

/* Refuses a file that is missing (ERROR_NOT_FOUND), not regular, empty, larger than 1 MiB, or
 * unreadable, with a line that names the path. */
int secret_file_read(const char *path, SecretFile *ret, Error *reterr);

void secret_file_done(SecretFile *file);
