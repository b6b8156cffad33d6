/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/inplace-pod.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/inplace/inspection.h"

/* Time that the kubelet may hold a state of a pod before it acts on it: it waits until it lists the
 * runtime's containers again, once a second, and takes some time. */
#define KUBELET_HOLDS_USEC ((uint64_t) 1500 * 1000)
#define ACCURACY_USEC 1000

DEFINE_CLEANUP(InPlacePod *, inplace_pod_free)

uint64_t inplace_now(const InPlace *inplace) {
        return loop_now_usec(inplace->context->event);
}

bool inplace_pod_is_over(const InPlacePod *pod) {
        return pod->pod->is_deleted || pod->pod->is_finished;
}

bool inplace_pod_wants_condition(const InPlacePod *pod) {
        return pod->inplace->has_condition &&
               (pod->pod->verified_status || pod->pod->restart_on_metadata || pod->has_new_image ||
                pod->pod->update != POD_UPDATE_NONE || pod->pod->gate == POD_GATE_UPDATING);
}

bool inplace_pod_follows_env(const InPlacePod *pod) {
        return pod->pod->is_kruise || pod->pod->restart_on_metadata ||
               pod->pod->update != POD_UPDATE_NONE || inplace_pod_wants_condition(pod);
}

bool inplace_pod_is_static(const InPlacePod *pod) {
        return strcmp(pod->pod->runtime_uid, pod->pod->uid) != 0;
}

bool inplace_container_may_restart(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);

        return state->comes_back && !state->is_env_own && !inplace_pod_is_static(container->pod);
}

const PodContainer *inplace_container_state(const InPlaceContainer *container) {
        return &container->pod->pod->containers[container->index];
}

bool inplace_container_has_env(const InPlaceContainer *container) {
        char **names = inplace_container_state(container)->env_names;

        return names && names[0];
}

bool inplace_container_is_known(const InPlaceContainer *container) {
        return container->fact.full_id &&
               strcmp(container->fact.full_id, inplace_container_state(container)->container_id) ==
                       0;
}

bool inplace_container_is_ahead(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);

        return container->fact.full_id && container->fact.was_running &&
               !inplace_container_is_known(container) && container->inspected_id &&
               strcmp(container->inspected_id, state->container_id) == 0;
}

bool inplace_container_is_stopped(const InPlaceContainer *container) {
        return container->restart.state == INPLACE_RESTART_STOPPED ||
               container->restart.state == INPLACE_RESTART_REPLACED;
}

/* If the kubelet's hash is of an unknown kind, compares the image with the pod's reference when the
 * container was first seen. */
bool inplace_container_restarted_by_kubelet(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);
        const InPlaceFact *fact = &container->fact;

        if (!fact->id)
                return false;
        if (container->pod->inplace->knows_kubelet && fact->kubelet_hash != 0)
                return fact->kubelet_hash != state->plain_hash;

        return strcmp(fact->image, state->image) != 0;
}

Verdict inplace_container_verdict(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);

        if (!container->reference || strcmp(container->reference, state->image) != 0)
                return VERDICT_UNKNOWN;

        return verdict_of(container->reference_id, container->fact.running_id);
}

bool inplace_pod_is_inspecting(const InPlacePod *pod) {
        return pod->inspection.state == INPLACE_INSPECTION_LISTING ||
               pod->inspection.state == INPLACE_INSPECTION_RESOLVING;
}

static int on_timer(void *userdata) {
        return inplace_pod_reconcile(userdata);
}

int inplace_continue(InPlace *inplace) {
        for (size_t i = 0; i < inplace->n_pods; i++) {
                InPlacePod *pod = inplace->pods[i];
                int r;

                if (pod->inspection.state != INPLACE_INSPECTION_QUEUED &&
                    pod->write_state != INPLACE_WRITE_QUEUED)
                        continue;

                r = inplace_pod_reconcile(pod);
                if (r < 0)
                        return r;
        }

        return 0;
}

void inplace_pod_wake_at(InPlacePod *pod, uint64_t usec) {
        if (usec < pod->next_usec)
                pod->next_usec = usec;
}

const InPlaceText *inplace_pod_written(const InPlacePod *pod) {
        if (!pod->written.version ||
            !kube_version_is_older(pod->pod->resource_version, pod->written.version))
                return NULL;

        return &pod->written;
}

void inplace_text_done(InPlaceText *text) {
        free(text->version);
        free(text->meta);
        free(text->status);
        free(text->reason);
        free(text->message);
        *text = (InPlaceText){ .version = NULL };
}

static bool container_set(InPlaceContainer *container, const PodContainer *before) {
        const PodContainer *state = inplace_container_state(container);

        if (strcmp(before->image, state->image) != 0)
                container->pod->has_new_image = true;
        /* A runtime that starts containers answers again: end the back-off. */
        if (strcmp(before->container_id, state->container_id) != 0)
                timer_stop(&container->pod->inspection.retry.timer);
        if (container->expected_hash == state->env_hash)
                return false;

        container->expected_hash = state->env_hash;
        container->restart.has_changed = true;
        container->attempts = (InPlaceAttempts){ .n_restarts = 0 };
        return true;
}

