/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/docker-config.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/auth/secret-file.h"
#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"

#define SUFFIX ".json"

struct AuthDir {
        char *path;
};

DEFINE_CLEANUP(AuthDir *, auth_dir_free)
DEFINE_CLEANUP(Keyring *, keyring_free)

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

static int read_file(const AuthDir *dir, const char *file, const char *suffix, char **ret_path,
                     SecretFile *ret, Error *reterr) {
        if (text_format(ret_path, "%s/%s%s", dir->path, file, suffix) < 0)
                return -ENOMEM;

        return secret_file_read(*ret_path, ret, reterr);
}

static int add_file(AuthDir *dir, const char *file, const char *suffix, Keyring *keyring,
                    Error *reterr) {
        cleanup(secret_file_done) SecretFile secret = SECRET_FILE_INIT;
        cleanup(free_p) char *path = NULL;
        int r;

        r = read_file(dir, file, suffix, &path, &secret, reterr);
        return r < 0 ? r : keyring_add_text(keyring, path, secret.text, secret.size, reterr);
}

static int is_auth_file(const struct dirent *entry) {
        size_t size = strlen(entry->d_name);

        return entry->d_name[0] != '.' && size > strlen(SUFFIX) &&
               strcmp(entry->d_name + size - strlen(SUFFIX), SUFFIX) == 0;
}

/* ".JSON", say. */
static int is_almost_auth_file(const struct dirent *entry) {
        size_t size = strlen(entry->d_name);

        return entry->d_name[0] != '.' && size > strlen(SUFFIX) && !is_auth_file(entry) &&
               strcasecmp(entry->d_name + size - strlen(SUFFIX), SUFFIX) == 0;
}

/* How to treat each file. */
typedef struct Visit {
        Keyring *keyring;
        AuthDirProblem on_problem; /* may be NULL */
        void *userdata;
        bool is_check; /* unknown keys are problems as well */
        size_t n_files;
} Visit;

static int report(const Visit *visit, const char *file, const Error *error) {
        return visit->on_problem ? visit->on_problem(file, error, visit->userdata) : 0;
}

static int check_keys(AuthDir *dir, const char *file, const Visit *visit) {
        cleanup(secret_file_done) SecretFile secret = SECRET_FILE_INIT;
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;
        cleanup(error_done) Error ignored = ERROR_INIT;
        cleanup(free_p) char *path = NULL;
        int r;

        r = read_file(dir, file, "", &path, &secret, &ignored);
        if (ignored.kind != ERROR_NONE)
                return 0;
        if (r >= 0)
                r = credentials_spec_check_keys(secret.text, secret.size, &unknown);

        for (size_t i = 0; r >= 0 && i < unknown.n_texts; i++) {
                cleanup(error_done) Error error = ERROR_INIT;

                (void) error_set(&error, ERROR_INVALID, "%s", unknown.texts[i]);
                r = report(visit, file, &error);
        }

        return r;
}

static int visit_file(AuthDir *dir, const char *file, const Visit *visit) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = add_file(dir, file, "", visit->keyring, &error);
        if (error.kind != ERROR_NONE)
                return report(visit, file, &error);

        return r < 0 || !visit->is_check ? r : check_keys(dir, file, visit);
}

/* A folder that is missing has no files. */
static int refuse_folder(const AuthDir *dir, const Visit *visit, int number) {
        cleanup(error_done) Error error = ERROR_INIT;

        if (number == ENOMEM)
                return -ENOMEM;
        if (number == ENOENT)
                return 0;

        (void) error_set(&error, ERROR_DENIED, "%s: %s", dir->path, strerror(number));
        return report(visit, dir->path, &error);
}

static int visit_all(AuthDir *dir, Visit *visit) {
        cleanup(free_p) struct dirent **names = NULL;
        int n, r = 0;

        n = scandir(dir->path, &names, is_auth_file, alphasort);
        if (n < 0)
                return refuse_folder(dir, visit, errno);

        visit->n_files = (size_t) n;
        for (int i = 0; i < n; i++) {
                if (r >= 0)
                        r = visit_file(dir, names[i]->d_name, visit);
                free(names[i]);
        }

        return r;
}

int auth_dir_add_all(AuthDir *dir, Keyring *keyring, AuthDirProblem on_problem, void *userdata) {
        Visit visit = { .keyring = keyring, .on_problem = on_problem, .userdata = userdata };

        return visit_all(dir, &visit);
}

