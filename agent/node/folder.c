/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/log-once.h"
#include "agent/base/text.h"
#include "agent/node/owner.h"

/* A file whose desired images have been requested. */
typedef struct Source {
        char *name;
        LogOnce problem;
        LogOnce unknown;     /* unknown keys of its documents */
        unsigned n_contents; /* n_contents of the file when its images were requested */
        unsigned n_touches;  /* n_touches of the file then */
        bool is_there;
} Source;

struct Folder {
        ImagesDir *dir;
        Log *log;
        Images *images;
        char *path;
        LogOnce problem;  /* problem of the folder itself */
        Source **sources; /* in the order of their names */
        size_t n_sources;
        FolderChanged on_changed;
        void *userdata;
};

DEFINE_CLEANUP(Folder *, folder_free)

static Source *source_free(Source *source) {
        if (!source)
                return NULL;

        free(source->name);
        free(source);
        return NULL;
}

DEFINE_CLEANUP(Source *, source_free)

static int compare_name(const void *item, const void *name) {
        return strcmp(((const Source *) item)->name, name);
}

static int folder_find_or_add(Folder *folder, const char *name, Source **ret) {
        cleanup(source_free_p) Source *source = NULL;
        size_t at;
        int r;

        if (sorted_find(folder->sources, folder->n_sources, compare_name, name, &at)) {
                *ret = folder->sources[at];
                return 0;
        }

        source = calloc(1, sizeof(*source));
        if (!source || text_copy(name, &source->name) < 0)
                return -ENOMEM;

        r = sorted_insert(&folder->sources, &folder->n_sources, at, source);
        if (r < 0)
                return r;

        *ret = take_ptr(source);
        return 0;
}

static const char *error_or_null(const Error *error) {
        return error->kind == ERROR_NONE ? NULL : error_message(error);
}

/* A request that ended by its own backoffLimit is not retried until its version changes. */
static bool is_tried_on(const ImageRequest *request, const void *owner) {
        return strcmp(request->owner, owner) == 0 &&
               (!request->is_done || request->desired.backoff_limit == DESIRED_IMAGE_NO_LIMIT);
}

/* A file that is written or touched again is retried: its author expects it to work now. */
static int set_desired(Folder *folder, const char *name, const DesiredImages *desired_images,
                       bool is_again) {
        cleanup(free_p) char *owner = NULL;
        int r;

        r = owner_of_file(name, &owner);
        if (r < 0)
                return r;

        r = images_set_desired(folder->images, owner, desired_images, REQUEST_DESIRED);
        if (r >= 0 && is_again)
                r = images_retry(folder->images, is_tried_on, owner);
        return r;
}

/* Logs the first one; the others are in the diagnosis. */
static void folder_log_unknown(Folder *folder, Source *source, const UnknownKeys *unknown) {
        if (!log_once(&source->unknown, unknown->n_texts > 0 ? unknown->texts[0] : NULL))
                return;

        if (unknown->n_found == 1)
                log_warning(folder->log, LOG_FIELDS({ "FILE", source->name }), "In \"%s/%s\", %s",
                            folder->path, source->name, unknown->texts[0]);
        else
                log_warning(folder->log, LOG_FIELDS({ "FILE", source->name }),
                            "In \"%s/%s\", %s (and %zu more, see inplacectl doctor)", folder->path,
                            source->name, unknown->texts[0], unknown->n_found - 1);
}

int folder_file_is_served(const Images *images, const ImagesFile *file) {
        cleanup(free_p) char *owner = NULL;
        int r;

        if (file->n_contents > 0 || !images)
                return file->n_contents > 0;

        r = owner_of_file(file->name, &owner);
        if (r < 0)
                return r;

        for (size_t i = 0; i < images_count(images); i++)
                for (const ImageRequest *request = image_requests(images_get(images, i)); request;
                     request = request->next)
                        if (strcmp(request->owner, owner) == 0)
                                return 1;

        return 0;
}

static int folder_log_refusal(Folder *folder, const ImagesFile *file) {
        int r;

        r = folder_file_is_served(folder->images, file);
        if (r < 0)
                return r;

        log_warning(folder->log,
                    LOG_FIELDS({ "MESSAGE_ID", MESSAGE_DOCUMENT_REFUSED }, { "FILE", file->name }),
                    "Cannot use \"%s/%s\": %s, %s.", folder->path, file->name,
                    error_message(&file->error),
                    r > 0 ? "keeping its last good content" : "it has had no good content yet");
        return 0;
}

