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

/* The file NAME.json. What cannot be read is a refusal that names it. */
int auth_dir_add_named(AuthDir *dir, const char *name, Keyring *keyring, Error *reterr);

/* All files, in the order of their names. One that cannot be used is passed over and reported to
 * on_problem, which may be NULL. */
int auth_dir_add_all(AuthDir *dir, Keyring *keyring, AuthDirProblem on_problem, void *userdata);

/* Reads all files and reports what is wrong with them, also unknown keys. *ret_n_files: how many there
 * are. */
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

/* The file that is used, or NULL. */
const char *docker_config_path(const DockerConfig *config);