/* A folder that cannot be read was reported. */
static int report_almost(AuthDir *dir, const Visit *visit) {
        cleanup(free_p) struct dirent **names = NULL;
        int n = scandir(dir->path, &names, is_almost_auth_file, alphasort), r = 0;

        for (int i = 0; i < n; i++) {
                cleanup(error_done) Error error = ERROR_INIT;

                (void) error_set(&error, ERROR_INVALID,
                                 "not read: its name does not end with \"" SUFFIX "\"");
                if (r >= 0)
                        r = report(visit, names[i]->d_name, &error);
                free(names[i]);
        }

        return r;
}

int auth_dir_check(AuthDir *dir, AuthDirProblem on_problem, void *userdata, size_t *ret_n_files) {
        Visit visit = { .on_problem = on_problem, .userdata = userdata, .is_check = true };
        cleanup(keyring_free_p) Keyring *keyring = NULL;
        int r;

        r = keyring_new(&keyring);
        if (r < 0)
                return r;

        visit.keyring = keyring;
        r = visit_all(dir, &visit);
        if (r >= 0)
                r = report_almost(dir, &visit);
        *ret_n_files = visit.n_files;
        return r;
}

static bool is_file_name(const char *name) {
        return name[0] != '\0' && name[0] != '.' && !strchr(name, '/');
}

int auth_dir_add_named(AuthDir *dir, const char *name, Keyring *keyring, Error *reterr) {
        if (!is_file_name(name))
                return error_set(reterr, ERROR_INVALID, "%s cannot be the name of a pull secret",
                                 quote(name, (char[QUOTE_SIZE]){ 0 }));

        return add_file(dir, name, SUFFIX, keyring, reterr);
}

#define N_PLACES 4

struct DockerConfig {
        char *places[N_PLACES]; /* in the order in which they are read; may be NULL */
};

DEFINE_CLEANUP(DockerConfig *, docker_config_free)

typedef struct Form {
        const char *file;
        int (*parse)(const char *text, size_t size, CredentialsSpec *ret, Error *reterr);
} Form;

static const Form forms[] = {
        { ".docker/config.json", credentials_spec_parse_config },
        { ".dockercfg", credentials_spec_parse },
};

/* Each form has two folders. */
static const Form *form_of(size_t i_place) {
        return &forms[i_place / 2];
}

int docker_config_new(const char *home, DockerConfig **ret) {
        cleanup(docker_config_free_p) DockerConfig *config = NULL;

        if (!home)
                home = getenv("HOME");

        config = calloc(1, sizeof(*config));
        if (!config)
                return -ENOMEM;

        for (size_t i = 0; i < N_PLACES; i++) {
                const char *folder = i % 2 == 0 ? home : "";

                if (!folder || (i % 2 == 0 && folder[0] != '/'))
                        continue;
                if (text_format(&config->places[i], "%s/%s", folder, form_of(i)->file) < 0)
                        return -ENOMEM;
        }

        *ret = take_ptr(config);
        return 0;
}

DockerConfig *docker_config_free(DockerConfig *config) {
        if (!config)
                return NULL;

        for (size_t i = 0; i < N_PLACES; i++)
                free(config->places[i]);
        free(config);
        return NULL;
}

/* Skips a folder that the agent may not read. */
static bool find_place(const DockerConfig *config, size_t *ret) {
        struct stat status;

        for (size_t i = 0; i < N_PLACES; i++)
                if (config->places[i] && stat(config->places[i], &status) == 0) {
                        *ret = i;
                        return true;
                }

        return false;
}

const char *docker_config_path(const DockerConfig *config) {
        size_t i_place;

        return find_place(config, &i_place) ? config->places[i_place] : NULL;
}

int docker_config_add(DockerConfig *config, Keyring *keyring, Error *reterr) {
        cleanup(credentials_spec_done) CredentialsSpec spec = CREDENTIALS_SPEC_INIT;
        cleanup(secret_file_done) SecretFile file = SECRET_FILE_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        const char *path;
        size_t i_place;
        int r;

        if (!find_place(config, &i_place))
                return 0;

        path = config->places[i_place];
        r = secret_file_read(path, &file, reterr);
        if (r < 0)
                return r;

        r = form_of(i_place)->parse(file.text, file.size, &spec, &error);
        if (error.kind != ERROR_NONE)
                return error_set(reterr, error.kind, "%s: %s", path, error_message(&error));
        if (r < 0)
                return r;

        return keyring_add_spec(keyring, path, &spec);
}
