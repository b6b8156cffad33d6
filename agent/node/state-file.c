/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/state-file.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/file.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"

#define FILE_NAME "nodeimage.json"
#define FILE_SIZE_MAX ((off_t) 64 << 20)
#define FILE_MODE 0640 /* only for root: it shows images of this node and their errors */

/* Pause between two writes, in multiples of the first one's duration. */
#define PAUSE_FACTOR 10
#define PAUSE_USEC_MAX ((uint64_t) 500 * 1000)
#define RETRY_USEC ((uint64_t) 5 * 1000000) /* pause after a failure, such as a full disk */

struct StateFile {
        sd_event *event;
        Log *log;
        Metrics *metrics;
        Images *images;
        ImagesWatcher watcher;
        char *path;
        char *temporary;
        char *node_name;
        StateFileRuntime get_runtime;
        void *userdata;

        Timer timer;
        bool is_due;
        uint64_t earliest_usec; /* earliest time of the next write */
        Error error;
};

DEFINE_CLEANUP(StateFile *, state_file_free)
DEFINE_CLEANUP(FILE *, fclose)

static int state_file_write_temporary(StateFile *file) {
        cleanup(fclose_p) FILE *stream = NULL;
        const NodeImageOptions options = {
                .images = file->images,
                .node_name = file->node_name,
                .runtime = file->get_runtime(file->userdata),
        };
        int fd, r;

        r = file_create(file->temporary, FILE_MODE, &fd);
        if (r < 0)
                return r;

        stream = fdopen(fd, "w");
        if (!stream) {
                close_p(&fd);
                return -ENOMEM;
        }

        errno = 0;
        r = node_image_write(&options, stream);
        if (r == -EIO || fflush(stream) != 0)
                return errno > 0 ? -errno : -EIO;

        /* The next run would start without it: an older one that can be read is worth more. */
        return r < 0 || ftello(stream) <= FILE_SIZE_MAX ? r : -EFBIG;
}

static int state_file_replace(StateFile *file) {
        int r;

        r = state_file_write_temporary(file);
        if (r < 0)
                return r;

        return rename(file->temporary, file->path) < 0 ? -errno : 0;
}

static uint64_t pause_after(uint64_t duration_usec) {
        uint64_t pause = PAUSE_FACTOR * duration_usec;

        return pause < PAUSE_USEC_MAX ? pause : PAUSE_USEC_MAX;
}

/* Logs a failure to write once, and its end. */
static void state_file_note(StateFile *file, int result) {
        bool was_broken = file->error.kind != ERROR_NONE;

        error_done(&file->error);
        if (result < 0)
                (void) error_set(&file->error, ERROR_UNAVAILABLE, "cannot be written: %s",
                                 strerror(-result));
        if (result < 0 && !was_broken)
                log_error(file->log, NULL, "Cannot write \"%s\": %s, retrying every 5 s.",
                          file->path, strerror(-result));
        if (result >= 0 && was_broken)
                log_info(file->log, NULL, "Wrote \"%s\" again.", file->path);
        metrics_count(file->metrics, METRIC_STATUS_WRITES, result >= 0);
        if (result >= 0)
                metrics_set(file->metrics, METRIC_STATUS_LAST_WRITE, NULL, (double) time(NULL));
}

static int state_file_write(StateFile *file) {
        uint64_t started = clock_monotonic_usec(), ended;
        int r;

        file->is_due = false;
        r = state_file_replace(file);
        if (r == -ENOMEM)
                return r;

        ended = clock_monotonic_usec();
        state_file_note(file, r);
        if (r >= 0) {
                file->earliest_usec = ended + pause_after(ended - started);
                return 0;
        }

        file->is_due = true;
        return timer_start_at(&file->timer, ended + RETRY_USEC);
}

int state_file_write_now(StateFile *file) {
        timer_stop(&file->timer);
        return state_file_write(file);
}

static int on_due(void *userdata) {
        return state_file_write(userdata);
}

