/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/kube/path.h"
#include "agent/kube/protobuf.h"
#include "agent/kube/retry.h"
#include "agent/inplace/inplace-internal.h"
#include "agent/inplace/pod-patch-spec.h"
#include "agent/pod/pod-spec.h"
#include "agent/pod/runtime-pods.h"

/* What the kubelet may take to stop a container beyond its grace period. */
#define KUBELET_SEC 15
#define GRACE_MAX_SEC 86400

/* Of the name of a stop's owner. */
#define OWNER_SIZE 64

#define RETRY_MIN_USEC (3 * USEC_PER_SEC)
#define RETRY_MAX_USEC (600 * USEC_PER_SEC)
#define REFUSED_USEC USEC_PER_SEC
#define SLOW_USEC (15 * USEC_PER_SEC)

/* Of all pods together: where many containers are restarted at once, the runtime has enough to do. */
#define POLL_USEC ((uint64_t) 50 * 1000)
#define AWAIT_USEC (20 * USEC_PER_SEC)

DEFINE_CLEANUP(Pod *, pod_free)
DEFINE_CLEANUP(KubeEnvelope *, kube_protobuf_free)

/*
 * The successor of a container that was stopped, as soon as the runtime has it: the kubelet tells of
 * it only after its next look at the runtime, a second later. So the runtime itself is asked, often,
 * for as long as a restart takes as a rule; afterwards the pod's status has to tell. Annotation and
 * condition are written before that status then, and whoever waits for all of them waits for the
 * status alone.
 */

static bool is_awaited(const InPlaceContainer *container, uint64_t now) {
        const InPlaceContainer *one = container;

        return one->stopped.id && one->await_usec > now && !one->has_successor && one->fact.id &&
               strcmp(one->fact.id, one->stopped.id) == 0;
}

static bool pod_awaits(const InPlacePod *pod, uint64_t now) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (is_awaited(&pod->containers[i], now))
                        return true;

        return false;
}

static uint64_t interval_usec(const InPlace *meta, uint64_t now) {
        uint64_t n = 0;

        for (size_t i = 0; i < meta->n_pods; i++)
                n += pod_awaits(meta->pods[i], now);

        return (n > 0 ? n : 1) * POLL_USEC;
}

static void pod_take_list(InPlacePod *pod, const RuntimePod *found) {
        uint64_t now = inplace_now(pod->meta);

        for (size_t i = 0; found && i < pod->n_containers; i++) {
                InPlaceContainer *container = &pod->containers[i];
                const RuntimeContainer *newest =
                        runtime_pod_find(found, inplace_container_state(container)->name);

                container->has_successor = is_awaited(container, now) && newest &&
                                           newest->is_running &&
                                           strcmp(newest->id, container->stopped.id) != 0;
        }
}

/* A runtime that cannot be asked is asked again, as long as it is waited for. */
static int on_list(RuntimePods *pods, const Error *error, void *userdata) {
        InPlacePod *pod = userdata;
        uint64_t now = inplace_now(pod->meta);

        pod->poll = runtime_pods_call_free(pod->poll);
        pod->poll_usec = now + interval_usec(pod->meta, now);
        if (!error)
                pod_take_list(pod, runtime_pods_find(pods, pod->pod->namespace, pod->pod->name,
                                                     pod->pod->runtime_uid));

        return inplace_pod_step(pod);
}

static void container_await(InPlaceContainer *container) {
        uint64_t now = inplace_now(container->pod->meta);

        container->await_usec = now + AWAIT_USEC;
        container->pod->poll_usec = now + interval_usec(container->pod->meta, now);
}

int inplace_pod_watch(InPlacePod *pod) {
        RpcClient *client = runtimes_client(pod->meta->options.runtimes);
        uint64_t now = inplace_now(pod->meta);

        if (inplace_pod_is_over(pod) || !pod_awaits(pod, now)) {
                pod->poll = runtime_pods_call_free(pod->poll);
                return 0;
        }

        /* The runtime's return leads here again. */
        if (pod->poll || !client)
                return 0;
        if (pod->poll_usec > now) {
                inplace_pod_wake_at(pod, pod->poll_usec);
                return 0;
        }

        return runtime_pods_list(client, &(RuntimePodsFilter){ .uid = pod->pod->runtime_uid },
                                 on_list, pod, &pod->poll);
}

