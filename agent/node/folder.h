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

int folder_new(const FolderOptions *options, Folder **ret);
Folder *folder_free(Folder *folder);

int folder_rescan(Folder *folder);

/* Returns the content of the folder, borrowed. */
const ImagesDir *folder_dir(const Folder *folder);
