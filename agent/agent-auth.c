/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent-auth.h"

static int add_providers(AgentAuth *auth, sd_event *event, Log *log, const Options *options) {
        Error error = ERROR_INIT;
        int r;

        if (!options->provider_config || !options->provider_bin_dir)
                return 0;

        r = credential_providers_new(event, log, options->provider_config,
                                     options->provider_bin_dir, &auth->providers, &error);
        if (error.kind == ERROR_NONE)
                return r;

        log_error(log, NULL, "Cannot use credential provider plugins: %s, going on without.",
                  error_message(&error));
        error_done(&error);
        return 0;
}

int agent_auth_init(AgentAuth *auth, sd_event *event, Log *log, const Options *options) {
        AuthOptions all = { .event = event, .log = log };
        int r;

        r = auth_dir_new(options->auth_dir, &auth->dir);
        if (r < 0)
                return r;

        r = docker_config_new(NULL, &auth->docker);
        if (r < 0)
                return r;

        r = add_providers(auth, event, log, options);
        if (r < 0)
                return r;

        all.dir = auth->dir;
        all.docker = auth->docker;
        all.providers = auth->providers;
        return auth_new(&all, &auth->auth);
}

void agent_auth_done(AgentAuth *auth) {
        auth->auth = auth_free(auth->auth);
        auth->providers = credential_providers_free(auth->providers);
        auth->docker = docker_config_free(auth->docker);
        auth->dir = auth_dir_free(auth->dir);
}
