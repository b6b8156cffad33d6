/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/stop-journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/file.h"
#include "agent/base/text.h"
#include "agent/pod/stop-journal-spec.h"

#define FILE_NAME "stops.json"
#define FILE_SIZE_MAX (2 << 20)
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define WEEK_SEC ((int64_t) 7 * 24 * 60 * 60)

struct StopJournal {
        char *path;
        char *temporary;
        StopEntries entries; /* records in the order of their last change */
};

DEFINE_CLEANUP(StopJournal *, stop_journal_free)

void stop_clock_read(StopClock *ret) {
        cleanup(close_p) int fd = -1;
        struct timespec now;
        ssize_t n;

        *ret = (StopClock){ .wall_sec = (int64_t) time(NULL) };
        if (clock_gettime(CLOCK_BOOTTIME, &now) < 0)
                return;

        ret->uptime_sec = (int64_t) now.tv_sec;
        fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, ret->boot_id, sizeof(ret->boot_id) - 1);
        ret->boot_id[n > 0 ? n : 0] = '\0';
        ret->boot_id[strcspn(ret->boot_id, "\n")] = '\0';
}

static bool is_over(const StopRecord *record, int64_t now_sec) {
        return !stop_record_is_open(record) && record->changed_sec < now_sec - WEEK_SEC;
}

/* Returns the oldest record that has ended, or the oldest one. */
static size_t find_dispensable(const StopEntries *entries) {
        for (size_t i = 0; i < entries->n_items; i++)
                if (!stop_record_is_open(&entries->items[i].record))
                        return i;

        return 0;
}

static void journal_prune(StopJournal *journal, int64_t now_sec) {
        StopEntries *entries = &journal->entries;

        for (size_t i = entries->n_items; i-- > 0;)
                if (is_over(&entries->items[i].record, now_sec))
                        stop_entries_remove(entries, i);
        while (entries->n_items > STOP_RECORDS_MAX)
                stop_entries_remove(entries, find_dispensable(entries));
}

static int refuse(const StopJournal *journal, const char *why, Error *reterr) {
        return error_set(reterr, ERROR_INVALID, "%s: %s", journal->path, why);
}

/* Refuses a file of another user: its writer decides which containers are stopped. */
static int check_file(const StopJournal *journal, const struct stat *status, Error *reterr) {
        if (!S_ISREG(status->st_mode))
                return refuse(journal, "not a file", reterr);
        if (status->st_uid != 0 && status->st_uid != geteuid())
                return error_set(reterr, ERROR_INVALID,
                                 "%s: belongs to user %u, neither to root nor to the agent",
                                 journal->path, (unsigned) status->st_uid);
        if ((status->st_mode & 022) != 0)
                return error_set(reterr, ERROR_INVALID,
                                 "%s: users other than its owner may write to it (mode %04o)",
                                 journal->path, (unsigned) status->st_mode & 07777);
        if (status->st_size > FILE_SIZE_MAX)
                return refuse(journal, "larger than 2 MiB", reterr);
        return 0;
}

/* *ret_size is SIZE_MAX if there is no file. */
static int read_file(const StopJournal *journal, char **ret, size_t *ret_size, Error *reterr) {
        cleanup(close_p) int fd = -1;
        cleanup(free_p) char *text = NULL;
        struct stat status;
        ssize_t n;
        int r;

        fd = open(journal->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
                *ret_size = SIZE_MAX;
                return 0;
        }
        if (fd < 0 || fstat(fd, &status) < 0)
                return refuse(journal, strerror(errno), reterr);

        r = check_file(journal, &status, reterr);
        if (r < 0)
                return r;

        text = malloc((size_t) status.st_size + 1);
        if (!text)
                return -ENOMEM;

        n = read(fd, text, (size_t) status.st_size);
        if (n < 0)
                return refuse(journal, strerror(errno), reterr);

        *ret_size = (size_t) n;
        *ret = take_ptr(text);
        return 0;
}

