/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/access-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/file.h"
#include "agent/document/documents.h"
#include "agent/kube/access-text.h"

#define BLANKS " \t\r\n"

/* Two changes within one tick of the kernel's clock cannot be told apart. */
#define TICK_NSEC ((int64_t) 20 * 1000000)

static const off_t sizes_max[_ACCESS_FILE_KIND_MAX] = {
        [ACCESS_FILE_PEM] = 1 << 20,
        [ACCESS_FILE_TOKEN] = 64 << 10,
        [ACCESS_FILE_DOCUMENT] = (off_t) DOCUMENTS_SIZE_MAX,
};

int access_file_init(AccessFile *file, AccessFileKind kind, const char *path) {
        *file = (AccessFile){ .kind = kind };
        if (!path)
                return 0;

        file->path = strdup(path);
        return file->path ? 0 : -ENOMEM;
}

void access_file_done(AccessFile *file) {
        free(file->path);
        access_text_done(&file->text);
        error_done(&file->trouble);
        *file = ACCESS_FILE_INIT;
}

void access_file_forget(AccessFile *file) {
        file->is_known = false;
}

static bool is_same_time(const struct timespec *one, const struct timespec *other) {
        return one->tv_sec == other->tv_sec && one->tv_nsec == other->tv_nsec;
}

static bool is_same(const struct stat *one, const struct stat *other) {
        return one->st_dev == other->st_dev && one->st_ino == other->st_ino &&
               one->st_size == other->st_size && is_same_time(&one->st_mtim, &other->st_mtim) &&
               is_same_time(&one->st_ctim, &other->st_ctim);
}

/* It may be written again without its times showing it. */
static bool is_just_changed(const struct stat *status) {
        const struct timespec *changed = &status->st_ctim;
        struct timespec now;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec > changed->tv_sec + 1 || now.tv_sec < changed->tv_sec)
                return now.tv_sec < changed->tv_sec;

        return (now.tv_sec - changed->tv_sec) * 1000000000 + now.tv_nsec - changed->tv_nsec <
               TICK_NSEC;
}

static int refuse_file(const AccessFile *file, int number, Error *reterr) {
        return error_set(reterr, number == EACCES || number == EPERM ? ERROR_DENIED : ERROR_INVALID,
                         "%s: %s", file->path, strerror(number));
}

static int refuse_text(const AccessFile *file, const char *why, Error *reterr) {
        return error_set(reterr, ERROR_INVALID, "%s: %s", file->path, why);
}

/* *ret_size: what was there, which may have become less since its size was asked. */
static int read_all(const AccessFile *file, int fd, size_t size, char **ret, size_t *ret_size,
                    Error *reterr) {
        cleanup(free_p) char *text = NULL;
        size_t n_read = 0;

        text = malloc(size + 1);
        if (!text)
                return -ENOMEM;

        while (n_read < size) {
                ssize_t n = read(fd, text + n_read, size - n_read);

                if (n < 0) {
                        int number = errno;

                        explicit_bzero(text, n_read);
                        return refuse_file(file, number, reterr);
                }
                if (n == 0)
                        break;
                n_read += (size_t) n;
        }

        text[n_read] = '\0';
        *ret = take_ptr(text);
        *ret_size = n_read;
        return 0;
}

static void trim(char *text) {
        size_t start = strspn(text, BLANKS), size = strlen(text);

        while (size > start && strchr(BLANKS, text[size - 1]))
                size--;
        memmove(text, text + start, size - start);
        explicit_bzero(text + size - start, start);
        text[size - start] = '\0';
}

static int check(const AccessFile *file, char *text, Error *reterr) {
        if (file->kind == ACCESS_FILE_TOKEN)
                trim(text);

        if (text[0] == '\0')
                return refuse_text(file, "is empty", reterr);
        if (file->kind == ACCESS_FILE_TOKEN && !access_text_is_line(text))
                return refuse_text(file, "has a control character in its token", reterr);
        if (file->kind == ACCESS_FILE_PEM && !access_text_is_pem(text))
                return refuse_text(file, "is not PEM", reterr);
        return 0;
}

static int read_now(AccessFile *file, char **ret, Error *reterr) {
        cleanup(access_text_done) char *text = NULL;
        cleanup(close_p) int fd = -1;
        size_t size;
        int r;

        r = file_open(file->path, &file->status, &fd);
        if (r == -EINVAL)
                return refuse_text(file, "is not a file", reterr);
        if (r < 0)
                return refuse_file(file, -r, reterr);

        file->is_known = !is_just_changed(&file->status);
        if (file->status.st_size > sizes_max[file->kind])
                return refuse_text(file, "is too large", reterr);

        r = read_all(file, fd, (size_t) file->status.st_size, &text, &size, reterr);
        if (r < 0)
                return r;
        if (strlen(text) != size) {
                explicit_bzero(text, size);
                return refuse_text(file, "has a NUL in it", reterr);
        }
        r = check(file, text, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(text);
        return 0;
}

/* The trouble decides only if there is nothing to go on with. */
static int report(const AccessFile *file, Error *reterr) {
        if (file->text || file->trouble.kind == ERROR_NONE)
                return 0;

        return error_copy(reterr, &file->trouble);
}

int access_file_read(AccessFile *file, Error *reterr) {
        cleanup(access_text_done) char *text = NULL;
        struct stat status;
        int r;

        if (!file->path)
                return 0;
        if (file->is_known && stat(file->path, &status) == 0 && is_same(&status, &file->status))
                return report(file, reterr);

        file->is_known = false;
        error_done(&file->trouble);
        r = read_now(file, &text, &file->trouble);
        if (file->trouble.kind != ERROR_NONE)
                return report(file, reterr);
        if (r < 0)
                return r;
        if (file->text && strcmp(file->text, text) == 0)
                return 0;

        access_text_done(&file->text);
        file->text = take_ptr(text);
        return 1;
}
