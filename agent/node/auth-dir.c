/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/auth-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"

#define FILE_SIZE_MAX (1 << 20)
#define SUFFIX ".json"

struct AuthDir {
        char *path;
};

DEFINE_CLEANUP(AuthDir *, auth_dir_free)

/* Credentials do not stay in memory that is given back. */
typedef struct Secret {
        char *text;
        size_t size;
} Secret;

static void secret_done(Secret *secret) {
        if (secret->text)
                explicit_bzero(secret->text, secret->size);
        free(secret->text);
}

static inline void free_names_p(struct dirent ***names) {
        free(*names);
}

int auth_dir_new(const char *path, AuthDir **ret) {
        cleanup(auth_dir_free_p) AuthDir *dir = NULL;

        dir = calloc(1, sizeof(*dir));
        if (!dir)
                return -ENOMEM;

        dir->path = strdup(path);
        if (!dir->path)
                return -ENOMEM;

        *ret = take_ptr(dir);
        return 0;
}

AuthDir *auth_dir_free(AuthDir *dir) {
        if (!dir)
                return NULL;

        free(dir->path);
        free(dir);
        return NULL;
}

const char *auth_dir_path(const AuthDir *dir) {
        return dir->path;
}

static int refuse(Error *reterr, const AuthDir *dir, const char *name, const char *why) {
        return error_set(reterr, ERROR_INVALID, "%s/%s: %s", dir->path, name, why);
}

static int read_all(int fd, size_t size, Secret *secret) {
        secret->text = malloc(size + 1);
        if (!secret->text)
                return -ENOMEM;

        while (secret->size < size) {
                ssize_t n = read(fd, secret->text + secret->size, size - secret->size);

                if (n <= 0)
                        break;
                secret->size += (size_t) n;
        }

        return 0;
}

static int add_file(AuthDir *dir, const char *name, Keyring *keyring, Error *reterr) {
        cleanup(secret_done) Secret secret = { .text = NULL };
        cleanup(free_p) char *path = NULL;
        cleanup(close_p) int fd = -1;
        struct stat status;
        int r;

        if (asprintf(&path, "%s/%s", dir->path, name) < 0) {
                path = NULL;
                return -ENOMEM;
        }

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &status) < 0)
                return refuse(reterr, dir, name, strerror(errno));
        if (!S_ISREG(status.st_mode))
                return refuse(reterr, dir, name, "not a file");
        if (status.st_size == 0)
                return refuse(reterr, dir, name, "empty");
        if (status.st_size > FILE_SIZE_MAX)
                return refuse(reterr, dir, name, "larger than 1 MiB");

        r = read_all(fd, (size_t) status.st_size, &secret);
        if (r < 0)
                return r;

        return keyring_add_text(keyring, path, secret.text, secret.size, reterr);
}

static int is_auth_file(const struct dirent *entry) {
        size_t size = strlen(entry->d_name);

        return entry->d_name[0] != '.' && size > strlen(SUFFIX) &&
               strcmp(entry->d_name + size - strlen(SUFFIX), SUFFIX) == 0;
}

/* All files into one keyring; what cannot be used is told and passed over. */
static int add_all(AuthDir *dir, Keyring *keyring, AuthDirProblem on_problem, void *userdata,
                   size_t *ret_n_files) {
        cleanup(free_names_p) struct dirent **names = NULL;
        int n, r = 0;

        n = scandir(dir->path, &names, is_auth_file, alphasort);
        *ret_n_files = n > 0 ? (size_t) n : 0;
        for (int i = 0; i < n; i++) {
                cleanup(error_done) Error error = ERROR_INIT;
                int k = 0;

                if (r >= 0)
                        k = add_file(dir, names[i]->d_name, keyring, &error);
                if (error.kind != ERROR_NONE)
                        k = on_problem ? on_problem(names[i]->d_name, &error, userdata) : 0;
                r = k < 0 ? k : r;
                free(names[i]);
        }

        return r;
}

int auth_dir_check(AuthDir *dir, AuthDirProblem on_problem, void *userdata, size_t *ret_n_files) {
        Keyring *keyring;
        int r;

        r = keyring_new(&keyring);
        if (r < 0)
                return r;

        r = add_all(dir, keyring, on_problem, userdata, ret_n_files);
        keyring_free(keyring);
        return r;
}

static bool is_file_name(const char *name) {
        return name[0] != '\0' && name[0] != '.' && !strchr(name, '/');
}

static int add_named(AuthDir *dir, const char *secret, Keyring *keyring, Error *reterr) {
        cleanup(free_p) char *name = NULL;

        if (!is_file_name(secret))
                return error_set(reterr, ERROR_INVALID, "a pull secret cannot be called '%s'",
                                 secret);
        if (asprintf(&name, "%s" SUFFIX, secret) < 0) {
                name = NULL;
                return -ENOMEM;
        }

        return add_file(dir, name, keyring, reterr);
}

/* One that can be used is enough; the reason is that of the last one that cannot. */
static int get_named(AuthDir *dir, const ImageWish *wish, Keyring *keyring, Error *reterr) {
        cleanup(error_done) Error last = ERROR_INIT;
        size_t n_usable = 0;

        for (size_t i = 0; i < wish->n_secrets; i++) {
                cleanup(error_done) Error error = ERROR_INIT;
                int r;

                r = add_named(dir, wish->secrets[i].name, keyring, &error);
                if (r >= 0) {
                        n_usable++;
                        continue;
                }
                if (error.kind == ERROR_NONE)
                        return r;

                error_done(&last);
                last = error;
                error = ERROR_INIT;
        }

        if (wish->n_secrets == 0 || n_usable > 0)
                return 0;

        return error_set(reterr, ERROR_INVALID, "no pull secret can be used: %s",
                         error_message(&last));
}

int auth_dir_get_keys(const ImageWish *wish, PullKeys *ret, Error *reterr, void *userdata) {
        cleanup(pull_keys_done) PullKeys keys = { .named = NULL };
        AuthDir *dir = userdata;
        size_t n_files;
        int r;

        r = keyring_new(&keys.named);
        if (r < 0)
                return r;

        r = get_named(dir, wish, keys.named, reterr);
        if (r < 0)
                return r;

        r = keyring_new(&keys.general);
        if (r < 0)
                return r;

        r = add_all(dir, keys.general, NULL, NULL, &n_files);
        if (r < 0)
                return r;

        *ret = keys;
        keys = (PullKeys){ .named = NULL };
        return 0;
}
