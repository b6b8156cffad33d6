/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/restart.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/pod/restart-find.h"
#include "agent/pod/restart-internal.h"
#include "cri/client.h"

#define WAIT_SEC ((int64_t) 10 * 60)
#define NO_RUNTIME "no container runtime has been found"

DEFINE_CLEANUP(Restart *, restart_free)

static bool is_told(const RestartItem *item, RestartPhase phase, bool is_final,
                    const char *message) {
        return item->message && item->phase == phase && item->is_final == is_final &&
               strcmp(item->message, message) == 0;
}

int restart_tell(RestartItem *item, RestartPhase phase, bool is_final, const char *message) {
        const Restart *restart = item->restart;
        char *copy;

        if (is_told(item, phase, is_final, message))
                return 0;

        copy = strdup(message);
        if (!copy)
                return -ENOMEM;

        free(item->message);
        item->message = copy;
        item->phase = phase;
        if (is_final && !item->is_final)
                item->restart->n_unfinished--;
        item->is_final = is_final;

        return restart->on_news(
                &(RestartNews){
                        .namespace = restart->namespace,
                        .pod = restart->pod,
                        .container = item->name,
                        .phase = phase,
                        .is_final = is_final,
                        .old_id = item->old_id,
                        .new_id = item->new_id ?: "",
                        .message = item->message,
                },
                restart->userdata);
}

int restart_settle(Restart *restart) {
        if (restart->n_unfinished > 0)
                return 0;

        restart_stop_waiting(restart);
        return restart->on_end(NULL, restart->userdata);
}

static int on_step(Stop *stop, StopStep step, const char *message, void *userdata) {
        RestartItem *item = userdata;

        switch (step) {
        case STOP_STEP_QUEUED:
        case STOP_STEP_WAITING_FOR_RUNTIME:
        case STOP_STEP_WAITING_FOR_KUBELET:
        case STOP_STEP_LOOKING: return restart_tell(item, RESTART_WAITING, false, message ?: "");
        case STOP_STEP_HOOK:
                return restart_tell(item, RESTART_STOPPING, false, message ?: "its preStop hook");
        case STOP_STEP_STOPPING: return restart_tell(item, RESTART_STOPPING, false, message ?: "");
        case STOP_STEP_ENDED:
        case _STOP_STEP_MAX: break;
        }

        return 0;
}

/* Up to three remarks in one line. */
static int join(const char *first, const char *second, const char *third, char **ret) {
        const char *parts[] = { first, second, third };
        size_t size;
        bool has_any = false;
        FILE *file;

        file = open_memstream(ret, &size);
        if (!file)
                return -ENOMEM;

        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                if (parts[i]) {
                        fprintf(file, "%s%s", has_any ? "; " : "", parts[i]);
                        has_any = true;
                }

        return fclose(file) == 0 ? 0 : -ENOMEM;
}

static int item_ended(RestartItem *item, const StopReport *report) {
        bool has_gone = report->result == STOP_GONE;
        bool is_final = !item->restart->must_wait || item->stays_down;
        cleanup(free_p) char *message = NULL;
        int r;

        r = join(has_gone ? report->message ?: "it had ended by itself" : NULL,
                 report->hook_message, item->stays_down, &message);
        if (r < 0)
                return r;

        r = restart_tell(item, RESTART_STOPPED, is_final, message);
        if (r < 0 || is_final)
                return r;

        return restart_await(item);
}

static int restart_stop_next(Restart *restart);

static int on_stopped(const StopReport *report, void *userdata) {
        RestartItem *item = userdata;
        int r = 0;

        item->stop = NULL;
        switch (report->result) {
        case STOP_STOPPED:
        case STOP_GONE: r = item_ended(item, report); break;
        case STOP_NOT_ASKED:
        case STOP_FAILED:
        case _STOP_RESULT_MAX:
                r = restart_tell(item, RESTART_FAILED, true,
                                 report->message ?: "it could not be stopped");
                break;
        }
        if (r < 0)
                return r;

        r = restart_stop_next(item->restart);
        return r < 0 ? r : restart_settle(item->restart);
}

