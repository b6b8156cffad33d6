/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/inplace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/image/image-ref.h"
#include "agent/inplace/inplace-internal.h"

/* How long the kubelet may hold a state of a pod before it acts on it: it waits for its next look
 * at the runtime, which is one a second, and takes some time. */
#define KUBELET_HOLDS_USEC ((uint64_t) 1500 * 1000)
#define ACCURACY_USEC 1000

DEFINE_CLEANUP(InPlace *, inplace_free)

uint64_t inplace_now(const InPlace *meta) {
        uint64_t usec = 0;

        (void) sd_event_now(meta->options.event, CLOCK_MONOTONIC, &usec);
        return usec;
}

uint32_t inplace_random(void) {
        uint32_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        return random;
}

/* One pod and its containers. */

bool inplace_pod_is_over(const InPlacePod *pod) {
        return pod->pod->is_deleted || pod->pod->is_finished;
}

bool inplace_pod_takes_part(const InPlacePod *pod) {
        return pod->pod->is_kruise || pod->pod->restart_on_metadata ||
               pod->pod->update != POD_UPDATE_NONE;
}

bool inplace_pod_is_static(const InPlacePod *pod) {
        return strcmp(pod->pod->runtime_uid, pod->pod->uid) != 0;
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
               !inplace_container_is_known(container) && container->looked_id &&
               strcmp(container->looked_id, state->container_id) == 0;
}

/* Where the kubelet's convention is not known, a container is taken to have been made from what the
 * pod asked for when it was first seen. */
bool inplace_container_is_kubelets(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);
        const InPlaceFact *fact = &container->fact;

        if (!fact->id)
                return false;
        if (container->pod->meta->knows_kubelet && fact->kubelet_hash != 0)
                return fact->kubelet_hash != state->plain_hash;

        return strcmp(fact->image, state->image) != 0;
}

Verdict inplace_container_verdict(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);

        if (!container->reference || strcmp(container->reference, state->image) != 0)
                return VERDICT_UNKNOWN;

        return verdict_of(container->reference_id, container->fact.running_id);
}

void inplace_pod_wake_at(InPlacePod *pod, uint64_t usec) {
        if (usec < pod->next_usec)
                pod->next_usec = usec;
}

static int pod_arm(InPlacePod *pod) {
        int r;

        if (pod->next_usec == UINT64_MAX)
                return sd_event_source_set_enabled(pod->timer, SD_EVENT_OFF);

        r = sd_event_source_set_time(pod->timer, pod->next_usec);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(pod->timer, SD_EVENT_ONESHOT);
}

/* A stop comes first: it is what somebody waits for. */
int inplace_pod_step(InPlacePod *pod) {
        int r;

        pod->next_usec = UINT64_MAX;
        r = inplace_pod_restart(pod);
        if (r < 0)
                return r;

        r = inplace_pod_watch(pod);
        if (r < 0)
                return r;

        r = inplace_pod_look(pod);
        if (r < 0)
                return r;

        r = inplace_pod_write(pod);
        if (r < 0)
                return r;

        return pod_arm(pod);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        return inplace_pod_step(userdata);
}

