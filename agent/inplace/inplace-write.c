/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/retry.h"
#include "agent/inplace/condition-status.h"
#include "agent/inplace/containers-meta-spec.h"
#include "agent/inplace/inplace-pod.h"
#include "agent/inplace/pod-patch-spec.h"
#include "agent/pod/gate-spec.h"

/* Time before "not running" is written: a container that ends by itself is usually back soon. */
#define NOT_RUNNING_USEC (10 * USEC_PER_SEC)

#define WRITES_MAX 8
#define JITTER_USEC (3 * USEC_PER_SEC)
#define SLOW_USEC (15 * USEC_PER_SEC)
/* Time that one container's entry waits for those of containers that restart with it. */
#define TOGETHER_USEC (5 * USEC_PER_SEC)
/* Time that the end of a restart waits for the image IDs in its message. */
#define INSPECTION_USEC ((uint64_t) 250 * 1000)

/* The annotation and the conditions of a pod: wanted and present */

static const char *pod_annotation(const InPlacePod *pod) {
        const InPlaceText *written = inplace_pod_written(pod);

        return written ? written->meta : pod->pod->meta;
}

/* Keeps the entry of a container, as controllers expect, and completes only a hash that was
 * unknown. A container without a known successor keeps its entry as well. */
static int describe_container(const InPlaceContainer *container, const ContainersMeta *old,
                              ContainersMeta *meta) {
        const InPlaceFact *fact = &container->fact;
        const char *name = inplace_container_state(container)->name;
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

static bool container_runs(const InPlaceContainer *container) {
        return inplace_container_state(container)->is_running ||
               inplace_container_is_ahead(container);
}

/* Sorts by the statuses' order, in which each kind counts from 0. */
static int describe_kind(const InPlacePod *pod, PodContainerKind kind, const ContainersMeta *old,
                         ContainersMeta *meta) {
        cleanup(free_p) const InPlaceContainer **order =
                calloc(pod->n_containers + 1, sizeof(*order));
        int r = 0;

        if (!order)
                return -ENOMEM;

        for (size_t i = 0; i < pod->n_containers; i++) {
                const InPlaceContainer *container = &pod->containers[i];
                const PodContainer *state = inplace_container_state(container);

                if (state->kind == kind && state->status_index >= 0 &&
                    (size_t) state->status_index < pod->n_containers &&
                    (kind != POD_CONTAINER_SIDECAR || container_runs(container)))
                        order[state->status_index] = container;
        }

        for (size_t i = 0; r >= 0 && i < pod->n_containers; i++)
                if (order[i])
                        r = describe_container(order[i], old, meta);

        return r;
}

static int describe_containers(const InPlacePod *pod, const ContainersMeta *old,
                               ContainersMeta *meta) {
        int r;

        r = describe_kind(pod, POD_CONTAINER_MAIN, old, meta);
        return r < 0 ? r : describe_kind(pod, POD_CONTAINER_SIDECAR, old, meta);
}

/* The digest covers only the agent's own data, so that changes of others in the annotation do not
 * make it new. */
static int digest_of(const InPlacePod *pod, uint64_t *ret) {
        const ContainersMeta old = CONTAINERS_META_INIT;
        cleanup(containers_meta_done) ContainersMeta meta = CONTAINERS_META_INIT;
        cleanup(free_p) char *text = NULL;
        int r;

        r = describe_containers(pod, &old, &meta);
        if (r < 0)
                return r;

        r = containers_meta_write(&meta, &text);
        if (r < 0)
                return r;

        *ret = repeat_digest(0, text);
        return 0;
}

/* Sets meta, unless there is no change. */
static int make_annotation(const InPlacePod *pod, InPlaceText *ret) {
        cleanup(containers_meta_done) ContainersMeta old = CONTAINERS_META_INIT;
        cleanup(containers_meta_done) ContainersMeta meta = CONTAINERS_META_INIT;
        const char *text = pod_annotation(pod);
        int r;

        if ((!pod->pod->is_kruise && !pod->pod->restart_on_metadata) ||
            !inplace_pod_is_settled(pod))
                return 0;

        r = containers_meta_parse(text, &old);
        if (r < 0)
                return r;

        r = describe_containers(pod, &old, &meta);
        if (r < 0 || meta.n_items == 0 || (text && containers_meta_equal(&old, &meta)))
                return r;

        r = digest_of(pod, &ret->digests[INPLACE_FIELD_ANNOTATION]);
        return r < 0 ? r : containers_meta_write(&meta, &ret->meta);
}

/* The agent waits for the container's end or its successor. The kubelet restarts a container with
 * another image; a differing hash alone may come from an older kubelet and means nothing while the
 * image is current. */
static bool container_is_restarting(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);

        if (restart_plan_is_restarting(container->plan))
                return true;
        /* The agent decides what to do once the pod's status names the container. */
        if (inplace_container_is_ahead(container) && !container->attempts.has_failed &&
            container->fact.knows_env && container->fact.env_hash != container->expected_hash)
                return true;

        return inplace_container_restarted_by_kubelet(container) &&
               (strcmp(container->fact.image, state->image) != 0 ||
                inplace_container_verdict(container) != VERDICT_CURRENT);
}

