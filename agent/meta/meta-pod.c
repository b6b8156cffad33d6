/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/meta/meta-internal.h"

/* How long the kubelet may hold a state of a pod before it acts on it: it waits for its next look
 * at the runtime, which is one a second, and takes some time. */
#define KUBELET_HOLDS_USEC ((uint64_t) 1500 * 1000)
#define JITTER_USEC (3 * USEC_PER_SEC)
#define ACCURACY_USEC 1000

DEFINE_CLEANUP(MetaPod *, meta_pod_free)

bool meta_pod_is_over(const MetaPod *pod) {
        return pod->pod->is_deleted || pod->pod->is_finished;
}

bool meta_pod_takes_part(const MetaPod *pod) {
        return pod->pod->is_kruise || pod->pod->restart_wish || pod->pod->update != POD_UPDATE_NONE;
}

bool meta_pod_is_static(const MetaPod *pod) {
        return strcmp(pod->pod->runtime_uid, pod->pod->uid) != 0;
}

const PodContainer *meta_container_state(const MetaContainer *container) {
        return &container->pod->pod->containers[container->index];
}

bool meta_container_has_env(const MetaContainer *container) {
        char **names = meta_container_state(container)->env_names;

        return names && names[0];
}

bool meta_container_is_known(const MetaContainer *container) {
        return container->fact.full_id &&
               strcmp(container->fact.full_id, meta_container_state(container)->container_id) == 0;
}

bool meta_container_is_ahead(const MetaContainer *container) {
        const PodContainer *state = meta_container_state(container);

        return container->fact.full_id && container->fact.was_running &&
               !meta_container_is_known(container) && container->looked_id &&
               strcmp(container->looked_id, state->container_id) == 0;
}

/* Where the kubelet's convention is not known, a container is taken to have been made from what the
 * pod asked for when it was first seen. */
bool meta_container_is_kubelets(const MetaContainer *container) {
        const PodContainer *state = meta_container_state(container);
        const MetaFact *fact = &container->fact;

        if (!fact->id)
                return false;
        if (container->pod->meta->knows_kubelet && fact->kubelet_hash != 0)
                return fact->kubelet_hash != state->plain_hash;

        return strcmp(fact->image, state->image) != 0;
}

Verdict meta_container_verdict(const MetaContainer *container) {
        const PodContainer *state = meta_container_state(container);

        if (!container->reference || strcmp(container->reference, state->image) != 0)
                return VERDICT_UNKNOWN;

        return verdict_of(container->reference_id, container->fact.running_id);
}

void meta_pod_wake_at(MetaPod *pod, uint64_t usec) {
        if (usec < pod->next_usec)
                pod->next_usec = usec;
}

static int pod_arm(MetaPod *pod) {
        int r;

        if (pod->next_usec == UINT64_MAX)
                return sd_event_source_set_enabled(pod->timer, SD_EVENT_OFF);

        r = sd_event_source_set_time(pod->timer, pod->next_usec);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(pod->timer, SD_EVENT_ONESHOT);
}

/* A stop comes first: it is what somebody waits for. */
int meta_pod_step(MetaPod *pod) {
        int r;

        pod->next_usec = UINT64_MAX;
        r = meta_pod_restart(pod);
        if (r < 0)
                return r;

        r = meta_pod_watch(pod);
        if (r < 0)
                return r;

        r = meta_pod_look(pod);
        if (r < 0)
                return r;

        r = meta_pod_write(pod);
        if (r < 0)
                return r;

        return pod_arm(pod);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        return meta_pod_step(userdata);
}

static bool container_set(MetaContainer *container, const PodContainer *before) {
        const PodContainer *state = meta_container_state(container);

        if (strcmp(before->image, state->image) != 0)
                container->pod->has_new_image = true;
        /* A runtime that starts containers can be asked again. */
        if (strcmp(before->container_id, state->container_id) != 0)
                container->pod->look_retry_usec = 0;
        if (container->expected_hash == state->env_hash)
                return false;

        container->expected_hash = state->env_hash;
        container->stopped.has_changed = true;
        container->has_failed = false;
        container->n_restarts = 0;
        container->retry_usec = 0;
        container->n_failures = 0;
        return true;
}

/* The gate was shut, and the kubelet has made the pod unready for that: whatever it had in hand is
 * done with. */
static bool kubelet_has_shut(const Pod *before, const Pod *now) {
        return now->update == POD_UPDATE_RUNNING && before->is_ready && !now->is_ready;
}

