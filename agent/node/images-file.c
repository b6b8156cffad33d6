/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/images-file.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json_object.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/image/image-spec.h"
#include "agent/document/documents.h"

/* A file that changes twice within a tick of the kernel's clock looks the same afterwards. */
#define TICK_USEC ((int64_t) 10000)
#define AGAIN_AFTER_TICK_USEC ((uint64_t) 20000)
#define AGAIN_AFTER_WRITE_USEC ((uint64_t) 1000000)

DEFINE_CLEANUP(ImagesFile *, images_file_free)

/* Objects take many times the size of their text. Once they are gone the heap keeps the memory,
 * which nothing needs again for as long as nobody changes the file. */
#define LARGE_SIZE ((off_t) 64 << 10)

static FileStamp stamp_of(const struct stat *status) {
        return (FileStamp){
                .device = status->st_dev,
                .inode = status->st_ino,
                .size = status->st_size,
                .modified = status->st_mtim,
                .changed = status->st_ctim,
        };
}

static bool equal_times(struct timespec a, struct timespec b) {
        return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool equal_stamps(const FileStamp *a, const FileStamp *b) {
        return a->device == b->device && a->inode == b->inode && a->size == b->size &&
               equal_times(a->modified, b->modified) && equal_times(a->changed, b->changed);
}

static bool is_recent(struct timespec time) {
        struct timespec now;
        int64_t age_usec;

        clock_gettime(CLOCK_REALTIME, &now);
        age_usec = (int64_t) (now.tv_sec - time.tv_sec) * 1000000 +
                   (now.tv_nsec - time.tv_nsec) / 1000;
        return age_usec >= 0 && age_usec < TICK_USEC;
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

/* Returns the number of bytes, which is less than the size of the buffer unless that was full. */
static ssize_t read_all(int fd, char *buffer, size_t size) {
        size_t n_read = 0;

        while (n_read < size) {
                ssize_t n = read(fd, buffer + n_read, size - n_read);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                n_read += (size_t) n;
        }

        return (ssize_t) n_read;
}

/* Returns 0 if the wishes of one document were added. */
static int add_wishes(WishList *all, struct json_object *document, Error *reterr) {
        cleanup(wish_list_done) WishList wishes = WISH_LIST_INIT;
        int r;

        r = image_spec_parse(document, &wishes, reterr);

        for (size_t i = 0; r >= 0 && i < wishes.n_items; i++)
                r = wish_list_take(all, &wishes.items[i]);

        return r;
}

static int parse_wishes(const Documents *documents, WishList *ret, Error *reterr) {
        cleanup(wish_list_done) WishList all = WISH_LIST_INIT;
        int r;

        for (size_t i = 0; i < documents->n_items; i++) {
                cleanup(error_done) Error error = ERROR_INIT;

                r = add_wishes(&all, documents->items[i], &error);
                if (r < 0 && error.kind != ERROR_NONE && documents->n_items > 1)
                        return error_set(reterr, error.kind, "document %zu: %s", i + 1,
                                         error_message(&error));
                if (r < 0 && error.kind != ERROR_NONE)
                        return error_set(reterr, error.kind, "%s", error_message(&error));
                if (r < 0)
                        return r;
        }

        *ret = all;
        all = WISH_LIST_INIT;
        return 0;
}

static int take_content(ImagesFile *file, const char *text, size_t size, Error *reterr) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        WishList wishes = WISH_LIST_INIT;
        int r;

        r = documents_parse(text, size, &documents, reterr);
        if (r < 0)
                return r;
        r = parse_wishes(&documents, &wishes, reterr);
        if (r < 0)
                return r;

        wish_list_done(&file->new_wishes);
        file->new_wishes = wishes;
        file->new_n_documents = documents.n_items;
        file->has_new_content = true;
        return 0;
}

/* Reads and takes the content, and remembers which one it was. Sets *ret_again_usec and takes
 * nothing if the file changed meanwhile. */
static int load_fd(ImagesFile *file, int fd, uint64_t *ret_again_usec, Error *reterr) {
        cleanup(free_p) char *text = NULL;
        FileStamp stamp, stamp_after;
        struct stat status;
        ssize_t size;
        int r;

        if (fstat(fd, &status) < 0)
                return refuse_errno(reterr, errno);
        r = check_regular(&status, reterr);
        if (r < 0)
                return r;

        stamp = stamp_of(&status);
        if ((size_t) status.st_size > DOCUMENTS_SIZE_MAX) {
                file->stamp = stamp;
                return error_set(reterr, ERROR_INVALID, "is larger than %zu MiB",
                                 DOCUMENTS_SIZE_MAX >> 20);
        }

        text = malloc((size_t) status.st_size + 1);
        if (!text)
                return -ENOMEM;

        size = read_all(fd, text, (size_t) status.st_size + 1);
        if (size < 0)
                return refuse_errno(reterr, (int) -size);
        if (fstat(fd, &status) < 0)
                return refuse_errno(reterr, errno);

        stamp_after = stamp_of(&status);
        if (size != stamp.size || !equal_stamps(&stamp, &stamp_after)) {
                *ret_again_usec = AGAIN_AFTER_WRITE_USEC;
                return 0;
        }

        if (is_recent(stamp.changed))
                *ret_again_usec = AGAIN_AFTER_TICK_USEC;
        else
                file->stamp = stamp;
        return take_content(file, text, (size_t) size, reterr);
}

/* Opening a device can do something, so it is looked at before, and because it may be another file
 * by then, again afterwards. */
static int load(ImagesFile *file, int folder, uint64_t *ret_again_usec, Error *reterr) {
        cleanup(close_p) int fd = -1;

        fd = openat(folder, file->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return refuse_errno(reterr, errno);

        return load_fd(file, fd, ret_again_usec, reterr);
}

static bool equal_errors(const Error *a, const Error *b) {
        return a->kind == b->kind && strcmp(error_message(a), error_message(b)) == 0;
}

int images_file_look(ImagesFile *file, int folder, uint64_t *ret_again_usec) {
        cleanup(error_done) Error error = ERROR_INIT;
        FileStamp stamp;
        struct stat status;
        int r;

        *ret_again_usec = 0;

        if (fstatat(folder, file->name, &status, 0) < 0)
                r = refuse_errno(&error, errno);
        else {
                stamp = stamp_of(&status);
                if (equal_stamps(&stamp, &file->stamp))
                        return 0;

                r = check_regular(&status, &error);
        }

        file->stamp = (FileStamp){ .size = 0 };
        if (r >= 0) {
                r = load(file, folder, ret_again_usec, &error);
                if (status.st_size >= LARGE_SIZE)
                        (void) malloc_trim(0);
        }
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (*ret_again_usec == AGAIN_AFTER_WRITE_USEC)
                return 0;

        error_done(&file->new_error);
        file->new_error = error;
        error = ERROR_INIT;
        file->has_news = true;
        return 0;
}

bool images_file_take_news(ImagesFile *file) {
        bool is_same;

        if (!file->has_news)
                return false;

        is_same = !file->has_new_content && file->new_error.kind != ERROR_NONE &&
                  equal_errors(&file->new_error, &file->error);
        if (file->has_new_content) {
                wish_list_done(&file->wishes);
                file->wishes = file->new_wishes;
                file->new_wishes = WISH_LIST_INIT;
                file->n_documents = file->new_n_documents;
                file->n_contents++;
        }

        error_done(&file->error);
        file->error = file->new_error;
        file->new_error = ERROR_INIT;
        file->has_news = file->has_new_content = false;
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

        error_done(&file->new_error);
        wish_list_done(&file->new_wishes);
        error_done(&file->error);
        wish_list_done(&file->wishes);
        free(file->name);
        free(file);
        return NULL;
}