static ConditionContainer condition_container(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);
        const InPlaceFact *fact = &container->fact;
        bool has_reference =
                container->reference && strcmp(container->reference, state->image) == 0;

        return (ConditionContainer){
                .name = state->name,
                .reference = state->image,
                .reference_id = has_reference ? container->reference_id : "",
                .running_id = fact->running_id ?: "",
                .is_running = container_runs(container),
                .is_known = inplace_container_is_known(container) ||
                            inplace_container_is_ahead(container),
                .is_restarting = container_is_restarting(container),
                .has_environment = inplace_container_has_env(container),
                .knows_environment = fact->knows_env,
                .is_environment_stale =
                        fact->knows_env && fact->env_hash != container->expected_hash,
                .may_restart = inplace_container_may_restart(container),
                .is_static = inplace_pod_is_static(container->pod),
                .is_environment_own = state->is_env_own,
                .has_failed = container->attempts.has_failed,
        };
}

static int pod_condition(const InPlacePod *pod, Condition *ret) {
        cleanup(free_p) ConditionContainer *containers =
                calloc(pod->n_containers + 1, sizeof(*containers));
        size_t n = 0;

        if (!containers)
                return -ENOMEM;

        for (size_t i = 0; i < pod->n_containers; i++)
                if (inplace_container_state(&pod->containers[i])->kind != POD_CONTAINER_INIT)
                        containers[n++] = condition_container(&pod->containers[i]);

        return condition_of(containers, n, ret);
}

/* Does not write states that pass within moments. */
static bool is_passing(InPlacePod *pod, ConditionReason reason, bool is_first) {
        uint64_t now = inplace_now(pod->inplace);

        if (reason != CONDITION_NOT_RUNNING)
                pod->not_running_usec = 0;
        if (reason == CONDITION_RESTARTING)
                return false;
        if (!inplace_pod_is_settled(pod))
                return true;
        if (reason == CONDITION_UNKNOWN)
                return is_first || pod->inspection.state != INPLACE_INSPECTION_NONE ||
                       (pod->inspection.retry.n_failures == 0 &&
                        !runtimes_client(pod->inplace->context->runtimes));
        if (reason != CONDITION_NOT_RUNNING)
                return false;

        if (pod->not_running_usec == 0)
                pod->not_running_usec = now;
        if (pod->not_running_usec + NOT_RUNNING_USEC > now)
                inplace_pod_wake_at(pod, pod->not_running_usec + NOT_RUNNING_USEC);
        return is_first || pod->not_running_usec + NOT_RUNNING_USEC > now;
}

/* The pod's status has a container that the runtime has already replaced. */
static bool is_behind(const InPlacePod *pod) {
        for (size_t i = 0; i < pod->n_containers; i++) {
                const PodContainer *state = inplace_container_state(&pod->containers[i]);

                if (state->kind != POD_CONTAINER_INIT && state->is_running &&
                    !inplace_container_is_known(&pod->containers[i]))
                        return pod->inspection.retry.n_failures == 0;
        }

        return false;
}

static bool is_written(const InPlacePod *pod, const Condition *condition) {
        const InPlaceText *written = inplace_pod_written(pod);
        const char *status = written ? written->status : pod->pod->verified_status;
        const char *reason = written ? written->reason : pod->pod->verified_reason;
        const char *message = written ? written->message : pod->pod->verified_message;

        if (!status || strcmp(status, condition_status_of(condition->reason)) != 0 || !reason ||
            strcmp(reason, condition_reason_to_string(condition->reason)) != 0)
                return false;

        return condition->reason == CONDITION_RESTARTING ||
               (message && strcmp(message, condition->message) == 0);
}