int state_file_touch(StateFile *file) {
        uint64_t now = clock_monotonic_usec();

        if (file->is_due)
                return 0;

        file->is_due = true;
        return timer_start_at(&file->timer, now > file->earliest_usec ? now : file->earliest_usec);
}

/* The file does not have every step of a pull. */
static int on_image(Image *image, void *userdata) {
        uint64_t shown = node_image_fingerprint(image);

        if (image_marks(image)->file_fingerprint == shown)
                return 0;

        image_marks(image)->file_fingerprint = shown;
        return state_file_touch(userdata);
}

static int read_whole(const char *path, char **ret, size_t *ret_size) {
        cleanup(close_p) int fd = -1;
        cleanup(free_p) char *text = NULL;
        struct stat status;
        ssize_t size;
        int r;

        r = file_open(path, &status, &fd);
        if (r < 0)
                return r;
        if (status.st_size > FILE_SIZE_MAX)
                return -EFBIG;

        text = malloc((size_t) status.st_size + 1);
        if (!text)
                return -ENOMEM;

        size = file_read(fd, text, (size_t) status.st_size);
        if (size < 0)
                return (int) size;

        *ret = take_ptr(text);
        *ret_size = (size_t) size;
        return 0;
}

static int state_file_restore(StateFile *file, NodeImageLacks lacks) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *text = NULL;
        size_t size = 0;
        int r;

        r = read_whole(file->path, &text, &size);
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                if (r != -ENOENT && r != -ENOTDIR) /* the first write logs the latter */
                        log_warning(file->log, NULL, "Cannot read \"%s\": %s, starting without it.",
                                    file->path, strerror(-r));
                return 0;
        }

        r = node_image_restore(file->images, text, size, lacks, file->userdata, &error);
        if (error.kind != ERROR_NONE)
                log_warning(file->log, NULL, "Cannot understand \"%s\": %s, starting without %s.",
                            file->path, error_message(&error), r < 0 ? "it" : "that part");
        else if (r < 0)
                return r;

        free(take_ptr(text));
        (void) malloc_trim(0); /* the parsed text took many times its size */
        return 0;
}

int state_file_new(const StateFileOptions *options, StateFile **ret) {
        cleanup(state_file_free_p) StateFile *file = NULL;
        int r;

        file = malloc(sizeof(*file));
        if (!file)
                return -ENOMEM;

        *file = (StateFile){
                .event = options->event,
                .log = options->log,
                .metrics = options->metrics,
                .images = options->images,
                .watcher = { .on_image = on_image, .userdata = file },
                .node_name = strdup(options->node_name),
                .get_runtime = options->get_runtime,
                .userdata = options->userdata,
        };
        if (text_format(&file->path, "%s/" FILE_NAME, options->directory) < 0 ||
            text_format(&file->temporary, "%s/." FILE_NAME ".new", options->directory) < 0 ||
            !file->node_name)
                return -ENOMEM;

        timer_init(&file->timer, file->event, 1, on_due, file);
        images_watch(file->images, &file->watcher);
        r = state_file_restore(file, options->lacks);
        if (r < 0)
                return r;

        *ret = take_ptr(file);
        return 0;
}

StateFile *state_file_free(StateFile *file) {
        int r = 0;

        if (!file)
                return NULL;

        /* The restored state is incomplete if the agent could not start. */
        if (file->is_due && sd_event_get_state(file->event) != SD_EVENT_INITIAL)
                r = state_file_replace(file);
        if (r < 0)
                log_error(file->log, NULL, "Cannot write \"%s\": %s.", file->path, strerror(-r));
        images_unwatch(file->images, &file->watcher);
        timer_done(&file->timer);
        error_done(&file->error);
        free(file->temporary);
        free(file->node_name);
        free(file->path);
        free(file);
        return NULL;
}

const char *state_file_path(const StateFile *file) {
        return file->path;
}

const Error *state_file_get_error(const StateFile *file) {
        return &file->error;
}
