/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent-http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

struct AgentHttp {
        HttpServer *server;
        AgentMetrics *metrics;
};

DEFINE_CLEANUP(AgentHttp *, agent_http_free)

/* It was answered, so the loop runs. */
static int serve_health(HttpReply *reply, void *userdata) {
        reply->body = strdup("ok\n");
        reply->size = strlen("ok\n");
        return reply->body ? 0 : -ENOMEM;
}

static int serve_readiness(HttpReply *reply, void *userdata) {
        AgentHttp *http = userdata;
        const char *why = "ok";
        int n;

        if (!diagnosis_is_ready(http->metrics->subject, &why))
                reply->status = 503;

        n = asprintf(&reply->body, "%s\n", why);
        if (n < 0) {
                reply->body = NULL;
                return -ENOMEM;
        }

        reply->size = (size_t) n;
        return 0;
}

static int agent_http_add_paths(AgentHttp *http) {
        int r;

        r = http_server_add(http->server, "/metrics", agent_metrics_serve, http->metrics);
        if (r < 0)
                return r;

        r = http_server_add(http->server, "/healthz", serve_health, http);
        if (r < 0)
                return r;

        return http_server_add(http->server, "/readyz", serve_readiness, http);
}

int agent_http_new(sd_event *event, Log *log, const char *address, AgentMetrics *metrics,
                   AgentHttp **ret) {

        cleanup(agent_http_free_p) AgentHttp *http = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        *ret = NULL;
        if (!address[0])
                return 0;

        http = calloc(1, sizeof(*http));
        if (!http)
                return -ENOMEM;

        http->metrics = metrics;
        r = http_server_new(event, address, &http->server, &error);
        if (error.kind != ERROR_NONE) {
                log_error(log, NULL, "Cannot serve metrics and health: %s, going on without.",
                          error_message(&error));
                return 0;
        }
        if (r < 0)
                return r;

        r = agent_http_add_paths(http);
        if (r < 0)
                return r;

        *ret = take_ptr(http);
        return 0;
}

AgentHttp *agent_http_free(AgentHttp *http) {
        if (!http)
                return NULL;

        http_server_free(http->server);
        free(http);
        return NULL;
}