/* Sets status, reason and message, or nothing. */
static int make_condition(InPlacePod *pod, InPlaceText *ret) {
        cleanup(condition_done) Condition condition = CONDITION_INIT;
        const InPlaceText *written = inplace_pod_written(pod);
        bool is_first = written ? !written->status : !pod->pod->verified_status;
        int r;

        if (!inplace_pod_wants_condition(pod))
                return 0;

        r = pod_condition(pod, &condition);
        if (r < 0)
                return r;
        if (is_passing(pod, condition.reason, is_first) || is_written(pod, &condition) ||
            (condition.reason == CONDITION_UNKNOWN && is_behind(pod)))
                return 0;

        ret->status = strdup(condition_status_of(condition.reason));
        ret->reason = strdup(condition_reason_to_string(condition.reason));
        ret->message = take_ptr(condition.message);
        if (!ret->status || !ret->reason || !ret->message)
                return -ENOMEM;

        ret->digests[INPLACE_FIELD_CONDITION] =
                repeat_digest(repeat_digest(0, ret->reason), ret->message);
        return 0;
}

/* By its hash, the kubelet has made the container for this reference, wherever that leads by now, or is about
 * to replace it, even by one of the same image. */
static bool is_image_current(const InPlaceContainer *container) {
        const InPlaceFact *fact = &container->fact;

        if (!inplace_container_is_known(container))
                return false;
        if (container->pod->inplace->knows_kubelet && fact->kubelet_hash != 0)
                return fact->kubelet_hash == inplace_container_state(container)->plain_hash;

        return inplace_container_verdict(container) == VERDICT_CURRENT;
}

/* Decides by the pod's status alone, whose readiness then belongs to these containers as well. */
static bool is_gate_due(const InPlacePod *pod) {
        bool is_update = pod->pod->gate == POD_GATE_UPDATING;

        if (is_update ? !inplace_pod_is_settled(pod) : pod->pod->gate != POD_GATE_UNSET)
                return false;

        for (size_t i = 0; i < pod->n_containers; i++) {
                const InPlaceContainer *container = &pod->containers[i];
                const PodContainer *state = inplace_container_state(container);

                if (state->kind == POD_CONTAINER_INIT)
                        continue;
                if (!state->is_running || (is_update && container_is_restarting(container)))
                        return false;
                /* The tag of another container may have moved: that is no reason to keep the pod out of service. */
                if (is_update && state->is_gated && !is_image_current(container))
                        return false;
        }

        return true;
}

/* The patch carries the pod's resourceVersion, since an update may begin at any time; so the watch
 * has to show the agent's previous write first. */
static void make_gate(const InPlacePod *pod, InPlaceText *ret) {
        if (inplace_pod_written(pod) || !is_gate_due(pod))
                return;

        ret->gate = pod->pod->gate == POD_GATE_UNSET ? GATE_REASON_STARTED : GATE_REASON_UPDATED;
        ret->digests[INPLACE_FIELD_GATE] = repeat_digest(pod->pod->gate_digest, ret->gate);
}

/* Writing */

static bool text_has(const InPlaceText *text, InPlaceFieldKind kind) {
        switch (kind) {
        case INPLACE_FIELD_ANNOTATION: return text->meta;
        case INPLACE_FIELD_CONDITION: return text->status;
        case INPLACE_FIELD_GATE: return text->gate;
        case _INPLACE_FIELD_MAX: break;
        }

        return false;
}

static bool text_has_any(const InPlaceText *text) {
        return text->meta || text->status || text->gate;
}

static void text_drop(InPlaceText *text, InPlaceFieldKind kind) {
        switch (kind) {
        case INPLACE_FIELD_ANNOTATION: text->meta = (free(text->meta), NULL); break;
        case INPLACE_FIELD_CONDITION:
                text->status = (free(text->status), NULL);
                text->reason = (free(text->reason), NULL);
                text->message = (free(text->message), NULL);
                break;
        case INPLACE_FIELD_GATE: text->gate = NULL; break;
        case _INPLACE_FIELD_MAX: break;
        }
}

/* Keeps only the first of several fields. */
static void text_split(InPlaceText *text) {
        bool has_one = false;

        for (InPlaceFieldKind kind = 0; kind < _INPLACE_FIELD_MAX; kind++) {
                if (has_one)
                        text_drop(text, kind);
                has_one = has_one || text_has(text, kind);
        }
}

