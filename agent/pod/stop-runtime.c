/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/pod/runtime-pod.h"
#include "agent/pod/stops-internal.h"
#include "cri/client.h"

#define NODE_ADDRESS "127.0.0.1" /* of a pod in the host's network, which has none of its own */

static bool is_wanted(const Stop *stop, Runtime *runtime) {
        return strcmp(runtime_name(runtime), stop->runtime) == 0;
}

static Runtime *find_runtime(const Stop *stop) {
        const Runtimes *runtimes = stop->stops->runtimes;

        if (!stop->runtime)
                return runtimes_chosen(runtimes);

        for (size_t i = 0; i < runtimes_count(runtimes); i++)
                if (is_wanted(stop, runtimes_get(runtimes, i)))
                        return runtimes_get(runtimes, i);
        return NULL;
}

const char *stop_runtime_name(const Stop *stop) {
        Runtime *runtime = stop->runtime ? NULL : find_runtime(stop);

        return runtime ? runtime_name(runtime) : stop->runtime;
}

RpcClient *stop_client(const Stop *stop) {
        Runtime *runtime = find_runtime(stop);

        return runtime && runtime_is_alive(runtime) ? runtime_client(runtime) : NULL;
}

static int stop_miss_runtime(Stop *stop) {
        char *message;

        if (asprintf(&message, "the container runtime%s%s is not there", stop->runtime ? " " : "",
                     stop->runtime ?: "") < 0)
                return -ENOMEM;

        stop_set_message(stop, message);
        return 0;
}

/* Why it goes on later, or not at all. */
static int stop_take_error(Stop *stop, const Error *error) {
        char *message = strdup(error_message(error));

        if (!message)
                return -ENOMEM;

        stop_set_message(stop, message);
        return 0;
}

static StopEvent event_over(Stop *stop, StopResult result) {
        stop->result = result;
        if (result != STOP_FAILED)
                stop_set_message(stop, NULL);
        return STOP_ON_OVER;
}

/* A runtime that is there and refuses again and again will not do it. */
static StopEvent event_of_refusal(Stop *stop) {
        stop->n_refusals++;
        return stop->n_refusals < STOP_REFUSALS_MAX ? STOP_ON_REFUSED
                                                    : event_over(stop, STOP_FAILED);
}

/* Of a question that changes nothing: it may be asked for ever while nobody answers. */
static int event_of_error(Stop *stop, const Error *error, StopEvent *ret_event) {
        int r;

        if (!stop_client(stop)) {
                *ret_event = STOP_ON_RUNTIME_AWAY;
                return stop_miss_runtime(stop);
        }

        r = stop_take_error(stop, error);
        if (r < 0)
                return r;

        *ret_event =
                stop_plan_is_silence(error->kind) ? STOP_ON_RUNTIME_AWAY : event_of_refusal(stop);
        return 0;
}

static int replace(char **text, const char *source) {
        char *copy = source ? strdup(source) : NULL;

        if (source && !copy)
                return -ENOMEM;

        free(*text);
        *text = copy;
        return 0;
}

static int stop_take_container(Stop *stop, const CriContainer *container) {
        const struct {
                char **text;
                const char *source;
        } texts[] = {
                { &stop->sandbox_id, container->pod_sandbox_id },
                { &stop->container, cri_container_label(container, LABEL_CONTAINER_NAME) },
                { &stop->pod, cri_container_label(container, LABEL_POD_NAME) },
                { &stop->namespace, cri_container_label(container, LABEL_POD_NAMESPACE) },
                { &stop->uid, cri_container_label(container, LABEL_POD_UID) },
        };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < sizeof(texts) / sizeof(texts[0]); i++)
                r = replace(texts[i].text, texts[i].source);
        if (r < 0)
                return r;

        stop->look_grace_sec =
                stop_plan_grace_sec(stop->grace_sec,
                                    cri_container_annotation(container, ANNOTATION_DELETION_GRACE),
                                    cri_container_annotation(container,
                                                             ANNOTATION_TERMINATION_GRACE));
        return stop_read_hook(stop, cri_container_annotation(container, ANNOTATION_PRE_STOP),
                              cri_container_annotation(container, ANNOTATION_PORTS));
}

/* The runtime takes the beginning of an ID, too. */
static const CriContainer *find_container(const Stop *stop, const CriContainerList *list) {
        for (size_t i = 0; i < list->n_containers; i++)
                if (strcmp(list->containers[i]->id, stop->container_id) == 0)
                        return list->containers[i];

        return NULL;
}

static int take_running(Stop *stop, const CriContainer *container, StopEvent *ret_event) {
        int r;

        stop->n_refusals = 0;
        r = stop_take_container(stop, container);
        if (r < 0)
                return r;

        *ret_event = stop->is_resumed ? STOP_ON_BEGUN : STOP_ON_RUNNING;
        if (stop->is_resumed)
                stop_announce_resumed(stop);
        return 0;
}

static int event_of_look(Stop *stop, const CriContainerList *list, StopEvent *ret_event) {
        const StopRecord *record =
                stop_journal_find(stop->stops->journal, stop->owner, stop->container_id);
        const CriContainer *container = find_container(stop, list);

        if (container && container->state == RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING)
                return take_running(stop, container, ret_event);

        if (container && stop->is_resumed)
                *ret_event = STOP_ON_EXITED;
        else
                *ret_event = event_over(stop, record ? STOP_STOPPED : STOP_GONE);
        return 0;
}

static int on_looked(const void *reply, const Error *error, void *userdata) {
        Stop *stop = userdata;
        StopEvent event;
        int r;

        stop->n_silences = error ? stop->n_silences : 0;
        r = error ? event_of_error(stop, error, &event) : event_of_look(stop, reply, &event);
        stop->call = rpc_call_unref(stop->call);
        return r < 0 ? r : stop_handle(stop, event);
}