static int journal_read(StopJournal *journal, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *text = NULL;
        size_t size = SIZE_MAX;
        int r;

        r = read_file(journal, &text, &size, reterr);
        if (r < 0 || size == SIZE_MAX)
                return r;

        r = stop_journal_spec_parse(text, size, &journal->entries, &error);
        if (r < 0 && error.kind != ERROR_NONE)
                return refuse(journal, error_message(&error), reterr);
        return r;
}

static int write_text(int fd, const char *text, size_t size) {
        while (size > 0) {
                ssize_t n = write(fd, text, size);

                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0) {
                        text += n;
                        size -= (size_t) n;
                }
        }

        return 0;
}

static int replace_file(const StopJournal *journal, const char *text, size_t size) {
        cleanup(close_p) int fd = -1;
        int r;

        r = file_create(journal->temporary, 0600, &fd);
        if (r < 0)
                return r;

        r = write_text(fd, text, size);
        if (r < 0)
                return r;

        return rename(journal->temporary, journal->path) < 0 ? -errno : 0;
}

static int journal_write(StopJournal *journal, Error *reterr) {
        cleanup(free_p) char *text = NULL;
        size_t size;
        int r;

        r = stop_journal_spec_format(&journal->entries, &text, &size);
        if (r < 0)
                return r;

        r = replace_file(journal, text, size);
        if (r < 0)
                return error_set(reterr, ERROR_UNAVAILABLE, "%s: cannot write it: %s",
                                 journal->path, strerror(-r));
        return 0;
}

int stop_journal_new(const char *state_dir, StopJournal **ret, Error *reterr) {
        cleanup(stop_journal_free_p) StopJournal *journal = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        journal = calloc(1, sizeof(*journal));
        if (!journal)
                return -ENOMEM;

        if (text_format(&journal->path, "%s/" FILE_NAME, state_dir) < 0 ||
            text_format(&journal->temporary, "%s/." FILE_NAME ".new", state_dir) < 0)
                return -ENOMEM;

        r = journal_read(journal, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        if (error.kind != ERROR_NONE)
                (void) error_copy(reterr, &error);
        journal_prune(journal, (int64_t) time(NULL));
        *ret = take_ptr(journal);
        return 0;
}

StopJournal *stop_journal_free(StopJournal *journal) {
        if (!journal)
                return NULL;

        stop_entries_done(&journal->entries);
        free(journal->path);
        free(journal->temporary);
        free(journal);
        return NULL;
}

const StopRecord *stop_journal_find(const StopJournal *journal, const char *owner,
                                    const char *container_id) {
        size_t i = stop_entries_find(&journal->entries, owner, container_id);

        return i < journal->entries.n_items ? &journal->entries.items[i].record : NULL;
}

size_t stop_journal_count(const StopJournal *journal) {
        return journal->entries.n_items;
}

const StopRecord *stop_journal_get(const StopJournal *journal, size_t i) {
        return &journal->entries.items[i].record;
}

int stop_journal_set(StopJournal *journal, const StopRecord *record, Error *reterr) {
        StopEntries *entries = &journal->entries;
        bool is_known;
        size_t i;
        int r;

        if (!stop_journal_can_name(record->owner) || !stop_journal_can_name(record->container_id))
                return error_set(reterr, ERROR_INVALID,
                                 "neither an owner nor a container can have that name");

        i = stop_entries_find(entries, record->owner, record->container_id);
        is_known = i < entries->n_items;
        if (!is_known && record->phase == STOP_PHASE_NONE)
                return 0;

        if (record->phase != STOP_PHASE_NONE) {
                r = stop_entries_add(entries, record);
                if (r < 0)
                        return r;
        }
        if (is_known)
                stop_entries_remove(entries, i);

        journal_prune(journal, record->changed_sec);
        return journal_write(journal, reterr);
}
