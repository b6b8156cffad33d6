/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/pod/restart-internal.h"
#include "agent/pod/runtime-pod.h"
#include "cri/client.h"

#define LOOK_USEC ((uint64_t) 250 * 1000)
#define USEC_PER_SEC ((uint64_t) 1000000)
#define NOT_RUNNING "it did not run again"
#define NOT_READY "it runs again, but was not ready"
#define SCHEME_SIZE 32

static bool is_awaited(const RestartItem *item) {
        return item->phase == RESTART_STOPPED && !item->is_final;
}

static uint64_t now_usec(const Restart *restart) {
        uint64_t now = 0;

        (void) sd_event_now(restart->event, CLOCK_MONOTONIC, &now);
        return now;
}

static int item_runs(RestartItem *item, const char *new_id) {
        item->new_id = strdup(new_id);
        if (!item->new_id)
                return -ENOMEM;

        return restart_tell(item, RESTART_RUNNING, true, "");
}

/* A status that is older than the container that was stopped tells of the one before it. */
static const char *id_of_successor(const RestartItem *item, const PodContainer *container) {
        char scheme[SCHEME_SIZE];
        const char *id;

        if (!pod_split_container_id(container->container_id, scheme, sizeof(scheme), &id) ||
            strcmp(id, item->old_id) == 0 || container->restart_count < 0 ||
            (unsigned) container->restart_count < item->restart_count)
                return NULL;

        return id;
}

static int item_look_at_pod(RestartItem *item, const Pod *pod) {
        const PodContainer *container = pod_find(pod, item->name);
        const char *id = container ? id_of_successor(item, container) : NULL;

        if (id &&
            (item->kind == POD_CONTAINER_INIT || (container->is_running && container->is_ready)))
                return item_runs(item, id);
        if (pod->is_deleted)
                return restart_tell(item, RESTART_FAILED, true,
                                    "nothing starts it again: the pod is being deleted");

        item->is_unready = id && container->is_running;
        return 0;
}

static int look_at_pod(Restart *restart, const Pod *pod) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++)
                if (is_awaited(&restart->items[i]))
                        r = item_look_at_pod(&restart->items[i], pod);
        return r;
}

static int fail_all(Restart *restart, const char *message) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++)
                if (is_awaited(&restart->items[i]))
                        r = restart_tell(&restart->items[i], RESTART_FAILED, true, message);
        return r;
}

static int look_at_runtime(Restart *restart, const RuntimePod *pod) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++) {
                RestartItem *item = &restart->items[i];
                const RuntimeContainer *container = runtime_pod_find(pod, item->name);

                if (is_awaited(item) && container && strcmp(container->id, item->old_id) != 0 &&
                    (container->is_running ||
                     (item->kind == POD_CONTAINER_INIT && container->is_exited)))
                        r = item_runs(item, container->id);
        }

        return r;
}

static int on_listed(const void *message, const Error *error, void *userdata) {
        cleanup(runtime_pods_done) RuntimePods running = RUNTIME_PODS_INIT;
        Restart *restart = userdata;
        const RuntimePod *pod;
        int r;

        restart->call = rpc_call_unref(restart->call);
        if (error)
                return 0; /* it is asked again */

        r = runtime_pods_read(message, &running);
        if (r < 0)
                return r;

        pod = runtime_pods_find(&running, restart->namespace, restart->pod, restart->uid);
        if (!pod)
                return 0;

        r = look_at_runtime(restart, pod);
        if (r < 0)
                return r;

        return restart_settle(restart);
}

static int ask_runtime(Restart *restart) {
        RpcClient *client = runtimes_client(restart->runtimes);

        if (!client || restart->call)
                return 0;

        return cri_list_pod_containers(client, restart->uid, on_listed, restart, &restart->call);
}

/* The API server is asked first, since it knows who is ready. */
static int look(Restart *restart) {
        const Pod *pod;

        if (!restart->pods || !pods_are_synced(restart->pods))
                return ask_runtime(restart);

        pod = pods_find(restart->pods, restart->namespace, restart->pod);
        if (pod && strcmp(pod->runtime_uid, restart->uid) == 0)
                return look_at_pod(restart, pod);
        if (restart->was_known)
                return fail_all(restart, "nothing starts it again: the pod is gone");

        return ask_runtime(restart);
}

static int item_fail_late(RestartItem *item) {
        const int64_t seconds = item->restart->wait_sec;
        const bool has_minutes = seconds >= 120 && seconds % 60 == 0;
        cleanup(free_p) char *message = NULL;

        if (asprintf(&message, "%s within %lld %s", item->is_unready ? NOT_READY : NOT_RUNNING,
                     (long long) (has_minutes ? seconds / 60 : seconds),
                     has_minutes ? "minutes" : "s") < 0) {
                message = NULL;
                return -ENOMEM;
        }

        return restart_tell(item, RESTART_FAILED, true, message);
}

static int fail_late(Restart *restart) {
        uint64_t now = now_usec(restart);
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restart->n_items; i++) {
                RestartItem *item = &restart->items[i];

                if (is_awaited(item) && now >= item->deadline_usec)
                        r = item_fail_late(item);
        }

        return r;
}

static int look_and_settle(Restart *restart) {
        int r;

        r = look(restart);
        if (r < 0)
                return r;

        r = fail_late(restart);
        if (r < 0)
                return r;

        return restart_settle(restart);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata) {
        int r;

        r = sd_event_source_set_time_relative(source, LOOK_USEC);
        if (r < 0)
                return r;

        r = sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        if (r < 0)
                return r;

        return look_and_settle(userdata);
}

static int on_pod(const Pod *pod, const Pod *before, void *userdata) {
        Restart *restart = userdata;

        return strcmp(pod->name, restart->pod) == 0 ? look_and_settle(restart) : 0;
}

static int on_gone(const Pod *pod, void *userdata) {
        Restart *restart = userdata;
        int r = 0;

        if (restart->was_known && strcmp(pod->runtime_uid, restart->uid) == 0)
                r = fail_all(restart, "nothing starts it again: the pod is gone");
        if (r < 0)
                return r;

        return restart_settle(restart);
}

static int on_state(bool is_synced, void *userdata) {
        return look_and_settle(userdata);
}

static int start_tick(Restart *restart) {
        return loop_add_time_relative(restart->event, &restart->tick, CLOCK_MONOTONIC, LOOK_USEC, 0,
                                      on_tick, restart);
}

int restart_await(RestartItem *item) {
        Restart *restart = item->restart;

        item->deadline_usec = now_usec(restart) + (uint64_t) restart->wait_sec * USEC_PER_SEC;
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

        return restart->tick ? 0 : start_tick(restart);
}

void restart_stop_waiting(Restart *restart) {
        if (restart->is_watching)
                pods_unwatch(restart->pods, &restart->watcher);
        restart->is_watching = false;
        restart->tick = sd_event_source_disable_unref(restart->tick);
}
