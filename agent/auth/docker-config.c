/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/docker-config.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/auth/secret-file.h"
#include "agent/base/cleanup.h"

#define N_PLACES 4

struct DockerConfig {
        char *places[N_PLACES]; /* in the order in which they are looked at; may be NULL */
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

/* Two folders for each form. */
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
                if (asprintf(&config->places[i], "%s/%s", folder, form_of(i)->file) < 0) {
                        config->places[i] = NULL;
                        return -ENOMEM;
                }
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

/* In a folder that may not be looked into there is nothing for us. */
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
