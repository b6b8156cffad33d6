/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent-runtimes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cri/discover.h"

int agent_runtimes_new(CompletionQueue *completions, const Options *options,
                       const RuntimesOptions *callbacks, Runtimes **ret) {

        char *paths[OPTIONS_ENDPOINTS_MAX] = { NULL };
        RuntimesOptions runtimes = *callbacks;
        size_t n = 0;
        int r = 0;

        for (; options->n_endpoints == 0 && discover_usual_sockets[n]; n++)
                if (asprintf(&paths[n], "%s%s", options->host_root ?: "",
                             discover_usual_sockets[n]) < 0)
                        return -ENOMEM;

        runtimes.paths = (const char *const *) (n > 0 ? paths : (char **) options->endpoints);
        runtimes.n_paths = n > 0 ? n : options->n_endpoints;
        r = runtimes_new(completions, &runtimes, ret);
        for (size_t i = 0; i < n; i++)
                free(paths[i]);
        return r;
}
