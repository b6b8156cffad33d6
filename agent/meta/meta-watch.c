/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The successor of a container that was stopped, as soon as the runtime has it
 *
 * The kubelet tells of a container that it has started only after its next look at the runtime, a
 * second later. So the runtime itself is asked, often, for as long as a restart takes as a rule;
 * afterwards the pod's status has to tell. Annotation and condition are written before that status
 * then, and whoever waits for all of them waits for the status alone.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/meta/meta-internal.h"
#include "agent/pod/runtime-pod.h"
#include "cri/client.h"

/* Of all pods together: where many containers are restarted at once, the runtime has enough to do. */
#define POLL_USEC ((uint64_t) 50 * 1000)
#define AWAIT_USEC (20 * USEC_PER_SEC)

static bool is_awaited(const MetaContainer *container, uint64_t now) {
        const MetaContainer *one = container;

        return one->stopped.id && one->await_usec > now && !one->has_successor && one->fact.id &&
               strcmp(one->fact.id, one->stopped.id) == 0;
}

static bool pod_awaits(const MetaPod *pod, uint64_t now) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (is_awaited(&pod->containers[i], now))
                        return true;

        return false;
}

static uint64_t interval_usec(const Meta *meta, uint64_t now) {
        uint64_t n = 0;

        for (size_t i = 0; i < meta->n_pods; i++)
                n += pod_awaits(meta->pods[i], now);

        return (n > 0 ? n : 1) * POLL_USEC;
}

static void pod_take_list(MetaPod *pod, const RuntimePod *found) {
        uint64_t now = meta_now(pod->meta);

        for (size_t i = 0; found && i < pod->n_containers; i++) {
                MetaContainer *container = &pod->containers[i];
                const RuntimeContainer *newest =
                        runtime_pod_find(found, meta_container_state(container)->name);

                container->has_successor = is_awaited(container, now) && newest &&
                                           newest->is_running &&
                                           strcmp(newest->id, container->stopped.id) != 0;
        }
}

/* A runtime that cannot be asked is asked again, as long as it is waited for. */
static int on_list(const void *reply, const Error *error, void *userdata) {
        cleanup(runtime_pods_done) RuntimePods pods = RUNTIME_PODS_INIT;
        MetaPod *pod = userdata;
        uint64_t now = meta_now(pod->meta);
        int r;

        pod->poll = rpc_call_unref(pod->poll);
        pod->poll_usec = now + interval_usec(pod->meta, now);
        if (!error) {
                r = runtime_pods_read(reply, &pods);
                if (r < 0)
                        return r;

                pod_take_list(pod, runtime_pods_find(&pods, pod->pod->namespace, pod->pod->name,
                                                     pod->pod->runtime_uid));
        }

        return meta_pod_step(pod);
}

void meta_container_await(MetaContainer *container) {
        uint64_t now = meta_now(container->pod->meta);

        container->await_usec = now + AWAIT_USEC;
        container->pod->poll_usec = now + interval_usec(container->pod->meta, now);
}

int meta_pod_watch(MetaPod *pod) {
        RpcClient *client = runtimes_client(pod->meta->options.runtimes);
        uint64_t now = meta_now(pod->meta);

        if (meta_pod_is_over(pod) || !pod_awaits(pod, now)) {
                pod->poll = rpc_call_unref(pod->poll);
                return 0;
        }

        /* The runtime's return leads here again. */
        if (pod->poll || !client)
                return 0;
        if (pod->poll_usec > now) {
                meta_pod_wake_at(pod, pod->poll_usec);
                return 0;
        }

        return cri_list_pod_containers(client, pod->pod->runtime_uid, on_list, pod, &pod->poll);
}
