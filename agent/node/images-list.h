/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Images list
 *
 * The files of the images folder, in the order of their names, and how they compare with what is in
 * the folder now. When to look is up to images-dir.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/node/images-file.h"

struct dirent;

typedef struct ImagesList {
        ImagesFile **files;
        size_t n_files;

        /* private to images-list.c */
        struct dirent **names; /* in the folder when the look began; NULL: none is under way */
        int n_names;
        int n_looked;        /* at so many of them */
        uint64_t again_usec; /* when one of them asked for another look */
        bool is_outdated;
        unsigned n_outdated; /* looks in a row that were so at their end */
} ImagesList;

#define IMAGES_LIST_INIT ((ImagesList){ .files = NULL })

void images_list_done(ImagesList *list);

/* A name that documents have: not hidden, and with one of the endings. */
bool images_list_is_document(const char *name);

/* Somebody writes to a file: it is not read until it was closed, or for a second. Names that cannot
 * be documents are ignored. */
int images_list_note_written(ImagesList *list, const char *name, uint64_t now_usec);
void images_list_note_closed(ImagesList *list, const char *name);

/* Something in the folder is different: a look that is under way may have missed it. */
void images_list_note_change(ImagesList *list);

/* Goes on with a look, or begins one: reads what is new in the folder and forgets what is gone. Large
 * files take their time, so no further one is read after until_usec (of CLOCK_MONOTONIC, as is
 * now_usec). Whatever was found is put into force at the end of the look, all of it at once: what is
 * moved from one file to another is never missing. If the folder has changed meanwhile it is looked
 * at once more before that. Returns 1 if that made a difference. A folder that cannot be read is a
 * refusal, and changes nothing. *ret_again_usec is when to call again: UINT64_MAX if there is no
 * need, and now_usec if the look is not at its end. */
int images_list_look(ImagesList *list, int folder, uint64_t now_usec, uint64_t until_usec,
                     uint64_t *ret_again_usec, Error *reterr);

/* Forgets all files. Returns 1 if there were any. */
int images_list_clear(ImagesList *list);
