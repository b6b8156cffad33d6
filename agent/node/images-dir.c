/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/images-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/file.h"
#include "agent/base/loop.h"
#include "agent/document/documents.h"
#include "agent/image/image-spec.h"

#define MSEC ((uint64_t) 1000)
#define SEC ((uint64_t) 1000000)

#define SETTLE_USEC (20 * MSEC)      /* after the last event of a burst ... */
#define SETTLE_MAX_USEC (200 * MSEC) /* ... but this long after the first */
#define REST_FACTOR 10        /* pause between two scans, in multiples of a scan's processor time */
#define CHECK_USEC (60 * SEC) /* period of scans, since targets of links are not watched */
#define CHECK_MISSING_USEC (2 * SEC)

/* A file that changes twice within a tick of the kernel's clock keeps its time, so a recent one is
 * read again. */
#define TICK_USEC ((int64_t) 10000)
#define AGAIN_AFTER_TICK_USEC (20 * MSEC)
#define AGAIN_AFTER_WRITE_USEC SEC

/* Parsed objects take many times the size of their text. Above this size the agent returns the
 * heap's memory afterwards, since nothing needs it until the file changes. */
#define LARGE_SIZE ((size_t) 64 << 10)

/* Bytes to read in one turn of the event loop. The file that reaches it is read whole, so a turn
 * reads at most one large file. */
#define TURN_SIZE ((size_t) 256 << 10)
#define PAUSE_USEC (5 * MSEC) /* between two turns of a scan, so that others get answers */

/* A program whose output goes into the file empties it before it begins, and may pause. */
#define QUIET_USEC (60 * SEC)
#define AGE_MAX_SEC 3600 /* above all ages that count */
#define READS_MAX 8      /* reads of a file that keeps changing before its content is used */

#define FOLDER_EVENTS \
        (IN_CREATE | IN_DELETE | IN_MOVE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
/* Files that others have replaced do not count. */
#define CONTENT_EVENTS (FOLDER_EVENTS | IN_MODIFY | IN_CLOSE_WRITE | IN_EXCL_UNLINK)

/* After these events the watch may be dead, even if a new folder has the inode of the old one. */
#define GONE_EVENTS (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)

/* A folder that is watched. */
typedef struct Watch {
        sd_event_source *source;
        dev_t device;
        ino_t inode;
        bool is_stale;
} Watch;

struct ImagesDir {
        sd_event *event;
        char *path;
        char *parent;
        char *name; /* name in the parent */
        ImagesDirChanged changed;
        void *userdata;

        Watch above;         /* watches the parent: the folder may be a link, or missing */
        Watch inside;        /* watches the folder */
        Timer settle;        /* the next scan because of an event */
        Timer check;         /* the next scan without one */
        uint64_t burst_usec; /* time of the first event since the last scan */
        uint64_t rest_usec;  /* no event causes a scan before */
        bool is_started;     /* scanned to the end, once */
        bool was_read;       /* read, or found missing, once */
        bool is_scanning;    /* the scan continues in the next turn, which lists the folder again */

        ImagesList list;
        Error error;
};

DEFINE_CLEANUP(ImagesFile *, images_file_free)
DEFINE_CLEANUP(ImagesDir *, images_dir_free)

/* A file: its changes and its content */

/* Returns -1 for a time in the future, and INT64_MAX for one that is too long ago to count: a file
 * may have any time. */
static int64_t age_usec(struct timespec time) {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        if (time.tv_sec > now.tv_sec)
                return -1;
        if (time.tv_sec < now.tv_sec - AGE_MAX_SEC)
                return INT64_MAX;
        return (int64_t) (now.tv_sec - time.tv_sec) * 1000000 + (now.tv_nsec - time.tv_nsec) / 1000;
}

static bool is_recent(struct timespec time, int64_t max_usec) {
        int64_t age = age_usec(time);

        return age >= 0 && age < max_usec;
}

static int refuse_errno(Error *reterr, int number) {
        ErrorKind kind = number == EACCES || number == EPERM     ? ERROR_DENIED
                         : number == ENOENT || number == ENOTDIR ? ERROR_NOT_FOUND
                                                                 : ERROR_UNAVAILABLE;

        return error_set(reterr, kind, "cannot be read: %s", strerror(number));
}

static int check_regular(const struct stat *status, Error *reterr) {
        return S_ISREG(status->st_mode) ? 0
                                        : error_set(reterr, ERROR_INVALID, "is not a regular file");
}

/* Returns 0 if the desired images of one document were added. */
static int add_desired_images(DesiredImages *all, struct json_object *document, Error *reterr) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;
        int r;

        r = image_spec_parse(document, &desired_images, reterr);

        for (size_t i = 0; r >= 0 && i < desired_images.n_items; i++)
                r = desired_images_take(all, &desired_images.items[i]);

        return r;
}