static bool text_has_several(const InPlaceText *text) {
        return !!text->meta + !!text->status + !!text->gate > 1;
}

/* The refusal concerns this pod alone: it is gone, has changed meanwhile, or its new state is not
 * accepted. */
static bool is_of_pod(const Error *error) {
        return error->kind == ERROR_NOT_FOUND || error->kind == ERROR_CONFLICT ||
               error->kind == ERROR_INVALID;
}

static bool pod_is_refused(const InPlacePod *pod) {
        for (size_t i = 0; i < _INPLACE_FIELD_MAX; i++)
                if (pod->fields[i].is_refused)
                        return true;

        return false;
}

static bool is_any_refused(const InPlace *inplace) {
        for (size_t i = 0; i < inplace->n_pods; i++)
                if (pod_is_refused(inplace->pods[i]))
                        return true;

        return false;
}

static void notify_changed(const InPlace *inplace) {
        inplace->context->on_changed(inplace->context->userdata);
}

/* Logs each reason once, as long as anything is refused. */
static void inplace_note(InPlace *inplace, const Error *error) {
        metrics_count(inplace->context->metrics, METRIC_POD_WRITES, !error);
        notify_changed(inplace);
        if (error ? !is_of_pod(error) : !is_any_refused(inplace))
                (void) log_trouble(inplace->context->log, LOG_WARNING, &inplace->error, error,
                                   "Cannot write to a pod's status",
                                   "Writing to the status of pods works again");
}

/* Nothing is left to write to this pod, so no success would clear its refusals. */
void inplace_pod_forget_refusal(InPlacePod *pod) {
        InPlace *inplace = pod->inplace;
        bool was_refused = pod_is_refused(pod);

        for (size_t i = 0; i < _INPLACE_FIELD_MAX; i++) {
                pod->fields[i].is_refused = false;
                pod->fields[i].n_refused = 0;
        }
        pod->is_split = false;
        pod->write.n_failures = 0;
        if (!was_refused || inplace->error.kind == ERROR_NONE || is_any_refused(inplace))
                return;

        log_info(inplace->context->log, NULL,
                 "The pods no longer need the writes that the API server refused.");
        error_done(&inplace->error);
        notify_changed(inplace);
}

static int keep(char **text, const char *before) {
        return *text ? 0 : text_copy(before, text);
}

/* Remembers the state after the write, since the watch may show older ones for a while. */
static int pod_remember(InPlacePod *pod, InPlaceText *text) {
        const InPlaceText *written = inplace_pod_written(pod);
        const Pod *state = pod->pod;

        if (keep(&text->meta, written ? written->meta : state->meta) < 0 ||
            keep(&text->status, written ? written->status : state->verified_status) < 0 ||
            keep(&text->reason, written ? written->reason : state->verified_reason) < 0 ||
            keep(&text->message, written ? written->message : state->verified_message) < 0)
                return -ENOMEM;

        inplace_text_done(&pod->written);
        pod->written = *text;
        *text = (InPlaceText){ .version = NULL };
        return 0;
}

/* If several fields were refused together, tries each alone, at once. A field that was refused
 * alone waits as long as a person needs to fix the cause, and invalid content longer each time. */
static void pod_refused(InPlacePod *pod, const KubePatchAnswer *answer, const InPlaceText *text) {
        uint64_t now = inplace_now(pod->inplace);

        kube_patch_rest(&pod->write, 0);

        if (text_has_several(text)) {
                pod->is_split = true;
                return;
        }

        for (InPlaceFieldKind kind = 0; kind < _INPLACE_FIELD_MAX; kind++) {
                InPlaceField *field = &pod->fields[kind];
                uint64_t usec;

                if (!text_has(text, kind))
                        continue;

                usec = kube_retry_usec(++field->n_refused, answer->reply, random_number());
                if (usec < SLOW_USEC)
                        usec = SLOW_USEC + random_number() % SLOW_USEC;
                field->refused_usec = now + usec;
                if (answer->error->kind == ERROR_INVALID)
                        repeat_note(&field->repeat, text->digests[kind], now);
        }
}

