/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Images folder
 *
 * Watches a folder of NodeImage documents (*.yaml, *.yml, *.json, except hidden files) and knows at
 * any time what each file asks for. Nothing is ever written there. Neither the folder nor its
 * parent needs to exist, it may be a link, and its files may be links as in a mounted ConfigMap.
 *
 * An event means no more than that something happened; then the whole folder is scanned, once it was
 * quiet for a moment, and files that are the same as before are not read. A file that is being written
 * is left alone until it is closed, or was not written to for a second. Large files are read one in a
 * turn of the event loop, and what they say comes into force together, at the end of the scan: what
 * is moved from one file to another is never missing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <systemd/sd-event.h>

#include "agent/base/error.h"
#include "agent/document/known-keys.h"
#include "agent/image/desired-image.h"

typedef struct ImagesDir ImagesDir;

/* One file of the folder: NodeImage documents, and their desired images. Content that cannot be taken,
 * for any reason, leaves the desired images of the last good content in force. */
typedef struct ImagesFile {
        char *name;                   /* without the folder */
        DesiredImages desired_images; /* of the last good content */
        size_t n_documents;           /* of the same */
        unsigned
                n_contents; /* how often there was a good one; the desired images are new when this is */
        unsigned n_touches;  /* how often it was written or touched, also with the same content */
        Error error;         /* why the newest content was refused, or unset. One line, which does
                              * not name the file. */
        UnknownKeys unknown; /* keys of the newest content, whether or not it was refused */

        /* private to images-dir.c */
        bool has_result, has_new_content; /* of reading, which is not in force yet */
        DesiredImages new_desired;        /* with these, if there is new content */
        size_t new_n_documents;
        Error new_error;
        UnknownKeys new_unknown;
        struct stat taken; /* of the file when it was read last */
        bool is_touched;   /* when it was, it was another one than the time before */
        struct stat known; /* all zero when the content has to be read in any case */
        uint64_t written_usec;
        unsigned n_reads; /* since the last scan ended */
        bool is_there;
} ImagesFile;

/* Something that the functions below return may be different now. Runs from the event loop, never
 * from within one of these functions. May free the folder. A negative errno ends the event loop. */
typedef int (*ImagesDirChanged)(ImagesDir *dir, void *userdata);

/* Scans the folder at once, so that the functions below are true from now on. The path is copied. A folder that is missing or unreadable is not a failure, see images_dir_get_error(). */
int images_dir_new(sd_event *event, const char *path, ImagesDirChanged changed, void *userdata,
                   ImagesDir **ret);
ImagesDir *images_dir_free(ImagesDir *dir);

/* Scans the folder in the next turn of the event loop, whether or not something happened. */
int images_dir_rescan(ImagesDir *dir);

/* The files, in the order of their names. What they return is borrowed until the event loop runs. A
 * file that could not be read yet, or is still being written, is there without desired images. */
size_t images_dir_get_n_files(const ImagesDir *dir);
const ImagesFile *images_dir_get_file(const ImagesDir *dir, size_t i);

/* Why the folder itself cannot be read or watched, as one line that does not name it, or unset. It
 * has no files while it is missing. If there is any other reason, the files are what they were
 * last. */
const Error *images_dir_get_error(const ImagesDir *dir);

/* What follows is for images-dir.c and its tests: one file, and the list of all of them. */

/* The name is copied. Nothing is read yet. */
int images_file_new(const char *name, ImagesFile **ret);
ImagesFile *images_file_free(ImagesFile *file);

/* Reads the file again if it changed, and keeps the result for images_file_commit(). *ret_size is how
 * much was read. *ret_again_usec is set if the file may change without a trace, or did change
 * meanwhile: then it should be read once more after that time. */
int images_file_read(ImagesFile *file, int folder, size_t *ret_size, uint64_t *ret_again_usec);

/* Puts the result of reading into force. Returns true if anything of what is public above may be
 * different now. */
bool images_file_commit(ImagesFile *file);

/* The files, in the order of their names. */
typedef struct ImagesList {
        ImagesFile **files;
        size_t n_files;
} ImagesList;

#define IMAGES_LIST_INIT ((ImagesList){ .files = NULL })

void images_list_done(ImagesList *list);

/* A file is being written: it is not read until it was closed, or for a second. Names that cannot be
 * documents are ignored. */
int images_list_note_written(ImagesList *list, const char *name, uint64_t now_usec);
void images_list_note_closed(ImagesList *list, const char *name);

/* One turn of a scan: lists the folder and reads changed files until so many bytes were read; the file
 * with which that is reached is read whole. When no changed file is left, all that was read is put into
 * force at once, files that are gone are forgotten, and 1 is returned if that made a difference. A
 * folder that cannot be read is a refusal, and changes nothing. *ret_again_usec (of CLOCK_MONOTONIC, as
 * is now_usec) is when to call again: UINT64_MAX if there is no need, and now_usec if the scan is not at
 * its end. */
int images_list_scan(ImagesList *list, int folder, uint64_t now_usec, size_t size,
                     uint64_t *ret_again_usec, Error *reterr);

/* Forgets all files. Returns 1 if there were any. */
int images_list_clear(ImagesList *list);