/* Sorts by image; those of the same one keep the order of their documents. */
static int compare_images(const void *a, const void *b) {
        const DesiredImage *x = *(DesiredImage *const *) a, *y = *(DesiredImage *const *) b;

        return strcmp(x->name, y->name) ?: strcmp(x->tag, y->tag) ?: (x > y) - (x < y);
}

static bool is_same_image(const DesiredImage *a, const DesiredImage *b) {
        return strcmp(a->name, b->name) == 0 && strcmp(a->tag, b->tag) == 0;
}

/* Leaves the merged one in the place of the first, and nothing in those of the others. */
static int merge_run(DesiredImage **run, size_t n) {
        DesiredImage merged;
        int r;

        if (n < 2)
                return 0;

        r = desired_image_merge((const DesiredImage *const *) run, n, &merged);
        if (r < 0)
                return r;

        for (size_t i = 0; i < n; i++)
                desired_image_done(run[i]);
        *run[0] = merged;
        return 0;
}

/* Documents of a file may desire the same image, as those of several files do: none of them takes the place of
 * another. */
static int merge_documents(DesiredImages *all) {
        size_t n = all->n_items, n_left = 0, next;
        cleanup(free_p) DesiredImage **sorted = calloc(n + 1, sizeof(sorted[0]));
        int r = 0;

        if (!sorted)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++)
                sorted[i] = &all->items[i];
        qsort(sorted, n, sizeof(sorted[0]), compare_images);

        for (size_t i = 0; r >= 0 && i < n; i = next) {
                next = i + 1;
                while (next < n && is_same_image(sorted[i], sorted[next]))
                        next++;
                r = merge_run(&sorted[i], next - i);
        }
        if (r < 0)
                return r;

        for (size_t i = 0; i < n; i++)
                if (all->items[i].name)
                        all->items[n_left++] = all->items[i];
        all->n_items = n_left;
        return 0;
}

static int parse_desired_images(const Documents *documents, DesiredImages *ret, Error *reterr) {
        cleanup(desired_images_done) DesiredImages all = DESIRED_IMAGES_INIT;
        int r;

        for (size_t i = 0; i < documents->n_items; i++) {
                cleanup(error_done) Error error = ERROR_INIT;

                r = add_desired_images(&all, documents->items[i], &error);
                if (r < 0 && error.kind != ERROR_NONE && documents->n_items > 1)
                        return error_set(reterr, error.kind, "document %zu: %s", i + 1,
                                         error_message(&error));
                if (r < 0 && error.kind != ERROR_NONE)
                        return error_set(reterr, error.kind, "%s", error_message(&error));
                if (r < 0)
                        return r;
        }

        r = documents->n_items > 1 ? merge_documents(&all) : 0;
        if (r < 0)
                return r;

        *ret = all;
        all = DESIRED_IMAGES_INIT;
        return 0;
}

static int take_content(ImagesFile *file, const char *text, size_t size, Error *reterr) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        DesiredImages desired_images = DESIRED_IMAGES_INIT;
        int r;

        r = documents_parse(text, size, &documents, reterr);
        if (r < 0)
                return r;
        r = image_spec_check_keys(&documents, &file->new_unknown);
        if (r < 0)
                return r;
        r = parse_desired_images(&documents, &desired_images, reterr);
        if (r < 0)
                return r;

        desired_images_done(&file->new_desired);
        file->new_desired = desired_images;
        file->new_n_documents = documents.n_items;
        file->has_new_content = true;
        return 0;
}

