/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/recreate/recreate-controller-spec.h"

#define SEC ((uint64_t) 1000000)
#define POLL_USEC (10 * SEC) /* period of reconciling without an event */
#define GIVE_UP_FAILURES 8   /* failed writes to an object that the watch dropped */
#define FOREVER_USEC (24 * 3600 * SEC)
#define STALE_USEC (10 * SEC) /* age at which a stale object is applied after all */
#define ACCURACY_USEC 1000
#define REST_USEC SEC /* pause after a stop without result */

DEFINE_CLEANUP(RecreateRequest *, recreate_request_free)

static int on_timer(void *userdata) {
        RecreateRequest *request = userdata;

        request->list.is_due = true;
        return recreate_reconcile(request->recreate);
}

void recreate_request_wait(RecreateRequest *request, uint64_t usec) {
        uint64_t now_usec = recreate_now_usec(request->recreate);

        if (usec > FOREVER_USEC)
                usec = FOREVER_USEC;
        if (now_usec + usec < request->due_usec)
                request->due_usec = now_usec + usec;
}

const Pod *recreate_request_pod(const RecreateRequest *request) {
        const RecreateSpec *spec = request->spec;
        const Pod *pod = spec->pod_name ? pods_find(request->recreate->context->pods,
                                                    spec->namespace, spec->pod_name)
                                        : NULL;

        return pod && (!spec->pod_uid || strcmp(pod->uid, spec->pod_uid) == 0) ? pod : NULL;
}

bool recreate_request_is_over(const RecreateRequest *request) {
        const RecreateSpec *spec = request->spec;

        return request->is_gone || request->is_missing || spec->is_deleted ||
               spec->status.is_completed;
}

/* Counts a decision that is not written yet. */
static bool is_decided(const RecreateRequest *request) {
        return recreate_request_is_over(request) || request->wanted.is_completed;
}

bool recreate_request_is_done(const RecreateRequest *request) {
        bool gives_up = request->is_missing || request->write.n_failures >= GIVE_UP_FAILURES;

        if ((!request->is_gone && !(request->is_missing && !request->owes_report)) ||
            request->stop.stop || request->write.call)
                return false;

        return !request->owes_report || gives_up;
}

int recreate_request_complete(RecreateRequest *request, const char *message) {
        if (request->wanted.is_completed)
                return 0;

        return recreate_status_complete(&request->wanted,
                                        recreate_server_usec(request->recreate) / (int64_t) SEC,
                                        message);
}

static void log_end(RecreateRequest *request, bool is_by_us) {
        const RecreateSpec *spec = request->spec;
        bool is_success = recreate_status_is_success(&request->wanted);
        int level = is_success || !is_by_us ? LOG_INFO : LOG_WARNING;

        if (request->is_end_known)
                return;

        request->is_end_known = true;
        log_write(request->recreate->context->log, level, NULL,
                  "The restart request \"%s/%s\" for the pod \"%s\" is completed%s: %s.",
                  spec->namespace, spec->name, spec->pod_name ?: "",
                  is_by_us ? "" : " by another client",
                  spec->status.message ?: "no reason is given");
        if (is_by_us)
                metrics_count(request->recreate->context->metrics, METRIC_RECREATE_REQUESTS,
                              is_success);
}

/* Objects from the watch */

static void forget_stop(RecreateRequest *request) {
        runtime_pods_call_free(request->stop.check);
        free(request->stop.name);
        free(request->stop.id);
        request->stop = (RequestStop){ .stop = NULL };
        retry_reset(&request->check_retry);
}

/* Drops a stop that has not begun. */
static void drop_stop(RecreateRequest *request) {
        if (!request->stop.stop || recreate_request_is_stopping(request))
                return;

        stop_leave(request->stop.stop);
        forget_stop(request);
}

/* The request is new, or its list was replaced, which the kind does not allow: forgets the stops
 * for the former containers, but keeps the written states. */
static int set_containers(RecreateRequest *request, const RecreateSpec *spec) {
        int r;

        drop_stop(request);
        recreate_status_done(&request->wanted);
        r = request_containers_set(&request->containers, spec);
        if (r < 0)
                return r;

        return recreate_status_copy(&spec->status, &request->wanted);
}

