/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All sources of credentials that the options name
 */

#include "agent/auth/auth.h"
#include "agent/options.h"

typedef struct AgentAuth {
        AuthDir *dir;
        DockerConfig *docker;
        CredentialProviders *providers;
        Auth *auth;
} AgentAuth;

/* A broken configuration of plugins is logged, and there are none then: images that need no
 * credentials should not suffer. */
int agent_auth_init(AgentAuth *auth, sd_event *event, Log *log, const Options *options);
void agent_auth_done(AgentAuth *auth);