/* A kubelet that is told of a pod may wait for its next look at the runtime, and then act on what
 * it was told before it waited. If a container is stopped meanwhile, it is started again with the
 * metadata of that older state. So a change that comes soon after another event waits until that is
 * over; one that comes to a pod at rest does not. */
static void pod_note_kubelet(MetaPod *pod, const Pod *before, bool has_changed) {
        uint64_t now = meta_now(pod->meta);

        if (kubelet_has_shut(before, pod->pod)) {
                pod->behind_usec = 0;
                if (pod->is_gate_last && !has_changed)
                        pod->busy_usec = 0;
                return;
        }

        if (has_changed)
                pod->behind_usec = pod->busy_usec;
        pod->busy_usec = now + KUBELET_HOLDS_USEC;
        pod->is_gate_last = before->update != POD_UPDATE_RUNNING &&
                            pod->pod->update == POD_UPDATE_RUNNING && !has_changed;
}

void meta_pod_set(MetaPod *pod, const Pod *state) {
        const Pod *before = pod->pod;
        bool has_changed = false;

        pod->pod = state;
        pod->is_dropped = false;
        if (!meta_pod_written(pod))
                meta_text_done(&pod->written);
        for (size_t i = 0; i < pod->n_containers; i++)
                has_changed =
                        container_set(&pod->containers[i], &before->containers[i]) || has_changed;
        pod_note_kubelet(pod, before, has_changed);
}

static int pod_fill(MetaPod *pod) {
        int r;

        pod->uid = strdup(pod->pod->uid);
        pod->containers = calloc(pod->pod->n_containers + 1, sizeof(*pod->containers));
        if (!pod->uid || !pod->containers)
                return -ENOMEM;

        pod->n_containers = pod->pod->n_containers;
        for (size_t i = 0; i < pod->n_containers; i++)
                pod->containers[i] = (MetaContainer){
                        .pod = pod,
                        .index = i,
                        .expected_hash = pod->pod->containers[i].env_hash,
                };

        r = loop_add_time(pod->meta->options.event, &pod->timer, CLOCK_MONOTONIC, 0, ACCURACY_USEC,
                          on_timer, pod);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(pod->timer, SD_EVENT_OFF);
}

/* After the agent has started, all pods come at once, and on all nodes if it was updated. */
static uint64_t first_write_usec(const Meta *meta, const Pod *pod) {
        if (pods_are_synced(meta->options.pods) || pod->meta)
                return 0;

        return meta_now(meta) + meta_random() % JITTER_USEC;
}

int meta_pod_new(Meta *meta, const Pod *pod, MetaPod **ret) {
        cleanup(meta_pod_free_p) MetaPod *made = NULL;
        int r;

        made = malloc(sizeof(*made));
        if (!made)
                return -ENOMEM;

        *made = (MetaPod){
                .meta = meta,
                .pod = pod,
                .write_usec = first_write_usec(meta, pod),
                .busy_usec = meta_now(meta) + KUBELET_HOLDS_USEC,
                .behind_usec = meta_now(meta) + KUBELET_HOLDS_USEC,
        };
        r = pod_fill(made);
        if (r < 0)
                return r;

        *ret = take_ptr(made);
        return 0;
}

static void container_done(MetaContainer *container) {
        kube_call_unref(container->check);
        if (container->stop)
                stop_leave(container->stop);
        free(container->fact.id);
        free(container->fact.full_id);
        free(container->fact.image);
        free(container->fact.running_id);
        free(container->looked_id);
        free(container->asked_id);
        free(container->asked_image);
        free(container->reference);
        free(container->reference_id);
        free(container->stop_id);
        free(container->refused_version);
        free(container->stopped.id);
}

MetaPod *meta_pod_free(MetaPod *pod) {
        if (!pod)
                return NULL;

        if (pod->look)
                pod->meta->n_looks--;
        if (pod->write)
                pod->meta->n_writes--;
        pod_look_free(pod->look);
        rpc_call_unref(pod->poll);
        kube_call_unref(pod->write);
        sd_event_source_disable_unref(pod->timer);
        for (size_t i = 0; i < pod->n_containers; i++)
                container_done(&pod->containers[i]);
        meta_text_done(&pod->writing);
        meta_text_done(&pod->written);
        free(pod->containers);
        free(pod->uid);
        free(pod);
        return NULL;
}
