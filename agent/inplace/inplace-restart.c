/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/kube/protobuf.h"
#include "agent/inplace/inplace-pod.h"
#include "agent/pod/pod-spec.h"
#include "agent/pod/runtime-pods.h"

/* Time that the kubelet may need to stop a container beyond its grace period. */
#define KUBELET_SEC 15
#define GRACE_MAX_SEC 86400

#define OWNER_SIZE 64

#define RETRY_MIN_USEC (3 * USEC_PER_SEC)
#define RETRY_MAX_USEC (600 * USEC_PER_SEC)
#define REFUSED_USEC USEC_PER_SEC
#define SLOW_USEC (15 * USEC_PER_SEC)

/* Pause between two polls of any pod: a node that restarts many containers at once keeps the
 * runtime busy already. */
#define POLL_USEC ((uint64_t) 50 * 1000)
#define AWAIT_USEC (20 * USEC_PER_SEC)

DEFINE_CLEANUP(Pod *, pod_free)

/*
 * Finds the successor of a stopped container as soon as the runtime has it
 *
 * The kubelet reports a successor only after it has listed the runtime's containers again, a second later.
 * So the agent polls the runtime for as long as a restart usually takes, and afterwards waits for the pod's
 * status. Thus it writes annotation and condition before the kubelet writes the status, and a controller
 * that waits for all three waits for the status alone.
 */

static bool awaits_successor(const InPlaceContainer *container, uint64_t now) {
        const InPlaceRestart *restart = &container->restart;

        return restart->state == INPLACE_RESTART_STOPPED && restart->await_usec > now &&
               container->fact.id && strcmp(container->fact.id, restart->id) == 0;
}

static bool pod_awaits(const InPlacePod *pod, uint64_t now) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (awaits_successor(&pod->containers[i], now))
                        return true;

        return false;
}

static uint64_t interval_usec(const InPlace *inplace, uint64_t now) {
        uint64_t n = 0;

        for (size_t i = 0; i < inplace->n_pods; i++)
                n += pod_awaits(inplace->pods[i], now);

        return (n > 0 ? n : 1) * POLL_USEC;
}

static void pod_take_list(InPlacePod *pod, const RuntimePod *found) {
        uint64_t now = inplace_now(pod->inplace);

        for (size_t i = 0; found && i < pod->n_containers; i++) {
                InPlaceContainer *container = &pod->containers[i];
                const RuntimeContainer *newest =
                        runtime_pod_find(found, inplace_container_state(container)->name);

                if (awaits_successor(container, now) && newest && newest->is_running &&
                    strcmp(newest->id, container->restart.id) != 0)
                        container->restart.state = INPLACE_RESTART_REPLACED;
        }
}

/* Polls again if the runtime does not answer, as long as the agent waits for a successor. */
static int on_list(RuntimePods *pods, const Error *error, void *userdata) {
        InPlacePod *pod = userdata;
        uint64_t now = inplace_now(pod->inplace);

        pod->poll = runtime_pods_call_free(pod->poll);
        pod->poll_usec = now + interval_usec(pod->inplace, now);
        if (!error)
                pod_take_list(pod, runtime_pods_find(pods, pod->pod->namespace, pod->pod->name,
                                                     pod->pod->runtime_uid));

        return inplace_pod_reconcile(pod);
}

static void container_await(InPlaceContainer *container) {
        uint64_t now = inplace_now(container->pod->inplace);

        container->restart.await_usec = now + AWAIT_USEC;
        container->pod->poll_usec = now + interval_usec(container->pod->inplace, now);
}

