/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/api/api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/calls.h"
#include "agent/base/cleanup.h"
#include "agent/base/text.h"

#define METHOD(name) "/inplaced.v1.Node/" name

static const RpcService services[] = {
        { METHOD("Preload"), &inplaced__v1__preload_request__descriptor, api_preload },
        { METHOD("Cancel"), &inplaced__v1__cancel_request__descriptor, api_cancel },
        { METHOD("Retry"), &inplaced__v1__retry_request__descriptor, api_retry },
        { METHOD("Unpin"), &inplaced__v1__unpin_request__descriptor, api_unpin },
        { METHOD("GetStatus"), &inplaced__v1__get_status_request__descriptor, api_get_status },
        { METHOD("Watch"), &inplaced__v1__watch_request__descriptor, api_watch },
        { METHOD("WatchPulls"), &inplaced__v1__watch_pulls_request__descriptor, api_watch_pulls },
        { METHOD("ListImages"), &inplaced__v1__list_images_request__descriptor, api_list_images },
        { METHOD("Restart"), &inplaced__v1__restart_request__descriptor, api_restart },
        { METHOD("Verify"), &inplaced__v1__verify_request__descriptor, api_verify },
        { METHOD("ListProbes"), &inplaced__v1__list_probes_request__descriptor, api_list_probes },
        { METHOD("Diagnose"), &inplaced__v1__diagnose_request__descriptor, api_diagnose },
        { METHOD("GetVersion"), &inplaced__v1__get_version_request__descriptor, api_get_version },
};

const char *const api_method_names[] = {
        "Preload",    "Cancel",  "Retry",  "Unpin",      "GetStatus", "Watch",      "WatchPulls",
        "ListImages", "Restart", "Verify", "ListProbes", "Diagnose",  "GetVersion", NULL,
};

DEFINE_CLEANUP(Api *, api_free)

static int on_image(Image *image, void *userdata) {
        int r;

        r = preloads_on_image(userdata, image);
        return r < 0 ? r : watches_on_image(userdata, image);
}

static int on_accepted(int fd, Peer *peer, const Error *refusal, void **ret, void *userdata) {
        Api *api = userdata;
        RpcChannel *channel;
        int r;

        r = rpc_server_add_connection(api->server, fd, peer, refusal, &channel);
        if (r < 0)
                return r;

        *ret = channel;
        return 0;
}

static void on_left(void *connection, void *userdata) {
        rpc_channel_end(connection);
}

static void on_freed(void *userdata) {
        Api *api = userdata;

        api->on_changed(api->userdata);
}

static void on_refused(ListenerRefusal refusal, void *userdata) {
        Api *api = userdata;

        log_debug(api->log, NULL, "Refused a connection to the local API: %s.",
                  listener_refusal_to_string(refusal));
        metrics_add(api->metrics, METRIC_LOCAL_API_REFUSED,
                    METRIC_LABELS(listener_refusal_to_string(refusal)), 1);
        api->on_changed(api->userdata);
}

/* Logs each reason once: callers come and go, and so may the reason. */
static void on_short(int number, void *userdata) {
        Api *api = userdata;
        bool has_limit = number == EMFILE;

        if (log_once(&api->shortage, strerror(number)))
                log_warning(api->log, NULL, "The local API cannot serve a connection: %s%s.",
                            strerror(number),
                            has_limit ? "; raise the limit of file descriptors (LimitNOFILE, "
                                        "ulimit -n)"
                                      : "");
}

int api_new(const ApiOptions *options, Api **ret, Error *reterr) {
        cleanup(api_free_p) Api *api = NULL;
        ListenerOptions listener;
        int r;

        api = malloc(sizeof(*api));
        if (!api)
                return -ENOMEM;

        *api = (Api){
                .completions = options->completions,
                .log = options->log,
                .metrics = options->metrics,
                .images = options->images,
                .runtimes = options->runtimes,
                .subject = options->subject,
                .stops = options->stops,
                .pods = options->pods,
                .pod_waits = options->pod_waits,
                .meta = options->meta,
                .probes = options->probes,
                .pins = options->pins,
                .state_file = options->state_file,
                .node_name = strdup(options->node_name),
                .restart_group = options->restart_group,
                .on_changed = options->on_changed,
                .userdata = options->userdata,
                .watcher = { .on_image = on_image, .userdata = api },
        };
        images_watch(api->images, &api->watcher);
        if (!api->node_name)
                return -ENOMEM;

        if (text_copy(options->restart_group_name, &api->restart_group_name) < 0)
                return -ENOMEM;

        r = rpc_server_new(options->completions, services, sizeof(services) / sizeof(services[0]),
                           api, &api->server);
        if (r < 0)
                return r;

        rpc_server_observe(api->server, on_freed);
        listener = options->listener;
        listener.on_accepted = on_accepted;
        listener.on_left = on_left;
        listener.on_refused = on_refused;
        listener.on_short = on_short;
        listener.userdata = api;
        r = listener_new(completion_queue_get_event(options->completions), &listener,
                         &api->listener, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(api);
        return 0;
}

int api_runtime_changed(Api *api) {
        return watches_on_runtime(api);
}

Api *api_free(Api *api) {
        if (!api)
                return NULL;

        images_unwatch(api->images, &api->watcher);
        while (api->preloads)
                preload_drop(api->preloads);
        while (api->listings)
                listing_drop(api->listings);
        while (api->restartings)
                restarting_drop(api->restartings);
        while (api->verifications)
                verification_drop(api->verifications);
        while (api->watches)
                watch_drop(api->watches);
        pulls_free(api->pulls);
        rpc_server_free(api->server);
        listener_free(api->listener); /* passes on what gRPC says at the end */
        free(api->node_name);
        free(api->restart_group_name);
        free(api);
        return NULL;
}

void api_measure(const Api *api) {
        metrics_set(api->metrics, METRIC_LOCAL_API_CONNECTIONS, NULL,
                    (double) listener_n_connections(api->listener));
}
