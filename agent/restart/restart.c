/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/restart/restart.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/pod/runtime-pods.h"
#include "agent/restart/restart-find.h"
#include "agent/rpc/client.h"

#define WAIT_SEC ((int64_t) 10 * 60)
#define POLL_USEC ((uint64_t) 250 * 1000)
#define NO_RUNTIME "no container runtime has been found"
#define NOT_RUNNING "it did not run again"
#define RULES_DECIDE \
        "not stopped: by its exit status, its restart rules may end it or restart other containers"
#define NOT_READY "it runs again, but was not ready"
#define SCHEME_SIZE 32

/* A container to restart. */
typedef struct RestartItem {
        Restart *restart;
        char *name;
        char *old_id;
        char *new_id;           /* NULL: not known yet */
        unsigned restart_count; /* restart count of the old container */
        PodContainerKind kind;  /* MAIN if unknown */
        size_t index;           /* place in the pod's spec, if the pod is known */
        bool may_return;        /* the kubelet may start the container again, as far as is known */
        bool was_added;         /* the stop was added */
        bool is_refused;        /* restart rules forbid the stop */
        char *stays_down;       /* why the kubelet will not start it again; NULL: it will */
        Stop *stop;
        uint64_t deadline_usec; /* end of the wait for its return, monotonic */
        bool is_unready;        /* the successor runs, but is not ready */

        /* The last report. */
        RestartPhase phase;
        bool is_final;
        char *message;
} RestartItem;

struct Restart {
        sd_event *event;
        const Runtimes *runtimes;
        Stops *stops;
        Pods *pods;
        char *owner;
        char *namespace;
        char *pod;
        char *container;
        char *reason;
        char *address; /* IP address of the pod; NULL: unknown */
        int64_t grace_sec;
        bool must_wait;
        int64_t wait_sec;
        int (*on_news)(const RestartNews *news, void *userdata);
        int (*on_end)(const Error *error, void *userdata);
        void *userdata;

        Deferred begin;
        RuntimePodsCall *call; /* lists the containers, and later whether they run again */

        char *uid; /* UID of the pod in the runtime */
        bool was_known;
        RestartItem *items;
        size_t n_items;
        size_t n_unfinished;

        PodsWatcher watcher;
        bool is_watching;
        Timer tick;
};

DEFINE_CLEANUP(Restart *, restart_free)

static bool is_reported(const RestartItem *item, RestartPhase phase, bool is_final,
                        const char *message) {
        return item->message && item->phase == phase && item->is_final == is_final &&
               strcmp(item->message, message) == 0;
}

/* Reports changes since the last report. */
static int restart_report(RestartItem *item, RestartPhase phase, bool is_final,
                          const char *message) {
        const Restart *restart = item->restart;

        if (is_reported(item, phase, is_final, message))
                return 0;

        if (text_set(&item->message, message) < 0)
                return -ENOMEM;

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

static void restart_stop_waiting(Restart *restart) {
        if (restart->is_watching)
                pods_unwatch(restart->pods, &restart->watcher);
        restart->is_watching = false;
        timer_stop(&restart->tick);
}

/* Ends the restart if nothing is left to do, which may free it: the last statement of a
 * callback. */
static int restart_settle(Restart *restart) {
        if (restart->n_unfinished > 0)
                return 0;

        restart_stop_waiting(restart);
        return restart->on_end(NULL, restart->userdata);
}

/* Waiting for successors */

static bool awaits_successor(const RestartItem *item) {
        return item->phase == RESTART_STOPPED && !item->is_final;
}

static int item_runs(RestartItem *item, const char *new_id) {
        item->new_id = strdup(new_id);
        if (!item->new_id)
                return -ENOMEM;

        return restart_report(item, RESTART_RUNNING, true, "");
}

/* A status from before the stopped container started still shows the one before that. */
static const char *id_of_successor(const RestartItem *item, const PodContainer *container) {
        char scheme[SCHEME_SIZE];
        const char *id;

        if (!pod_split_container_id(container->container_id, scheme, sizeof(scheme), &id) ||
            strcmp(id, item->old_id) == 0 || container->restart_count < 0 ||
            (unsigned) container->restart_count < item->restart_count)
                return NULL;

        return id;
}

static int item_inspect_pod(RestartItem *item, const Pod *pod) {
        const PodContainer *container = pod_find(pod, item->name);
        const char *id = container ? id_of_successor(item, container) : NULL;

        if (id &&
            (item->kind == POD_CONTAINER_INIT || (container->is_running && container->is_ready)))
                return item_runs(item, id);
        if (restart_end_of_pod(pod))
                return restart_report(item, RESTART_FAILED, true, restart_end_of_pod(pod));

        item->is_unready = id && container->is_running;
        return 0;
}

static int inspect_pod(Restart *restart, const Pod *pod) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++)
                if (awaits_successor(&restart->items[i]))
                        r = item_inspect_pod(&restart->items[i], pod);
        return r;
}

