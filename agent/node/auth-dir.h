/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Registry credentials of a node without an API server
 *
 * A folder of files NAME.json in the format of docker's config.json. All of them are tried for any
 * image that they match. A wish that names a pull secret NAME means the file NAME.json, which then
 * comes first, and the pull is refused if none of those that it names can be read: an anonymous pull
 * in their place might bring another image. Read for each attempt, so that a change counts at once.
 */

#include "agent/image/pull.h"

typedef struct AuthDir AuthDir;

/* A file that cannot be used; both are borrowed. */
typedef int (*AuthDirProblem)(const char *file, const Error *error, void *userdata);

/* The path is copied; the folder may be missing. */
int auth_dir_new(const char *path, AuthDir **ret);
AuthDir *auth_dir_free(AuthDir *dir);

/* A PullGetKeys whose userdata is the AuthDir. */
int auth_dir_get_keys(const ImageWish *wish, PullKeys *ret, Error *reterr, void *userdata);

/* Reads all files and tells what is wrong with them. *ret_n_files: how many there are. */
int auth_dir_check(AuthDir *dir, AuthDirProblem on_problem, void *userdata, size_t *ret_n_files);

const char *auth_dir_path(const AuthDir *dir);