static void pod_write_failed(InPlacePod *pod, const KubePatchAnswer *answer,
                             const InPlaceText *text) {
        const Error *error = answer->error;

        if (error->kind == ERROR_INVALID && pod->write.n_failures == 1)
                log_warning(pod->inplace->context->log, NULL,
                            "Cannot write to the status of pod \"%s/%s\", trying again: %s.",
                            pod->pod->namespace, pod->pod->name, error_message(error));
        for (InPlaceFieldKind kind = 0; kind < _INPLACE_FIELD_MAX; kind++)
                if (text_has(text, kind) && !is_of_pod(error))
                        pod->fields[kind].is_refused = true;

        if (answer->outcome == KUBE_PATCH_GONE) {
                pod->write_state = INPLACE_WRITE_DROPPED;
                inplace_pod_forget_refusal(pod);
        }
        /* The guard of the gate fails whenever the pod changes: the next write follows soon. */
        if (answer->outcome == KUBE_PATCH_CONFLICT && text->gate)
                return;
        if (answer->outcome == KUBE_PATCH_REFUSED)
                pod_refused(pod, answer, text);
        else if (answer->outcome != KUBE_PATCH_UNKNOWN)
                kube_patch_rest(&pod->write, SLOW_USEC + random_number() % SLOW_USEC);
        if (answer->outcome == KUBE_PATCH_CONFLICT)
                pod->write.n_failures++; /* lets inplace_kick() end the pause */
}

static int pod_write_succeeded(InPlacePod *pod, const char *version, InPlaceText *text) {
        for (InPlaceFieldKind kind = 0; kind < _INPLACE_FIELD_MAX; kind++) {
                InPlaceField *field = &pod->fields[kind];

                if (!text_has(text, kind))
                        continue;

                repeat_note(&field->repeat, text->digests[kind], inplace_now(pod->inplace));
                field->is_refused = false;
                field->n_refused = 0;
                field->refused_usec = 0;
        }

        pod->is_split = false;
        pod->unwritten_usec = 0;

        /* The reply lacks the version of the pod, which the watch will show. */
        if (!version) {
                pod->write_state = INPLACE_WRITE_DROPPED;
                return 0;
        }

        return text_copy(version, &text->version) ?: pod_remember(pod, text);
}

static int on_answered(const KubePatchAnswer *answer, void *userdata) {
        InPlacePod *pod = userdata;
        InPlace *inplace = pod->inplace;
        InPlaceText text = pod->writing;
        int r = 0;

        pod->writing = (InPlaceText){ .version = NULL };
        pod->write_state = INPLACE_WRITE_NONE;
        inplace->n_writes--;
        if (answer->error)
                pod_write_failed(pod, answer, &text);
        else
                r = pod_write_succeeded(pod, answer->version, &text);
        inplace_text_done(&text);
        if (r < 0)
                return r;

        inplace_note(inplace, answer->error);
        r = inplace_continue(inplace);
        if (r < 0)
                return r;

        return inplace_pod_reconcile(pod);
}

/* Adds jitter: after the agent's start all pods need writes at once, and on all nodes after an
 * update of the agent. */
static bool is_of_start(const InPlacePod *pod) {
        return !pods_are_synced(pod->inplace->context->pods) && !pod->pod->meta;
}

void inplace_pod_write_init(InPlacePod *pod) {
        pod->write = (KubePatch){
                .client = pod->inplace->context->client,
                .userdata = pod,
                .rest_usec = is_of_start(pod)
                                     ? inplace_now(pod->inplace) + random_number() % JITTER_USEC
                                     : 0,
        };
}

static int64_t now_sec(const InPlace *inplace) {
        uint64_t usec = 0;

        (void) sd_event_now(inplace->context->event, CLOCK_REALTIME, &usec);
        return (int64_t) (usec / USEC_PER_SEC);
}

static int64_t changed_sec(const InPlacePod *pod, const InPlaceText *text) {
        const InPlaceText *written = inplace_pod_written(pod);
        const char *before = written ? written->status : pod->pod->verified_status;

        if (!text->status || (before && strcmp(before, text->status) == 0))
                return -1;

        return now_sec(pod->inplace);
}