/* The kubelet has made the pod unready because of the closed gate, so it has finished with all
 * earlier states. */
static bool kubelet_has_shut(const Pod *before, const Pod *now) {
        return now->update == POD_UPDATE_RUNNING && before->is_ready && !now->is_ready;
}

/* A kubelet that gets a pod's event may wait until it lists the runtime's containers again, and
 * then act on the state that it had before. If the agent stopped a container meanwhile, the kubelet
 * would start it with the metadata of that older state. So a change soon after another event waits
 * until the kubelet has finished; a change of a pod at rest does not. */
static void pod_note_kubelet(InPlacePod *pod, const Pod *before, bool has_changed) {
        InPlaceKubelet *kubelet = &pod->kubelet;

        if (kubelet_has_shut(before, pod->pod)) {
                kubelet->behind_usec = 0;
                if (kubelet->is_gate_last && !has_changed)
                        kubelet->busy_usec = 0;
                return;
        }

        if (has_changed)
                kubelet->behind_usec = kubelet->busy_usec;
        kubelet->busy_usec = inplace_now(pod->inplace) + KUBELET_HOLDS_USEC;
        kubelet->is_gate_last = before->update != POD_UPDATE_RUNNING &&
                                pod->pod->update == POD_UPDATE_RUNNING && !has_changed;
}

void inplace_pod_set(InPlacePod *pod, const Pod *state) {
        const Pod *before = pod->pod;
        bool has_changed = false;

        pod->pod = state;
        if (pod->write_state == INPLACE_WRITE_DROPPED)
                pod->write_state = INPLACE_WRITE_NONE;
        if (!inplace_pod_written(pod))
                inplace_text_done(&pod->written);
        for (size_t i = 0; i < pod->n_containers; i++)
                has_changed =
                        container_set(&pod->containers[i], &before->containers[i]) || has_changed;
        pod_note_kubelet(pod, before, has_changed);
}

static void container_done(InPlaceContainer *container) {
        kube_patch_cancel(&container->check.read);
        if (container->restart.stop)
                stop_leave(container->restart.stop);
        free(container->fact.id);
        free(container->fact.full_id);
        free(container->fact.image);
        free(container->fact.running_id);
        free(container->inspected_id);
        free(container->asked_id);
        free(container->asked_former_id);
        free(container->asked_image);
        free(container->reference);
        free(container->reference_id);
        free(container->restart.id);
        free(container->ended_id);
        free(container->refused_version);
}

InPlacePod *inplace_pod_free(InPlacePod *pod) {
        if (!pod)
                return NULL;

        if (inplace_pod_is_inspecting(pod))
                pod->inplace->n_inspections--;
        if (pod->write_state == INPLACE_WRITE_SENT)
                pod->inplace->n_writes--;
        inspection_free(pod->inspection.pending);
        runtime_pods_call_free(pod->poll);
        kube_patch_cancel(&pod->write);
        retry_done(&pod->inspection.retry);
        timer_done(&pod->timer);
        for (size_t i = 0; i < pod->n_containers; i++)
                container_done(&pod->containers[i]);
        inplace_text_done(&pod->writing);
        inplace_text_done(&pod->written);
        free(pod->containers);
        free(pod->uid);
        free(pod);
        return NULL;
}

static int pod_fill(InPlacePod *pod) {
        pod->uid = strdup(pod->pod->uid);
        pod->containers = calloc(pod->pod->n_containers + 1, sizeof(*pod->containers));
        if (!pod->uid || !pod->containers)
                return -ENOMEM;

        pod->n_containers = pod->pod->n_containers;
        for (size_t i = 0; i < pod->n_containers; i++)
                pod->containers[i] = (InPlaceContainer){
                        .pod = pod,
                        .index = i,
                        .expected_hash = pod->pod->containers[i].env_hash,
                        .check.read = { .client = pod->inplace->context->client,
                                        .userdata = &pod->containers[i] },
                };

        return 0;
}

int inplace_pod_new(InPlace *inplace, const Pod *pod, InPlacePod **ret) {
        cleanup(inplace_pod_free_p) InPlacePod *made = NULL;
        int r;

        made = malloc(sizeof(*made));
        if (!made)
                return -ENOMEM;

        *made = (InPlacePod){
                .inplace = inplace,
                .pod = pod,
                .kubelet = {
                        .busy_usec = inplace_now(inplace) + KUBELET_HOLDS_USEC,
                        .behind_usec = inplace_now(inplace) + KUBELET_HOLDS_USEC,
                },
        };
        timer_init(&made->timer, inplace->context->event, ACCURACY_USEC, on_timer, made);
        retry_init(&made->inspection.retry, inplace->context->event, BACKOFF_MIN_USEC,
                   BACKOFF_MAX_USEC, on_timer, made);
        r = pod_fill(made);
        if (r < 0)
                return r;

        *ret = take_ptr(made);
        return 0;
}
