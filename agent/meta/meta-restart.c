/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/meta/meta-internal.h"
#include "agent/meta/pod-patch-spec.h"

/* What the kubelet may take to stop a container beyond its grace period. */
#define KUBELET_SEC 15
#define GRACE_MAX_SEC 86400

bool meta_container_is_asked(const Pod *pod, const PodContainer *state) {
        return pod->update == POD_UPDATE_RUNNING || pod_wishes_restart(pod, state->name);
}

/* The restart has not changed what it was for. */
static void container_try_again(MetaContainer *container, const MetaRestart *restart) {
        const PodContainer *state = meta_container_state(container);
        const RestartOutcome outcome = {
                .number = restart->number,
                .before_hash = restart->before_hash,
                .running_hash = container->fact.env_hash,
                .is_overridden = state->is_env_overridden,
        };
        uint64_t usec = restart_again_usec(&outcome);

        container->has_failed = usec == 0;
        if (container->has_failed)
                return;

        container->n_restarts = restart->number;
        container->retry_usec = meta_now(container->pod->meta) + usec;
        log_warning(container->pod->meta->options.log, NULL,
                    "Pod `%s/%s`: container %s was started again with the environment of before, "
                    "so the kubelet did not know of the new labels or annotations yet: it is "
                    "restarted once more in %u s.",
                    container->pod->pod->namespace, container->pod->pod->name, state->name,
                    (unsigned) (usec / USEC_PER_SEC));
}

/* Once its successor is known: whether the restart has changed what it was for. Where the container
 * ended by itself, or another value was expected meanwhile, nothing is learned from it, nor shall a
 * later run of the agent, which knows of neither. */
int meta_container_judge(MetaContainer *container) {
        MetaStopped *stopped = &container->stopped;
        const MetaFact *fact = &container->fact;
        bool has_learned = stopped->is_ours && !stopped->has_changed;
        char owner[META_OWNER_SIZE];
        int r = 0;

        if (!stopped->id || !fact->id || !fact->knows_env || strcmp(stopped->id, fact->id) == 0)
                return 0;

        container->has_failed = false;
        if (has_learned && fact->env_hash != stopped->restart.hash)
                container_try_again(container, &stopped->restart);
        meta_stop_owner(&stopped->restart, owner);
        if (!has_learned)
                r = stops_forget(container->pod->meta->options.stops, owner, stopped->id);
        free(stopped->id);
        *stopped = (MetaStopped){ .id = NULL };
        return r;
}

static void container_field(const PodContainer *state, char *buffer, size_t size) {
        (void) snprintf(buffer, size, "spec.%s{%s}",
                        state->kind == POD_CONTAINER_MAIN ? "containers" : "initContainers",
                        state->name);
}

int meta_container_report(MetaContainer *container, const char *reason, const char *message) {
        const MetaPod *pod = container->pod;
        char field[320];
        const KubeReference object = {
                .api_version = "v1",
                .kind = "Pod",
                .namespace = pod->pod->namespace,
                .name = pod->pod->name,
                .uid = pod->pod->uid,
                .resource_version = pod->pod->resource_version,
                .field_path = field,
        };

        container_field(meta_container_state(container), field, sizeof(field));
        log_warning(pod->meta->options.log, NULL, "Pod `%s/%s`: %s.", pod->pod->namespace,
                    pod->pod->name, message);
        return kube_event_send(pod->meta->options.events, &object, "Warning", reason, message);
}

static char *explain_plan(const MetaContainer *container, RestartPlan plan) {
        const PodContainer *state = meta_container_state(container);
        char *text = NULL;
        int n;

        if (plan == RESTART_PLAN_GIVE_UP)
                n = asprintf(&text,
                             "Container %s was restarted and still has another environment than "
                             "its labels and annotations ask for: it is left alone until they "
                             "change",
                             state->name);
        else if (meta_pod_is_static(container->pod))
                n = asprintf(&text,
                             "Container %s is not restarted although its labels or annotations "
                             "have changed: the pod is static, so its file on the node decides on "
                             "its environment",
                             state->name);
        else
                n = asprintf(&text,
                             "Container %s is not restarted although its labels or annotations "
                             "have changed: nothing would start it again (restart policy %s)",
                             state->name, state->restart_policy);

        return n < 0 ? NULL : text;
}