static int fail_all(Restart *restart) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++)
                if (awaits_successor(&restart->items[i]))
                        r = restart_report(&restart->items[i], RESTART_FAILED, true,
                                           "nothing starts it again: the pod is gone");
        return r;
}

static int inspect_runtime(Restart *restart, const RuntimePod *pod) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++) {
                RestartItem *item = &restart->items[i];
                const RuntimeContainer *container = runtime_pod_find(pod, item->name);

                if (awaits_successor(item) && container &&
                    strcmp(container->id, item->old_id) != 0 &&
                    (container->is_running ||
                     (item->kind == POD_CONTAINER_INIT && container->is_exited)))
                        r = item_runs(item, container->id);
        }

        return r;
}

static int on_listed_again(RuntimePods *running, const Error *error, void *userdata) {
        Restart *restart = userdata;
        const RuntimePod *pod;
        int r;

        restart->call = runtime_pods_call_free(restart->call);
        if (error)
                return 0; /* the next tick asks again */

        pod = runtime_pods_find(running, restart->namespace, restart->pod, restart->uid);
        if (!pod)
                return 0;

        r = inspect_runtime(restart, pod);
        return r < 0 ? r : restart_settle(restart);
}

static int ask_runtime(Restart *restart) {
        RpcClient *client = runtimes_client(restart->runtimes);

        if (!client || restart->call)
                return 0;

        return runtime_pods_list(client, &(RuntimePodsFilter){ .uid = restart->uid },
                                 on_listed_again, restart, &restart->call);
}

/* Looks at the API server's pod first, since it has the readiness. */
static int inspect(Restart *restart) {
        const Pod *pod;

        if (!restart->pods || !pods_are_synced(restart->pods))
                return ask_runtime(restart);

        pod = pods_find(restart->pods, restart->namespace, restart->pod);
        if (pod && strcmp(pod->runtime_uid, restart->uid) == 0)
                return inspect_pod(restart, pod);
        if (restart->was_known)
                return fail_all(restart);

        return ask_runtime(restart);
}

static int item_fail_late(RestartItem *item) {
        const int64_t seconds = item->restart->wait_sec;
        const bool has_minutes = seconds >= 120 && seconds % 60 == 0;
        cleanup(free_p) char *message = NULL;

        if (text_format(&message, "%s within %lld %s", item->is_unready ? NOT_READY : NOT_RUNNING,
                        (long long) (has_minutes ? seconds / 60 : seconds),
                        has_minutes ? "minutes" : "s") < 0)
                return -ENOMEM;

        return restart_report(item, RESTART_FAILED, true, message);
}

static int fail_late(Restart *restart) {
        uint64_t now = loop_now_usec(restart->event);
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++) {
                RestartItem *item = &restart->items[i];

                if (awaits_successor(item) && now >= item->deadline_usec)
                        r = item_fail_late(item);
        }

        return r;
}

static int inspect_and_settle(Restart *restart) {
        int r;

        r = inspect(restart);
        if (r < 0)
                return r;

        r = fail_late(restart);
        if (r < 0)
                return r;

        return restart_settle(restart);
}

static int on_tick(void *userdata) {
        Restart *restart = userdata;
        int r;

        r = timer_start(&restart->tick, POLL_USEC);
        return r < 0 ? r : inspect_and_settle(restart);
}

static int on_pod(const Pod *pod, const Pod *before, void *userdata) {
        Restart *restart = userdata;

        return strcmp(pod->name, restart->pod) == 0 ? inspect_and_settle(restart) : 0;
}

static int on_gone(const Pod *pod, void *userdata) {
        Restart *restart = userdata;
        int r = 0;

        if (restart->was_known && strcmp(pod->runtime_uid, restart->uid) == 0)
                r = fail_all(restart);
        if (r < 0)
                return r;

        return restart_settle(restart);
}

static int on_state(bool is_synced, void *userdata) {
        return inspect_and_settle(userdata);
}

static int restart_await(RestartItem *item) {
        Restart *restart = item->restart;

        item->deadline_usec =
                loop_now_usec(restart->event) + (uint64_t) restart->wait_sec * USEC_PER_SEC;
        if (restart->pods && !restart->is_watching) {
                restart->watcher = (PodsWatcher){
                        .on_pod = on_pod,
                        .on_gone = on_gone,
                        .on_state = on_state,
                        .userdata = restart,
                };
                pods_watch(restart->pods, &restart->watcher);
                restart->is_watching = true;
        }

        return timer_is_running(&restart->tick) ? 0 : timer_start(&restart->tick, POLL_USEC);
}

/* Stopping */