int inplace_pod_poll(InPlacePod *pod) {
        RpcClient *client = runtimes_client(pod->inplace->context->runtimes);
        uint64_t now = inplace_now(pod->inplace);

        if (inplace_pod_is_over(pod) || !pod_awaits(pod, now)) {
                pod->poll = runtime_pods_call_free(pod->poll);
                return 0;
        }

        /* The return of the runtime causes another poll. */
        if (pod->poll || !client)
                return 0;
        if (pod->poll_usec > now) {
                inplace_pod_wake_at(pod, pod->poll_usec);
                return 0;
        }

        return runtime_pods_list(client, &(RuntimePodsFilter){ .uid = pod->pod->runtime_uid },
                                 on_list, pod, &pod->poll);
}

static void purpose_to_owner(const InPlacePurpose *purpose, char buffer[static OWNER_SIZE]) {
        (void) snprintf(buffer, OWNER_SIZE, "metadata/%" PRIu32 "/%u", purpose->hash,
                        purpose->number);
}

/* Finds why a previous run of the agent stopped the container, if it was for that hash. */
static bool find_stopped(const InPlace *inplace, uint32_t hash, const char *id,
                         InPlacePurpose *ret) {
        char owner[OWNER_SIZE];
        const char *found;

        (void) snprintf(owner, sizeof(owner), "metadata/%" PRIu32, hash);
        found = stops_find_owner(inplace->context->stops, owner, id);
        if (!found)
                return false;

        found += strlen(owner);
        *ret = (InPlacePurpose){
                .hash = hash,
                .number = *found == '/' ? (unsigned) strtoul(found + 1, NULL, 10) : 0,
        };
        return true;
}

/* ID of the container before the known one. The pod's status at the inspection has it even after a restart of
 * the agent; by now the status may name the known one's successor. */
static const char *container_former_id(const InPlaceContainer *container) {
        return strcmp(container->fact.full_id, container->inspected_id) == 0
                       ? container->asked_former_id
                       : container->inspected_id;
}

/* Only for the hash that the pod still asks for. The successor decides what follows. */
int inplace_container_restore_restart(InPlaceContainer *container) {
        const char *former = container_former_id(container), *id;
        InPlaceRestart *restart = &container->restart;
        InPlacePurpose purpose;
        char scheme[64];

        if (restart->state != INPLACE_RESTART_NONE || !former ||
            !pod_split_container_id(former, scheme, sizeof(scheme), &id) ||
            strcmp(id, container->fact.id) == 0 ||
            !find_stopped(container->pod->inplace, container->expected_hash, id, &purpose))
                return 0;

        restart->id = strdup(id);
        if (!restart->id)
                return -ENOMEM;

        restart->state = INPLACE_RESTART_STOPPED;
        restart->purpose = purpose;
        restart->is_ours = true;
        restart->has_changed = false;
        return 0;
}

static bool container_is_asked(const Pod *pod, const PodContainer *state) {
        return pod->update == POD_UPDATE_RUNNING || state->restarts_on_metadata;
}

/* The restart did not bring the expected environment. */
static void container_try_again(InPlaceContainer *container, const InPlacePurpose *purpose) {
        const PodContainer *state = inplace_container_state(container);
        uint64_t usec = restart_again_usec(purpose->number, state->is_env_overridden);

        container->attempts.has_failed = usec == 0;
        if (container->attempts.has_failed)
                return;

        container->attempts.n_restarts = purpose->number;
        container->attempts.retry_usec = inplace_now(container->pod->inplace) + usec;
        log_warning(container->pod->inplace->context->log, NULL,
                    "Pod \"%s/%s\": the kubelet started container %s without its new environment, "
                    "because it did not have the newest labels or annotations yet: "
                    "restarting it again in %u s.",
                    container->pod->pod->namespace, container->pod->pod->name, state->name,
                    (unsigned) (usec / USEC_PER_SEC));
}

/* Checks the result once the successor is known. If the container ended by itself, or the pod has
 * asked for another hash meanwhile, the restart proves nothing, and the agent forgets it so that
 * its next run does not count it. */