static int item_stop(RestartItem *item) {
        const Restart *restart = item->restart;
        cleanup(free_p) char *cause = NULL;

        if (asprintf(&cause, "Stopping container %s: asked for on the node%s%s", item->name,
                     restart->reason[0] ? ": " : "", restart->reason) < 0) {
                cause = NULL;
                return -ENOMEM;
        }

        item->was_added = true;
        return stops_add(restart->stops,
                         &(StopOptions){
                                 .container_id = item->old_id,
                                 .owner = restart->owner,
                                 .cause = cause,
                                 .pod_address = restart->address,
                                 .grace_sec = restart->grace_sec,
                                 .needs_kubelet = !item->stays_down &&
                                                  (restart->must_wait || item->comes_back),
                                 .is_init = item->kind != POD_CONTAINER_MAIN,
                                 .on_step = on_step,
                                 .on_done = on_stopped,
                                 .userdata = item,
                         },
                         &item->stop);
}

static int item_init(RestartItem *item, Restart *restart, const RuntimeContainer *container,
                     const Pod *known) {
        const PodContainer *spec = known ? pod_find(known, container->name) : NULL;

        *item = (RestartItem){
                .restart = restart,
                .name = strdup(container->name),
                .old_id = strdup(container->id),
                .restart_count = container->restart_count,
                .kind = spec ? spec->kind : POD_CONTAINER_MAIN,
                .index = spec ? (size_t) (spec - known->containers) : 0,
                .comes_back = spec && spec->comes_back,
        };
        if (!item->name || !item->old_id)
                return -ENOMEM;

        return restart_stays_down(known, container->name, &item->stays_down);
}

static int restart_take(Restart *restart, const RestartFound *found) {
        cleanup(free_p) char *namespace = strdup(found->pod->namespace);
        int r;

        restart->uid = strdup(found->pod->uid);
        restart->items = calloc(found->n_containers, sizeof(restart->items[0]));
        if (!namespace || !restart->uid || !restart->items)
                return -ENOMEM;

        if (found->known && found->known->ip[0]) {
                restart->address = strdup(found->known->ip);
                if (!restart->address)
                        return -ENOMEM;
        }

        free(restart->namespace); /* it may have been left open */
        restart->namespace = take_ptr(namespace);
        restart->was_known = found->known != NULL;
        for (size_t i = 0; i < found->n_containers; i++) {
                restart->n_items++;
                r = item_init(&restart->items[i], restart, found->containers[i], found->known);
                if (r < 0)
                        return r;
        }

        restart->n_unfinished = restart->n_items;
        return 0;
}

/* A sidecar serves the main containers and the sidecars after it, as long as these run. */
static bool is_in_turn(const RestartItem *item) {
        const Restart *restart = item->restart;

        if (item->kind != POD_CONTAINER_SIDECAR)
                return true;

        for (size_t i = 0; i < restart->n_items; i++) {
                const RestartItem *other = &restart->items[i];

                if ((other->stop || !other->was_added) &&
                    (other->kind != POD_CONTAINER_SIDECAR || other->index > item->index))
                        return false;
        }

        return true;
}

static int restart_stop_next(Restart *restart) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++)
                if (!restart->items[i].was_added && is_in_turn(&restart->items[i]))
                        r = item_stop(&restart->items[i]);
        return r;
}

static int restart_stop_all(Restart *restart) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++) {
                RestartItem *item = &restart->items[i];

                r = restart_tell(item, RESTART_WAITING, false,
                                 is_in_turn(item) ? "" : "it is stopped after what it serves");
        }

        return r < 0 ? r : restart_stop_next(restart);
}

static int restart_choose(Restart *restart, const CriContainerList *list, RestartFound *found,
                          RuntimePods *running, Error *reterr) {
        const RestartQuestion question = {
                .namespace = restart->namespace,
                .pod = restart->pod,
                .container = restart->container,
        };
        int r;

        r = runtime_pods_read(list, running);
        if (r < 0)
                return r;

        return restart_find(running, restart->pods, &question, found, reterr);
}

