/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/meta/condition-status.h"
#include "agent/meta/meta-internal.h"
#include "agent/meta/pod-patch-spec.h"

/* A container that ends by itself is back soon, as a rule. */
#define NOT_RUNNING_USEC (10 * USEC_PER_SEC)

const MetaText *meta_pod_written(const MetaPod *pod) {
        if (!pod->written.version ||
            !pod_version_is_older(pod->pod->resource_version, pod->written.version))
                return NULL;

        return &pod->written;
}

static const char *pod_annotation(const MetaPod *pod) {
        const MetaText *written = meta_pod_written(pod);

        return written ? written->meta : pod->pod->meta;
}

/* What was said of a container stays, as controllers expect; but for the hash of an environment
 * that was not known then. One that has no known successor yet keeps its entry as well. */
static int tell_container(const MetaContainer *container, const ContainersMeta *old,
                          ContainersMeta *meta) {
        const MetaFact *fact = &container->fact;
        const char *name = meta_container_state(container)->name;
        const ContainersMetaEntry *before = containers_meta_find(old, name);
        ContainersMetaEntry entry = {
                .name = (char *) name,
                .container_id = fact->full_id,
                .restart_count = fact->restart_count,
                .plain_hash = fact->kubelet_hash,
                .env_hash = fact->env_hash,
        };

        if (!fact->full_id && !before)
                return 0;
        if (before && (!fact->full_id || strcmp(before->container_id, fact->full_id) == 0)) {
                entry = *before;
                if (fact->full_id && entry.env_hash == 0)
                        entry.env_hash = fact->env_hash;
        }

        return containers_meta_add(meta, &entry);
}

static bool container_runs(const MetaContainer *container) {
        return meta_container_state(container)->is_running || meta_container_is_ahead(container);
}

/* In the order of their statuses, which for any kind have numbers of their own. */
static int tell_kind(const MetaPod *pod, PodContainerKind kind, const ContainersMeta *old,
                     ContainersMeta *meta) {
        cleanup(free_p) const MetaContainer **order = calloc(pod->n_containers + 1, sizeof(*order));
        int r = 0;

        if (!order)
                return -ENOMEM;

        for (size_t i = 0; i < pod->n_containers; i++) {
                const MetaContainer *container = &pod->containers[i];
                const PodContainer *state = meta_container_state(container);

                if (state->kind == kind && state->status_index >= 0 &&
                    (size_t) state->status_index < pod->n_containers &&
                    (kind != POD_CONTAINER_SIDECAR || container_runs(container)))
                        order[state->status_index] = container;
        }

        for (size_t i = 0; r >= 0 && i < pod->n_containers; i++)
                if (order[i])
                        r = tell_container(order[i], old, meta);

        return r;
}

static int tell_containers(const MetaPod *pod, const ContainersMeta *old, ContainersMeta *meta) {
        int r;

        r = tell_kind(pod, POD_CONTAINER_MAIN, old, meta);
        return r < 0 ? r : tell_kind(pod, POD_CONTAINER_SIDECAR, old, meta);
}

/* Of what is known here alone: what others write into the annotation makes nothing new of it. */
static int digest_of(const MetaPod *pod, uint64_t *ret) {
        const ContainersMeta old = CONTAINERS_META_INIT;
        cleanup(containers_meta_done) ContainersMeta meta = CONTAINERS_META_INIT;
        cleanup(free_p) char *text = NULL;
        int r;

        r = tell_containers(pod, &old, &meta);
        if (r < 0)
                return r;

        r = containers_meta_write(&meta, &text);
        if (r < 0)
                return r;

        *ret = repeat_digest(0, text);
        return 0;
}

int meta_tell_annotation(const MetaPod *pod, MetaText *ret) {
        cleanup(containers_meta_done) ContainersMeta old = CONTAINERS_META_INIT;
        cleanup(containers_meta_done) ContainersMeta meta = CONTAINERS_META_INIT;
        const char *text = pod_annotation(pod);
        int r;

        if ((!pod->pod->is_kruise && !pod->pod->restart_wish) || !meta_pod_is_settled(pod))
                return 0;

        r = containers_meta_parse(text, &old);
        if (r < 0)
                return r;

        r = tell_containers(pod, &old, &meta);
        if (r < 0 || meta.n_items == 0 || (text && containers_meta_equal(&old, &meta)))
                return r;

        r = digest_of(pod, &ret->digests[META_FIELD_ANNOTATION]);
        return r < 0 ? r : containers_meta_write(&meta, &ret->meta);
}

/* A restart that comes with another image is the kubelet's; its hash alone can be of an older
 * kubelet, while everything is as it should be. */
bool meta_container_is_restarting(const MetaContainer *container) {
        const PodContainer *state = meta_container_state(container);

        if (restart_plan_is_restarting(container->plan))
                return true;
        /* What becomes of it is decided once the pod's status names it. */
        if (meta_container_is_ahead(container) && !container->has_failed &&
            container->fact.knows_env && container->fact.env_hash != container->expected_hash)
                return true;

        return meta_container_is_kubelets(container) &&
               (strcmp(container->fact.image, state->image) != 0 ||
                meta_container_verdict(container) != VERDICT_CURRENT);
}