/* Reads and uses the content, and remembers the file's status. If the file changed meanwhile, sets
 * *ret_again_usec and uses nothing. */
static int load_fd(ImagesFile *file, int fd, size_t *ret_size, uint64_t *ret_again_usec,
                   Error *reterr) {
        cleanup(free_p) char *text = NULL;
        struct stat status, after;
        ssize_t size;
        int r;

        if (fstat(fd, &status) < 0)
                return refuse_errno(reterr, errno);
        r = check_regular(&status, reterr);
        if (r < 0)
                return r;

        if ((size_t) status.st_size > DOCUMENTS_SIZE_MAX) {
                file->known = status;
                return error_set(reterr, ERROR_INVALID, "is larger than %zu MiB",
                                 DOCUMENTS_SIZE_MAX >> 20);
        }

        text = malloc((size_t) status.st_size + 1);
        if (!text)
                return -ENOMEM;

        size = file_read(fd, text, (size_t) status.st_size + 1);
        if (size < 0)
                return refuse_errno(reterr, (int) -size);

        *ret_size = (size_t) size;
        if (fstat(fd, &after) < 0)
                return refuse_errno(reterr, errno);
        if (size != status.st_size || !file_is_same(&status, &after)) {
                *ret_again_usec = AGAIN_AFTER_WRITE_USEC;
                return 0;
        }

        if (is_recent(status.st_ctim, TICK_USEC))
                *ret_again_usec = AGAIN_AFTER_TICK_USEC;
        else
                file->known = status;
        file->is_touched = file->is_touched || !file_is_same(&status, &file->taken);
        file->taken = status;
        return take_content(file, text, (size_t) size, reterr);
}

/* Opening a device can have effects, so the type is checked before; and again afterwards, because
 * the name may be another file by then. */
