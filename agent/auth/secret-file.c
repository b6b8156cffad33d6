/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/secret-file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"
#include "agent/base/file.h"

void secret_file_done(SecretFile *file) {
        if (file->text)
                explicit_bzero(file->text, file->size);
        free(file->text);
        *file = SECRET_FILE_INIT;
}

static int refuse(Error *reterr, const char *path, const char *why) {
        return error_set(reterr, ERROR_INVALID, "%s: %s", path, why);
}

static int refuse_errno(Error *reterr, const char *path, int number) {
        ErrorKind kind = number == ENOENT || number == ENOTDIR ? ERROR_NOT_FOUND
                         : number == EACCES || number == EPERM ? ERROR_DENIED
                                                               : ERROR_UNAVAILABLE;

        return error_set(reterr, kind, "%s: %s", path, strerror(number));
}

static int check(const char *path, const struct stat *status, Error *reterr) {
        if (status->st_size == 0)
                return refuse(reterr, path, "empty");
        if (status->st_size > SECRET_FILE_SIZE_MAX)
                return refuse(reterr, path, "larger than 1 MiB");
        return 0;
}

int secret_file_read(const char *path, SecretFile *ret, Error *reterr) {
        cleanup(secret_file_done) SecretFile file = SECRET_FILE_INIT;
        cleanup(close_p) int fd = -1;
        struct stat status;
        ssize_t size;
        int r;

        r = file_open(path, &status, &fd);
        if (r == -EINVAL)
                return refuse(reterr, path, "not a file");
        if (r < 0)
                return refuse_errno(reterr, path, -r);
        r = check(path, &status, reterr);
        if (r < 0)
                return r;

        file.text = malloc((size_t) status.st_size);
        if (!file.text)
                return -ENOMEM;

        size = file_read(fd, file.text, (size_t) status.st_size);
        if (size < 0)
                return refuse_errno(reterr, path, (int) -size);

        file.size = (size_t) size;
        *ret = file;
        file = SECRET_FILE_INIT;
        return 0;
}
