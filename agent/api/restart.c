/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/calls.h"
#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/node/owner.h"
#include "agent/restart/restart.h"

#define RESTARTINGS_MAX 256 /* more than all users but root have calls */

typedef Inplaced__V1__RestartRequest RestartMessage;
typedef Inplaced__V1__RestartEvent EventMessage;

/* The newest state of a container. */
typedef struct RestartingItem {
        char *container;
        char *old_id;
        char *new_id;
        char *message;
        RestartPhase phase;
        bool is_final;
        bool is_pending; /* the state was not sent yet */
} RestartingItem;

/* A caller that follows the restart of its containers. */
struct Restarting {
        LIST_LINKS(Restarting);
        Api *api;
        RpcRequest *request;
        Restart *restart;
        char *namespace; /* namespace of the pod, once it was found */
        char *pod;
        RestartingItem *items;
        size_t n_items;
        size_t next_item; /* next item to send, so that each has its turn */
        bool has_ended;
        Error error; /* why no container was restarted */
};

/* clang-format off */
static const Inplaced__V1__RestartPhase phases[_RESTART_PHASE_MAX] = {
        [RESTART_WAITING]  = INPLACED__V1__RESTART_PHASE__RESTART_PHASE_WAITING,
        [RESTART_STOPPING] = INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPING,
        [RESTART_STOPPED]  = INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPED,
        [RESTART_RUNNING]  = INPLACED__V1__RESTART_PHASE__RESTART_PHASE_RUNNING,
        [RESTART_FAILED]   = INPLACED__V1__RESTART_PHASE__RESTART_PHASE_FAILED,
};
/* clang-format on */

DEFINE_CLEANUP(Restarting *, restarting_drop)

static void item_done(RestartingItem *item) {
        free(item->container);
        free(item->old_id);
        free(item->new_id);
        free(item->message);
}

void restarting_drop(Restarting *restarting) {
        restart_free(restarting->restart);
        for (size_t i = 0; i < restarting->n_items; i++)
                item_done(&restarting->items[i]);
        free(restarting->items);
        free(restarting->namespace);
        free(restarting->pod);
        error_done(&restarting->error);
        list_remove(&restarting->api->restartings, restarting);
        restarting->api->n_restartings--;
        rpc_request_unref(restarting->request);
        free(restarting);
}

static RestartingItem *find_pending(Restarting *restarting) {
        for (size_t i = 0; i < restarting->n_items; i++) {
                size_t at = (restarting->next_item + i) % restarting->n_items;

                if (!restarting->items[at].is_pending)
                        continue;

                restarting->next_item = at + 1;
                return &restarting->items[at];
        }

        return NULL;
}

static int send_item(Restarting *restarting, RestartingItem *item) {
        EventMessage event = INPLACED__V1__RESTART_EVENT__INIT;

        event.namespace_ = plain_text(restarting->namespace);
        event.pod = plain_text(restarting->pod);
        event.container = plain_text(item->container);
        event.phase = phases[item->phase];
        event.final = item->is_final;
        event.old_container_id = plain_text(item->old_id);
        event.new_container_id = plain_text(item->new_id);
        event.message = item->message;
        item->is_pending = false;
        return rpc_request_send(restarting->request, &event.base);
}

static int restarting_end(Restarting *restarting) {
        cleanup(error_done) Error error = restarting->error;
        RpcRequest *request = take_ptr(restarting->request);

        restarting->error = ERROR_INIT;
        api_count(restarting->api, "Restart", error.kind);
        error.kind = api_kind_for_caller(error.kind);
        restarting_drop(restarting);
        return rpc_request_finish(request, error.kind == ERROR_NONE ? NULL : &error);
}

static int on_ready(RpcRequest *request, void *userdata) {
        Restarting *restarting = userdata;
        RestartingItem *item = find_pending(restarting);

        if (item)
                return send_item(restarting, item);

        return restarting->has_ended ? restarting_end(restarting) : 0;
}

/* The caller has gone: drops the stops that have not begun; the others go on. */
static int on_gone(RpcRequest *request, void *userdata) {
        Restarting *restarting = userdata;

        api_count(restarting->api, "Restart", ERROR_CANCELED);
        restarting_drop(restarting);
        return 0;
}

static int send_more(Restarting *restarting) {
        return rpc_request_can_send(restarting->request) ? on_ready(restarting->request, restarting)
                                                         : 0;
}

static int find_item(Restarting *restarting, const char *container, RestartingItem **ret) {
        RestartingItem *item;

        for (size_t i = 0; i < restarting->n_items; i++)
                if (strcmp(restarting->items[i].container, container) == 0) {
                        *ret = &restarting->items[i];
                        return 0;
                }

        if (array_grow(&restarting->items, restarting->n_items, sizeof(*item)) < 0)
                return -ENOMEM;

        item = &restarting->items[restarting->n_items];
        *item = (RestartingItem){ .container = strdup(container) };
        if (!item->container)
                return -ENOMEM;

        restarting->n_items++;
        *ret = item;
        return 0;
}

