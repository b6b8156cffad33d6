/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Images file
 *
 * One file of the images folder: NodeImage documents, and what they wish for. Content that cannot
 * be taken, whatever the reason, leaves the wishes of the last good content in force.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/base/error.h"
#include "agent/image/wish.h"

/* What changes when a file does. */
typedef struct FileStamp {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec modified;
        struct timespec changed;
} FileStamp;

typedef struct ImagesFile {
        char *name;          /* without the folder */
        WishList wishes;     /* of the last good content */
        size_t n_documents;  /* of the same */
        unsigned n_contents; /* how often there was a good one; the wishes are new when this is */
        Error error;         /* why the newest content was refused, or unset. One line, which does
                             * not name the file. */

        /* private to images-file.c and images-list.c */
        bool has_news, has_new_content;
        WishList new_wishes; /* with these, if there is new content */
        size_t new_n_documents;
        Error new_error;
        FileStamp stamp; /* all zero when the content has to be read in any case */
        uint64_t written_usec;
        bool is_there;
} ImagesFile;

/* The name is copied. Nothing is read yet. */
int images_file_new(const char *name, ImagesFile **ret);
ImagesFile *images_file_free(ImagesFile *file);

/* Reads the file again if it changed, and keeps what is new for images_file_take_news().
 * *ret_again_usec is set if the file may change without a trace, or did change, during the look:
 * then there should be another look after that time. */
int images_file_look(ImagesFile *file, int folder, uint64_t *ret_again_usec);

/* Puts into force what the looks have found. Returns true if anything of what is public above may be
 * different now. */
bool images_file_take_news(ImagesFile *file);