static int follow(RecreateRequest *request) {
        const RecreateStatus *known = &request->spec->status;
        RecreateStatus *wanted = &request->wanted;

        wanted->phase = known->phase;
        wanted->is_completed = known->is_completed;
        wanted->completed_at = known->completed_at;
        return text_set(&wanted->message, known->message);
}

/* Drops the own decision, unless its write is pending. */
static int reconsider(RecreateRequest *request) {
        return request->write.call ? 0 : follow(request);
}

/* Takes over final states of another writer; own final states stay. */
static int merge_status(RecreateRequest *request) {
        const RecreateStatus *known = &request->spec->status;
        int r;

        for (size_t i = 0; i < known->n_states; i++) {
                const RecreateState *theirs = &known->states[i];
                RecreateState *ours = &request->wanted.states[i];

                ours->is_killed = ours->is_killed || theirs->is_killed;
                if (!recreate_phase_is_final(theirs->phase) || recreate_phase_is_final(ours->phase))
                        continue;
                r = recreate_state_set(ours, theirs->phase, theirs->message);
                if (r < 0)
                        return r;
        }

        return known->is_completed ? follow(request) : reconsider(request);
}

static void note_drain(RecreateRequest *request) {
        uint64_t now_usec = recreate_now_usec(request->recreate);
        const RecreateSpec *spec = request->spec;

        if (!spec->is_drained) {
                request->drain.undrained_usec = now_usec;
                request->drain.drained_usec = 0;
                return;
        }
        if (request->drain.drained_usec > 0)
                return;

        /* The gate was closed before the request was drained, perhaps by a previous run. */
        if (spec->is_managed && spec->unready_sec >= 0 && request->gate == REQUEST_GATE_UNTOUCHED)
                request->gate = REQUEST_GATE_CLOSED;
        request->drain.drained_usec = now_usec;
        request->drain.done_usec =
                spec->unready_sec < 0
                        ? 0
                        : recreate_plan_drained_usec(spec, recreate_server_usec(request->recreate),
                                                     request->drain.undrained_usec > 0
                                                             ? now_usec -
                                                                       request->drain.undrained_usec
                                                             : UINT64_MAX);
}

static void log_problem(RecreateRequest *request) {
        const RecreateSpec *spec = request->spec;

        if (log_once(&request->logged, spec->problem))
                log_warning(request->recreate->context->log, NULL,
                            "Cannot use the restart request \"%s/%s\": %s.", spec->namespace,
                            spec->name, spec->problem);
}

/* The watch may show the agent's own write before the answer comes. */
static bool is_our_end(const RecreateRequest *request) {
        const RecreateStatus *status = &request->spec->status, *sent = &request->sent;

        return request->write.call && request->call == REQUEST_CALL_STATUS && sent->is_completed &&
               status->completed_at == sent->completed_at && status->message && sent->message &&
               strcmp(status->message, sent->message) == 0;
}

static void drop_stale(RecreateRequest *request) {
        recreate_spec_free(request->stale.spec);
        request->stale = (RequestStale){ .spec = NULL };
}

/* Applies a spec as the newest. Takes it over; it may be the request's own. */
static int apply(RecreateRequest *request, RecreateSpec *spec) {
        int r;

        request->is_gone = false;
        request->list.is_due = true;
        if (request->spec != spec) {
                recreate_spec_free(request->spec);
                request->spec = spec;
                request->write.n_conflicts = 0;
        }
        drop_stale(request);

        r = request_containers_are_of(&request->containers, spec) ? merge_status(request)
                                                                  : set_containers(request, spec);
        if (r < 0)
                return r;

        note_drain(request);
        log_problem(request);
        if (spec->status.is_completed)
                log_end(request, is_our_end(request));
        return 0;
}

static void keep_stale(RecreateRequest *request, RecreateSpec *spec) {
        uint64_t since_usec = request->stale.spec ? request->stale.since_usec
                                                  : recreate_now_usec(request->recreate);

        drop_stale(request);
        request->stale = (RequestStale){
                .spec = spec,
                .since_usec = since_usec,
        };
}

int recreate_request_show(RecreateRequest *request, RecreateSpec *spec) {
        if (!kube_version_is_older(spec->version, request->spec->version))
                return apply(request, spec);

        keep_stale(request, spec);
        return 0;
}

void recreate_request_show_gone(RecreateRequest *request) {
        request->is_gone = true;
        drop_stale(request);
}