static ConditionContainer condition_container(const MetaContainer *container) {
        const PodContainer *state = meta_container_state(container);
        const MetaFact *fact = &container->fact;
        bool has_reference =
                container->reference && strcmp(container->reference, state->image) == 0;

        return (ConditionContainer){
                .name = state->name,
                .reference = state->image,
                .reference_id = has_reference ? container->reference_id : "",
                .running_id = fact->running_id ?: "",
                .is_running = container_runs(container),
                .is_known =
                        meta_container_is_known(container) || meta_container_is_ahead(container),
                .is_restarting = meta_container_is_restarting(container),
                .has_environment = meta_container_has_env(container),
                .knows_environment = fact->knows_env,
                .is_environment_stale =
                        fact->knows_env && fact->env_hash != container->expected_hash,
                .comes_back = state->comes_back && !meta_pod_is_static(container->pod),
                .is_static = meta_pod_is_static(container->pod),
                .has_failed = container->has_failed,
        };
}

static int pod_condition(const MetaPod *pod, Condition *ret) {
        cleanup(free_p) ConditionContainer *containers =
                calloc(pod->n_containers + 1, sizeof(*containers));
        size_t n = 0;

        if (!containers)
                return -ENOMEM;

        for (size_t i = 0; i < pod->n_containers; i++)
                if (meta_container_state(&pod->containers[i])->kind != POD_CONTAINER_INIT)
                        containers[n++] = condition_container(&pod->containers[i]);

        return condition_of(containers, n, ret);
}

static bool wants_condition(const MetaPod *pod) {
        return pod->pod->verified_status || pod->pod->restart_wish || pod->has_new_image ||
               pod->pod->update != POD_UPDATE_NONE;
}

/* States that pass by themselves within moments are not told. */
static bool is_passing(MetaPod *pod, ConditionReason reason, bool is_first) {
        uint64_t now = meta_now(pod->meta);

        if (reason != CONDITION_NOT_RUNNING)
                pod->not_running_usec = 0;
        if (reason == CONDITION_RESTARTING)
                return false;
        if (!meta_pod_is_settled(pod))
                return true;
        if (reason == CONDITION_UNKNOWN)
                return is_first || pod->look || pod->wants_look ||
                       (pod->n_look_failures == 0 && !runtimes_client(pod->meta->options.runtimes));
        if (reason != CONDITION_NOT_RUNNING)
                return false;

        if (pod->not_running_usec == 0)
                pod->not_running_usec = now;
        if (pod->not_running_usec + NOT_RUNNING_USEC > now)
                meta_pod_wake_at(pod, pod->not_running_usec + NOT_RUNNING_USEC);
        return is_first || pod->not_running_usec + NOT_RUNNING_USEC > now;
}

/* The status of the pod names a container that the runtime has replaced already. */
static bool is_behind(const MetaPod *pod) {
        for (size_t i = 0; i < pod->n_containers; i++) {
                const PodContainer *state = meta_container_state(&pod->containers[i]);

                if (state->kind != POD_CONTAINER_INIT && state->is_running &&
                    !meta_container_is_known(&pod->containers[i]))
                        return pod->n_look_failures == 0;
        }

        return false;
}

static bool is_told(const MetaPod *pod, const Condition *condition) {
        const MetaText *written = meta_pod_written(pod);
        const char *status = written ? written->status : pod->pod->verified_status;
        const char *reason = written ? written->reason : pod->pod->verified_reason;
        const char *message = written ? written->message : pod->pod->verified_message;

        if (!status || strcmp(status, condition_status_of(condition->reason)) != 0 || !reason ||
            strcmp(reason, condition_reason_to_string(condition->reason)) != 0)
                return false;

        return condition->reason == CONDITION_RESTARTING ||
               (message && strcmp(message, condition->message) == 0);
}

int meta_tell_condition(MetaPod *pod, MetaText *ret) {
        cleanup(condition_done) Condition condition = CONDITION_INIT;
        const MetaText *written = meta_pod_written(pod);
        bool is_first = written ? !written->status : !pod->pod->verified_status;
        int r;

        if (!pod->meta->options.has_condition || !wants_condition(pod))
                return 0;

        r = pod_condition(pod, &condition);
        if (r < 0)
                return r;
        if (is_passing(pod, condition.reason, is_first) || is_told(pod, &condition) ||
            (condition.reason == CONDITION_UNKNOWN && is_behind(pod)))
                return 0;

        ret->status = strdup(condition_status_of(condition.reason));
        ret->reason = strdup(condition_reason_to_string(condition.reason));
        ret->message = take_ptr(condition.message);
        if (!ret->status || !ret->reason || !ret->message)
                return -ENOMEM;

        ret->digests[META_FIELD_CONDITION] =
                repeat_digest(repeat_digest(0, ret->reason), ret->message);
        return 0;
}
