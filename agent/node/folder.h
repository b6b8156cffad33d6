/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Desired state from a folder: each file is an owner of desired images
 */

#include "agent/image/images.h"
#include "agent/node/images-dir.h"

typedef struct Folder Folder;

/* After the first scan and each change. */
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

/* What is in it, borrowed. */
const ImagesDir *folder_dir(const Folder *folder);
