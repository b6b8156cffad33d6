/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Requests the desired images of a folder, in which each file is an owner
 */

#include "agent/image/images.h"
#include "agent/node/images-dir.h"

typedef struct Folder Folder;

/* Called after the first scan and after each change. */
typedef void (*FolderChanged)(void *userdata);

typedef struct FolderOptions {
        sd_event *event;
        Log *log;
        Images *images;   /* borrowed, has to outlive the folder */
        const char *path; /* copied */
        FolderChanged on_changed;
        void *userdata;
} FolderOptions;

/* Reads the folder, and requests nothing yet. */
int folder_new(const FolderOptions *options, Folder **ret);
Folder *folder_free(Folder *folder);

/* Returns 1 if the owner is a file of the folder that has had no good content yet: it is being written, was
 * refused, or may be in the folder, which cannot be read. Call it before folder_reconcile(). */
int folder_lacks(Folder *folder, const char *owner);

/* Returns 1 if good content of the file is in force, perhaps since the previous run, or 0. images: NULL: no agent runs. */
int folder_file_is_served(const Images *images, const ImagesFile *file);

/* Requests the images of all files that have good content. */
int folder_reconcile(Folder *folder);

int folder_rescan(Folder *folder);

/* Returns the content of the folder, borrowed. */
const ImagesDir *folder_dir(const Folder *folder);
