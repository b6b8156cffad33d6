/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Something in a folder has changed
 *
 * For callers that read a folder's files whenever they need them, and have to know when another read may
 * give another result. Owned by a field, like a Timer. Several changes in quick succession lead to one call.
 * The watch does not wait for a missing folder: folder_watch_start() tries again.
 */

#include "agent/base/loop.h"

typedef struct FolderWatch {
        const char *path;
        sd_event_source *source; /* NULL: not watched */
        Timer settle;
} FolderWatch;

/* The path is borrowed. */
void folder_watch_init(FolderWatch *watch, sd_event *event, const char *path, LoopCall call,
                       void *userdata);
void folder_watch_done(FolderWatch *watch);

/* Does nothing if it is watched. Only a lack of memory is a failure. */
int folder_watch_start(FolderWatch *watch);
