/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/images-list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"

#define QUIET_USEC ((uint64_t) 1000000)
#define OUTDATED_MAX 8 /* looks in a row, before what they have found is used nevertheless */

DEFINE_CLEANUP(ImagesFile *, images_file_free)

bool images_list_is_document(const char *name) {
        static const char *const endings[] = { ".yaml", ".yml", ".json" };
        const char *ending = strrchr(name, '.');

        if (!ending || name[0] == '.')
                return false;

        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
                if (strcmp(ending, endings[i]) == 0)
                        return true;
        return false;
}

static int is_document_entry(const struct dirent *entry) {
        return images_list_is_document(entry->d_name);
}

static int compare_entries(const struct dirent **a, const struct dirent **b) {
        return strcmp((*a)->d_name, (*b)->d_name);
}

/* Returns the position of a file, or where it would be. */
static size_t images_list_find(const ImagesList *list, const char *name, bool *ret_found) {
        size_t from = 0, to = list->n_files;

        *ret_found = false;
        while (from < to && !*ret_found) {
                size_t middle = from + (to - from) / 2;
                int order = strcmp(list->files[middle]->name, name);

                *ret_found = order == 0;
                if (order < 0)
                        from = middle + 1;
                else
                        to = middle;
        }

        return to;
}

static int images_list_get_or_add(ImagesList *list, const char *name, ImagesFile **ret) {
        cleanup(images_file_free_p) ImagesFile *file = NULL;
        ImagesFile **files;
        bool found;
        size_t at;
        int r;

        at = images_list_find(list, name, &found);
        if (found) {
                *ret = list->files[at];
                return 0;
        }

        r = images_file_new(name, &file);
        if (r < 0)
                return r;

        files = reallocarray(list->files, list->n_files + 1, sizeof(*files));
        if (!files)
                return -ENOMEM;

        list->files = files;
        memmove(files + at + 1, files + at, (list->n_files - at) * sizeof(*files));
        *ret = files[at] = take_ptr(file);
        list->n_files++;
        return 0;
}

int images_list_note_written(ImagesList *list, const char *name, uint64_t now_usec) {
        ImagesFile *file;
        int r;

        if (!images_list_is_document(name))
                return 0;

        r = images_list_get_or_add(list, name, &file);
        if (r < 0)
                return r;

        file->written_usec = now_usec;
        file->is_there = true;
        return 0;
}

void images_list_note_closed(ImagesList *list, const char *name) {
        bool found;
        size_t at;

        at = images_list_find(list, name, &found);
        if (found)
                list->files[at]->written_usec = 0;
}

void images_list_note_change(ImagesList *list) {
        list->is_outdated = true;
}

/* Returns true if any file was forgotten. */
static bool images_list_sweep(ImagesList *list) {
        size_t n_left = 0;
        bool swept;

        for (size_t i = 0; i < list->n_files; i++)
                if (list->files[i]->is_there)
                        list->files[n_left++] = list->files[i];
                else
                        images_file_free(list->files[i]);

        swept = n_left < list->n_files;
        list->n_files = n_left;
        return swept;
}

static int images_list_look_at_file(ImagesList *list, const char *name, int folder,
                                    uint64_t now_usec) {
        ImagesFile *file;
        uint64_t again_usec;
        int r;

        r = images_list_get_or_add(list, name, &file);
        if (r < 0)
                return r;

        file->is_there = true;
        if (file->written_usec != 0 && now_usec < file->written_usec + QUIET_USEC)
                again_usec = file->written_usec + QUIET_USEC - now_usec;
        else {
                file->written_usec = 0;
                r = images_file_look(file, folder, &again_usec);
        }

        /* It may have gone since it was listed. A link to nowhere has not. */
        if (file->new_error.kind == ERROR_NOT_FOUND)
                file->is_there = faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;

        if (again_usec > 0 && now_usec + again_usec < list->again_usec)
                list->again_usec = now_usec + again_usec;
        return r;
}

static void images_list_forget_look(ImagesList *list) {
        for (int i = 0; i < list->n_names; i++)
                free(list->names[i]);
        free(take_ptr(list->names));
        list->n_names = 0;
}

static int images_list_begin_look(ImagesList *list, int folder, Error *reterr) {
        int n;

        n = scandirat(folder, ".", &list->names, is_document_entry, compare_entries);
        if (n < 0) {
                list->names = NULL;
                return errno == ENOMEM ? -ENOMEM
                                       : error_set(reterr, ERROR_UNAVAILABLE, "cannot be read: %s",
                                                   strerror(errno));
        }

        list->n_names = n;
        list->n_looked = 0;
        list->again_usec = UINT64_MAX;
        list->is_outdated = false;
        for (size_t i = 0; i < list->n_files; i++)
                list->files[i]->is_there = false;
        return 0;
}

static bool images_list_end_look(ImagesList *list) {
        bool changed = images_list_sweep(list);

        images_list_forget_look(list);
        for (size_t i = 0; i < list->n_files; i++)
                changed |= images_file_take_news(list->files[i]);

        return changed;
}

int images_list_look(ImagesList *list, int folder, uint64_t now_usec, uint64_t until_usec,
                     uint64_t *ret_again_usec, Error *reterr) {
        int r;

        if (!list->names) {
                r = images_list_begin_look(list, folder, reterr);
                if (r < 0)
                        return r;
        }

        while (list->n_looked < list->n_names) {
                r = images_list_look_at_file(list, list->names[list->n_looked]->d_name, folder,
                                             now_usec);
                if (r < 0)
                        return r;

                list->n_looked++;
                if (list->n_looked < list->n_names && clock_monotonic_usec() >= until_usec) {
                        *ret_again_usec = now_usec;
                        return 0;
                }
        }

        if (list->is_outdated && list->n_outdated < OUTDATED_MAX) {
                list->n_outdated++;
                images_list_forget_look(list);
                *ret_again_usec = now_usec;
                return 0;
        }

        list->n_outdated = 0;
        *ret_again_usec = list->is_outdated ? now_usec : list->again_usec;
        return images_list_end_look(list);
}

int images_list_clear(ImagesList *list) {
        images_list_forget_look(list);
        for (size_t i = 0; i < list->n_files; i++)
                list->files[i]->is_there = false;

        return images_list_sweep(list);
}

void images_list_done(ImagesList *list) {
        (void) images_list_clear(list);
        free(list->files);
        *list = IMAGES_LIST_INIT;
}