/* Applies a stale object after all, if no newer one came for STALE_USEC. */
static int apply_stale(RecreateRequest *request) {
        uint64_t now_usec = recreate_now_usec(request->recreate);
        uint64_t end_usec = request->stale.since_usec + STALE_USEC;
        int r;

        if (!request->stale.spec)
                return 0;
        if (now_usec < end_usec) {
                recreate_request_wait(request, end_usec - now_usec);
                return 0;
        }

        r = apply(request, take_ptr(request->stale.spec));
        return r < 0 ? r
                     : recreate_reconcile(
                               request->recreate); /* another request may have the turn now */
}

/* Writing */

/* clang-format off */
static const struct {
        KubePatchVerb verb;
        bool is_status;
        RecreateRight right;
} calls[_REQUEST_CALL_MAX] = {
        [REQUEST_CALL_STATUS]  = { KUBE_PATCH_MERGE,  true,  RECREATE_RIGHT_PATCH_STATUS },
        [REQUEST_CALL_DRAIN]   = { KUBE_PATCH_MERGE,  true,  RECREATE_RIGHT_PATCH_STATUS },
        [REQUEST_CALL_UNLABEL] = { KUBE_PATCH_MERGE,  false, RECREATE_RIGHT_PATCH        },
        [REQUEST_CALL_DELETE]  = { KUBE_PATCH_DELETE, false, RECREATE_RIGHT_DELETE       },
};
/* clang-format on */

static bool find_field(RequestCall call, RecreateField *ret) {
        switch (call) {
        case REQUEST_CALL_STATUS: *ret = RECREATE_FIELD_STATUS; return true;
        case REQUEST_CALL_DRAIN: *ret = RECREATE_FIELD_DRAIN; return true;
        case REQUEST_CALL_UNLABEL: *ret = RECREATE_FIELD_ACTIVE; return true;
        case REQUEST_CALL_DELETE:
        case REQUEST_CALL_PROVE:
        case REQUEST_CALL_CLOSE_GATE:
        case REQUEST_CALL_OPEN_GATE:
        case _REQUEST_CALL_MAX: break;
        }

        return false;
}

uint64_t recreate_request_repeat_usec(const RecreateRequest *request, RequestCall call) {
        bool is_status = call == REQUEST_CALL_STATUS;
        uint64_t digest = is_status ? recreate_status_digest(&request->wanted) : 0;
        RecreateField field;

        return find_field(call, &field)
                       ? recreate_repeats_when_usec(&request->recreate->repeats, request->spec->uid,
                                                    field, digest)
                       : 0;
}

static void note_repeat(RecreateRequest *request) {
        bool is_status = request->call == REQUEST_CALL_STATUS;
        uint64_t digest = is_status ? recreate_status_digest(&request->sent) : 0;
        RecreateField field;

        if (find_field(request->call, &field))
                recreate_repeats_note(&request->recreate->repeats, request->spec->uid, field,
                                      digest, recreate_now_usec(request->recreate));
}

static int copy_sent_states(RecreateRequest *request) {
        RecreateStatus *known = &request->spec->status;
        RecreateStatus copy;
        int r;

        r = recreate_status_copy(&request->sent, &copy);
        if (r < 0)
                return r;

        if (!request->is_phase_sent) {
                free(copy.message);
                copy.message = take_ptr(known->message);
                copy.phase = known->phase;
                copy.is_completed = known->is_completed;
                copy.completed_at = known->completed_at;
        }
        copy.has_other_states = false;
        recreate_status_done(known);
        *known = copy;
        return 0;
}

/* Applies the agent's own write, unless the watch has shown something newer. */
static int note_written(RecreateRequest *request, const char *version) {
        RecreateSpec *spec = request->spec;
        bool was_completed = spec->status.is_completed;
        int r;

        note_repeat(request);
        if (version && kube_version_is_older(version, spec->version))
                return 0;

        /* The watch no longer shows an unlabelled request, unless the label is back already. */
        request->is_missing = request->is_missing || request->call == REQUEST_CALL_UNLABEL;
        if (request->call == REQUEST_CALL_STATUS) {
                r = copy_sent_states(request);
                if (r < 0)
                        return r;
        }
        if (request->call == REQUEST_CALL_DRAIN) {
                spec->is_drained = true;
                request->drain.drained_usec = recreate_now_usec(request->recreate);
                request->drain.done_usec = 0;
        }
        if (version && text_set(&spec->version, version) < 0)
                return -ENOMEM;

        if (spec->status.is_completed && !was_completed)
                log_end(request, true);
        return 0;
}

