/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All sources of registry credentials, as one
 *
 * The pull secrets that a desired image names come first: secrets with a namespace are read from the API
 * server, if there is one, the others from the folder of credentials. Then come the credentials of the node:
 * the folder, docker's own configuration, credential provider plugins as the kubelet has them.
 *
 * If none of the named secrets can be used, the pull is refused: without them, the registry may send another
 * image.
 */

#include <systemd/sd-event.h>

#include "agent/auth/credential-providers.h"
#include "agent/auth/docker-config.h"
#include "agent/base/loop.h"
#include "agent/image/pull-request.h"
#include "agent/kube/secret.h"

typedef struct Auth Auth;

/* All borrowed, and have to outlive the Auth. */
typedef struct AuthOptions {
        sd_event *event;
        Log *log;
        AuthDir *dir;
        DockerConfig *docker;           /* NULL: not used */
        CredentialProviders *providers; /* NULL: not used */
} AuthOptions;

int auth_new(const AuthOptions *options, Auth **ret);

/* All asks have been dropped before. */
Auth *auth_free(Auth *auth);

/* Sets the source of the API server's pull secrets; NULL: none any more. */
void auth_set_secrets(Auth *auth, KubeSecrets *secrets);

/* Calls back when the files of the folder of credentials have changed, so that refused pulls may
 * succeed. The agent does not watch secrets of the API server, which each attempt reads anew. */
int auth_watch(Auth *auth, LoopCall on_changed, void *userdata);

PullCredentialsSource auth_source(Auth *auth);