static void restart_owner(const InPlaceRestart *restart, char buffer[static OWNER_SIZE]) {
        int n = snprintf(buffer, OWNER_SIZE, "metadata/%" PRIu32, restart->hash);

        if (restart->before_hash != 0)
                (void) snprintf(buffer + n, OWNER_SIZE - (size_t) n, "/%" PRIu32 "/%u",
                                restart->before_hash, restart->number);
}

bool inplace_stop_find(const InPlace *meta, uint32_t hash, const char *id, InPlaceRestart *ret) {
        InPlaceRestart restart = { .hash = hash, .number = 1 };
        char owner[OWNER_SIZE], *end;
        const char *found;

        restart_owner(&restart, owner);
        found = stops_find_owner(meta->options.stops, owner, id);
        if (!found)
                return false;

        found += strlen(owner);
        if (*found == '/') {
                restart.before_hash = (uint32_t) strtoul(found + 1, &end, 10);
                restart.number = *end == '/' ? (unsigned) strtoul(end + 1, NULL, 10) : 0;
        }

        *ret = restart;
        return true;
}

static bool container_is_asked(const Pod *pod, const PodContainer *state) {
        return pod->update == POD_UPDATE_RUNNING || pod_restarts_on_metadata(pod, state->name);
}

/* The restart has not changed what it was for. */
static void container_try_again(InPlaceContainer *container, const InPlaceRestart *restart) {
        const PodContainer *state = inplace_container_state(container);
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
        container->retry_usec = inplace_now(container->pod->meta) + usec;
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
int inplace_container_judge(InPlaceContainer *container) {
        InPlaceStopped *stopped = &container->stopped;
        const InPlaceFact *fact = &container->fact;
        bool has_learned = stopped->is_ours && !stopped->has_changed;
        char owner[OWNER_SIZE];
        int r = 0;

        if (!stopped->id || !fact->id || !fact->knows_env || strcmp(stopped->id, fact->id) == 0)
                return 0;

        container->has_failed = false;
        if (has_learned && fact->env_hash != stopped->restart.hash)
                container_try_again(container, &stopped->restart);
        restart_owner(&stopped->restart, owner);
        if (!has_learned)
                r = stops_forget(container->pod->meta->options.stops, owner, stopped->id);
        free(stopped->id);
        *stopped = (InPlaceStopped){ .id = NULL };
        return r;
}

static void container_field(const PodContainer *state, char *buffer, size_t size) {
        (void) snprintf(buffer, size, "spec.%s{%s}",
                        state->kind == POD_CONTAINER_MAIN ? "containers" : "initContainers",
                        state->name);
}

static int container_report(InPlaceContainer *container, const char *reason, const char *message) {
        const InPlacePod *pod = container->pod;
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

        container_field(inplace_container_state(container), field, sizeof(field));
        log_warning(pod->meta->options.log, NULL, "Pod `%s/%s`: %s.", pod->pod->namespace,
                    pod->pod->name, message);
        return kube_event_send(pod->meta->options.events, &object, "Warning", reason, message);
}

/* NULL: the stop is still asked for by the pod as it is now. */
static const char *why_not(const InPlaceContainer *container, const Pod *live) {
        const PodContainer *state = pod_find(live, inplace_container_state(container)->name);
        const char *id;
        char scheme[64];

        if (strcmp(live->uid, container->pod->uid) != 0)
                return "another pod has its name now";
        if (live->is_deleted || live->is_finished)
                return "the pod is being deleted, or has finished";
        if (!state || !state->is_running ||
            !pod_split_container_id(state->container_id, scheme, sizeof(scheme), &id) ||
            strcmp(id, container->stop_id) != 0)
                return "another container runs, or none";
        if (state->env_hash != container->stop_for.hash)
                return "the pod's labels or annotations have changed again";
        if (strcmp(state->image, inplace_container_state(container)->image) != 0)
                return "its image is another one now as well";
        if (!container_is_asked(live, state))
                return "the pod does not ask for restarts any more";

        return NULL;
}

/* The stop may end, and the answer be its last use, from within. */
static int container_answer(InPlaceContainer *container, const char *reason) {
        container->check_usec = 0;
        container->n_check_failures = 0;
        return stop_answer(container->stop, !reason, reason);
}

static int container_compare(InPlaceContainer *container, const Pod *live) {
        const char *reason = why_not(container, live);

        if (reason && strcmp(live->uid, container->pod->uid) == 0) {
                free(container->refused_version);
                container->refused_version = strdup(live->resource_version);
                if (!container->refused_version)
                        return -ENOMEM;
        }

        return container_answer(container, reason);
}

static int parse_reply(const KubeReply *reply, Pod **ret, Error *reterr) {
        cleanup(kube_protobuf_free_p) KubeEnvelope *envelope = NULL;
        int r;

        r = kube_protobuf_open((const uint8_t *) reply->body, reply->size, &envelope, reterr);
        if (r < 0)
                return r;

        return pod_spec_parse(envelope->raw.data, envelope->raw.len, ret, reterr);
}

/* Nothing is stopped on stale knowledge: the API server is asked until it answers. */
static int container_check_later(InPlaceContainer *container, const KubeReply *reply,
                                 const Error *error) {
        uint64_t usec = kube_retry_usec(++container->n_check_failures, reply, inplace_random());

        if (!kube_is_retriable(reply, error) && usec < SLOW_USEC)
                usec = SLOW_USEC + inplace_random() % SLOW_USEC;
        if (container->n_check_failures == 1)
                log_warning(
                        container->pod->meta->options.log, NULL,
                        "Container `%s` of pod `%s/%s` is to be restarted, but whether it still "
                        "is cannot be asked, trying again: %s.",
                        inplace_container_state(container)->name, container->pod->pod->namespace,
                        container->pod->pod->name, error_message(error));
        container->check_usec = inplace_now(container->pod->meta) + usec;
        return inplace_pod_step(container->pod);
}

static int on_pod_read(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error refusal = ERROR_INIT;
        cleanup(pod_free_p) Pod *live = NULL;
        InPlaceContainer *container = userdata;
        int r;

        container->check = kube_call_unref(container->check);
        if (error && error->kind == ERROR_NOT_FOUND)
                return container_answer(container, "the pod is gone");
        if (error)
                return container_check_later(container, reply, error);

        r = parse_reply(reply, &live, &refusal);
        if (refusal.kind != ERROR_NONE)
                return container_check_later(container, reply, &refusal);
        if (r < 0)
                return r;

        return container_compare(container, live);
}

static int container_ask(InPlaceContainer *container) {
        const KubePath path = {
                .version = "v1",
                .namespace = container->pod->pod->namespace,
                .resource = "pods",
                .name = container->pod->pod->name,
        };
        cleanup(free_p) char *text = NULL;
        KubeRequest request = {
                .verb = "get",
                .method = "GET",
                .accept = KUBE_PROTOBUF,
                .on_replied = on_pod_read,
                .userdata = container,
        };
        int r;

        container->check_usec = 0;
        r = kube_path_format(&path, &text);
        if (r < 0)
                return r;

        request.path = text;
        return kube_call(container->pod->meta->options.client, &request, &container->check);
}

static int on_check(Stop *stop, void *userdata) {
        InPlaceContainer *container = userdata;

        return container->check ? 0 : container_ask(container);
}

static int container_check(InPlaceContainer *container) {
        if (!container->stop || container->check || container->check_usec == 0)
                return 0;
        if (container->check_usec <= inplace_now(container->pod->meta))
                return container_ask(container);

        inplace_pod_wake_at(container->pod, container->check_usec);
        return 0;
}

static int container_stopped(InPlaceContainer *container, bool is_ours) {
        char *id = take_ptr(container->stop_id);

        free(container->stopped.id);
        container->stopped.id = id;
        container->stopped.restart = container->stop_for;
        container->stopped.is_ours = is_ours;
        container_await(container);
        return inplace_container_judge(container);
}

static int container_failed(InPlaceContainer *container, const StopReport *report) {
        const PodContainer *state = inplace_container_state(container);
        cleanup(free_p) char *message = NULL;
        uint64_t usec = RETRY_MIN_USEC;

        for (unsigned i = 0; i < container->n_failures && usec < RETRY_MAX_USEC; i++)
                usec *= 2;
        if (usec > RETRY_MAX_USEC)
                usec = RETRY_MAX_USEC;

        container->n_failures++;
        container->retry_usec = inplace_now(container->pod->meta) + usec;
        if (asprintf(&message, "Cannot stop container %s, trying again: %s", state->name,
                     report->message ?: "the runtime does not say why") < 0) {
                message = NULL;
                return -ENOMEM;
        }

        return container_report(container, "InPlaceRestartFailed", message);
}

static int container_take_report(InPlaceContainer *container, const StopReport *report) {
        switch (report->result) {
        case STOP_STOPPED:
        case STOP_GONE: return container_stopped(container, report->result == STOP_STOPPED);
        case STOP_NOT_ASKED:
                /* Its next state decides anew; if that is known already, not at once again. */
                if (container->stop_for.hash == container->expected_hash)
                        container->retry_usec = inplace_now(container->pod->meta) + REFUSED_USEC;
                return 0;
        case STOP_FAILED: return container_failed(container, report);
        case _STOP_RESULT_MAX: break;
        }

        return 0;
}

static int on_done(const StopReport *report, void *userdata) {
        InPlaceContainer *container = userdata;
        int r;

        container->stop = NULL;
        container->check = kube_call_unref(container->check);
        container->check_usec = 0;
        r = container_take_report(container, report);
        if (r < 0)
                return r;

        return inplace_pod_step(container->pod);
}

static int container_add_stop(InPlaceContainer *container, const char *cause) {
        const PodContainer *state = inplace_container_state(container);
        const Pod *pod = container->pod->pod;
        const char *id;
        char owner[OWNER_SIZE], scheme[64];
        const StopOptions options = {
                .runtime = scheme,
                .container_id = container->fact.id,
                .owner = owner,
                .cause = cause,
                .pod_address = pod->ip && pod->ip[0] ? pod->ip : NULL,
                .grace_sec = STOP_GRACE_OF_POD,
                .needs_kubelet = true,
                .is_init = state->kind != POD_CONTAINER_MAIN,
                .on_check = on_check,
                .on_done = on_done,
                .userdata = container,
        };

        if (!pod_split_container_id(state->container_id, scheme, sizeof(scheme), &id))
                return 0;

        restart_owner(&container->stop_for, owner);
        return stops_add(container->pod->meta->options.stops, &options, &container->stop);
}

static int container_stop(InPlaceContainer *container) {
        cleanup(free_p) char *cause = NULL;
        char *id = strdup(container->fact.id);

        if (!id)
                return -ENOMEM;

        free(container->stop_id);
        container->stop_id = id;
        container->stop_for = (InPlaceRestart){
                .hash = container->expected_hash,
                .before_hash = container->fact.env_hash,
                .number = container->n_restarts + 1,
        };
        container->stopped.has_changed = false;
        if (asprintf(&cause,
                     "Stopping container %s: its environment comes from labels or annotations that "
                     "have changed",
                     inplace_container_state(container)->name) < 0) {
                cause = NULL;
                return -ENOMEM;
        }

        return container_add_stop(container, cause);
}

static char *explain_plan(const InPlaceContainer *container, RestartPlan plan) {
        const PodContainer *state = inplace_container_state(container);
        char *text = NULL;
        int n;

        if (plan == RESTART_PLAN_GIVE_UP)
                n = asprintf(&text,
                             "Container %s was restarted and still has another environment than "
                             "its labels and annotations ask for: it is left alone until they "
                             "change",
                             state->name);
        else if (inplace_pod_is_static(container->pod))
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
static int container_report_plan(InPlaceContainer *container, RestartPlan plan) {
        cleanup(free_p) char *message = NULL;

        if (container->reported == plan && container->reported_hash == container->expected_hash)
                return 0;

        container->reported = plan;
        container->reported_hash = container->expected_hash;
        message = explain_plan(container, plan);
        if (!message)
                return -ENOMEM;

        return container_report(container,
                                plan == RESTART_PLAN_SKIP ? "InPlaceRestartSkipped"
                                                          : "InPlaceRestartFailed",
                                message);
}

static bool is_refused(InPlaceContainer *container) {
        const char *version = container->pod->pod->resource_version;

        if (container->refused_version &&
            !kube_version_is_older(version, container->refused_version))
                container->refused_version = (free(container->refused_version), NULL);

        return container->refused_version;
}

static RestartPlan container_plan(InPlaceContainer *container, uint64_t now) {
        const PodContainer *state = inplace_container_state(container);
        const InPlacePod *pod = container->pod;
        const InPlaceFact *fact = &container->fact;
        const InPlaceStopped *stopped = &container->stopped;
        const RestartState restart = {
                .is_asked = container_is_asked(pod->pod, state),
                .is_over = inplace_pod_is_over(pod),
                .is_running = state->is_running && inplace_container_is_known(container),
                .comes_back = state->comes_back && !inplace_pod_is_static(pod),
                .expected_hash = container->expected_hash,
                .running_hash = fact->env_hash,
                .has_stop = container->stop ||
                            (stopped->id && fact->id && strcmp(stopped->id, fact->id) == 0),
                .is_kubelets = inplace_container_is_kubelets(container),
                .has_waited_for_kubelet =
                        container->kubelet_usec > 0 && container->kubelet_usec <= now,
                .is_behind = pod->behind_usec > now,
                .must_wait = container->retry_usec > now || is_refused(container),
                .has_failed = container->has_failed,
        };

        return restart_plan(&restart);
}

static void container_await_kubelet(InPlaceContainer *container, uint64_t now) {
        int64_t grace_sec = container->pod->pod->grace_sec;

        if (grace_sec < 0)
                grace_sec = 0;
        if (grace_sec > GRACE_MAX_SEC)
                grace_sec = GRACE_MAX_SEC;
        if (container->kubelet_usec == 0)
                container->kubelet_usec = now + ((uint64_t) grace_sec + KUBELET_SEC) * USEC_PER_SEC;
        inplace_pod_wake_at(container->pod, container->kubelet_usec);
}

static int container_act(InPlaceContainer *container, uint64_t now) {
        switch (container->plan) {
        case RESTART_PLAN_NOTHING: container->kubelet_usec = 0; return 0;
        case RESTART_PLAN_AWAIT: return 0;
        case RESTART_PLAN_FOR_KUBELET: container_await_kubelet(container, now); return 0;
        case RESTART_PLAN_FOR_SYNC:
                inplace_pod_wake_at(container->pod, container->pod->behind_usec);
                return 0;
        case RESTART_PLAN_FOR_RETRY:
                if (container->retry_usec > now)
                        inplace_pod_wake_at(container->pod, container->retry_usec);
                return 0;
        case RESTART_PLAN_SKIP:
        case RESTART_PLAN_GIVE_UP: return container_report_plan(container, container->plan);
        case RESTART_PLAN_STOP: return container_stop(container);
        case _RESTART_PLAN_MAX: break;
        }

        return 0;
}

int inplace_pod_restart(InPlacePod *pod) {
        uint64_t now = inplace_now(pod->meta);

        for (size_t i = 0; i < pod->n_containers; i++) {
                InPlaceContainer *container = &pod->containers[i];
                int r;

                if (!inplace_container_has_env(container) ||
                    inplace_container_state(container)->kind == POD_CONTAINER_INIT)
                        continue;

                container->plan = container_plan(container, now);
                r = container_act(container, now);
                if (r < 0)
                        return r;

                /* Whatever is planned: also of a pod that is over, a stop wants its answer. */
                r = container_check(container);
                if (r < 0)
                        return r;
        }

        return 0;
}
