/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/api/api.h"

#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/api/api-internal.h"

#define METHOD(name) "/inplaced.v1.Node/" name

static const RpcService services[] = {
        { METHOD("Preload"), &inplaced__v1__preload_request__descriptor, api_preload },
        { METHOD("Cancel"), &inplaced__v1__cancel_request__descriptor, api_cancel },
        { METHOD("GetStatus"), &inplaced__v1__get_status_request__descriptor, api_get_status },
        { METHOD("ListImages"), &inplaced__v1__list_images_request__descriptor, api_list_images },
        { METHOD("Restart"), &inplaced__v1__restart_request__descriptor, api_restart },
        { METHOD("Verify"), &inplaced__v1__verify_request__descriptor, api_verify },
        { METHOD("Diagnose"), &inplaced__v1__diagnose_request__descriptor, api_diagnose },
        { METHOD("GetVersion"), &inplaced__v1__get_version_request__descriptor, api_get_version },
};

const char *const api_method_names[] = {
        "Preload", "Cancel",   "GetStatus",  "ListImages", "Restart",
        "Verify",  "Diagnose", "GetVersion", NULL,
};

/* The caller, for the log and for refusals. */
typedef struct Caller {
        char *user; /* NULL: /etc/passwd does not have it */
        char uid[16];
        char pid[16];
        char *words; /* "jo (uid 1000, pid 4242)" */
} Caller;

DEFINE_CLEANUP(Api *, api_free)
DEFINE_CLEANUP(FILE *, fclose)

/* Only /etc/passwd is asked for the name: other sources may be slow, and stay in memory. */
static int find_user(uid_t uid, char **ret) {
        cleanup(fclose_p) FILE *file = fopen("/etc/passwd", "re");
        const struct passwd *user;

        while (file && (user = fgetpwent(file)))
                if (user->pw_uid == uid) {
                        *ret = strdup(user->pw_name);
                        return *ret ? 0 : -ENOMEM;
                }

        return 0;
}

static void caller_done(Caller *caller) {
        free(caller->user);
        free(caller->words);
        *caller = (Caller){ .user = NULL };
}

static int caller_init(const Peer *peer, Caller *ret) {
        cleanup(caller_done) Caller caller = { .user = NULL };
        int r;

        r = find_user(peer->uid, &caller.user);
        if (r < 0)
                return r;

        (void) snprintf(caller.uid, sizeof(caller.uid), "%u", (unsigned) peer->uid);
        (void) snprintf(caller.pid, sizeof(caller.pid), "%d", (int) peer->pid);
        if (asprintf(&caller.words, "%s (uid %s, pid %s)", caller.user ?: "an unknown user",
                     caller.uid, caller.pid) < 0) {
                caller.words = NULL;
                return -ENOMEM;
        }

        *ret = caller;
        caller = (Caller){ .user = NULL };
        return 0;
}

static void api_observe(Api *api, const RpcRequest *request, ErrorKind result) {
        api->on_request(strrchr(rpc_request_path(request), '/') + 1, result, api->userdata);
}

int api_reply(Api *api, RpcRequest *request, const ProtobufCMessage *reply) {
        api_observe(api, request, ERROR_NONE);
        return rpc_request_reply(request, reply);
}

int api_refuse(Api *api, RpcRequest *request, ErrorKind kind, const char *reason) {
        cleanup(error_done) Error error = ERROR_INIT;

        api_observe(api, request, kind);
        (void) error_set(&error, kind, "%s", reason);
        return rpc_request_refuse(request, &error);
}

int api_log_change(Api *api, const RpcRequest *request, const char *request_id, const char *format,
                   ...) {
        cleanup(caller_done) Caller caller = { .user = NULL };
        cleanup(free_p) char *what = NULL;
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = vasprintf(&what, format, arguments);
        va_end(arguments);
        if (r < 0) {
                what = NULL;
                return -ENOMEM;
        }

        r = caller_init(rpc_request_peer(request), &caller);
        if (r < 0)
                return r;

        log_info(api->log,
                 LOG_FIELDS({ "CALLER_UID", caller.uid }, { "CALLER_PID", caller.pid },
                            { "CALLER_USER", caller.user }, { "REQUEST_ID", request_id }),
                 "%s for %s.", what, caller.words);
        return 0;
}

int api_check_restart(const Api *api, const RpcRequest *request, Error *reterr) {
        const Peer *peer = rpc_request_peer(request);
        cleanup(caller_done) Caller caller = { .user = NULL };
        int r;

        if (peer_is_root(peer) || peer_has_group(peer, api->restart_group))
                return 0;

        r = caller_init(peer, &caller);
        if (r < 0)
                return r;

        if (!api->restart_group_name)
                return error_set(reterr, ERROR_DENIED,
                                 "%s may not restart containers, only root may; run it as root, or "
                                 "set restartGroup in inplaced's configuration",
                                 caller.words);

        return error_set(reterr, ERROR_DENIED,
                         "%s may not restart containers, only root and the members of the group "
                         "'%s' may; run it as root, or join this group",
                         caller.words, api->restart_group_name);
}

bool is_plain_text(const char *text) {
        for (; *text; text++)
                if ((unsigned char) *text < ' ' || (unsigned char) *text >= 0x7f)
                        return false;

        return true;
}

char *plain_text(const char *text) {
        return (char *) (is_plain_text(text) ? text : "?");
}

void make_plain_text(char *text) {
        for (; *text; text++)
                if ((unsigned char) *text < ' ' || (unsigned char) *text >= 0x7f)
                        *text = '?';
}

static int on_image(Image *image, void *userdata) {
        return preloads_on_image(userdata, image);
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

        api->on_freed(api->userdata);
}

static void on_refused(ListenerRefusal refusal, void *userdata) {
        Api *api = userdata;

        log_debug(api->log, NULL, "Refused a connection to the local API: %s.",
                  listener_refusal_to_string(refusal));
        api->on_refused(refusal, api->userdata);
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
                .images = options->images,
                .runtimes = options->runtimes,
                .subject = options->subject,
                .stops = options->stops,
                .pods = options->pods,
                .meta = options->meta,
                .state_file = options->state_file,
                .node_name = strdup(options->node_name),
                .restart_group = options->restart_group,
                .on_request = options->on_request,
                .on_refused = options->on_refused,
                .on_freed = options->on_freed,
                .userdata = options->userdata,
                .watcher = { .on_image = on_image, .userdata = api },
        };
        images_watch(api->images, &api->watcher);
        if (!api->node_name)
                return -ENOMEM;

        if (options->restart_group_name) {
                api->restart_group_name = strdup(options->restart_group_name);
                if (!api->restart_group_name)
                        return -ENOMEM;
        }

        r = rpc_server_new(options->completions, services, sizeof(services) / sizeof(services[0]),
                           api, &api->server);
        if (r < 0)
                return r;

        rpc_server_observe(api->server, on_freed);
        listener = options->listener;
        listener.on_accepted = on_accepted;
        listener.on_left = on_left;
        listener.on_refused = on_refused;
        listener.userdata = api;
        r = listener_new(completion_queue_get_event(options->completions), &listener,
                         &api->listener, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(api);
        return 0;
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
        listener_free(api->listener);
        rpc_server_free(api->server);
        free(api->node_name);
        free(api->restart_group_name);
        free(api);
        return NULL;
}

size_t api_n_connections(const Api *api) {
        return listener_n_connections(api->listener);
}