static int load(ImagesFile *file, int folder, size_t *ret_size, uint64_t *ret_again_usec,
                Error *reterr) {
        cleanup(close_p) int fd = -1;

        fd = openat(folder, file->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return refuse_errno(reterr, errno);

        return load_fd(file, fd, ret_size, ret_again_usec, reterr);
}

/* The file has content that was not read yet. */
static bool images_file_is_outdated(const ImagesFile *file, int folder) {
        struct stat status;

        return fstatat(folder, file->name, &status, 0) == 0 && S_ISREG(status.st_mode) &&
               !file_is_same(&status, &file->known);
}

int images_file_read(ImagesFile *file, int folder, size_t *ret_size, uint64_t *ret_again_usec) {
        cleanup(error_done) Error error = ERROR_INIT;
        struct stat status;
        int r;

        *ret_size = 0;
        *ret_again_usec = 0;

        if (fstatat(folder, file->name, &status, 0) < 0)
                r = refuse_errno(&error, errno);
        else if (file_is_same(&status, &file->known))
                return 0;
        else
                r = check_regular(&status, &error);

        unknown_keys_done(&file->new_unknown); /* belong to content that never came into force */
        file->known = (struct stat){ 0 };
        if (r >= 0) {
                r = load(file, folder, ret_size, ret_again_usec, &error);
                if (*ret_size >= LARGE_SIZE)
                        (void) malloc_trim(0);
        }
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (*ret_again_usec == AGAIN_AFTER_WRITE_USEC)
                return 0;

        error_done(&file->new_error);
        file->new_error = error;
        error = ERROR_INIT;
        file->has_result = true;
        return 0;
}

bool images_file_commit(ImagesFile *file) {
        bool is_same;

        file->n_reads = 0;
        if (!file->has_result)
                return false;

        is_same = !file->has_new_content && file->new_error.kind != ERROR_NONE &&
                  error_equal(&file->new_error, &file->error);
        if (file->has_new_content) {
                desired_images_done(&file->desired_images);
                file->desired_images = file->new_desired;
                file->new_desired = DESIRED_IMAGES_INIT;
                file->n_documents = file->new_n_documents;
                file->n_contents++;
                file->n_touches += file->is_touched;
                file->is_touched = false;
        }

        error_done(&file->error);
        file->error = file->new_error;
        file->new_error = ERROR_INIT;
        unknown_keys_done(&file->unknown);
        file->unknown = file->new_unknown;
        file->new_unknown = UNKNOWN_KEYS_INIT;
        file->has_result = file->has_new_content = false;
        return !is_same;
}

int images_file_new(const char *name, ImagesFile **ret) {
        cleanup(images_file_free_p) ImagesFile *file = NULL;

        file = calloc(1, sizeof(*file));
        if (!file)
                return -ENOMEM;

        file->error = ERROR_INIT;
        file->new_error = ERROR_INIT;
        file->name = strdup(name);
        if (!file->name)
                return -ENOMEM;

        *ret = take_ptr(file);
        return 0;
}

ImagesFile *images_file_free(ImagesFile *file) {
        if (!file)
                return NULL;

        unknown_keys_done(&file->new_unknown);
        error_done(&file->new_error);
        desired_images_done(&file->new_desired);
        unknown_keys_done(&file->unknown);
        error_done(&file->error);
        desired_images_done(&file->desired_images);
        free(file->name);
        free(file);
        return NULL;
}

/* The list of files, and the turns of a scan */

/* Documents are not hidden, and have one of the endings. */
static bool images_list_is_document(const char *name) {
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

static int compare_name(const void *item, const void *name) {
        return strcmp(((const ImagesFile *) item)->name, name);
}

static int images_list_get_or_add(ImagesList *list, const char *name, ImagesFile **ret) {
        ImagesFile *file;
        size_t at;
        int r;

        if (sorted_find(list->files, list->n_files, compare_name, name, &at)) {
                *ret = list->files[at];
                return 0;
        }

        r = images_file_new(name, &file);
        if (r < 0)
                return r;

        r = sorted_insert(&list->files, &list->n_files, at, file);
        if (r < 0) {
                images_file_free(file);
                return r;
        }

        *ret = file;
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
        size_t at;

        if (sorted_find(list->files, list->n_files, compare_name, name, &at))
                list->files[at]->written_usec = 0;
}

void images_list_note_lost(ImagesList *list) {
        for (size_t i = 0; i < list->n_files; i++)
                list->files[i]->written_usec = 0;
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

/* The rest of a turn of a scan, and the time of the next one. */
typedef struct Turn {
        uint64_t now_usec;
        uint64_t again_usec;
        size_t size; /* bytes that may still be read */
        bool is_partial;
} Turn;

static void turn_again(Turn *turn, uint64_t usec) {
        turn->again_usec = usec < turn->again_usec ? usec : turn->again_usec;
}

static int images_list_read_file(ImagesFile *file, int folder, Turn *turn) {
        uint64_t again_usec;
        size_t size;
        int r;

        r = images_file_read(file, folder, &size, &again_usec);
        if (r < 0)
                return r;

        /* The file may have been removed since it was listed. A link without a target was not. */
        if (file->new_error.kind == ERROR_NOT_FOUND)
                file->is_there = faccessat(folder, file->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;

        file->n_reads += size > 0;
        turn->size -= size < turn->size ? size : turn->size;
        if (again_usec > 0)
                turn_again(turn, turn->now_usec + again_usec);
        return 0;
}

/* Returns when a file that may not be closed counts as written; 0: it does. Of a file that was emptied before the
 * folder was watched, no event tells. */
static uint64_t images_file_quiet_usec(const ImagesFile *file, int folder, uint64_t now_usec) {
        struct stat status;

        if (file->written_usec != 0)
                return file->written_usec + QUIET_USEC;
        if (file->n_contents > 0 || fstatat(folder, file->name, &status, 0) < 0 ||
            !S_ISREG(status.st_mode) || status.st_size > 0 ||
            !is_recent(status.st_mtim, QUIET_USEC))
                return 0;

        return now_usec + QUIET_USEC - (uint64_t) age_usec(status.st_mtim);
}

static int images_list_scan_file(ImagesList *list, const char *name, int folder, Turn *turn) {
        uint64_t quiet_usec;
        ImagesFile *file;
        int r;

        r = images_list_get_or_add(list, name, &file);
        if (r < 0)
                return r;

        file->is_there = true;
        quiet_usec = images_file_quiet_usec(file, folder, turn->now_usec);
        if (turn->now_usec < quiet_usec) {
                turn_again(turn, quiet_usec);
                return 0;
        }

        file->written_usec = 0;
        if (file->n_reads >= READS_MAX) {
                turn_again(turn, turn->now_usec);
                return 0;
        }
        if (turn->size == 0 && images_file_is_outdated(file, folder)) {
                turn->is_partial = true;
                return 0;
        }

        return images_list_read_file(file, folder, turn);
}

static int images_list_scan_names(ImagesList *list, struct dirent **names, int n_names, int folder,
                                  Turn *turn) {
        int r = 0;

        for (size_t i = 0; i < list->n_files; i++)
                list->files[i]->is_there = false;
        for (int i = 0; r >= 0 && i < n_names; i++)
                r = images_list_scan_file(list, names[i]->d_name, folder, turn);
        return r;
}

static bool images_list_commit(ImagesList *list) {
        bool changed = images_list_sweep(list);

        for (size_t i = 0; i < list->n_files; i++)
                changed |= images_file_commit(list->files[i]);

        return changed;
}

int images_list_scan(ImagesList *list, int folder, uint64_t now_usec, size_t size,
                     uint64_t *ret_again_usec, Error *reterr) {
        Turn turn = { .now_usec = now_usec, .again_usec = UINT64_MAX, .size = size };
        struct dirent **names;
        int n_names, r;

        n_names = scandirat(folder, ".", &names, is_document_entry, compare_entries);
        if (n_names < 0)
                return errno == ENOMEM ? -ENOMEM
                                       : error_set(reterr, ERROR_UNAVAILABLE, "cannot be read: %s",
                                                   strerror(errno));

        r = images_list_scan_names(list, names, n_names, folder, &turn);
        for (int i = 0; i < n_names; i++)
                free(names[i]);
        free(names);
        if (r < 0)
                return r;

        *ret_again_usec = turn.is_partial ? now_usec : turn.again_usec;
        return turn.is_partial ? 0 : images_list_commit(list);
}

int images_list_clear(ImagesList *list) {
        for (size_t i = 0; i < list->n_files; i++)
                list->files[i]->is_there = false;

        return images_list_sweep(list);
}

void images_list_done(ImagesList *list) {
        (void) images_list_clear(list);
        free(list->files);
        *list = IMAGES_LIST_INIT;
}

/* When to scan. */

static uint64_t images_dir_now(ImagesDir *dir) {
        return loop_now_usec(dir->event);
}

/* Scans soon, but not before the rest is over. Every event delays the scan a little, up to a bound;
 * a complete file is read as soon as possible. */
static int images_dir_disturbed(ImagesDir *dir, bool is_complete) {
        uint64_t now = images_dir_now(dir), at = now, latest;

        if (dir->is_scanning)
                return 0;
        if (!is_complete) {
                if (dir->burst_usec == 0)
                        dir->burst_usec = now;
                latest = dir->burst_usec + SETTLE_MAX_USEC;
                at = now + SETTLE_USEC < latest ? now + SETTLE_USEC : latest;
        }

        return timer_start_at(&dir->settle, at > dir->rest_usec ? at : dir->rest_usec);
}

static int on_above(sd_event_source *source, const struct inotify_event *event, void *userdata) {
        ImagesDir *dir = userdata;

        if (event->mask & GONE_EVENTS)
                dir->above.is_stale = true;
        else if (event->len > 0 && strcmp(event->name, dir->name) != 0)
                return 0;

        return images_dir_disturbed(dir, false);
}

static int on_inside(sd_event_source *source, const struct inotify_event *event, void *userdata) {
        ImagesDir *dir = userdata;
        int r;

        if (event->mask & GONE_EVENTS)
                dir->inside.is_stale = true;
        if (event->mask & IN_Q_OVERFLOW)
                images_list_note_lost(&dir->list);

        if (event->len > 0 && event->mask & IN_MODIFY) {
                r = images_list_note_written(&dir->list, event->name, images_dir_now(dir));
                if (r < 0)
                        return r;
        } else if (event->len > 0 && event->mask & (IN_CLOSE_WRITE | IN_MOVE | IN_DELETE))
                images_list_note_closed(&dir->list, event->name);

        if (event->len > 0 && !images_list_is_document(event->name))
                return event->mask & FOLDER_EVENTS ? images_dir_disturbed(dir, false) : 0;

        return images_dir_disturbed(dir, event->mask & (IN_CLOSE_WRITE | IN_MOVED_TO));
}

static void watch_done(Watch *watch) {
        watch->source = sd_event_source_disable_unref(watch->source);
        *watch = (Watch){ .source = NULL };
}

/* Watches the folder behind fd from now on, instead of the former one. */
static int watch_folder(Watch *watch, ImagesDir *dir, int fd, uint32_t events,
                        sd_event_inotify_handler_t handler) {
        struct stat status;
        int r;

        if (fstat(fd, &status) < 0)
                return -errno;
        if (watch->source && !watch->is_stale && status.st_dev == watch->device &&
            status.st_ino == watch->inode)
                return 0;

        watch_done(watch);
        r = loop_add_inotify_fd(dir->event, &watch->source, fd, events, handler, dir);
        if (r < 0)
                return r;

        watch->device = status.st_dev;
        watch->inode = status.st_ino;
        return 0;
}

static int images_dir_watch_above(ImagesDir *dir) {
        cleanup(close_p) int fd = -1;

        fd = open(dir->parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) {
                watch_done(&dir->above);
                return -errno;
        }

        return watch_folder(&dir->above, dir, fd, FOLDER_EVENTS, on_above);
}

/* Scans the folder behind fd. Returns the result of images_list_scan(), or an error. */
static int images_dir_scan_inside(ImagesDir *dir, int fd, Error *reterr) {
        uint64_t again_usec, now = images_dir_now(dir);
        int r, k;

        /* Watch first, so that any change after the scan causes another one. */
        k = watch_folder(&dir->inside, dir, fd, CONTENT_EVENTS, on_inside);
        if (k == -ENOMEM)
                return k;

        r = images_list_scan(&dir->list, fd, now, dir->is_started ? TURN_SIZE : SIZE_MAX,
                             &again_usec, reterr);
        if (r < 0)
                return r;

        dir->is_scanning = again_usec == now;
        if (k < 0)
                (void) error_set(reterr, ERROR_UNAVAILABLE,
                                 "cannot be watched, and is read every %d s instead: %s",
                                 (int) (CHECK_MISSING_USEC / SEC), strerror(-k));

        if (dir->is_scanning)
                again_usec = clock_monotonic_usec() + PAUSE_USEC;
        if (again_usec != UINT64_MAX) {
                k = timer_start_at(&dir->settle, again_usec);
                if (k < 0)
                        return k;
        }

        return r;
}

static int images_dir_find(ImagesDir *dir, Error *reterr) {
        cleanup(close_p) int fd = -1;
        int r;

        r = images_dir_watch_above(dir);
        if (r == -ENOMEM)
                return r;

        fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
                return images_dir_scan_inside(dir, fd, reterr);

        r = errno;
        watch_done(&dir->inside);
        if (r == ENOENT || r == ENOTDIR) {
                (void) error_set(reterr, r == ENOENT ? ERROR_NOT_FOUND : ERROR_INVALID,
                                 "is missing: %s", strerror(r));
                return images_list_clear(&dir->list);
        }

        return error_set(reterr, r == EACCES ? ERROR_DENIED : ERROR_UNAVAILABLE,
                         "cannot be opened: %s", strerror(r));
}

/* Returns 1 if anything changed. */
static int images_dir_scan(ImagesDir *dir) {
        cleanup(error_done) Error error = ERROR_INIT;
        /* Less than the elapsed time on a busy machine. */
        int64_t used_nsec = clock_nsec(CLOCK_THREAD_CPUTIME_ID);
        bool changed;
        int r;

        dir->burst_usec = 0;
        dir->is_scanning = false;
        r = images_dir_find(dir, &error);
        used_nsec = clock_nsec(CLOCK_THREAD_CPUTIME_ID) - used_nsec;
        dir->rest_usec =
                clock_monotonic_usec() + REST_FACTOR * (uint64_t) (used_nsec / NSEC_PER_USEC);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        dir->was_read = dir->was_read || r >= 0;
        changed = r > 0 || !error_equal(&error, &dir->error);
        error_done(&dir->error);
        dir->error = error;
        error = ERROR_INIT;

        r = timer_start(&dir->check,
                        dir->error.kind == ERROR_NONE ? CHECK_USEC : CHECK_MISSING_USEC);
        return r < 0 ? r : changed;
}

static int on_time(void *userdata) {
        ImagesDir *dir = userdata;
        int r;

        r = images_dir_scan(dir);
        if (r <= 0)
                return r;

        return dir->changed(dir, dir->userdata);
}

/* Splits "/etc/images.d/" into "/etc/" and "images.d". */
static int images_dir_set_path(ImagesDir *dir, const char *path) {
        size_t size = strlen(path);
        const char *slash;

        while (size > 1 && path[size - 1] == '/')
                size--;

        dir->path = strndup(path, size);
        if (!dir->path)
                return -ENOMEM;

        slash = strrchr(dir->path, '/');
        dir->parent = slash ? strndup(dir->path, (size_t) (slash + 1 - dir->path)) : strdup(".");
        dir->name = strdup(slash ? slash + 1 : dir->path);
        return dir->parent && dir->name ? 0 : -ENOMEM;
}

int images_dir_new(sd_event *event, const char *path, ImagesDirChanged changed, void *userdata,
                   ImagesDir **ret) {
        cleanup(images_dir_free_p) ImagesDir *dir = NULL;
        int r;

        dir = malloc(sizeof(*dir));
        if (!dir)
                return -ENOMEM;

        *dir = (ImagesDir){
                .event = sd_event_ref(event),
                .changed = changed,
                .userdata = userdata,
                .list = IMAGES_LIST_INIT,
                .error = ERROR_INIT,
        };

        r = images_dir_set_path(dir, path);
        if (r < 0)
                return r;
        timer_init(&dir->settle, event, MSEC, on_time, dir);
        timer_init(&dir->check, event, SEC, on_time, dir);
        r = images_dir_scan(dir);
        if (r < 0)
                return r;

        dir->is_started = true;
        *ret = take_ptr(dir);
        return 0;
}

ImagesDir *images_dir_free(ImagesDir *dir) {
        if (!dir)
                return NULL;

        watch_done(&dir->inside);
        watch_done(&dir->above);
        timer_done(&dir->check);
        timer_done(&dir->settle);
        images_list_done(&dir->list);
        error_done(&dir->error);
        free(dir->name);
        free(dir->parent);
        free(dir->path);
        sd_event_unref(dir->event);
        free(dir);
        return NULL;
}

int images_dir_rescan(ImagesDir *dir) {
        return timer_start_at(&dir->settle, 0);
}

size_t images_dir_get_n_files(const ImagesDir *dir) {
        return dir->list.n_files;
}

const ImagesFile *images_dir_get_file(const ImagesDir *dir, size_t i) {
        return dir->list.files[i];
}

bool images_dir_was_read(const ImagesDir *dir) {
        return dir->was_read;
}

const Error *images_dir_get_error(const ImagesDir *dir) {
        return &dir->error;
}