static bool container_set(InPlaceContainer *container, const PodContainer *before) {
        const PodContainer *state = inplace_container_state(container);

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
static void pod_note_kubelet(InPlacePod *pod, const Pod *before, bool has_changed) {
        uint64_t now = inplace_now(pod->meta);

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

/* Its newest state. */
static void inplace_pod_set(InPlacePod *pod, const Pod *state) {
        const Pod *before = pod->pod;
        bool has_changed = false;

        pod->pod = state;
        pod->is_dropped = false;
        if (!inplace_pod_written(pod))
                inplace_text_done(&pod->written);
        for (size_t i = 0; i < pod->n_containers; i++)
                has_changed =
                        container_set(&pod->containers[i], &before->containers[i]) || has_changed;
        pod_note_kubelet(pod, before, has_changed);
}

static void container_done(InPlaceContainer *container) {
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

static InPlacePod *inplace_pod_free(InPlacePod *pod) {
        if (!pod)
                return NULL;

        if (pod->look)
                pod->meta->n_looks--;
        if (pod->write.call)
                pod->meta->n_writes--;
        pod_look_free(pod->look);
        runtime_pods_call_free(pod->poll);
        kube_patch_done(&pod->write);
        sd_event_source_disable_unref(pod->timer);
        for (size_t i = 0; i < pod->n_containers; i++)
                container_done(&pod->containers[i]);
        inplace_text_done(&pod->writing);
        inplace_text_done(&pod->written);
        free(pod->containers);
        free(pod->uid);
        free(pod);
        return NULL;
}

DEFINE_CLEANUP(InPlacePod *, inplace_pod_free)

static int pod_fill(InPlacePod *pod) {
        int r;

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
                };

        r = loop_add_time(pod->meta->options.event, &pod->timer, CLOCK_MONOTONIC, 0, ACCURACY_USEC,
                          on_timer, pod);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(pod->timer, SD_EVENT_OFF);
}

static int inplace_pod_new(InPlace *meta, const Pod *pod, InPlacePod **ret) {
        cleanup(inplace_pod_free_p) InPlacePod *made = NULL;
        int r;

        made = malloc(sizeof(*made));
        if (!made)
                return -ENOMEM;

        *made = (InPlacePod){
                .meta = meta,
                .pod = pod,
                .busy_usec = inplace_now(meta) + KUBELET_HOLDS_USEC,
                .behind_usec = inplace_now(meta) + KUBELET_HOLDS_USEC,
        };
        inplace_pod_write_init(made);
        r = pod_fill(made);
        if (r < 0)
                return r;

        *ret = take_ptr(made);
        return 0;
}

/* All of them. */

int inplace_continue(InPlace *meta) {
        for (size_t i = 0; i < meta->n_pods; i++) {
                int r;

                if (!meta->pods[i]->wants_look && !meta->pods[i]->wants_write)
                        continue;

                r = inplace_pod_step(meta->pods[i]);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int inplace_step_all(InPlace *meta) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < meta->n_pods; i++)
                r = inplace_pod_step(meta->pods[i]);

        return r;
}

/* Where the pod is, or would be: each event of a pod asks that. */
static size_t inplace_find_place(const InPlace *meta, const char *uid) {
        size_t low = 0, high = meta->n_pods;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(meta->pods[middle]->uid, uid) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        return low;
}

/* NULL: none. */
static InPlacePod **inplace_find(const InPlace *meta, const char *uid) {
        size_t place = inplace_find_place(meta, uid);

        return place < meta->n_pods && strcmp(meta->pods[place]->uid, uid) == 0 ? &meta->pods[place]
                                                                                : NULL;
}

static int inplace_add(InPlace *meta, const Pod *pod) {
        size_t place = inplace_find_place(meta, pod->uid);
        InPlacePod **pods, *added;
        int r;

        pods = reallocarray(meta->pods, meta->n_pods + 1, sizeof(*pods));
        if (!pods)
                return -ENOMEM;

        meta->pods = pods;
        r = inplace_pod_new(meta, pod, &added);
        if (r < 0)
                return r;

        memmove(pods + place + 1, pods + place, (meta->n_pods - place) * sizeof(*pods));
        pods[place] = added;
        meta->n_pods++;
        return inplace_pod_step(added);
}

static void inplace_drop(InPlace *meta, InPlacePod **at) {
        InPlacePod **end = meta->pods + meta->n_pods--;

        inplace_pod_free(*at);
        memmove(at, at + 1, (size_t) (end - at - 1) * sizeof(*at));
}

static bool text_equal(const char *a, const char *b) {
        return a == b || (a && b && strcmp(a, b) == 0);
}

static bool container_equal(const PodContainer *a, const PodContainer *b) {
        return a->is_running == b->is_running && a->env_hash == b->env_hash &&
               a->status_index == b->status_index && text_equal(a->container_id, b->container_id) &&
               text_equal(a->image, b->image);
}

/* In nothing that matters here. Most changes of a pod are of that kind. */
static bool pod_equal(const Pod *a, const Pod *b) {
        if (a->is_deleted != b->is_deleted || a->is_finished != b->is_finished ||
            a->is_ready != b->is_ready || a->is_kruise != b->is_kruise || a->update != b->update ||
            !text_equal(a->restart_on_metadata, b->restart_on_metadata) ||
            !text_equal(a->meta, b->meta) || !text_equal(a->verified_status, b->verified_status) ||
            !text_equal(a->verified_reason, b->verified_reason) ||
            !text_equal(a->verified_message, b->verified_message))
                return false;

        for (size_t i = 0; i < a->n_containers; i++)
                if (!container_equal(&a->containers[i], &b->containers[i]))
                        return false;

        return true;
}

/* The list of containers does not change as long as a pod lives. */
static bool has_same_containers(const Pod *a, const Pod *b) {
        if (a->n_containers != b->n_containers)
                return false;

        for (size_t i = 0; i < a->n_containers; i++)
                if (strcmp(a->containers[i].name, b->containers[i].name) != 0)
                        return false;

        return true;
}

static bool is_waiting_for_event(const InPlacePod *pod) {
        if (pod->is_dropped || pod->written.version)
                return true;

        for (size_t i = 0; i < pod->n_containers; i++)
                if (pod->containers[i].refused_version)
                        return true;

        return false;
}

static int on_pod(const Pod *pod, const Pod *before, void *userdata) {
        InPlace *meta = userdata;
        InPlacePod **at = inplace_find(meta, pod->uid);
        bool is_news;

        if (at && !has_same_containers((*at)->pod, pod)) {
                inplace_pod_forget_refusal(*at);
                inplace_drop(meta, at);
                at = NULL;
        }
        if (!at)
                return inplace_add(meta, pod);

        is_news = is_waiting_for_event(*at) || !pod_equal((*at)->pod, pod);
        inplace_pod_set(*at, pod);
        return is_news ? inplace_pod_step(*at) : 0;
}

static int on_gone(const Pod *pod, void *userdata) {
        InPlace *meta = userdata;
        InPlacePod **at = inplace_find(meta, pod->uid);

        if (!at)
                return 0;

        inplace_pod_forget_refusal(*at);
        inplace_drop(meta, at);
        return inplace_continue(meta);
}

static int on_state(bool is_synced, void *userdata) {
        return 0;
}

int inplace_new(const InPlaceOptions *options, InPlace **ret) {
        cleanup(inplace_free_p) InPlace *meta = NULL;

        meta = malloc(sizeof(*meta));
        if (!meta)
                return -ENOMEM;

        *meta = (InPlace){
                .options = *options,
                .watcher = { .on_pod = on_pod, .on_gone = on_gone, .on_state = on_state },
                .error = ERROR_INIT,
        };
        meta->watcher.userdata = meta;
        pods_watch(options->pods, &meta->watcher);
        for (size_t i = 0; i < pods_count(options->pods); i++) {
                int r = inplace_add(meta, pods_get(options->pods, i));

                if (r < 0)
                        return r;
        }

        *ret = take_ptr(meta);
        return 0;
}

InPlace *inplace_free(InPlace *meta) {
        if (!meta)
                return NULL;

        pods_unwatch(meta->options.pods, &meta->watcher);
        while (meta->n_pods > 0)
                inplace_drop(meta, &meta->pods[meta->n_pods - 1]);
        error_done(&meta->error);
        free(meta->pods);
        free(meta);
        return NULL;
}

/* While it was away, its images may have become others. */
int inplace_runtime_changed(InPlace *meta) {
        for (size_t i = 0; i < meta->n_pods; i++) {
                meta->pods[i]->look_retry_usec = 0;
                meta->pods[i]->must_refresh = true;
        }

        return inplace_step_all(meta);
}

static int is_reference(const char *text, const char *canonical, bool *ret) {
        cleanup(free_p) char *reference = NULL;
        ImageRef ref;
        int r;

        *ret = false;
        if (image_ref_parse(text, &ref, NULL) < 0)
                return 0;

        r = image_ref_canonical_reference(&ref, &reference);
        if (r < 0)
                return r;

        *ret = strcmp(reference, canonical) == 0;
        return 0;
}

static int pod_has_image(const InPlacePod *pod, const char *canonical, bool *ret) {
        int r = 0;

        *ret = false;
        for (size_t i = 0; r >= 0 && !*ret && i < pod->n_containers; i++)
                r = is_reference(pod->pod->containers[i].image, canonical, ret);

        return r;
}

int inplace_image_changed(InPlace *meta, const char *canonical) {
        for (size_t i = 0; i < meta->n_pods; i++) {
                bool has_it;
                int r;

                r = pod_has_image(meta->pods[i], canonical, &has_it);
                if (r < 0)
                        return r;
                if (!has_it)
                        continue;

                meta->pods[i]->must_refresh = true;
                r = inplace_pod_step(meta->pods[i]);
                if (r < 0)
                        return r;
        }

        return 0;
}

int inplace_kick(InPlace *meta) {
        for (size_t i = 0; i < meta->n_pods; i++) {
                InPlacePod *pod = meta->pods[i];

                if (pod->write.n_failures > 0)
                        kube_patch_rest(&pod->write, 0);
                for (size_t k = 0; k < _INPLACE_FIELD_MAX; k++)
                        pod->fields[k].refused_usec = 0;
                for (size_t k = 0; k < pod->n_containers; k++)
                        if (pod->containers[k].check_usec > 0)
                                pod->containers[k].check_usec = 1;
        }

        return inplace_step_all(meta);
}

static const InPlaceContainer *find_container(const InPlace *meta, const char *namespace,
                                              const char *pod_name, const char *uid,
                                              const char *name) {
        for (size_t i = 0; i < meta->n_pods; i++) {
                const InPlacePod *pod = meta->pods[i];

                if (strcmp(pod->pod->runtime_uid, uid) != 0 ||
                    strcmp(pod->pod->name, pod_name) != 0 ||
                    strcmp(pod->pod->namespace, namespace) != 0)
                        continue;

                for (size_t k = 0; k < pod->n_containers; k++)
                        if (strcmp(pod->pod->containers[k].name, name) == 0)
                                return &pod->containers[k];
        }

        return NULL;
}

InPlaceEnvironment inplace_environment(const InPlace *meta, const char *namespace, const char *pod,
                                       const char *runtime_uid, const char *name) {
        const InPlaceContainer *container = find_container(meta, namespace, pod, runtime_uid, name);

        if (!container || !inplace_pod_takes_part(container->pod) ||
            !inplace_container_has_env(container))
                return INPLACE_ENVIRONMENT_NONE;
        if (!container->fact.knows_env)
                return INPLACE_ENVIRONMENT_UNKNOWN;

        return container->fact.env_hash == container->expected_hash ? INPLACE_ENVIRONMENT_CURRENT
                                                                    : INPLACE_ENVIRONMENT_STALE;
}

const char *inplace_environment_to_string(InPlaceEnvironment environment) {
        switch (environment) {
        case INPLACE_ENVIRONMENT_NONE: return "None";
        case INPLACE_ENVIRONMENT_UNKNOWN: return "Unknown";
        case INPLACE_ENVIRONMENT_CURRENT: return "Current";
        case INPLACE_ENVIRONMENT_STALE: return "Stale";
        case _INPLACE_ENVIRONMENT_MAX: break;
        }

        return "";
}

size_t inplace_count(const InPlace *meta, Verdict verdict) {
        size_t n = 0;

        for (size_t i = 0; i < meta->n_pods; i++) {
                const InPlacePod *pod = meta->pods[i];

                for (size_t k = 0; !inplace_pod_is_over(pod) && k < pod->n_containers; k++)
                        if (pod->pod->containers[k].is_running &&
                            pod->pod->containers[k].kind != POD_CONTAINER_INIT &&
                            inplace_container_verdict(&pod->containers[k]) == verdict)
                                n++;
        }

        return n;
}

const Error *inplace_error(const InPlace *meta) {
        return &meta->error;
}