/* v1alpha1 records it in an annotation, part of the object rather than of its status. */
static bool is_annotation(const Recreate *recreate, RequestCall call) {
        return call == REQUEST_CALL_DRAIN && recreate->dialect == RECREATE_V1ALPHA1;
}

static RecreateRight get_right(const RecreateRequest *request) {
        return is_annotation(request->recreate, request->call) ? RECREATE_RIGHT_PATCH
                                                               : calls[request->call].right;
}

/* The object is gone, or another one has its name. */
static bool is_gone(const RecreateRequest *request, const KubePatchAnswer *answer) {
        return answer->outcome == KUBE_PATCH_GONE ||
               (answer->error && answer->error->kind == ERROR_INVALID && request->is_gone);
}

/* The watch shows the newer version, or has already. After repeated conflicts, asks the server. */
static int on_conflict(RecreateRequest *request) {
        const RecreateSpec *spec = request->spec;
        int r = 0;

        if (request->write.n_conflicts >= KUBE_PATCH_CONFLICTS_MAX)
                r = kube_resource_check(request->recreate->resource, RECREATE_OURS, spec->namespace,
                                        spec->name, spec->version);

        return r < 0 ? r : reconsider(request);
}

static int on_written(const KubePatchAnswer *answer, void *userdata) {
        RecreateRequest *request = userdata;
        Recreate *recreate = request->recreate;
        int r = 0;

        if (is_gone(request, answer)) {
                request->is_missing = true;
                kube_patch_succeed(&request->write);
        } else if (answer->outcome == KUBE_PATCH_CONFLICT) {
                r = on_conflict(request);
        } else {
                recreate_note_written(recreate, get_right(request), request->spec->name,
                                      request->write.n_failures == 1, answer->error);
        }
        if (r >= 0 && !answer->error)
                r = note_written(request, answer->version);
        if (r < 0)
                return r;

        if (!answer->error && request->call == REQUEST_CALL_DELETE)
                request->is_missing = true;
        return recreate_reconcile(recreate);
}

int recreate_request_send(RecreateRequest *request, RequestCall call, struct json_object *body) {
        Recreate *recreate = request->recreate;
        const RecreateSpec *spec = request->spec;
        bool is_status = calls[call].is_status && !is_annotation(recreate, call);

        request->call = call;
        return kube_patch_send(&request->write,
                               &(KubePatchRequest){
                                       .verb = json_object_is_type(body, json_type_array)
                                                       ? KUBE_PATCH_STEPS
                                                       : calls[call].verb,
                                       .path = { .group = RECREATE_GROUP,
                                                 .version = recreate->version,
                                                 .namespace = spec->namespace,
                                                 .resource = RECREATE_RESOURCE,
                                                 .name = spec->name,
                                                 .subresource = is_status ? "status" : NULL },
                                       .body = body,
                                       .uid = call == REQUEST_CALL_DELETE ? spec->uid : NULL,
                                       .on_answered = on_written,
                               });
}

/* After another writer's decision, only the result of the agent's stop may still be written. */
static bool may_write(RecreateRequest *request) {
        const RecreateSpec *spec = request->spec;

        if (request->write.call || request->is_missing || !request->recreate->version)
                return false;
        if (request->is_gone || spec->is_deleted || spec->status.is_completed)
                return request->owes_report;

        return true;
}

static uint64_t get_rest(const RecreateRequest *request, uint64_t now_usec) {
        uint64_t until = recreate_request_repeat_usec(request, REQUEST_CALL_STATUS);

        if (request->write.rest_usec > until)
                until = request->write.rest_usec;
        return until > now_usec ? until - now_usec : 0;
}

/* Adds the snapshot that a controller would write on its own. */
static int add_snapshot(const RecreateRequest *request, struct json_object *patch) {
        struct json_object *status = json_get(patch, "status", json_type_object);
        const Pod *pod = recreate_request_pod(request);
        struct json_object *list;
        int r;

        if (!request->spec->is_managed || request->recreate->dialect != RECREATE_V1BETA1 || !pod ||
            !json_get(status, "containerRecreateStates", json_type_array))
                return 0;

        r = recreate_controller_snapshot(request->spec, pod, &list);
        return r < 0 || !list ? r : patch_add(status, "containerStatusSnapshot", list);
}