int stop_look(Stop *stop, StopEvent *ret_event) {
        CriContainerFilter filter = RUNTIME__V1__CONTAINER_FILTER__INIT;
        RpcClient *client = stop_client(stop);

        if (!client) {
                *ret_event = STOP_ON_RUNTIME_AWAY;
                return stop_miss_runtime(stop);
        }

        filter.id = stop->container_id;
        stop->is_overtaken = stops_has_begun_other(stop);
        return cri_list_containers(client, &filter, on_looked, stop, &stop->call);
}

static int event_of_sandbox(Stop *stop, const CriSandboxStatus *reply, StopEvent *ret_event) {
        const char *address = NODE_ADDRESS;

        if (reply->status && reply->status->network && *reply->status->network->ip)
                address = reply->status->network->ip;

        *ret_event = STOP_ON_ADDRESS;
        return replace(&stop->address, address);
}

/* Without an address the hook fails, and says so. */
static int on_sandbox(const void *reply, const Error *error, void *userdata) {
        StopEvent event = STOP_ON_ADDRESS;
        Stop *stop = userdata;
        int r = 0;

        if (error && (!stop_client(stop) || stop_plan_is_silence(error->kind)))
                r = event_of_error(stop, error, &event);
        else if (!error)
                r = event_of_sandbox(stop, reply, &event);
        stop->call = rpc_call_unref(stop->call);
        return r < 0 ? r : stop_handle(stop, event);
}

static bool needs_address(const Stop *stop) {
        const HookSpec *hook = &stop->hook_spec;

        return stop->look_grace_sec > 0 && !hook->host &&
               (hook->kind == HOOK_HTTP || hook->kind == HOOK_TCP);
}

int stop_find_address(Stop *stop, StopEvent *ret_event) {
        RpcClient *client = stop_client(stop);

        *ret_event = STOP_ON_ADDRESS;
        if (!needs_address(stop))
                return 0;
        if (stop->pod_address)
                return replace(&stop->address, stop->pod_address);

        if (!client) {
                *ret_event = STOP_ON_RUNTIME_AWAY;
                return stop_miss_runtime(stop);
        }

        *ret_event = STOP_ON_NOTHING;
        return cri_sandbox_status(client, stop->sandbox_id, on_sandbox, stop, &stop->call);
}

static int on_stopped(const void *reply, const Error *error, void *userdata) {
        StopEvent event = STOP_ON_ANSWERED;
        Stop *stop = userdata;
        int r = 0;

        stop->is_accepted = !error;
        if (error && !stop_client(stop)) {
                event = STOP_ON_RUNTIME_AWAY;
                r = stop_miss_runtime(stop);
        } else if (error) {
                stop->n_refusals++;
                r = stop_take_error(stop, error);
        }
        stop->call = rpc_call_unref(stop->call);
        return r < 0 ? r : stop_handle(stop, event);
}

int stop_stop(Stop *stop, StopEvent *ret_event) {
        RpcClient *client = stop_client(stop);
        int r;

        if (!client) {
                *ret_event = STOP_ON_RUNTIME_AWAY;
                return stop_miss_runtime(stop);
        }

        r = stop_begin(stop, STOP_PHASE_STOPPING);
        if (r < 0)
                return r;

        return cri_stop_container(client, stop->container_id,
                                  stop_plan_left_sec(stop->deadline_usec, stop_now_usec(stop)),
                                  on_stopped, stop, &stop->call);
}

/* Of a container that still runs: so the runtime has refused, or it has not been told yet. */
static int event_of_survivor(Stop *stop, StopEvent *ret_event) {
        char *message;

        if (stop->is_accepted) {
                message = strdup("it still runs, though the runtime says that it has stopped it");
                if (!message)
                        return -ENOMEM;

                stop_set_message(stop, message);
                stop->is_accepted = false;
                stop->n_refusals++;
        }

        *ret_event = stop->n_refusals == 0                  ? STOP_ON_RUNNING
                     : stop->n_refusals < STOP_REFUSALS_MAX ? STOP_ON_REFUSED
                                                            : event_over(stop, STOP_FAILED);
        return 0;
}

/* It was us who ended it if it ended after we began. */
static int event_of_status(Stop *stop, const CriContainerStatus *reply, StopEvent *ret_event) {
        const Runtime__V1__ContainerStatus *status = reply->status;

        if (status && status->state == RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING)
                return event_of_survivor(stop, ret_event);

        *ret_event =
                event_over(stop, status && status->finished_at >= stop->began_nsec ? STOP_STOPPED
                                                                                   : STOP_GONE);
        return 0;
}

static int on_status(const void *reply, const Error *error, void *userdata) {
        Stop *stop = userdata;
        StopEvent event;
        int r = 0;

        stop->n_silences = error ? stop->n_silences : 0;
        if (!error)
                r = event_of_status(stop, reply, &event);
        else if (error->kind == ERROR_NOT_FOUND)
                event = event_over(stop, stop->is_accepted ? STOP_STOPPED : STOP_GONE);
        else
                r = event_of_error(stop, error, &event);
        stop->call = rpc_call_unref(stop->call);
        return r < 0 ? r : stop_handle(stop, event);
}

int stop_confirm(Stop *stop, StopEvent *ret_event) {
        RpcClient *client = stop_client(stop);

        if (!client) {
                *ret_event = STOP_ON_RUNTIME_AWAY;
                return stop_miss_runtime(stop);
        }

        return cri_container_status(client, stop->container_id, /* is_verbose= */ false, on_status,
                                    stop, &stop->call);
}