static int on_listed(const void *message, const Error *refused, void *userdata) {
        cleanup(runtime_pods_done) RuntimePods running = RUNTIME_PODS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        Restart *restart = userdata;
        RestartFound found;
        int r;

        restart->call = rpc_call_unref(restart->call);
        if (refused)
                return restart->on_end(refused, restart->userdata);

        r = restart_choose(restart, message, &found, &running, &error);
        if (error.kind != ERROR_NONE)
                return restart->on_end(&error, restart->userdata);
        if (r < 0)
                return r;

        r = restart_take(restart, &found);
        if (r < 0)
                return r;

        return restart_stop_all(restart);
}

static int restart_look(Restart *restart, RpcClient *client) {
        Runtime__V1__ContainerFilter__LabelSelectorEntry labels[2],
                *list[] = { &labels[0], &labels[1] };
        CriContainerFilter filter = RUNTIME__V1__CONTAINER_FILTER__INIT;

        for (size_t i = 0; i < 2; i++)
                runtime__v1__container_filter__label_selector_entry__init(&labels[i]);
        labels[0].key = (char *) LABEL_POD_NAME;
        labels[0].value = restart->pod;
        labels[1].key = (char *) LABEL_POD_NAMESPACE;
        labels[1].value = restart->namespace;
        filter.label_selector = list;
        filter.n_label_selector = restart->namespace[0] ? 2 : 1;
        return cri_list_containers(client, &filter, on_listed, restart, &restart->call);
}

static int on_begin(sd_event_source *source, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Restart *restart = userdata;
        const RestartQuestion question = {
                .namespace = restart->namespace,
                .pod = restart->pod,
                .container = restart->container,
                .reason = restart->reason,
                .grace_sec = restart->grace_sec,
        };
        RpcClient *client = runtimes_client(restart->runtimes);
        Runtime *runtime;

        restart->begin = sd_event_source_unref(restart->begin);
        if (restart_question_check(&question, &error) < 0)
                return restart->on_end(&error, restart->userdata);
        if (client)
                return restart_look(restart, client);

        runtime = runtimes_chosen(restart->runtimes);
        (void) error_set(&error, ERROR_UNAVAILABLE, "%s",
                         runtime ? runtime_sentence(runtime) : NO_RUNTIME);
        return restart->on_end(&error, restart->userdata);
}

int restart_new(const RestartOptions *options, Restart **ret) {
        cleanup(restart_free_p) Restart *restart = NULL;
        int r;

        restart = malloc(sizeof(*restart));
        if (!restart)
                return -ENOMEM;

        *restart = (Restart){
                .event = sd_event_ref(options->event),
                .runtimes = options->runtimes,
                .stops = options->stops,
                .pods = options->pods,
                .owner = strdup(options->owner),
                .namespace = strdup(options->namespace),
                .pod = strdup(options->pod),
                .container = strdup(options->container),
                .reason = strdup(options->reason),
                .grace_sec = options->grace_sec,
                .must_wait = options->must_wait,
                .wait_sec = options->wait_sec > 0 ? options->wait_sec : WAIT_SEC,
                .on_news = options->on_news,
                .on_end = options->on_end,
                .userdata = options->userdata,
        };
        if (!restart->owner || !restart->namespace || !restart->pod || !restart->container ||
            !restart->reason)
                return -ENOMEM;

        r = loop_add_defer(restart->event, &restart->begin, on_begin, restart);
        if (r < 0)
                return r;

        *ret = take_ptr(restart);
        return 0;
}

static void item_done(RestartItem *item) {
        if (item->stop)
                stop_leave(item->stop);
        free(item->name);
        free(item->old_id);
        free(item->new_id);
        free(item->stays_down);
        free(item->message);
}

Restart *restart_free(Restart *restart) {
        if (!restart)
                return NULL;

        restart_stop_waiting(restart);
        for (size_t i = 0; i < restart->n_items; i++)
                item_done(&restart->items[i]);
        free(restart->items);
        rpc_call_unref(restart->call);
        sd_event_source_disable_unref(restart->begin);
        sd_event_unref(restart->event);
        free(restart->address);
        free(restart->uid);
        free(restart->reason);
        free(restart->container);
        free(restart->pod);
        free(restart->namespace);
        free(restart->owner);
        free(restart);
        return NULL;
}