int inplace_container_check_result(InPlaceContainer *container) {
        InPlaceRestart *restart = &container->restart;
        const InPlaceFact *fact = &container->fact;
        bool has_learned = restart->is_ours && !restart->has_changed;
        char owner[OWNER_SIZE];
        int r = 0;

        if (!inplace_container_is_stopped(container) || !fact->id || !fact->knows_env ||
            strcmp(restart->id, fact->id) == 0)
                return 0;

        container->attempts.has_failed = false;
        if (has_learned && fact->env_hash != restart->purpose.hash)
                container_try_again(container, &restart->purpose);
        purpose_to_owner(&restart->purpose, owner);
        if (!has_learned)
                r = stops_forget(container->pod->inplace->context->stops, owner, restart->id);
        free(container->ended_id);
        container->ended_id = take_ptr(restart->id);
        *restart = (InPlaceRestart){ .state = INPLACE_RESTART_NONE };
        return r;
}

/* For as long as the pod asks for the values which a restart did not bring, the record of that restart keeps
 * the next run of the agent from another. It is looked up by the container before the known one, and that
 * may have ended by itself since. */
static int container_keep_record(InPlaceContainer *container) {
        const InPlace *inplace = container->pod->inplace;
        const char *former = inplace_container_state(container)->former_id, *id;
        char owner[OWNER_SIZE], scheme[64];
        InPlacePurpose purpose;
        int r;

        if (!container->attempts.has_failed || !container->ended_id ||
            !inplace_container_is_known(container) ||
            !pod_split_container_id(former, scheme, sizeof(scheme), &id) ||
            !find_stopped(inplace, container->expected_hash, container->ended_id, &purpose))
                return 0;

        purpose_to_owner(&purpose, owner);
        r = stops_keep(inplace->context->stops, owner, container->ended_id, id);
        if (r < 0 || !stops_has_stopped(inplace->context->stops, owner, id))
                return r;

        return text_set(&container->ended_id, id);
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
        log_warning(pod->inplace->context->log, NULL, "Pod \"%s/%s\": %s.", pod->pod->namespace,
                    pod->pod->name, message);
        return kube_event_send(pod->inplace->context->events, &object, "Warning", reason, message);
}

/* NULL: the pod still asks for the stop. */
static const char *stop_refusal(const InPlaceContainer *container, const Pod *live) {
        const PodContainer *state = pod_find(live, inplace_container_state(container)->name);
        const char *id;
        char scheme[64];

        if (strcmp(live->uid, container->pod->uid) != 0)
                return "another pod has its name now";
        if (live->is_deleted || live->is_finished)
                return "the pod is being deleted, or has finished";
        if (!state || !state->is_running ||
            !pod_split_container_id(state->container_id, scheme, sizeof(scheme), &id) ||
            strcmp(id, container->restart.id) != 0)
                return "a different container runs, or none";
        if (state->env_hash != container->restart.purpose.hash)
                return "the pod's labels or annotations have changed again";
        if (strcmp(state->image, inplace_container_state(container)->image) != 0)
                return "its image has changed as well";
        if (!container_is_asked(live, state))
                return "the pod does not ask for restarts any more";

        return NULL;
}

static void check_end(InPlaceCheck *check) {
        kube_patch_cancel(&check->read);
        kube_patch_succeed(&check->read);
        check->state = INPLACE_CHECK_NONE;
}

/* The answer may end and free the stop. */
static int container_answer(InPlaceContainer *container, const char *reason) {
        check_end(&container->check);
        return stop_answer(container->restart.stop, !reason, reason);
}

