/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Docker's own configuration of this node
 *
 * The first of $HOME/.docker/config.json and /.docker/config.json, else of .dockercfg in $HOME and
 * in / (the kubelet's places without the working directory, since a daemon has none). It is read for
 * each call, so that a change counts at once.
 */

#include "agent/base/error.h"
#include "agent/image/credentials.h"

typedef struct DockerConfig DockerConfig;

/* home: NULL for $HOME. */
int docker_config_new(const char *home, DockerConfig **ret);
DockerConfig *docker_config_free(DockerConfig *config);

/* Adds what it holds just now. That there is none is no error; one that is broken is a refusal which
 * names it. */
int docker_config_add(DockerConfig *config, Keyring *keyring, Error *reterr);

/* The file that is used, or NULL. */
const char *docker_config_path(const DockerConfig *config);
