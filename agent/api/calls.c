/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/api/calls.h"

#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/node/owner.h"

#define OWNERS_MAX 32 /* number of requesters shown per image */

/* The caller, for the log and for refusals. */
typedef struct Caller {
        char *user; /* NULL: /etc/passwd does not have it */
        char uid[16];
        char pid[16];
        char *words; /* "jo (uid 1000, pid 4242)" */
} Caller;

DEFINE_CLEANUP(FILE *, fclose)

/* Looks the name up in /etc/passwd alone: other sources may be slow, and stay in memory. */
static int find_user(uid_t uid, char **ret) {
        cleanup(fclose_p) FILE *file = fopen("/etc/passwd", "re");
        const struct passwd *user;

        while (file && (user = fgetpwent(file)))
                if (user->pw_uid == uid)
                        return text_copy(user->pw_name, ret);

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
        if (text_format(&caller.words, "%s (uid %s, pid %s)", caller.user ?: "an unknown user",
                        caller.uid, caller.pid) < 0)
                return -ENOMEM;

        *ret = caller;
        caller = (Caller){ .user = NULL };
        return 0;
}

int api_describe_caller(const Peer *peer, char **ret) {
        cleanup(caller_done) Caller caller = { .user = NULL };
        int r;

        r = caller_init(peer, &caller);
        if (r < 0)
                return r;

        text_make_plain(caller.words);
        *ret = take_ptr(caller.words);
        return 0;
}

static bool has_words(const RequestedBy *requested, const char *words) {
        for (size_t i = 0; i < requested->n_words; i++)
                if (strcmp(requested->words[i], words) == 0)
                        return true;

        return false;
}

/* Takes the words over. */
static int add_words(RequestedBy *requested, char *words) {
        cleanup(free_p) char *owned = words;

        if (!requested->words)
                requested->words = calloc(OWNERS_MAX, sizeof(requested->words[0]));
        if (!requested->words)
                return -ENOMEM;

        if (requested->n_words < OWNERS_MAX && !has_words(requested, words))
                requested->words[requested->n_words++] = take_ptr(owned);
        return 0;
}