static int container_compare(InPlaceContainer *container, const Pod *live) {
        const char *reason = stop_refusal(container, live);

        if (reason && strcmp(live->uid, container->pod->uid) == 0 &&
            text_set(&container->refused_version, live->resource_version) < 0)
                return -ENOMEM;

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

/* Never stops a container on stale data: asks the API server until it answers. */
static int container_check_later(InPlaceContainer *container, KubePatchOutcome outcome,
                                 const Error *error) {
        InPlaceCheck *check = &container->check;

        check->state = INPLACE_CHECK_PAUSING;
        if (outcome == KUBE_PATCH_REFUSED &&
            check->read.rest_usec < inplace_now(container->pod->inplace) + SLOW_USEC)
                kube_patch_rest(&check->read, SLOW_USEC + random_number() % SLOW_USEC);
        if (check->read.n_failures == 1)
                log_warning(container->pod->inplace->context->log, NULL,
                            "Cannot confirm the restart of container \"%s\" with pod \"%s/%s\", "
                            "trying again: %s.",
                            inplace_container_state(container)->name,
                            container->pod->pod->namespace, container->pod->pod->name,
                            error_message(error));
        return inplace_pod_reconcile(container->pod);
}

static int on_pod_read(const KubePatchAnswer *answer, void *userdata) {
        cleanup(error_done) Error refusal = ERROR_INIT;
        cleanup(pod_free_p) Pod *live = NULL;
        InPlaceContainer *container = userdata;
        int r;

        if (answer->outcome == KUBE_PATCH_GONE)
                return container_answer(container, "the pod is gone");
        if (answer->error)
                return container_check_later(container, answer->outcome, answer->error);

        r = parse_reply(answer->reply, &live, &refusal);
        if (refusal.kind != ERROR_NONE) {
                kube_patch_fail(&container->check.read, answer->reply);
                return container_check_later(container, KUBE_PATCH_REFUSED, &refusal);
        }
        if (r < 0)
                return r;

        return container_compare(container, live);
}

static int container_ask(InPlaceContainer *container) {
        const Pod *pod = container->pod->pod;

        container->check.state = INPLACE_CHECK_READING;
        return kube_patch_send(&container->check.read,
                               &(KubePatchRequest){
                                       .verb = KUBE_PATCH_GET,
                                       .path = { .version = "v1",
                                                 .namespace = pod->namespace,
                                                 .resource = "pods",
                                                 .name = pod->name },
                                       .accept = KUBE_PROTOBUF,
                                       .on_answered = on_pod_read,
                               });
}

static int on_check(Stop *stop, void *userdata) {
        InPlaceContainer *container = userdata;

        return container->check.state == INPLACE_CHECK_READING ? 0 : container_ask(container);
}

static int container_check(InPlaceContainer *container) {
        const InPlaceCheck *check = &container->check;
        uint64_t when = kube_patch_when_usec(&check->read, 0);

        if (check->state != INPLACE_CHECK_PAUSING)
                return 0;
        if (when <= inplace_now(container->pod->inplace))
                return container_ask(container);

        inplace_pod_wake_at(container->pod, when);
        return 0;
}

static int container_stopped(InPlaceContainer *container, bool is_ours) {
        container->restart.state = INPLACE_RESTART_STOPPED;
        container->restart.is_ours = is_ours;
        container_await(container);
        return inplace_container_check_result(container);
}

static int container_failed(InPlaceContainer *container, const StopReport *report) {
        const PodContainer *state = inplace_container_state(container);
        cleanup(free_p) char *message = NULL;

        container->attempts.retry_usec =
                inplace_now(container->pod->inplace) +
                backoff_between_usec(RETRY_MIN_USEC, RETRY_MAX_USEC,
                                     ++container->attempts.n_failures, random_number());
        if (text_format(&message, "Cannot stop container %s, trying again: %s", state->name,
                        report->message ?: "the runtime gives no reason") < 0)
                return -ENOMEM;

        return container_report(container, "InPlaceRestartFailed", message);
}

static int container_take_report(InPlaceContainer *container, const StopReport *report) {
        switch (report->result) {
        case STOP_STOPPED:
        case STOP_GONE: return container_stopped(container, report->result == STOP_STOPPED);
        case STOP_NOT_REQUESTED:
                /* The pod's next state decides. If that is known already, wait before the next
                 * stop. */
                if (container->restart.purpose.hash == container->expected_hash)
                        container->attempts.retry_usec =
                                inplace_now(container->pod->inplace) + REFUSED_USEC;
                return 0;
        case STOP_FAILED: return container_failed(container, report);
        case _STOP_RESULT_MAX: break;
        }

        return 0;
}

static int on_done(const StopReport *report, void *userdata) {
        InPlaceContainer *container = userdata;
        int r;

        check_end(&container->check);
        container->restart.stop = NULL;
        r = container_take_report(container, report);
        if (r < 0)
                return r;

        if (container->restart.state == INPLACE_RESTART_STOPPING) {
                free(container->restart.id);
                container->restart = (InPlaceRestart){ .state = INPLACE_RESTART_NONE };
        }

        return inplace_pod_reconcile(container->pod);
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
        int r;

        if (!pod_split_container_id(state->container_id, scheme, sizeof(scheme), &id))
                return 0;

        purpose_to_owner(&container->restart.purpose, owner);
        r = stops_add(container->pod->inplace->context->stops, &options, &container->restart.stop);
        if (r < 0)
                return r;

        container->restart.state = INPLACE_RESTART_STOPPING;
        return 0;
}

static int container_stop(InPlaceContainer *container) {
        cleanup(free_p) char *cause = NULL;
        char *id = strdup(container->fact.id);

        if (!id)
                return -ENOMEM;

        free(container->restart.id);
        container->restart = (InPlaceRestart){
                .id = id,
                .purpose = {
                        .hash = container->expected_hash,
                        .number = container->attempts.n_restarts + 1,
                },
        };
        if (text_format(
                    &cause,
                    "Stopping container %s: its environment comes from labels or annotations that "
                    "have changed",
                    inplace_container_state(container)->name) < 0)
                return -ENOMEM;

        return container_add_stop(container, cause);
}

static int explain_plan(const InPlaceContainer *container, RestartPlan plan, char **ret) {
        const PodContainer *state = inplace_container_state(container);

        if (plan == RESTART_PLAN_GIVE_UP)
                return text_format(
                        ret,
                        "Container %s was restarted and still has another environment than "
                        "its labels and annotations ask for: the agent restarts it no more "
                        "until they change",
                        state->name);
        if (inplace_pod_is_static(container->pod))
                return text_format(
                        ret,
                        "Container %s is not restarted although its labels or annotations "
                        "have changed: the pod is static, so its file on the node decides on "
                        "its environment",
                        state->name);
        if (state->is_env_own)
                return text_format(
                        ret,
                        "Container %s is not restarted although its labels or annotations "
                        "have changed: its environment has the annotation " POD_META_ANNOTATION
                        ", which changes with each restart",
                        state->name);
        if (state->rules_decide)
                return text_format(ret,
                                   "Container %s is not restarted although its labels or "
                                   "annotations have changed: by its exit status, its restart "
                                   "rules may end it or restart other containers",
                                   state->name);

        return text_format(ret,
                           "Container %s is not restarted although its labels or annotations "
                           "have changed: nothing would start it again (restart policy %s)",
                           state->name, state->restart_policy);
}

/* Logs each plan once for each expected hash. */
static int container_report_plan(InPlaceContainer *container, RestartPlan plan) {
        cleanup(free_p) char *message = NULL;

        if (container->reported == plan && container->reported_hash == container->expected_hash)
                return 0;

        container->reported = plan;
        container->reported_hash = container->expected_hash;
        if (explain_plan(container, plan, &message) < 0)
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

static RestartTarget container_target(const InPlaceContainer *container) {
        const InPlaceRestart *restart = &container->restart;

        if (inplace_pod_is_over(container->pod))
                return RESTART_TARGET_NONE;
        if (restart->state == INPLACE_RESTART_STOPPING ||
            (inplace_container_is_stopped(container) && container->fact.id &&
             strcmp(restart->id, container->fact.id) == 0))
                return RESTART_TARGET_STOPPED;

        return inplace_container_state(container)->is_running &&
                               inplace_container_is_known(container)
                       ? RESTART_TARGET_RUNNING
                       : RESTART_TARGET_NONE;
}

static RestartHold container_hold(InPlaceContainer *container, uint64_t now) {
        bool has_waited = container->kubelet_usec > 0 && container->kubelet_usec <= now;
        bool must_wait = is_refused(container) || container->attempts.retry_usec > now;

        if (inplace_container_restarted_by_kubelet(container) && !has_waited)
                return RESTART_HOLD_KUBELET;
        if (container->pod->kubelet.behind_usec > now)
                return RESTART_HOLD_SYNC;

        return must_wait ? RESTART_HOLD_RETRY : RESTART_HOLD_NONE;
}

static RestartPlan container_plan(InPlaceContainer *container, uint64_t now) {
        const PodContainer *state = inplace_container_state(container);
        const RestartFacts facts = {
                .target = container_target(container),
                .hold = container_hold(container, now),
                .is_requested = container_is_asked(container->pod->pod, state),
                .may_restart = inplace_container_may_restart(container),
                .has_failed = container->attempts.has_failed,
                .expected_hash = container->expected_hash,
                .running_hash = container->fact.env_hash,
        };

        return restart_plan(&facts);
}

/* The kubelet stops the containers that it replaces one after the other. */
static uint64_t pod_kubelet_sec(const InPlacePod *pod) {
        int64_t grace_sec = pod->pod->grace_sec;
        uint64_t n = 0;

        if (grace_sec < 0)
                grace_sec = 0;
        if (grace_sec > GRACE_MAX_SEC)
                grace_sec = GRACE_MAX_SEC;
        for (size_t i = 0; i < pod->n_containers; i++)
                n += inplace_container_restarted_by_kubelet(&pod->containers[i]);

        return n * (uint64_t) grace_sec + KUBELET_SEC;
}

static void container_await_kubelet(InPlaceContainer *container, uint64_t now) {
        if (container->kubelet_usec == 0)
                container->kubelet_usec = now + pod_kubelet_sec(container->pod) * USEC_PER_SEC;
        inplace_pod_wake_at(container->pod, container->kubelet_usec);
}

static int container_act(InPlaceContainer *container, uint64_t now) {
        switch (container->plan) {
        case RESTART_PLAN_NOTHING: container->kubelet_usec = 0; return 0;
        case RESTART_PLAN_AWAIT: return 0;
        case RESTART_PLAN_FOR_KUBELET: container_await_kubelet(container, now); return 0;
        case RESTART_PLAN_FOR_SYNC:
                inplace_pod_wake_at(container->pod, container->pod->kubelet.behind_usec);
                return 0;
        case RESTART_PLAN_FOR_RETRY:
                if (container->attempts.retry_usec > now)
                        inplace_pod_wake_at(container->pod, container->attempts.retry_usec);
                return 0;
        case RESTART_PLAN_SKIP:
        case RESTART_PLAN_GIVE_UP: return container_report_plan(container, container->plan);
        case RESTART_PLAN_STOP: return container_stop(container);
        case _RESTART_PLAN_MAX: break;
        }

        return 0;
}

int inplace_pod_restart(InPlacePod *pod) {
        uint64_t now = inplace_now(pod->inplace);

        for (size_t i = 0; i < pod->n_containers; i++) {
                InPlaceContainer *container = &pod->containers[i];
                int r;

                if (!inplace_container_has_env(container) ||
                    inplace_container_state(container)->kind == POD_CONTAINER_INIT)
                        continue;

                container->plan = container_plan(container, now);
                r = container_keep_record(container);
                if (r >= 0)
                        r = container_act(container, now);
                if (r < 0)
                        return r;

                /* Done for any plan: a stop waits for the answer of its check even if the pod is
                 * over. */
                r = container_check(container);
                if (r < 0)
                        return r;
        }

        return 0;
}