static int on_news(const RestartNews *news, void *userdata) {
        Restarting *restarting = userdata;
        RestartingItem *item;
        int r;

        r = find_item(restarting, news->container, &item);
        if (r < 0)
                return r;

        if (text_set(&restarting->namespace, news->namespace) < 0 ||
            text_set(&restarting->pod, news->pod) < 0 ||
            text_set(&item->old_id, news->old_id) < 0 ||
            text_set(&item->new_id, news->new_id) < 0 ||
            text_set(&item->message, news->message) < 0)
                return -ENOMEM;

        text_make_plain(item->message); /* a hook's output may contain anything */
        item->phase = news->phase;
        item->is_final = news->is_final;
        item->is_pending = true;
        return send_more(restarting);
}

static int on_end(const Error *error, void *userdata) {
        Restarting *restarting = userdata;

        restarting->has_ended = true;
        if (error)
                (void) error_copy(&restarting->error, error);
        restarting->restart = restart_free(restarting->restart);
        return send_more(restarting);
}

static bool has_grace(const RestartMessage *message) {
        return message->grace_presence_case ==
               INPLACED__V1__RESTART_REQUEST__GRACE_PRESENCE_GRACE_SECONDS;
}

/* "Accepted request 7f3a to restart "app" of pod "web" in namespace "team" for jo". */
static int log_restart(Api *api, const RpcRequest *request, const RestartMessage *message,
                       const char *id, const char *what) {
        char pod[QUOTE_SIZE], container[QUOTE_SIZE], namespace[QUOTE_SIZE];

        return api_log_change(api, request, id, "%s %s of pod %s%s%s", what,
                              message->container[0] ? quote(message->container, container)
                                                    : "all containers",
                              quote(message->pod, pod),
                              message->namespace_[0] ? " in namespace " : "",
                              message->namespace_[0] ? quote(message->namespace_, namespace) : "");
}

static int restarting_start(Restarting *restarting, const RestartMessage *message) {
        cleanup(free_p) char *owner = NULL, *what = NULL;
        Api *api = restarting->api;
        int r;

        if (text_format(&owner, OWNER_REQUEST "%016" PRIx64, random_id()) < 0)
                return -ENOMEM;
        if (text_format(&what, "Accepted request %s to restart", owner + strlen(OWNER_REQUEST)) < 0)
                return -ENOMEM;

        r = log_restart(api, restarting->request, message, owner + strlen(OWNER_REQUEST), what);
        if (r < 0)
                return r;

        return restart_new(
                &(RestartOptions){
                        .event = completion_queue_get_event(api->completions),
                        .runtimes = api->runtimes,
                        .stops = api->stops,
                        .pods = api->pods,
                        .owner = owner,
                        .namespace = message->namespace_,
                        .pod = message->pod,
                        .container = message->container,
                        .reason = message->reason,
                        .grace_sec =
                                has_grace(message) ? message->grace_seconds : STOP_GRACE_OF_POD,
                        .must_wait = message->wait,
                        .wait_sec = message->wait_seconds,
                        .on_news = on_news,
                        .on_end = on_end,
                        .userdata = restarting,
                },
                &restarting->restart);
}

int api_restart(RpcRequest *request, const void *message, void *userdata) {
        cleanup(restarting_drop_p) Restarting *restarting = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        const RestartMessage *asked = message;
        Api *api = userdata;
        int r;

        r = api_check_restart(api, request, &error);
        if (error.kind != ERROR_NONE) {
                r = log_restart(api, request, message, NULL, "Refused to restart");
                return r < 0 ? r : api_refuse(api, request, error.kind, error_message(&error));
        }
        if (r < 0)
                return r;

        if (has_grace(asked) && asked->grace_seconds < 0)
                return api_refuse(api, request, ERROR_INVALID, "the grace period is negative");
        if (asked->wait_seconds < 0)
                return api_refuse(api, request, ERROR_INVALID, "the time to wait is negative");
        if (api->n_restartings == RESTARTINGS_MAX)
                return api_refuse(api, request, ERROR_UNAVAILABLE,
                                  "too many restarts are in progress; try again later");
        if (!runtimes_are_alive(api->runtimes))
                return api_refuse(api, request, ERROR_UNAVAILABLE,
                                  diagnosis_runtime_sentence(api->runtimes));

        restarting = calloc(1, sizeof(*restarting));
        if (!restarting)
                return -ENOMEM;

        restarting->api = api;
        restarting->request = request;
        list_prepend(&api->restartings, restarting);
        api->n_restartings++;
        r = restarting_start(restarting, message);
        if (r < 0)
                return r;

        rpc_request_open_stream(request, on_ready, on_gone, restarting);
        (void) take_ptr(restarting); /* it is on the list */
        return 0;
}