static int send_status(RecreateRequest *request, struct json_object *patch) {
        cleanup(json_object_put_p) json_object *bound = NULL;
        int r;

        if (json_get(patch, "metadata", json_type_object))
                return recreate_request_send(request, REQUEST_CALL_STATUS, patch);

        r = recreate_status_bind(patch, request->spec->uid, &bound);
        return r < 0 ? r : recreate_request_send(request, REQUEST_CALL_STATUS, bound);
}

static int write_status(RecreateRequest *request) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        uint64_t now_usec = recreate_now_usec(request->recreate);
        const RecreateStatus *known = &request->spec->status;
        uint64_t rest_usec;
        int r;

        if (!may_write(request))
                return 0;

        r = recreate_status_diff(known, &request->wanted, request->spec->version, &patch);
        if (r < 0)
                return r;
        if (!patch) {
                request->owes_report = false;
                return 0;
        }
        rest_usec = get_rest(request, now_usec);
        if (rest_usec > 0) {
                recreate_request_wait(request, rest_usec);
                return 0;
        }
        r = add_snapshot(request, patch);
        if (r < 0)
                return r;

        recreate_status_done(&request->sent);
        r = recreate_status_copy(&request->wanted, &request->sent);
        if (r < 0)
                return r;

        request->is_phase_sent = known->phase != request->wanted.phase ||
                                 (request->wanted.is_completed && !known->is_completed);
        return send_status(request, patch);
}

/* Containers in the runtime */

/* Returns the pod's UID in the runtime; NULL: unknown. */
static const char *get_runtime_uid(const RecreateRequest *request) {
        const Pod *pod = recreate_request_pod(request);

        return pod ? pod->runtime_uid : request->spec->pod_uid;
}

/* Finds the request's pod in the runtime, by the runtime's labels. */
static const RuntimePod *find_running_pod(const RecreateRequest *request,
                                          const RuntimePods *running) {
        const RecreateSpec *spec = request->spec;
        const char *uid = get_runtime_uid(request);

        return uid && spec->pod_name
                       ? runtime_pods_find(running, spec->namespace, spec->pod_name, uid)
                       : NULL;
}

static int note_listed(RecreateRequest *request, const RuntimePods *pods) {
        cleanup(free_p) char *owner = NULL;

        if (text_format(&owner, "recreate/%s", request->spec->uid) < 0)
                return -ENOMEM;

        return request_containers_note(&request->containers, request->spec,
                                       find_running_pod(request, pods),
                                       request->recreate->context->stops, owner,
                                       recreate_now_usec(request->recreate));
}

static int on_listed(RuntimePods *pods, const Error *error, void *userdata) {
        RecreateRequest *request = userdata;
        int r;

        request->list.call = runtime_pods_call_free(request->list.call);
        if (error) {
                request->list.is_due = true;
                log_debug(request->recreate->context->log, NULL,
                          "Cannot list the containers of the restart request \"%s/%s\": %s.",
                          request->spec->namespace, request->spec->name, error_message(error));
                return retry_later(&request->list.retry, 0);
        }

        retry_reset(&request->list.retry);
        r = note_listed(request, pods);
        return r < 0 ? r : recreate_reconcile(request->recreate);
}

/* Lists the containers, unless a list is pending or has to wait. */
static int ask_runtime(RecreateRequest *request, RpcClient *client) {
        const char *uid = get_runtime_uid(request);

        if (request->list.call || !uid || retry_is_waiting(&request->list.retry))
                return 0;

        request->list.is_due = false;
        return runtime_pods_list(client, &(RuntimePodsFilter){ .uid = uid }, on_listed, request,
                                 &request->list.call);
}

/* Makes the facts; the caller frees the list. */
static int make_facts(const RecreateRequest *request, RecreateFact **ret) {
        const Recreate *recreate = request->recreate;
        const RequestContainersView view = {
                .now_usec = recreate_now_usec(recreate),
                .wall_usec = clock_nsec(CLOCK_REALTIME) / NSEC_PER_USEC,
                .server_usec = recreate_server_usec(recreate),
                .pod = recreate_request_pod(request),
                .are_pods_known = pods_are_synced(recreate->context->pods),
                .stopping = request->stop.stop ? request->stop.name : NULL,
        };

        return request_containers_to_facts(&request->containers, request->spec, &view, ret);
}

