/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent-api.h"

#include "agent/local-socket.h"

/* A crowd of callers leaves memory behind, which agent-notify.c gives back. */
static void on_request(const char *method, ErrorKind result, void *userdata) {
        AgentApi *api = userdata;

        agent_metrics_on_request(method, result, api->metrics);
        api->on_changed(api->userdata);
}

static void on_refused(ListenerRefusal refusal, void *userdata) {
        AgentApi *api = userdata;

        agent_metrics_on_refused(refusal, api->metrics);
        api->on_changed(api->userdata);
}

/* So does one that makes gRPC hold much without a single request. */
static void on_freed(void *userdata) {
        AgentApi *api = userdata;

        api->on_changed(api->userdata);
}

int agent_api_init(AgentApi *api, const ApiOptions *parts, const Options *options, Error *reterr) {
        ApiOptions whole = *parts;
        int r;

        whole.node_name = options->node_name;
        whole.listener.path = options->socket;
        whole.listener.fd = options->listening_fd;
        whole.listener.group = local_socket_find_group(options->socket_group, parts->log);
        whole.restart_group_name =
                options->restart_group && options->restart_group[0] ? options->restart_group : NULL;
        whole.restart_group = local_socket_find_restart_group(options->restart_group, parts->log);
        whole.on_request = on_request;
        whole.on_refused = on_refused;
        whole.on_freed = on_freed;
        whole.userdata = api;
        if (whole.listener.fd < 0)
                local_socket_make_folder(options->socket);

        r = api_new(&whole, &api->api, reterr);
        if (r < 0)
                return r;

        api->metrics->api = api->api;
        return 0;
}

void agent_api_done(AgentApi *api) {
        api->api = api_free(api->api);
}
