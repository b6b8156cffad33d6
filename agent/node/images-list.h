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

typedef struct ImagesList {
        ImagesFile **files;
        size_t n_files;
} ImagesList;

#define IMAGES_LIST_INIT ((ImagesList){ .files = NULL })

void images_list_done(ImagesList *list);

/* A name that documents have: not hidden, and with one of the endings. */
bool images_list_is_document(const char *name);

/* Somebody writes to a file: it is not read until it was closed, or for a second. Names that cannot
 * be documents are ignored. */
int images_list_note_written(ImagesList *list, const char *name, uint64_t now_usec);
void images_list_note_closed(ImagesList *list, const char *name);

/* Reads what is new in the folder and forgets what is gone. Returns 1 if that made a difference. A
 * folder that cannot be read is a refusal, and changes nothing. *ret_again_usec is the time after
 * which there should be another look, or UINT64_MAX. */
int images_list_look(ImagesList *list, int folder, uint64_t now_usec, uint64_t *ret_again_usec,
                     Error *reterr);

/* Forgets all files. Returns 1 if there were any. */
int images_list_clear(ImagesList *list);
