/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/images-dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/node/images-list.h"

#define MSEC ((uint64_t) 1000)
#define SEC ((uint64_t) 1000000)

#define SETTLE_USEC (20 * MSEC)      /* after the last event of a burst ... */
#define REST_FACTOR 10               /* times the duration of a look: between two of them */
#define SETTLE_MAX_USEC (200 * MSEC) /* ... but this long after the first */
#define LOOK_USEC (50 * MSEC)        /* at once; the rest of it when others had their turn */
#define CHECK_USEC (60 * SEC)        /* what links point to is not watched */
#define CHECK_MISSING_USEC (2 * SEC)

#define FOLDER_EVENTS \
        (IN_CREATE | IN_DELETE | IN_MOVE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define CONTENT_EVENTS (FOLDER_EVENTS | IN_MODIFY | IN_CLOSE_WRITE)

/* After these the watch may be dead, even if a new folder has the inode of the old one. */
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
        char *name; /* in the parent */
        ImagesDirChanged changed;
        void *userdata;

        Watch above;             /* of the parent: the folder may be a link, or missing */
        Watch inside;            /* of the folder */
        sd_event_source *settle; /* the next look because of an event */
        sd_event_source *check;  /* the next look without one */
        uint64_t burst_usec;     /* when the first event came that no look has answered yet */
        uint64_t rested_usec;    /* when the last look is far enough back for another one */
        bool has_looked;         /* to the end, once */

        ImagesList list;
        Error error;
};

DEFINE_CLEANUP(ImagesDir *, images_dir_free)

static uint64_t images_dir_now(ImagesDir *dir) {
        uint64_t now = 0;

        (void) sd_event_now(dir->event, CLOCK_MONOTONIC, &now);
        return now;
}

static int images_dir_look_at(ImagesDir *dir, uint64_t usec) {
        int r;

        r = sd_event_source_set_time(dir->settle, usec);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(dir->settle, SD_EVENT_ONESHOT);
}

/* Looks soon. Every event puts it off a little, up to a bound; but a file that is complete is looked
 * at as soon as may be: somebody waits for it. */
static int images_dir_disturbed(ImagesDir *dir, bool is_complete) {
        uint64_t now = images_dir_now(dir);
        uint64_t latest;

        images_list_note_change(&dir->list);
        if (is_complete)
                return images_dir_look_at(dir, now > dir->rested_usec ? now : dir->rested_usec);
        if (dir->burst_usec == 0)
                dir->burst_usec = now;

        latest = dir->burst_usec + SETTLE_MAX_USEC;
        return images_dir_look_at(dir, now + SETTLE_USEC < latest ? now + SETTLE_USEC : latest);
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

/* Watches the folder behind fd from now on, instead of what was watched before. */
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

/* Looks at the folder behind fd. Returns what images_list_look() returns, or a refusal. */
static int images_dir_look_inside(ImagesDir *dir, int fd, Error *reterr) {
        uint64_t until_usec = dir->has_looked ? clock_monotonic_usec() + LOOK_USEC : UINT64_MAX;
        uint64_t again_usec, now = images_dir_now(dir);
        int r, k;

        /* Watch first: what happens after the look causes another one. */
        k = watch_folder(&dir->inside, dir, fd, CONTENT_EVENTS, on_inside);
        if (k == -ENOMEM)
                return k;

        r = images_list_look(&dir->list, fd, now, until_usec, &again_usec, reterr);
        if (r < 0)
                return r;

        if (k < 0)
                (void) error_set(reterr, ERROR_UNAVAILABLE,
                                 "cannot be watched, and is looked at every %d s instead: %s",
                                 (int) (CHECK_MISSING_USEC / SEC), strerror(-k));

        if (again_usec != UINT64_MAX) {
                k = images_dir_look_at(dir, again_usec);
                if (k < 0)
                        return k;
        }

        return r;
}

static int images_dir_look_for_folder(ImagesDir *dir, Error *reterr) {
        cleanup(close_p) int fd = -1;
        int r;

        r = images_dir_watch_above(dir);
        if (r == -ENOMEM)
                return r;

        fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
                return images_dir_look_inside(dir, fd, reterr);

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

static bool equal_errors(const Error *a, const Error *b) {
        return a->kind == b->kind && strcmp(error_message(a), error_message(b)) == 0;
}

/* Returns 1 if anything is different now. */
static int images_dir_look(ImagesDir *dir) {
        cleanup(error_done) Error error = ERROR_INIT;
        bool changed;
        int r;

        uint64_t began = clock_monotonic_usec();

        dir->burst_usec = 0;
        r = images_dir_look_for_folder(dir, &error);
        dir->rested_usec = clock_monotonic_usec() + REST_FACTOR * (clock_monotonic_usec() - began);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        changed = r > 0 || !equal_errors(&error, &dir->error);
        error_done(&dir->error);
        dir->error = error;
        error = ERROR_INIT;

        r = sd_event_source_set_time_relative(dir->check, dir->error.kind == ERROR_NONE
                                                                  ? CHECK_USEC
                                                                  : CHECK_MISSING_USEC);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(dir->check, SD_EVENT_ONESHOT);
        if (r < 0)
                return r;

        return changed;
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
        ImagesDir *dir = userdata;
        int r;

        r = images_dir_look(dir);
        if (r <= 0)
                return r;

        return dir->changed(dir, dir->userdata);
}

static int images_dir_add_timer(ImagesDir *dir, uint64_t accuracy_usec, sd_event_source **ret) {
        return loop_add_time(dir->event, ret, CLOCK_MONOTONIC, UINT64_MAX, accuracy_usec, on_time,
                             dir);
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
        r = images_dir_add_timer(dir, MSEC, &dir->settle);
        if (r < 0)
                return r;
        r = images_dir_add_timer(dir, SEC, &dir->check);
        if (r < 0)
                return r;

        r = images_dir_look(dir);
        if (r < 0)
                return r;

        dir->has_looked = true;
        *ret = take_ptr(dir);
        return 0;
}

ImagesDir *images_dir_free(ImagesDir *dir) {
        if (!dir)
                return NULL;

        watch_done(&dir->inside);
        watch_done(&dir->above);
        sd_event_source_disable_unref(dir->check);
        sd_event_source_disable_unref(dir->settle);
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
        images_list_note_change(&dir->list);
        return images_dir_look_at(dir, 0);
}

size_t images_dir_get_n_files(const ImagesDir *dir) {
        return dir->list.n_files;
}

const ImagesFile *images_dir_get_file(const ImagesDir *dir, size_t i) {
        return dir->list.files[i];
}

const Error *images_dir_get_error(const ImagesDir *dir) {
        return &dir->error;
}
