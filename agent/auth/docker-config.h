/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Registry credentials in files of this node, as docker writes them
 *
 * Each call reads the files, so that a change counts at once.
 */

#include "agent/base/error.h"
#include "agent/image/credentials.h"

/*
 * A folder of files NAME.json in the format of docker's config.json. All of them are tried for any
 * image that they match. Without an API server, a pull secret NAME means the file NAME.json.
 */
typedef struct AuthDir AuthDir;

/* A file that cannot be used; both are borrowed. */
typedef int (*AuthDirProblem)(const char *file, const Error *error, void *userdata);

/* The path is copied; the folder may be missing. */
int auth_dir_new(const char *path, AuthDir **ret);
AuthDir *auth_dir_free(AuthDir *dir);

/* Reads the file NAME.json. A refusal names a file that cannot be read. */
int auth_dir_add_named(AuthDir *dir, const char *name, Keyring *keyring, Error *reterr);

/* Reads all files, in the order of their names. Skips an invalid file and reports it to on_problem,
 * which may be NULL. */
int auth_dir_add_all(AuthDir *dir, Keyring *keyring, AuthDirProblem on_problem, void *userdata);

/* Reads all files and reports their faults, also unknown keys. *ret_n_files: number of files. */
int auth_dir_check(AuthDir *dir, AuthDirProblem on_problem, void *userdata, size_t *ret_n_files);

const char *auth_dir_path(const AuthDir *dir);

/*
 * Docker's own configuration: the first of $HOME/.docker/config.json and /.docker/config.json, else of
 * .dockercfg in $HOME and in / (the kubelet's places without the working directory, since a daemon has
 * none).
 */
typedef struct DockerConfig DockerConfig;

/* home: NULL for $HOME. */
int docker_config_new(const char *home, DockerConfig **ret);
DockerConfig *docker_config_free(DockerConfig *config);

/* Adds the credentials in the file now. A missing file is no error; a broken one is a refusal that
 * names it. */
int docker_config_add(DockerConfig *config, Keyring *keyring, Error *reterr);

/* Returns the file in use, or NULL. */
const char *docker_config_path(const DockerConfig *config);
