/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Images folder
 *
 * Watches a folder of NodeImage documents (*.yaml, *.yml, *.json, except hidden files) and knows at
 * any time what each file wishes for. Nothing is ever written there. Neither the folder nor its
 * parent needs to exist, it may be a link, and its files may be links as in a mounted ConfigMap.
 *
 * An event says no more than that something happened; then the whole folder is looked at, once it
 * was quiet for a moment, and files that are the same as before are not read. A file that somebody
 * has open and writes to is left alone until it is closed, or was not written to for a second.
 */

#include <stddef.h>
#include <systemd/sd-event.h>

#include "agent/base/error.h"
#include "agent/node/images-file.h"

typedef struct ImagesDir ImagesDir;

/* Something that the functions below tell may be different now. Runs from the event loop, never
 * from within one of these functions. May free the folder. A negative errno ends the event loop. */
typedef int (*ImagesDirChanged)(ImagesDir *dir, void *userdata);

/* Looks at the folder at once, so that the functions below tell the truth from now on. The path is
 * copied. A folder that is missing or unreadable is not a failure, see images_dir_get_error(). */
int images_dir_new(sd_event *event, const char *path, ImagesDirChanged changed, void *userdata,
                   ImagesDir **ret);
ImagesDir *images_dir_free(ImagesDir *dir);

/* Looks at the folder in the next iteration of the event loop, whether or not something
 * happened. */
int images_dir_rescan(ImagesDir *dir);

/* The files, in the order of their names. What they return is borrowed until the event loop runs. A
 * file that could not be read yet, or is still being written, is there without wishes. */
size_t images_dir_get_n_files(const ImagesDir *dir);
const ImagesFile *images_dir_get_file(const ImagesDir *dir, size_t i);

/* Why the folder itself cannot be read or watched, as one line that does not name it, or unset. It
 * has no files while it is missing. If there is any other reason, the files are what they were
 * last. */
const Error *images_dir_get_error(const ImagesDir *dir);