/* Stopping */

bool recreate_request_is_stopping(const RecreateRequest *request) {
        return request->stop.stop && stop_has_begun(request->stop.stop);
}

static int note_failed(RecreateRequest *request, RecreateState *state, const char *reason) {
        cleanup(free_p) char *message = NULL;

        request->owes_report = true;
        if (text_format(&message, "kill container error: %s", reason ?: "unknown") < 0)
                return -ENOMEM;

        return recreate_state_set(state, RECREATE_FAILED, message);
}

static int note_report(RecreateRequest *request, const StopReport *report) {
        RequestContainer *container =
                request_containers_find(&request->containers, request->stop.name);
        RecreateState *state;

        if (!container)
                return 0; /* the container is no longer in the request */

        state = &request->wanted.states[container - request->containers.items];
        switch (report->result) {
        case STOP_STOPPED:
                request->owes_report = true;
                state->is_killed = true;
                if (recreate_state_set(state, RECREATE_RECREATING, NULL) < 0)
                        return -ENOMEM;
                return request_container_note_end(container, request->stop.id, true);
        case STOP_GONE:
                container->rest_usec = recreate_now_usec(request->recreate) + REST_USEC;
                return request_container_note_end(container, request->stop.id, false);
        case STOP_NOT_REQUESTED:
                container->rest_usec = recreate_now_usec(request->recreate) + REST_USEC;
                return 0;
        case STOP_FAILED: return note_failed(request, state, report->message);
        case _STOP_RESULT_MAX: break;
        }

        abort();
}

static int on_stop_done(const StopReport *report, void *userdata) {
        RecreateRequest *request = userdata;
        int r;

        r = note_report(request, report);
        forget_stop(request);
        if (r < 0)
                return r;

        request->list.is_due = true;
        return recreate_reconcile(request->recreate);
}

static int answer(RecreateRequest *request, const char *why_not) {
        retry_reset(&request->check_retry);
        return stop_answer(request->stop.stop, !why_not, why_not);
}

/* Asks again if the runtime does not answer: a stop that ends as no longer requested forgets how
 * far a previous run came, and its hook would run twice. */
static int check_later(RecreateRequest *request, const char *reason) {
        const RecreateSpec *spec = request->spec;

        log_debug(request->recreate->context->log, NULL,
                  "Cannot confirm that the restart request \"%s/%s\" still asks for a stop of "
                  "container \"%s\", trying again: %s.",
                  spec->namespace, spec->name, request->stop.name, reason);
        return retry_later(&request->check_retry, 0);
}

static int compare_newest(RecreateRequest *request, const RuntimePods *pods) {
        const RuntimePod *pod = find_running_pod(request, pods);
        const RuntimeContainer *newest = pod ? runtime_pod_find(pod, request->stop.name) : NULL;
        bool is_newest = newest && strcmp(newest->id, request->stop.id) == 0;

        return answer(request, is_newest ? NULL : "it is not the newest any more");
}

static int on_checked(RuntimePods *pods, const Error *error, void *userdata) {
        RecreateRequest *request = userdata;

        request->stop.check = runtime_pods_call_free(request->stop.check);
        if (is_decided(request))
                return answer(request, "the request is over");

        return error ? check_later(request, error_message(error)) : compare_newest(request, pods);
}

static int ask_for_newest(RecreateRequest *request) {
        const char *uid = get_runtime_uid(request);
        Runtime *runtime;
        bool may_come;

        if (is_decided(request))
                return answer(request, "the request is over");

        runtime = recreate_find_runtime(request->recreate, request->stop.scheme, &may_come);
        if (!runtime || !uid)
                return check_later(request, "the runtime cannot be asked");

        timer_stop(&request->check_retry.timer);
        request->stop.check = runtime_pods_call_free(request->stop.check);
        return runtime_pods_list(runtime_client(runtime), &(RuntimePodsFilter){ .uid = uid },
                                 on_checked, request, &request->stop.check);
}

