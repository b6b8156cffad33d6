/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Images folder
 *
 * Watches a folder of NodeImage documents (*.yaml, *.yml, *.json, except hidden files) and keeps the
 * desired images of each file. It never writes there. Neither the folder nor its parent needs to
 * exist, it may be a link, and its files may be links as in a mounted ConfigMap.
 *
 * After any event, once the folder was quiet for a moment, the agent scans all of it, and skips files
 * that have not changed. It leaves a file alone that is being written, until it is closed or was not
 * written to for a minute. It reads one large file in a turn of the event loop, and puts all contents into
 * force together at the end of the scan, so that an image that moves from one file to another is never
 * missing.
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

/* A file of the folder: NodeImage documents, and their desired images. If new content is refused,
 * for any reason, the last good one stays in force. */
typedef struct ImagesFile {
        char *name;                   /* without the folder */
        DesiredImages desired_images; /* desired images of the last good content */
        size_t n_documents;           /* number of documents in that content */
        unsigned n_contents; /* number of good contents so far; changes with the desired images */
        unsigned n_touches;  /* number of writes and touches, also with the same content */
        Error error; /* why the newest content was refused, or unset; does not name the file */
        UnknownKeys unknown; /* keys of the newest content, whether or not it was refused */

        /* private to images-dir.c */
        bool has_result, has_new_content; /* result of reading that is not in force yet */
        DesiredImages new_desired;        /* desired images of new content */
        size_t new_n_documents;
        Error new_error;
        UnknownKeys new_unknown;
        struct stat taken; /* status of the file at its last read */
        bool is_touched;   /* the file has changed since the last commit */
        struct stat known; /* all zero: read the content in any case */
        uint64_t written_usec;
        unsigned n_reads; /* since the last scan ended */
        bool is_there;
} ImagesFile;

/* Results of the functions below may have changed. Runs from the event loop, never from within one
 * of them. May free the folder. A negative errno ends the event loop. */
typedef int (*ImagesDirChanged)(ImagesDir *dir, void *userdata);

/* Scans the folder at once, so that the functions below have results. The path is copied. A missing
 * or unreadable folder is not a failure, see images_dir_get_error(). */
int images_dir_new(sd_event *event, const char *path, ImagesDirChanged changed, void *userdata,
                   ImagesDir **ret);
ImagesDir *images_dir_free(ImagesDir *dir);

/* Scans the folder in the next turn of the event loop, even without an event. */
int images_dir_rescan(ImagesDir *dir);

/* The files, in the order of their names. Results are borrowed until the event loop runs. A file
 * that could not be read yet, or is still being written, has no desired images. */
size_t images_dir_get_n_files(const ImagesDir *dir);
const ImagesFile *images_dir_get_file(const ImagesDir *dir, size_t i);

/* Why the folder itself cannot be read or watched, as one line that does not name it, or unset. A
 * missing folder has no files; after any other error the files stay as they were. */
const Error *images_dir_get_error(const ImagesDir *dir);

/* Whether the files are known: the folder could be read, or was missing, at least once. */
bool images_dir_was_read(const ImagesDir *dir);

/* For images-dir.c and its tests: a file, and the list of files. */

/* The name is copied. Nothing is read yet. */
int images_file_new(const char *name, ImagesFile **ret);
ImagesFile *images_file_free(ImagesFile *file);

/* Reads the file again if it changed, and keeps the result for images_file_commit(). *ret_size is
 * the number of bytes read. *ret_again_usec is set if the file may change without a trace, or
 * changed during the read: then read it once more after that time. */
int images_file_read(ImagesFile *file, int folder, size_t *ret_size, uint64_t *ret_again_usec);

/* Puts the result of reading into force. Returns true if any of the public fields may have
 * changed. */
bool images_file_commit(ImagesFile *file);

/* The files, in the order of their names. */
typedef struct ImagesList {
        ImagesFile **files;
        size_t n_files;
} ImagesList;

#define IMAGES_LIST_INIT ((ImagesList){ .files = NULL })

void images_list_done(ImagesList *list);

/* Notes that a file is being written, so that it is not read until it is closed or quiet for a
 * minute. Ignores names that documents cannot have. */
int images_list_note_written(ImagesList *list, const char *name, uint64_t now_usec);
void images_list_note_closed(ImagesList *list, const char *name);

/* Events were lost, so any file may have been closed. */
void images_list_note_lost(ImagesList *list);

/* Scans for one turn: lists the folder and reads changed files until the size is reached, the last
 * one whole. If no changed file is left, puts all contents into force at once, forgets removed
 * files, and returns 1 if anything changed. A folder that cannot be read is an error and changes
 * nothing. *ret_again_usec (of CLOCK_MONOTONIC, as now_usec) is when to call again: UINT64_MAX if
 * there is no need, now_usec if the scan is not complete. */
int images_list_scan(ImagesList *list, int folder, uint64_t now_usec, size_t size,
                     uint64_t *ret_again_usec, Error *reterr);

/* Forgets all files. Returns 1 if there were any. */
int images_list_clear(ImagesList *list);