/* Once for each value that is asked for. */
static int container_report_plan(MetaContainer *container, RestartPlan plan) {
        cleanup(free_p) char *message = NULL;

        if (container->reported == plan && container->reported_hash == container->expected_hash)
                return 0;

        container->reported = plan;
        container->reported_hash = container->expected_hash;
        message = explain_plan(container, plan);
        if (!message)
                return -ENOMEM;

        return meta_container_report(container,
                                     plan == RESTART_PLAN_SKIP ? "InPlaceRestartSkipped"
                                                               : "InPlaceRestartFailed",
                                     message);
}

static bool is_refused(MetaContainer *container) {
        const char *version = container->pod->pod->resource_version;

        if (container->refused_version &&
            !pod_version_is_older(version, container->refused_version))
                container->refused_version = (free(container->refused_version), NULL);

        return container->refused_version;
}

static RestartPlan container_plan(MetaContainer *container, uint64_t now) {
        const PodContainer *state = meta_container_state(container);
        const MetaPod *pod = container->pod;
        const MetaFact *fact = &container->fact;
        const MetaStopped *stopped = &container->stopped;
        const RestartState restart = {
                .is_asked = meta_container_is_asked(pod->pod, state),
                .is_over = meta_pod_is_over(pod),
                .is_running = state->is_running && meta_container_is_known(container),
                .comes_back = state->comes_back && !meta_pod_is_static(pod),
                .expected_hash = container->expected_hash,
                .running_hash = fact->env_hash,
                .has_stop = container->stop ||
                            (stopped->id && fact->id && strcmp(stopped->id, fact->id) == 0),
                .is_kubelets = meta_container_is_kubelets(container),
                .has_waited_for_kubelet =
                        container->kubelet_usec > 0 && container->kubelet_usec <= now,
                .is_behind = pod->behind_usec > now,
                .must_wait = container->retry_usec > now || is_refused(container),
                .has_failed = container->has_failed,
        };

        return restart_plan(&restart);
}

static void container_await_kubelet(MetaContainer *container, uint64_t now) {
        int64_t grace_sec = container->pod->pod->grace_sec;

        if (grace_sec < 0)
                grace_sec = 0;
        if (grace_sec > GRACE_MAX_SEC)
                grace_sec = GRACE_MAX_SEC;
        if (container->kubelet_usec == 0)
                container->kubelet_usec = now + ((uint64_t) grace_sec + KUBELET_SEC) * USEC_PER_SEC;
        meta_pod_wake_at(container->pod, container->kubelet_usec);
}

static int container_act(MetaContainer *container, uint64_t now) {
        switch (container->plan) {
        case RESTART_PLAN_NOTHING: container->kubelet_usec = 0; return 0;
        case RESTART_PLAN_AWAIT: return 0;
        case RESTART_PLAN_FOR_KUBELET: container_await_kubelet(container, now); return 0;
        case RESTART_PLAN_FOR_SYNC:
                meta_pod_wake_at(container->pod, container->pod->behind_usec);
                return 0;
        case RESTART_PLAN_FOR_RETRY:
                if (container->retry_usec > now)
                        meta_pod_wake_at(container->pod, container->retry_usec);
                return 0;
        case RESTART_PLAN_SKIP:
        case RESTART_PLAN_GIVE_UP: return container_report_plan(container, container->plan);
        case RESTART_PLAN_STOP: return meta_container_stop(container);
        case _RESTART_PLAN_MAX: break;
        }

        return 0;
}

int meta_pod_restart(MetaPod *pod) {
        uint64_t now = meta_now(pod->meta);

        for (size_t i = 0; i < pod->n_containers; i++) {
                MetaContainer *container = &pod->containers[i];
                int r;

                if (!meta_container_has_env(container) ||
                    meta_container_state(container)->kind == POD_CONTAINER_INIT)
                        continue;

                container->plan = container_plan(container, now);
                r = container_act(container, now);
                if (r < 0)
                        return r;

                /* Whatever is planned: also of a pod that is over, a stop wants its answer. */
                r = meta_container_check(container);
                if (r < 0)
                        return r;
        }

        return 0;
}