static int on_check(Stop *stop, void *userdata) {
        return ask_for_newest(userdata);
}

static int on_check_again(void *userdata) {
        return ask_for_newest(userdata);
}

static int add_stop(RecreateRequest *request, const char *name) {
        const Pod *pod = recreate_request_pod(request);
        const PodContainer *in_pod = pod ? pod_find(pod, name) : NULL;
        cleanup(free_p) char *owner = NULL;
        cleanup(free_p) char *cause = NULL;
        StopOptions options = {
                .runtime = request->stop.scheme[0] ? request->stop.scheme : NULL,
                .container_id = request->stop.id,
                .pod_address = pod && pod->ip[0] ? pod->ip : NULL,
                .grace_sec = request->spec->grace_sec >= 0 ? request->spec->grace_sec
                                                           : STOP_GRACE_OF_POD,
                .needs_kubelet = in_pod && pod_may_restart(in_pod),
                .is_init = in_pod && in_pod->kind != POD_CONTAINER_MAIN,
                .on_check = on_check,
                .on_done = on_stop_done,
                .userdata = request,
        };

        if (text_format(&owner, "recreate/%s", request->spec->uid) < 0)
                return -ENOMEM;
        if (text_format(&cause, "Stopping container %s by ContainerRecreateRequest %s", name,
                        request->spec->name) < 0)
                return -ENOMEM;

        options.owner = owner;
        options.cause = cause;
        return stops_add(request->recreate->context->stops, &options, &request->stop.stop);
}

static int begin_stop(RecreateRequest *request, size_t index, const char *scheme) {
        const RequestContainer *container = &request->containers.items[index];

        if (request->stop.stop)
                return 0;

        request->stop.name = strdup(container->name);
        request->stop.id = strdup(container->id);
        if (!request->stop.name || !request->stop.id)
                return -ENOMEM;

        (void) snprintf(request->stop.scheme, sizeof(request->stop.scheme), "%s", scheme);
        return add_stop(request, container->name);
}

/* The turn of the request */

static int complete_with_summary(RecreateRequest *request) {
        cleanup(free_p) char *message = NULL;
        int r;

        r = recreate_status_summarize(&request->wanted, &message);
        return r < 0 ? r : recreate_request_complete(request, message);
}

static int complete_without_runtime(RecreateRequest *request, const char *reason) {
        cleanup(free_p) char *message = NULL;

        if (text_format(&message, "failed to find runtime service: %s", reason) < 0)
                return -ENOMEM;

        return recreate_request_complete(request, message);
}

static int complete_with_bad_drain(RecreateRequest *request) {
        const char *bad = request->spec->bad_drain;
        cleanup(free_p) char *message = NULL;

        if (text_format(&message,
                        "failed to parse unready time %s: expected a time such as "
                        "2026-01-31T12:00:00Z",
                        bad) < 0)
                return -ENOMEM;

        return recreate_request_complete(request, message);
}

/* The pod has been unready for long enough, or need not be. */
static bool is_drained(RecreateRequest *request) {
        uint64_t period = (uint64_t) request->spec->unready_sec * SEC, elapsed;

        if (request->spec->unready_sec < 0)
                return true;
        if (!request->spec->is_drained)
                return false;

        elapsed = request->drain.done_usec + recreate_now_usec(request->recreate) -
                  request->drain.drained_usec;
        if (elapsed < period)
                recreate_request_wait(request, period - elapsed);
        return elapsed >= period;
}

static int do_step(RecreateRequest *request, const RecreateFact *facts, const char *scheme) {
        RecreateStep step;
        int r;

        r = recreate_plan_step(request->spec, facts, &request->wanted, &step);
        if (r < 0)
                return r;

        recreate_request_wait(request, step.wait_usec < POLL_USEC ? step.wait_usec : POLL_USEC);
        switch (step.kind) {
        case RECREATE_STEP_WAIT: return 0;
        case RECREATE_STEP_STOP: return begin_stop(request, step.index, scheme);
        case RECREATE_STEP_COMPLETE: return complete_with_summary(request);
        case _RECREATE_STEP_KIND_MAX: break;
        }

        abort();
}