static int on_step(Stop *stop, StopStep step, const char *message, void *userdata) {
        RestartItem *item = userdata;

        switch (step) {
        case STOP_STEP_QUEUED:
        case STOP_STEP_WAITING_FOR_RUNTIME:
        case STOP_STEP_WAITING_FOR_KUBELET:
        case STOP_STEP_INSPECTING:
                return restart_report(item, RESTART_WAITING, false, message ?: "");
        case STOP_STEP_HOOK:
                return restart_report(item, RESTART_STOPPING, false, message ?: "its preStop hook");
        case STOP_STEP_STOPPING:
                return restart_report(item, RESTART_STOPPING, false, message ?: "");
        case STOP_STEP_ENDED:
        case _STOP_STEP_MAX: break;
        }

        return 0;
}

/* Joins up to three remarks in one line. */
static int join(const char *first, const char *second, const char *third, char **ret) {
        const char *parts[] = { first, second, third };
        size_t size;
        bool has_any = false;
        FILE *file;

        file = text_open(ret, &size);
        if (!file)
                return -ENOMEM;

        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                if (parts[i]) {
                        fprintf(file, "%s%s", has_any ? "; " : "", parts[i]);
                        has_any = true;
                }

        return text_close(file, ret);
}

static int item_ended(RestartItem *item, const StopReport *report) {
        bool has_gone = report->result == STOP_GONE;
        bool is_final = !item->restart->must_wait || item->stays_down;
        cleanup(free_p) char *message = NULL;
        int r;

        r = join(has_gone ? report->message ?: "it had ended already" : NULL, report->hook_message,
                 item->stays_down, &message);
        if (r < 0)
                return r;

        r = restart_report(item, RESTART_STOPPED, is_final, message);
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
        case STOP_NOT_REQUESTED:
        case STOP_FAILED:
        case _STOP_RESULT_MAX:
                r = restart_report(item, RESTART_FAILED, true,
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

        if (text_format(&cause, "Stopping container %s: requested on the node%s%s", item->name,
                        restart->reason[0] ? ": " : "", restart->reason) < 0)
                return -ENOMEM;

        item->was_added = true;
        return stops_add(restart->stops,
                         &(StopOptions){
                                 .container_id = item->old_id,
                                 .owner = restart->owner,
                                 .cause = cause,
                                 .pod_address = restart->address,
                                 .grace_sec = restart->grace_sec,
                                 .needs_kubelet = item->may_return ||
                                                  (restart->must_wait && !item->stays_down),
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
                .may_return = spec && !restart_end_of_pod(known) && pod_may_restart(spec),
                .is_refused = spec && spec->rules_decide,
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

        if (found->known && found->known->ip[0] &&
            text_copy(found->known->ip, &restart->address) < 0)
                return -ENOMEM;

        free(restart->namespace); /* the caller may have given none */
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

                if ((other->stop || (!other->was_added && !other->is_refused)) &&
                    (other->kind != POD_CONTAINER_SIDECAR || other->index > item->index))
                        return false;
        }

        return true;
}

static int restart_stop_next(Restart *restart) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++)
                if (!restart->items[i].was_added && !restart->items[i].is_refused &&
                    is_in_turn(&restart->items[i]))
                        r = item_stop(&restart->items[i]);
        return r;
}

static int restart_stop_all(Restart *restart) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++) {
                RestartItem *item = &restart->items[i];

                r = item->is_refused
                            ? restart_report(item, RESTART_FAILED, true, RULES_DECIDE)
                            : restart_report(
                                      item, RESTART_WAITING, false,
                                      is_in_turn(item)
                                              ? ""
                                              : "it is stopped after the containers that it serves");
        }

        return r < 0 ? r : restart_stop_next(restart);
}

static int on_listed(RuntimePods *running, const Error *refused, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Restart *restart = userdata;
        const RestartQuestion question = {
                .namespace = restart->namespace,
                .pod = restart->pod,
                .container = restart->container,
        };
        RestartFound found;
        int r;

        restart->call = runtime_pods_call_free(restart->call);
        if (refused)
                return restart->on_end(refused, restart->userdata);

        r = restart_find(running, restart->pods, &question, &found, &error);
        if (error.kind != ERROR_NONE)
                return restart->on_end(&error, restart->userdata);
        if (r < 0)
                return r;

        r = restart_take(restart, &found);
        if (r < 0)
                return r;

        r = restart_stop_all(restart);
        return r < 0 ? r : restart_settle(restart);
}

static int restart_list(Restart *restart, RpcClient *client) {
        const RuntimePodsFilter filter = {
                .namespace = restart->namespace,
                .pod = restart->pod,
        };

        return runtime_pods_list(client, &filter, on_listed, restart, &restart->call);
}

static int on_begin(void *userdata) {
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

        if (restart_question_check(&question, &error) < 0)
                return restart->on_end(&error, restart->userdata);
        if (client)
                return restart_list(restart, client);

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

        timer_init(&restart->tick, restart->event, /* accuracy_usec= */ 0, on_tick, restart);
        deferred_init(&restart->begin, restart->event, on_begin, restart);
        r = deferred_request(&restart->begin);
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
        runtime_pods_call_free(restart->call);
        deferred_done(&restart->begin);
        timer_done(&restart->tick);
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