static int folder_take_file(Folder *folder, const ImagesFile *file) {
        bool is_again;
        Source *source;
        int r;

        r = folder_find_or_add(folder, file->name, &source);
        if (r < 0)
                return r;

        source->is_there = true;
        if (log_once(&source->problem, error_or_null(&file->error))) {
                r = folder_log_refusal(folder, file);
                if (r < 0)
                        return r;
        }

        folder_log_unknown(folder, source, &file->unknown);
        if (source->n_contents == file->n_contents)
                return 0;

        is_again = source->n_contents > 0 && source->n_touches != file->n_touches;
        source->n_contents = file->n_contents;
        source->n_touches = file->n_touches;
        return set_desired(folder, file->name, &file->desired_images, is_again);
}

static int folder_drop_missing(Folder *folder) {
        const DesiredImages none = DESIRED_IMAGES_INIT;
        size_t n_left = 0;
        int r = 0;

        for (size_t i = 0; i < folder->n_sources; i++) {
                Source *source = folder->sources[i];

                if (source->is_there || r < 0) {
                        source->is_there = false;
                        folder->sources[n_left++] = source;
                        continue;
                }

                r = set_desired(folder, source->name, &none, false);
                source_free(source);
        }

        folder->n_sources = n_left;
        return r;
}

int folder_reconcile(Folder *folder) {
        const Error *error = images_dir_get_error(folder->dir);
        int r;

        if (log_once(&folder->problem, error_or_null(error)))
                log_write(folder->log, error->kind == ERROR_NOT_FOUND ? LOG_INFO : LOG_WARNING,
                          NULL, "The folder \"%s\" %s, waiting for it.", folder->path,
                          error_message(error));

        for (size_t i = 0; i < images_dir_get_n_files(folder->dir); i++) {
                r = folder_take_file(folder, images_dir_get_file(folder->dir, i));
                if (r < 0)
                        return r;
        }

        r = images_dir_was_read(folder->dir) ? folder_drop_missing(folder) : 0;
        if (r < 0)
                return r;

        folder->on_changed(folder->userdata);
        return 0;
}

static int on_dir_changed(ImagesDir *dir, void *userdata) {
        return folder_reconcile(userdata);
}

int folder_new(const FolderOptions *options, Folder **ret) {
        cleanup(folder_free_p) Folder *folder = NULL;
        int r;

        folder = malloc(sizeof(*folder));
        if (!folder)
                return -ENOMEM;

        *folder = (Folder){
                .log = options->log,
                .images = options->images,
                .path = strdup(options->path),
                .on_changed = options->on_changed,
                .userdata = options->userdata,
        };
        if (!folder->path)
                return -ENOMEM;

        r = images_dir_new(options->event, options->path, on_dir_changed, folder, &folder->dir);
        if (r < 0)
                return r;

        *ret = take_ptr(folder);
        return 0;
}

Folder *folder_free(Folder *folder) {
        if (!folder)
                return NULL;

        for (size_t i = 0; i < folder->n_sources; i++)
                source_free(folder->sources[i]);
        free(folder->sources);
        images_dir_free(folder->dir);
        free(folder->path);
        free(folder);
        return NULL;
}

/* Keeps the requests of a file until it shows whether that is still there. A name that is no UTF-8 is not known by
 * its owner. */
static int folder_keep(Folder *folder, const char *owner) {
        const char *name = owner_is_file(owner) ? owner_name(owner) : NULL;
        Source *source;
        int r;

        if (!name || strchr(name, '/'))
                return 0;

        r = folder_find_or_add(folder, name, &source);
        return r < 0 ? r : 1;
}

int folder_lacks(Folder *folder, const char *owner) {
        if (!images_dir_was_read(folder->dir))
                return folder_keep(folder, owner);

        for (size_t i = 0; i < images_dir_get_n_files(folder->dir); i++) {
                const ImagesFile *file = images_dir_get_file(folder->dir, i);
                cleanup(free_p) char *other = NULL;

                if (file->n_contents > 0)
                        continue;
                if (owner_of_file(file->name, &other) < 0)
                        return -ENOMEM;
                if (strcmp(owner, other) == 0)
                        return 1;
        }

        return 0;
}

int folder_rescan(Folder *folder) {
        return images_dir_rescan(folder->dir);
}

const ImagesDir *folder_dir(const Folder *folder) {
        return folder->dir;
}