static int serve(RecreateRequest *request) {
        cleanup(free_p) RecreateFact *facts = NULL;
        cleanup(free_p) char *problem = NULL;
        char scheme[RECREATE_SCHEME_SIZE];
        Runtime *runtime;
        bool may_come;
        int r;

        r = make_facts(request, &facts);
        if (r < 0)
                return r;
        r = recreate_plan_runtime(request->spec, facts, scheme, &problem);
        if (r < 0)
                return r;
        if (problem)
                return complete_without_runtime(request, problem);

        runtime = recreate_find_runtime(request->recreate, scheme, &may_come);
        if (!runtime && !may_come) {
                if (text_format(&problem, "not found runtime service for %s in daemon", scheme) < 0)
                        return -ENOMEM;
                return complete_without_runtime(request, problem);
        }
        if (!runtime) {
                request->list.is_due = true;
                return 0; /* waits for recreate_runtime_changed() */
        }
        if (request->list.is_due || request->list.call)
                return ask_runtime(request, runtime_client(runtime));

        return do_step(request, facts, scheme);
}

/* Writes the phase "Recreating" before it stops anything. */
static int take_turn(RecreateRequest *request) {
        const RecreateSpec *spec = request->spec;

        request->wanted.phase = RECREATE_RECREATING;
        if (spec->status.phase != RECREATE_RECREATING)
                return 0;
        if (spec->unready_sec >= 0 && spec->bad_drain)
                return complete_with_bad_drain(request);

        return is_drained(request) ? serve(request) : 0;
}

static int decide(RecreateRequest *request, bool has_turn) {
        if (is_decided(request)) {
                drop_stop(request);
                return 0;
        }
        if (request->spec->problem)
                return 0; /* the controller has to end it */
        if (has_turn)
                return take_turn(request);

        if (request->wanted.phase == RECREATE_NONE)
                request->wanted.phase = RECREATE_PENDING;
        return 0;
}

int recreate_request_begin(RecreateRequest *request) {
        request->due_usec = UINT64_MAX;
        return apply_stale(request);
}

int recreate_request_serve(RecreateRequest *request, bool has_turn) {
        int r;

        r = decide(request, has_turn);
        return r < 0 ? r : write_status(request);
}

int recreate_request_end(RecreateRequest *request) {
        if (request->due_usec != UINT64_MAX)
                return timer_start_at(&request->timer, request->due_usec);

        timer_stop(&request->timer);
        return 0;
}

int recreate_request_runtime_changed(RecreateRequest *request) {
        request->list.is_due = true;
        timer_stop(&request->list.retry.timer);
        return retry_kick(&request->check_retry);
}

int recreate_request_new(Recreate *recreate, RecreateSpec *spec, RecreateRequest **ret) {
        cleanup(recreate_request_free_p) RecreateRequest *request = NULL;
        int r;

        request = malloc(sizeof(*request));
        if (!request) {
                recreate_spec_free(spec);
                return -ENOMEM;
        }

        *request = (RecreateRequest){
                .recreate = recreate,
                .spec = spec,
                .first_usec = recreate_now_usec(recreate),
                .write = { .client = recreate->context->client, .userdata = request },
                .is_end_known = spec->status.is_completed,
        };
        timer_init(&request->timer, recreate->context->event, ACCURACY_USEC, on_timer, request);
        retry_init(&request->list.retry, recreate->context->event, BACKOFF_MIN_USEC,
                   BACKOFF_MAX_USEC, on_timer, request);
        retry_init(&request->check_retry, recreate->context->event, BACKOFF_MIN_USEC,
                   BACKOFF_MAX_USEC, on_check_again, request);
        r = apply(request, spec);
        if (r < 0)
                return r;

        *ret = take_ptr(request);
        return 0;
}

RecreateRequest *recreate_request_free(RecreateRequest *request) {
        if (!request)
                return NULL;

        if (request->stop.stop)
                stop_leave(request->stop.stop);
        runtime_pods_call_free(request->stop.check);
        runtime_pods_call_free(request->list.call);
        kube_patch_cancel(&request->write);
        retry_done(&request->check_retry);
        retry_done(&request->list.retry);
        timer_done(&request->timer);
        drop_stale(request);
        recreate_status_done(&request->sent);
        recreate_status_done(&request->wanted);
        request_containers_done(&request->containers);
        free(request->stop.id);
        free(request->stop.name);
        free(request->gate_pod);
        recreate_spec_free(request->spec);
        free(request);
        return NULL;
}
