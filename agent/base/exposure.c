/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/exposure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"

/* Whether others have one of these rights, given as bits of all classes of users. */
static bool others_have(const struct stat *status, mode_t right) {
        mode_t of_group = status->st_gid != 0 ? right & S_IRWXG : 0;

        return status->st_mode & (of_group | (right & S_IRWXO));
}

static bool is_of_another(const struct stat *status, uid_t self) {
        return status->st_uid != 0 && status->st_uid != self;
}

Exposure exposure_of_file(const struct stat *status, uid_t self, bool is_secret) {
        if (is_of_another(status, self))
                return EXPOSURE_OWNER;
        if (others_have(status, S_IWGRP | S_IWOTH))
                return EXPOSURE_WRITE;
        if (is_secret && others_have(status, S_IRGRP | S_IROTH))
                return EXPOSURE_READ;

        return EXPOSURE_NONE;
}

/* In a folder like /tmp, users cannot touch each other's files. */
Exposure exposure_of_folder(const struct stat *status, uid_t self) {
        if (is_of_another(status, self))
                return EXPOSURE_OWNER;
        if (!others_have(status, S_IXGRP | S_IXOTH))
                return EXPOSURE_HIDDEN;
        if (others_have(status, S_IWGRP | S_IWOTH) && !(status->st_mode & S_ISVTX))
                return EXPOSURE_WRITE;

        return EXPOSURE_NONE;
}

static int describe(Exposure exposure, const struct stat *status, const char *folder, char **ret) {
        const char *in = folder ? "the folder " : "it";
        unsigned mode = status->st_mode & 07777;
        int r = 0;

        switch (exposure) {
        case EXPOSURE_OWNER:
                r = text_format(ret, "%s%s belongs to user %u", in, folder ?: "",
                                (unsigned) status->st_uid);
                break;
        case EXPOSURE_WRITE:
                r = text_format(ret, "other users may write %s%s (mode %04o)", in, folder ?: "",
                                mode);
                break;
        case EXPOSURE_READ:
                r = text_format(ret, "other users may read %s%s (mode %04o)", in, folder ?: "",
                                mode);
                break;
        case EXPOSURE_NONE:
        case EXPOSURE_HIDDEN:
        case _EXPOSURE_MAX: break;
        }
        if (r < 0)
                *ret = NULL;
        return r < 0 ? -ENOMEM : 0;
}

/* Checks each folder from the root down, then the file. A missing one exposes nothing. */
static int walk(const char *path, bool is_secret, char **ret) {
        cleanup(free_p) char *copy = strdup(path);
        uid_t self = geteuid();
        struct stat status;

        if (!copy)
                return -ENOMEM;

        for (char *at = copy; (at = strchr(at + 1, '/'));) {
                Exposure exposure;

                *at = '\0';
                if (stat(copy, &status) < 0)
                        return 0;
                exposure = exposure_of_folder(&status, self);
                if (exposure == EXPOSURE_HIDDEN)
                        return 0;
                if (exposure != EXPOSURE_NONE)
                        return describe(exposure, &status, copy, ret);
                *at = '/';
        }

        if (stat(copy, &status) < 0)
                return 0;
        if (S_ISDIR(status.st_mode))
                return describe(exposure_of_folder(&status, self), &status, NULL, ret);
        return describe(exposure_of_file(&status, self, is_secret), &status, NULL, ret);
}

/* Checks the path and, if it leads through links, the folders of both paths. */
int exposure_find(const char *path, bool is_secret, char **ret_why) {
        cleanup(free_p) char *real = realpath(path, NULL);
        int r;

        *ret_why = NULL;
        if (!real)
                return errno == ENOMEM ? -ENOMEM : 0;

        r = walk(real, is_secret, ret_why);
        if (r < 0 || *ret_why || strcmp(real, path) == 0)
                return r;

        return walk(path, false, ret_why);
}