static int pod_send(InPlacePod *pod, const InPlaceText *text) {
        const PodPatch patch = {
                .meta = text->meta,
                .status = text->status,
                .reason = text->reason,
                .message = text->message,
                .changed_sec = changed_sec(pod, text),
                .gate = text->gate,
                .opened_sec = now_sec(pod->inplace),
        };
        cleanup(json_object_put_p) struct json_object *body = NULL;
        int r;

        r = pod_patch_make(&patch, &body);
        if (r < 0)
                return r;

        r = kube_patch_send(&pod->write,
                            &(KubePatchRequest){
                                    .verb = KUBE_PATCH_STRATEGIC,
                                    .path = { .version = "v1",
                                              .namespace = pod->pod->namespace,
                                              .resource = "pods",
                                              .name = pod->pod->name,
                                              .subresource = "status" },
                                    .body = body,
                                    .uid = pod->pod->uid,
                                    .version = text->gate ? pod->pod->resource_version : NULL,
                                    .on_answered = on_answered,
                            });
        if (r < 0)
                return r;

        pod->write_state = INPLACE_WRITE_SENT;
        pod->inplace->n_writes++;
        return 0;
}

static bool is_any_restarting(const InPlacePod *pod) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (container_is_restarting(&pod->containers[i]))
                        return true;

        return false;
}

static bool is_restart_news(const InPlaceText *text) {
        return text->reason &&
               strcmp(text->reason, condition_reason_to_string(CONDITION_RESTARTING)) == 0;
}

/* Writes the entries of containers that restart together in one patch. */
static uint64_t not_before_usec(InPlacePod *pod, const InPlaceText *text, uint64_t now) {
        if (pod->write.rest_usec > now)
                return pod->write.rest_usec;
        if (is_restart_news(text))
                return inplace_pod_is_inspecting(pod) ? pod->inspection.began_usec + INSPECTION_USEC
                                                      : 0;
        if (text->status || text->gate || !is_any_restarting(pod))
                return 0;

        if (pod->unwritten_usec == 0)
                pod->unwritten_usec = now;
        return pod->unwritten_usec + TOGETHER_USEC;
}

/* Drops the fields that may not be written now. */
static void pod_hold_back(InPlacePod *pod, InPlaceText *text, uint64_t now) {
        bool is_any_refused = false;

        for (InPlaceFieldKind kind = 0; kind < _INPLACE_FIELD_MAX; kind++) {
                const InPlaceField *field = &pod->fields[kind];
                uint64_t when = repeat_when_usec(&field->repeat, text->digests[kind]);

                is_any_refused = is_any_refused || field->n_refused > 0;
                if (when < field->refused_usec)
                        when = field->refused_usec;
                if (!text_has(text, kind) || when <= now)
                        continue;

                inplace_pod_wake_at(pod, when);
                text_drop(text, kind);
        }

        if (pod->is_split || is_any_refused)
                text_split(text);
}

static int pod_write_text(InPlacePod *pod, InPlaceText *text) {
        uint64_t now = inplace_now(pod->inplace), when;
        int r;

        pod_hold_back(pod, text, now);
        if (!text_has_any(text))
                return 0;

        when = not_before_usec(pod, text, now);
        if (when > now) {
                inplace_pod_wake_at(pod, when);
                return 0;
        }

        if (pod->inplace->n_writes >= WRITES_MAX) {
                pod->write_state = INPLACE_WRITE_QUEUED;
                return 0;
        }

        r = pod_send(pod, text);
        if (r < 0)
                return r;

        pod->writing = *text;
        *text = (InPlaceText){ .version = NULL };
        return 0;
}

/* A pending inspection may still bring something to write. */
static void pod_has_nothing(InPlacePod *pod) {
        pod->unwritten_usec = 0;
        if (pod->inspection.state == INPLACE_INSPECTION_NONE && inplace_pod_is_settled(pod))
                inplace_pod_forget_refusal(pod);
}

int inplace_pod_write(InPlacePod *pod) {
        InPlaceText text = { .version = NULL };
        int r;

        if (pod->write_state == INPLACE_WRITE_QUEUED)
                pod->write_state = INPLACE_WRITE_NONE;
        if (inplace_pod_is_over(pod) && pod->write_state != INPLACE_WRITE_SENT)
                inplace_pod_forget_refusal(pod);
        if (pod->write_state != INPLACE_WRITE_NONE || inplace_pod_is_over(pod))
                return 0;

        r = make_annotation(pod, &text);
        if (r >= 0)
                r = make_condition(pod, &text);
        make_gate(pod, &text);
        if (r >= 0 && text_has_any(&text))
                r = pod_write_text(pod, &text);
        else
                pod_has_nothing(pod);

        inplace_text_done(&text);
        return r;
}
