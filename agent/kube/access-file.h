/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A file that access depends on, read again when it changed
 *
 * Such files are rotated while they are in use, often by swapping a link. One that cannot be read
 * any more, or whose new content makes no sense, leaves the content before in force, and the
 * trouble is kept. What it held is wiped when it is replaced.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/base/error.h"

typedef enum AccessFileKind {
        ACCESS_FILE_PEM,
        ACCESS_FILE_TOKEN, /* without the white space around it */
        ACCESS_FILE_DOCUMENT,
        _ACCESS_FILE_KIND_MAX,
} AccessFileKind;

typedef struct AccessFile {
        AccessFileKind kind;
        char *path; /* NULL: there is no such file */
        char *text; /* NULL: never read */
        struct stat status;
        bool is_known; /* the status is that of the text, or of the trouble */
        Error trouble; /* why what is there now is not in force */
} AccessFile;

#define ACCESS_FILE_INIT ((AccessFile){ .path = NULL })

/* The path is copied; it may be NULL. */
int access_file_init(AccessFile *file, AccessFileKind kind, const char *path);
void access_file_done(AccessFile *file);

/* 1: there is a new text. 0: it is as before, or there is no such file. A refusal, which names the
 * file, only if there never was a text. Costs one stat() as long as nothing changes. */
int access_file_read(AccessFile *file, Error *reterr);

/* Reads it next time even if it looks the same. */
void access_file_forget(AccessFile *file);
