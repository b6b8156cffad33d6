/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Registry credentials that lie on the node
 *
 * A folder of files NAME.json in the format of docker's config.json. All of them are tried for any
 * image that they match. Without an API server, a wish that names a pull secret NAME means the file
 * NAME.json. Each call reads the files, so that a change counts at once.
 */

#include "agent/image/credentials.h"

typedef struct AuthDir AuthDir;

/* A file that cannot be used; both are borrowed. */
typedef int (*AuthDirProblem)(const char *file, const Error *error, void *userdata);

/* The path is copied; the folder may be missing. */
int auth_dir_new(const char *path, AuthDir **ret);
AuthDir *auth_dir_free(AuthDir *dir);

/* The file NAME.json. What cannot be read is a refusal that names it. */
int auth_dir_add_named(AuthDir *dir, const char *name, Keyring *keyring, Error *reterr);

/* All files, in the order of their names. One that cannot be used is passed over and told to
 * on_problem, which may be NULL. */
int auth_dir_add_all(AuthDir *dir, Keyring *keyring, AuthDirProblem on_problem, void *userdata);

/* Reads all files and tells what is wrong with them. *ret_n_files: how many there are. */
int auth_dir_check(AuthDir *dir, AuthDirProblem on_problem, void *userdata, size_t *ret_n_files);

const char *auth_dir_path(const AuthDir *dir);
