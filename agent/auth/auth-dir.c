/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/auth-dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/auth/secret-file.h"
#include "agent/base/cleanup.h"
#include "agent/base/quote.h"

#define SUFFIX ".json"

struct AuthDir {
        char *path;
};

DEFINE_CLEANUP(AuthDir *, auth_dir_free)
DEFINE_CLEANUP(Keyring *, keyring_free)

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

static int add_file(AuthDir *dir, const char *file, const char *suffix, Keyring *keyring,
                    Error *reterr) {
        cleanup(secret_file_done) SecretFile secret = SECRET_FILE_INIT;
        cleanup(free_p) char *path = NULL;
        int r;

        if (asprintf(&path, "%s/%s%s", dir->path, file, suffix) < 0) {
                path = NULL;
                return -ENOMEM;
        }

        r = secret_file_read(path, &secret, reterr);
        if (r < 0)
                return r;

        return keyring_add_text(keyring, path, secret.text, secret.size, reterr);
}

static int is_auth_file(const struct dirent *entry) {
        size_t size = strlen(entry->d_name);

        return entry->d_name[0] != '.' && size > strlen(SUFFIX) &&
               strcmp(entry->d_name + size - strlen(SUFFIX), SUFFIX) == 0;
}

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
                        k = add_file(dir, names[i]->d_name, "", keyring, &error);
                if (error.kind != ERROR_NONE)
                        k = on_problem ? on_problem(names[i]->d_name, &error, userdata) : 0;
                r = k < 0 ? k : r;
                free(names[i]);
        }

        return r;
}

int auth_dir_add_all(AuthDir *dir, Keyring *keyring, AuthDirProblem on_problem, void *userdata) {
        size_t n_files;

        return add_all(dir, keyring, on_problem, userdata, &n_files);
}

int auth_dir_check(AuthDir *dir, AuthDirProblem on_problem, void *userdata, size_t *ret_n_files) {
        cleanup(keyring_free_p) Keyring *keyring = NULL;
        int r;

        r = keyring_new(&keyring);
        if (r < 0)
                return r;

        return add_all(dir, keyring, on_problem, userdata, ret_n_files);
}

static bool is_file_name(const char *name) {
        return name[0] != '\0' && name[0] != '.' && !strchr(name, '/');
}

int auth_dir_add_named(AuthDir *dir, const char *name, Keyring *keyring, Error *reterr) {
        if (!is_file_name(name))
                return error_set(reterr, ERROR_INVALID, "a pull secret cannot be called %s",
                                 quote(name, (char[QUOTE_SIZE]){ 0 }));

        return add_file(dir, name, SUFFIX, keyring, reterr);
}