/* An object of the cluster requests it on behalf of others. */
static int add_owners_of_request(RequestedBy *requested, const ImageRequest *request) {
        const OwnerRef self = owner_to_reference(request->owner, &request->desired);
        bool is_on_behalf = owner_is_node_image(request->owner) && request->desired.n_owners > 0;
        const OwnerRef *references = is_on_behalf ? request->desired.owners : &self;
        size_t n = is_on_behalf ? request->desired.n_owners : 1;

        for (size_t i = 0; i < n; i++) {
                char *words;
                int r;

                r = owner_reference_to_words(&references[i], &words);
                if (r < 0)
                        return r;

                if (is_on_behalf)
                        text_make_plain(words);
                r = add_words(requested, words);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* A local request that is done only stays so that callers can read its status, or to pin. */
static bool is_requested(const ImageRequest *request) {
        return !request->is_expired && (!request->is_done || !owner_is_request(request->owner) ||
                                        request->desired.is_pinned);
}

int requested_by_add(RequestedBy *requested, const Image *image) {
        for (const ImageRequest *request = image_requests(image); request;
             request = request->next) {
                int r;

                if (!is_requested(request))
                        continue;

                r = add_owners_of_request(requested, request);
                if (r < 0)
                        return r;
        }

        return 0;
}

void requested_by_done(RequestedBy *requested) {
        for (size_t i = 0; i < requested->n_words; i++)
                free(requested->words[i]);
        free(requested->words);
}

void api_count(Api *api, const char *method, ErrorKind result) {
        metrics_add(api->metrics, METRIC_LOCAL_API_REQUESTS,
                    METRIC_LABELS(method, metrics_result(result)), 1);
        api->on_changed(api->userdata);
}

static const char *method_of(const RpcRequest *request) {
        return strrchr(rpc_request_path(request), '/') + 1;
}

int api_reply(Api *api, RpcRequest *request, const ProtobufCMessage *reply) {
        api_count(api, method_of(request), ERROR_NONE);
        return rpc_request_reply(request, reply);
}

ErrorKind api_kind_for_caller(ErrorKind kind) {
        switch (kind) {
        case ERROR_TIMEOUT:
        case ERROR_CANCELED: return ERROR_UNAVAILABLE;
        case ERROR_UNSUPPORTED: return ERROR_INTERNAL;
        case ERROR_NONE:
        case ERROR_INVALID:
        case ERROR_NOT_FOUND:
        case ERROR_CONFLICT:
        case ERROR_GONE:
        case ERROR_DENIED:
        case ERROR_UNAVAILABLE:
        case ERROR_INTERNAL:
        case _ERROR_KIND_MAX: break;
        }

        return kind;
}

int api_refuse(Api *api, RpcRequest *request, ErrorKind kind, const char *reason) {
        cleanup(error_done) Error error = ERROR_INIT;

        api_count(api, method_of(request), kind);
        (void) error_set(&error, api_kind_for_caller(kind), "%s", reason);
        return rpc_request_refuse(request, &error);
}

void api_count_follower(RoomUse *use, const RpcRequest *follower, const RpcRequest *request) {
        const Peer *peer = rpc_request_peer(follower);

        room_count(use, peer_is_root(peer), peer->uid == rpc_request_peer(request)->uid, 1);
}

int api_check_followers(const RoomUse *use, const char *what, const RpcRequest *request,
                        Error *reterr) {
        const RoomLimits limits = { .what = what, .for_user = 16, .for_others = 48, .for_all = 64 };
        const Peer *peer = rpc_request_peer(request);

        return room_check(&limits, use, peer_is_root(peer), peer->uid, 1, reterr);
}

int api_log_change(Api *api, const RpcRequest *request, const char *request_id, const char *format,
                   ...) {
        cleanup(caller_done) Caller caller = { .user = NULL };
        cleanup(free_p) char *what = NULL;
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = text_vformat(&what, format, arguments);
        va_end(arguments);
        if (r < 0)
                return r;

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
                         "\"%s\" may; run it as root, or join this group",
                         caller.words, api->restart_group_name);
}

char *plain_text(const char *text) {
        return (char *) (text_is_plain(text) ? text : "?");
}

Inplaced__V1__OnDemand *on_demand_message(const ImageOnDemand *found, Inplaced__V1__OnDemand *ret) {
        if (found->n_layers == 0)
                return NULL;

        inplaced__v1__on_demand__init(ret);
        ret->layers = found->n_layers;
        ret->all_layers = found->n_layers_all;
        ret->counted = found->is_counted;
        ret->bytes_present = found->bytes_present;
        ret->bytes_total = found->bytes_total;
        return ret;
}

Inplaced__V1__Step step_message(ImageStep step) {
        /* clang-format off */
        static const Inplaced__V1__Step steps[_IMAGE_STEP_MAX] = {
                [IMAGE_STEP_NONE]                = INPLACED__V1__STEP__STEP_UNSPECIFIED,
                [IMAGE_STEP_QUEUED]              = INPLACED__V1__STEP__STEP_QUEUED,
                [IMAGE_STEP_WAITING_FOR_RUNTIME] = INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME,
                [IMAGE_STEP_INSPECTING]          = INPLACED__V1__STEP__STEP_INSPECTING,
                [IMAGE_STEP_RESOLVING]           = INPLACED__V1__STEP__STEP_RESOLVING,
                [IMAGE_STEP_DOWNLOADING]         = INPLACED__V1__STEP__STEP_DOWNLOADING,
                [IMAGE_STEP_UNPACKING]           = INPLACED__V1__STEP__STEP_UNPACKING,
                [IMAGE_STEP_BACKING_OFF]         = INPLACED__V1__STEP__STEP_BACKING_OFF,
                [IMAGE_STEP_WAITING_FOR_DISK]    = INPLACED__V1__STEP__STEP_WAITING_FOR_DISK,
                [IMAGE_STEP_WAITING_FOR_POD]     = INPLACED__V1__STEP__STEP_WAITING_FOR_POD,
                [IMAGE_STEP_WAITING_FOR_SLOT]    = INPLACED__V1__STEP__STEP_QUEUED,
        };
        /* clang-format on */

        return steps[step];
}
