/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-controller.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/recreate/recreate-context.h"
#include "agent/recreate/recreate-controller-spec.h"

#define SEC ((uint64_t) 1000000)
#define CLOSE_REFUSALS_MAX 5 /* in a row, after which the request goes on without the gate */
#define WAIT_MAX_SEC 60      /* pause at most, since clocks may be set */
#define TEXT_MAX ((size_t) 64 << 10)
#define POD_MAX ((size_t) 1 << 20) /* bytes of a pod in JSON, of which json-c makes 70 MB at most */
#define PATCH_FACTOR 4

/* The pod's readiness gate */

/* Another client may have changed the spec and the labels since the gate was closed. The entry in the
 * pod has the request's name, so that none but this request's is removed. */
static const char *get_gate_pod(const RecreateRequest *request) {
        return request->gate_pod ?: request->spec->pod_name;
}

static int gate_done(RecreateRequest *request) {
        kube_patch_succeed(&request->write);
        request->gate = request->call == REQUEST_CALL_CLOSE_GATE ? REQUEST_GATE_CLOSED
                                                                 : REQUEST_GATE_OPENED;
        return recreate_reconcile(request->recreate);
}

/* A server that is away or busy will close it later; one that refuses that time and again never will. */
static void note_refusal(RecreateRequest *request, KubePatchOutcome outcome, const Error *error) {
        const RecreateSpec *spec = request->spec;

        request->n_gate_refusals = outcome == KUBE_PATCH_REFUSED ? request->n_gate_refusals + 1 : 0;
        if (request->n_gate_refusals < CLOSE_REFUSALS_MAX ||
            request->call != REQUEST_CALL_CLOSE_GATE || request->gate != REQUEST_GATE_UNTOUCHED)
                return;

        request->gate = REQUEST_GATE_CLOSED;
        log_warning(request->recreate->context->log, NULL,
                    "Pod \"%s/%s\" is not made unready for the restart request \"%s\", which "
                    "goes on nevertheless: %s.",
                    spec->namespace, spec->pod_name, spec->name, error_message(error));
}

static int gate_failed(RecreateRequest *request, RecreateRight right, KubePatchOutcome outcome,
                       const Error *error) {
        if (outcome == KUBE_PATCH_GONE)
                return gate_done(request);
        if (outcome != KUBE_PATCH_CONFLICT) {
                recreate_note_written(request->recreate, right, request->spec->name,
                                      request->write.n_failures == 1, error);
                note_refusal(request, outcome, error);
        }

        return recreate_reconcile(request->recreate);
}

static int on_gate_patched(const KubePatchAnswer *answer, void *userdata) {
        RecreateRequest *request = userdata;

        if (answer->outcome == KUBE_PATCH_UNKNOWN && request->call == REQUEST_CALL_CLOSE_GATE)
                request->may_have_closed = true;
        if (answer->error)
                return gate_failed(request, RECREATE_RIGHT_PATCH_POD, answer->outcome,
                                   answer->error);

        recreate_note_written(request->recreate, RECREATE_RIGHT_PATCH_POD, request->spec->name,
                              true, NULL);
        return gate_done(request);
}

/* Gets the pod, or patches its status if there is a body. */
static int call_pod(RecreateRequest *request, struct json_object *body,
                    KubePatchAnswered on_answered) {
        return kube_patch_send(&request->write,
                               &(KubePatchRequest){
                                       .verb = body ? KUBE_PATCH_STRATEGIC : KUBE_PATCH_GET,
                                       .path = { .version = "v1",
                                                 .namespace = request->spec->namespace,
                                                 .resource = "pods",
                                                 .name = get_gate_pod(request),
                                                 .subresource = body ? "status" : NULL },
                                       .body = body,
                                       .accept = body ? NULL : KUBE_JSON,
                                       .reply_max = body ? 0 : POD_MAX,
                                       .on_answered = on_answered,
                               });
}

static int patch_gate(RecreateRequest *request, struct json_object *pod) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        struct json_object *metadata = json_get(pod, "metadata", json_type_object);
        bool is_closed = request->call == REQUEST_CALL_CLOSE_GATE;
        int r;

        if (is_closed && request->spec->pod_uid &&
            !json_is(metadata, "uid", request->spec->pod_uid))
                return gate_done(request); /* a newer pod has this name */

        r = recreate_controller_gate(pod, request->spec, is_closed,
                                     recreate_server_usec(request->recreate) / (int64_t) SEC,
                                     &patch);
        if (r < 0)
                return r;

        return patch ? call_pod(request, patch, on_gate_patched) : gate_done(request);
}

static int on_pod(const KubePatchAnswer *answer, void *userdata) {
        cleanup(json_object_put_p) json_object *pod = NULL;
        cleanup(error_done) Error unread = ERROR_INIT;
        RecreateRequest *request = userdata;
        int r;

        if (answer->error)
                return gate_failed(request, RECREATE_RIGHT_GET_POD, answer->outcome, answer->error);

        r = kube_patch_read(answer->reply, &pod, &unread);
        if (r < 0 && unread.kind == ERROR_NONE)
                return r;
        if (r < 0) {
                kube_patch_fail(&request->write, answer->reply);
                return gate_failed(request, RECREATE_RIGHT_GET_POD, KUBE_PATCH_UNKNOWN, &unread);
        }

        recreate_note_read(request->recreate, RECREATE_RIGHT_GET_POD);
        return patch_gate(request, pod);
}

/* Another request has the name, and may have made the pod unready itself. */
static int read_successor(const RecreateRequest *request, const KubeReply *reply, bool *ret_keeps) {
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(error_done) Error ignored = ERROR_INIT;
        RecreateSpec *spec;
        int r;

        *ret_keeps = true;
        r = kube_patch_read(reply, &object, &ignored);
        if (r >= 0)
                r = recreate_spec_parse(object, request->recreate->dialect, &spec, &ignored);
        if (r < 0)
                return ignored.kind == ERROR_NONE ? r : 0;

        *ret_keeps = recreate_gate_may_be_of(spec, request->spec->pod_name);
        recreate_spec_free(spec);
        return 0;
}

static int on_proved(const KubePatchAnswer *answer, void *userdata) {
        RecreateRequest *request = userdata;
        const RecreateSpec *spec = request->spec;
        bool keeps_gate = false;
        int r = 0;

        if (answer->error && answer->outcome != KUBE_PATCH_GONE) {
                recreate_note_written(request->recreate, RECREATE_RIGHT_GET, spec->name,
                                      request->write.n_failures == 1, answer->error);
                return recreate_reconcile(request->recreate);
        }
        if (!answer->error)
                r = read_successor(request, answer->reply, &keeps_gate);
        if (r < 0)
                return r;

        recreate_note_read(request->recreate, RECREATE_RIGHT_GET);
        if (keeps_gate)
                return gate_done(request);

        request->gate = REQUEST_GATE_CLOSED;
        kube_patch_succeed(&request->write);
        log_info(request->recreate->context->log, NULL,
                 "The restart request \"%s/%s\" was deleted while it kept the pod \"%s\" "
                 "unready: making the pod ready again.",
                 spec->namespace, spec->name, spec->pod_name);
        return recreate_reconcile(request->recreate);
}

/* Asks the API server whether the request exists. */
static int prove(RecreateRequest *request) {
        if (!request->recreate->version)
                return 0;

        request->call = REQUEST_CALL_PROVE;
        return kube_patch_send(&request->write,
                               &(KubePatchRequest){
                                       .verb = KUBE_PATCH_GET,
                                       .path = { .group = RECREATE_GROUP,
                                                 .version = request->recreate->version,
                                                 .namespace = request->spec->namespace,
                                                 .resource = RECREATE_RESOURCE,
                                                 .name = request->spec->name },
                                       .accept = KUBE_JSON,
                                       .on_answered = on_proved,
                               });
}

/* Makes the pod unready, or removes this request from those that keep it unready. */
static int set_gate(RecreateRequest *request, bool is_closed) {
        if (request->gate == REQUEST_GATE_FOUND_CLOSED)
                return prove(request);
        if (is_closed && text_set(&request->gate_pod, request->spec->pod_name) < 0)
                return -ENOMEM;

        request->call = is_closed ? REQUEST_CALL_CLOSE_GATE : REQUEST_CALL_OPEN_GATE;
        return call_pod(request, NULL, on_pod);
}

static bool is_named(const RecreateRequest *request, const char *namespace, const char *name) {
        return strcmp(request->spec->name, name) == 0 &&
               strcmp(request->spec->namespace, namespace) == 0;
}

/* A newer request has the name, and the entry in the pod belongs to that request. */
static bool has_successor(const RecreateRequest *request) {
        const Recreate *recreate = request->recreate;
        const RecreateSpec *spec = request->spec;

        for (size_t i = 0; i < recreate->n_requests; i++) {
                const RecreateRequest *other = recreate->requests[i];

                if (other != request && !other->is_gone && !other->is_missing &&
                    is_named(other, spec->namespace, spec->name) &&
                    recreate_gate_may_be_of(other->spec, get_gate_pod(request) ?: ""))
                        return true;
        }

        return false;
}

bool recreate_controller_owes_gate(const RecreateRequest *request) {
        const char *name = get_gate_pod(request);
        const Pods *pods = request->recreate->context->pods;
        const Pod *pod = name ? pods_find(pods, request->spec->namespace, name) : NULL;
        bool is_closed = request->gate == REQUEST_GATE_FOUND_CLOSED ||
                         request->gate == REQUEST_GATE_CLOSED ||
                         (request->gate == REQUEST_GATE_UNTOUCHED && request->may_have_closed);

        if (!is_closed || has_successor(request))
                return false;

        return pod ? pod->has_kruise_gate : !pods_are_synced(pods);
}

/* Actions of a controller */

/* If the server's clock is unknown, counts from when the request was first shown: this node's clock
 * may run ahead, and would end requests that were never served. */
static int64_t get_now_sec(const RecreateRequest *request, uint64_t known_sec) {
        int64_t usec;

        return kube_client_server_usec(request->recreate->context->client, &usec)
                       ? usec / (int64_t) SEC
                       : request->spec->created_at + (int64_t) known_sec;
}

static RecreateActionPlan make_plan(const RecreateRequest *request, bool has_turn) {
        const Recreate *recreate = request->recreate;
        const Pod *pod = recreate_request_pod(request);
        uint64_t known_sec = (recreate_now_usec(recreate) - request->first_usec) / SEC;
        const RecreateView view = {
                .now_sec = get_now_sec(request, known_sec),
                .known_sec = known_sec,
                .has_turn = has_turn,
                .is_stopping = request->stop.stop,
                .are_pods_known = pods_are_synced(recreate->context->pods),
                .has_pod = pod,
                .is_pod_deleted = pod && pod->is_deleted,
                .is_pod_finished = pod && pod->is_finished,
                .has_pod_gate = pod && pod->has_kruise_gate,
                .is_gate_closed = request->gate != REQUEST_GATE_UNTOUCHED,
                .is_gate_opened = request->gate == REQUEST_GATE_OPENED,
        };

        return recreate_controller_plan(request->spec, &view);
}

static void wait_for(RecreateRequest *request, uint64_t seconds) {
        if (seconds == UINT64_MAX)
                return;

        recreate_request_wait(request, (seconds < WAIT_MAX_SEC ? seconds : WAIT_MAX_SEC) * SEC);
}

int recreate_controller_decide(RecreateRequest *request, bool has_turn) {
        RecreateActionPlan plan;

        if (!request->spec->is_managed || request->is_gone || request->is_missing)
                return 0;

        plan = make_plan(request, has_turn);
        wait_for(request, plan.wait_sec);
        return plan.action == RECREATE_ACTION_COMPLETE
                       ? recreate_request_complete(request, plan.message)
                       : 0;
}

static int send_made(RecreateRequest *request, RequestCall call, int r, struct json_object *body) {
        if (r < 0)
                return r;

        r = recreate_request_send(request, call, body);
        json_object_put(body);
        return r;
}

static int do_planned(RecreateRequest *request, RecreateAction action) {
        const RecreateSpec *spec = request->spec;
        struct json_object *body = NULL;
        int r;

        switch (action) {
        case RECREATE_ACTION_NONE:
        case RECREATE_ACTION_COMPLETE: return 0; /* a write of the status is pending */
        case RECREATE_ACTION_CLOSE_GATE: return set_gate(request, true);
        case RECREATE_ACTION_OPEN_GATE: return set_gate(request, false);
        case RECREATE_ACTION_DRAIN:
                r = recreate_controller_drain(spec, request->recreate->dialect,
                                              recreate_server_usec(request->recreate) /
                                                      (int64_t) SEC,
                                              &body);
                return send_made(request, REQUEST_CALL_DRAIN, r, body);
        case RECREATE_ACTION_UNLABEL:
                r = recreate_controller_unlabel(spec, &body);
                return send_made(request, REQUEST_CALL_UNLABEL, r, body);
        case RECREATE_ACTION_DELETE:
                return recreate_request_send(request, REQUEST_CALL_DELETE, NULL);
        case _RECREATE_ACTION_MAX: break;
        }

        abort();
}

static uint64_t get_action_usec(const RecreateRequest *request, RecreateAction action) {
        uint64_t usec = 0;

        if (action == RECREATE_ACTION_DRAIN)
                usec = recreate_request_repeat_usec(request, REQUEST_CALL_DRAIN);
        if (action == RECREATE_ACTION_UNLABEL)
                usec = recreate_request_repeat_usec(request, REQUEST_CALL_UNLABEL);

        return request->write.rest_usec > usec ? request->write.rest_usec : usec;
}

/* The pod must not stay unready, whatever becomes of the request. */
static RecreateAction choose_action(const RecreateRequest *request, bool has_turn) {
        const RecreateSpec *spec = request->spec;
        const Recreate *recreate = request->recreate;

        if ((!spec->is_managed || recreate_request_is_over(request)) &&
            recreate_controller_owes_gate(request))
                return pods_find(recreate->context->pods, spec->namespace, get_gate_pod(request))
                               ? RECREATE_ACTION_OPEN_GATE
                               : RECREATE_ACTION_NONE;
        if (!spec->is_managed || request->is_gone || request->is_missing || spec->is_deleted ||
            !recreate->version)
                return RECREATE_ACTION_NONE;

        return make_plan(request, has_turn).action;
}

int recreate_controller_act(RecreateRequest *request, bool has_turn) {
        uint64_t now_usec = recreate_now_usec(request->recreate), usec;
        RecreateAction action;

        if (request->write.call)
                return 0;

        action = choose_action(request, has_turn);
        usec = get_action_usec(request, action);
        if (action == RECREATE_ACTION_NONE || usec <= now_usec)
                return do_planned(request, action);

        recreate_request_wait(request, usec - now_usec);
        return 0;
}

/* Requests that no controller has prepared */

/* A request without a node: its pod is on another node, does not exist yet, or is here and the
 * agent is adopting the request. Its spec is kept as text, which is smaller. */
struct RecreateUnassigned {
        Recreate *recreate;
        char *namespace;
        char *name;
        char *uid;
        char *version;
        char *pod_name;
        char *text; /* text of its spec */
        size_t size;
        bool has_begun; /* it has lost its node since */
        bool is_gone;   /* the watch no longer shows it, but its assignment is pending */
        KubePatch write;
        Timer retry;
        LIST_LINKS(struct RecreateUnassigned);
};

static RecreateUnassigned *unassigned_free(RecreateUnassigned *unassigned) {
        if (!unassigned)
                return NULL;

        kube_patch_cancel(&unassigned->write);
        timer_done(&unassigned->retry);
        free(unassigned->text);
        free(unassigned->pod_name);
        free(unassigned->version);
        free(unassigned->uid);
        free(unassigned->name);
        free(unassigned->namespace);
        free(unassigned);
        return NULL;
}

DEFINE_CLEANUP(RecreateUnassigned *, unassigned_free)

static void unassigned_drop(RecreateUnassigned *unassigned) {
        list_remove(&unassigned->recreate->unassigned, unassigned);
        recreate_room_give(&unassigned->recreate->rooms[RECREATE_UNASSIGNED], unassigned->namespace,
                           unassigned->size);
        unassigned_free(unassigned);
}

/* Pause before adopting it once more, if another writer undoes that each time; 0: none. */
static uint64_t get_rest_usec(const RecreateUnassigned *unassigned) {
        const Recreate *recreate = unassigned->recreate;
        uint64_t now_usec = recreate_now_usec(recreate);
        uint64_t usec = recreate_repeats_when_usec(&recreate->repeats, unassigned->uid,
                                                   RECREATE_FIELD_LABELS, 0);

        return usec > now_usec ? usec - now_usec : 0;
}

static int drop_gone(RecreateUnassigned *unassigned) {
        Recreate *recreate = unassigned->recreate;

        unassigned_drop(unassigned);
        return recreate->is_overfull[RECREATE_UNASSIGNED] ? recreate_reconcile(recreate) : 0;
}

/* The request was adopted, or has changed or gone meanwhile: the watches show which, often before
 * the answer. */
static int on_adopted(const KubePatchAnswer *answer, void *userdata) {
        RecreateUnassigned *unassigned = userdata;
        bool is_late = answer->outcome == KUBE_PATCH_CONFLICT || answer->outcome == KUBE_PATCH_GONE;

        if (!answer->error)
                recreate_repeats_note(&unassigned->recreate->repeats, unassigned->uid,
                                      RECREATE_FIELD_LABELS, 0,
                                      recreate_now_usec(unassigned->recreate));
        if (!is_late)
                recreate_note_written(unassigned->recreate, RECREATE_RIGHT_PATCH, unassigned->name,
                                      unassigned->write.n_failures == 1, answer->error);
        if (unassigned->is_gone)
                return drop_gone(unassigned);

        return answer->error && !is_late
                       ? timer_start_at(&unassigned->retry, unassigned->write.rest_usec)
                       : 0;
}

static int adopt(RecreateUnassigned *unassigned, struct json_object *patch) {
        return kube_patch_send(&unassigned->write,
                               &(KubePatchRequest){
                                       .verb = KUBE_PATCH_MERGE,
                                       .path = { .group = RECREATE_GROUP,
                                                 .version = unassigned->recreate->version,
                                                 .namespace = unassigned->namespace,
                                                 .resource = RECREATE_RESOURCE,
                                                 .name = unassigned->name },
                                       .body = patch,
                                       .on_answered = on_adopted,
                               });
}

static int unassigned_reconcile(RecreateUnassigned *unassigned) {
        cleanup(json_object_put_p) json_object *spec = NULL, *patch = NULL;
        cleanup(error_done) Error ignored = ERROR_INIT;
        const Recreate *recreate = unassigned->recreate;
        const Pod *pod =
                pods_find(recreate->context->pods, unassigned->namespace, unassigned->pod_name);
        uint64_t rest_usec = get_rest_usec(unassigned);
        int r;

        if (!pod || unassigned->write.call || unassigned->is_gone ||
            timer_is_running(&unassigned->retry) || !recreate->version)
                return 0;
        if (rest_usec > 0)
                return timer_start(&unassigned->retry, rest_usec);

        r = json_parse(unassigned->text, strlen(unassigned->text), &spec, &ignored);
        if (r < 0)
                return ignored.kind == ERROR_NONE ? r : 0;
        r = recreate_controller_adopt(spec, unassigned->version, pod, recreate->context->node_name,
                                      unassigned->has_begun, &patch);
        return r < 0 ? r : adopt(unassigned, patch);
}

static int on_retry(void *userdata) {
        return unassigned_reconcile(userdata);
}

static RecreateUnassigned *find_unassigned(const Recreate *recreate, const char *uid) {
        RecreateUnassigned *unassigned = recreate->unassigned;

        while (unassigned && (unassigned->is_gone || strcmp(unassigned->uid, uid) != 0))
                unassigned = unassigned->next;

        return unassigned;
}

/* Drops requests of namespaces with more until there is room. Returns whether there is. */
static bool make_room(Recreate *recreate, const char *namespace, size_t size) {
        const char *loser;

        while ((loser = recreate_room_loser(&recreate->rooms[RECREATE_UNASSIGNED], namespace,
                                            size))) {
                RecreateUnassigned *last = loser == namespace ? NULL : recreate->unassigned;

                while (last && (last->write.call || strcmp(last->namespace, loser) != 0))
                        last = last->next;
                recreate_note_overfull(recreate, RECREATE_UNASSIGNED);
                if (!last)
                        return false;
                unassigned_drop(last);
        }

        return true;
}

/* The patch that adopts it names the state of each container, and is longer than the text. */
static size_t unassigned_size(const RecreateSpec *spec, const char *text) {
        size_t size =
                sizeof(RecreateUnassigned) + recreate_spec_size(spec) + PATCH_FACTOR * strlen(text);

        return size > RECREATE_SIZE_MIN ? size : RECREATE_SIZE_MIN;
}

static int add_unassigned(Recreate *recreate, const RecreateSpec *spec,
                          struct json_object *object) {
        cleanup(unassigned_free_p) RecreateUnassigned *unassigned = NULL;
        const char *text;
        size_t size;
        int r;

        text = json_to_text(json_get(object, "spec", json_type_object));
        if (!text)
                return -ENOMEM;
        if (strlen(text) > TEXT_MAX) {
                log_warning(recreate->context->log, NULL,
                            "The restart request \"%s/%s\" is too large to be prepared.",
                            spec->namespace, spec->name);
                return 0;
        }

        size = unassigned_size(spec, text);
        if (!make_room(recreate, spec->namespace, size))
                return 0;

        unassigned = malloc(sizeof(*unassigned));
        if (!unassigned)
                return -ENOMEM;
        *unassigned = (RecreateUnassigned){
                .recreate = recreate,
                .write = { .client = recreate->context->client, .userdata = unassigned },
                .has_begun = spec->status.phase != RECREATE_NONE,
                .namespace = strdup(spec->namespace),
                .name = strdup(spec->name),
                .uid = strdup(spec->uid),
                .version = strdup(spec->version),
                .pod_name = strdup(spec->pod_name),
                .text = strdup(text),
        };
        if (!unassigned->namespace || !unassigned->name || !unassigned->uid ||
            !unassigned->version || !unassigned->pod_name || !unassigned->text)
                return -ENOMEM;
        r = recreate_room_take(&recreate->rooms[RECREATE_UNASSIGNED], spec->namespace, size);
        if (r < 0)
                return r;

        unassigned->size = size;
        timer_init(&unassigned->retry, recreate->context->event, 0, on_retry, unassigned);
        list_prepend(&recreate->unassigned, unassigned);
        return unassigned_reconcile(take_ptr(unassigned));
}

int recreate_unassigned_show(Recreate *recreate, const KubeObject *object) {
        cleanup(error_done) Error ignored = ERROR_INIT;
        RecreateSpec *spec = NULL;
        int r;

        r = recreate_unassigned_gone(recreate, object->uid);
        if (r < 0)
                return r;
        r = recreate_spec_parse(object->json, recreate->dialect, &spec, &ignored);
        if (r < 0)
                return ignored.kind == ERROR_NONE ? r : 0;

        /* No node adopts a request without a pod's name. */
        if (spec->pod_name && !spec->is_deleted && !spec->status.is_completed)
                r = add_unassigned(recreate, spec, object->json);
        recreate_spec_free(spec);
        return r;
}

int recreate_unassigned_gone(Recreate *recreate, const char *uid) {
        RecreateUnassigned *unassigned = find_unassigned(recreate, uid);

        if (!unassigned)
                return 0;

        unassigned->is_gone = true;
        return unassigned->write.call ? 0 : drop_gone(unassigned);
}

int recreate_unassigned_on_pod(Recreate *recreate, const Pod *pod) {
        int r = 0;

        for (RecreateUnassigned *unassigned = recreate->unassigned; unassigned && r >= 0;
             unassigned = unassigned->next)
                if (strcmp(unassigned->pod_name, pod->name) == 0 &&
                    strcmp(unassigned->namespace, pod->namespace) == 0)
                        r = unassigned_reconcile(unassigned);

        return r;
}

int recreate_unassigned_kick(Recreate *recreate) {
        int r = 0;

        for (RecreateUnassigned *unassigned = recreate->unassigned; unassigned && r >= 0;
             unassigned = unassigned->next)
                if (timer_is_running(&unassigned->retry)) {
                        timer_stop(&unassigned->retry);
                        r = unassigned_reconcile(unassigned);
                }

        return r;
}

void recreate_unassigned_drop(Recreate *recreate) {
        while (recreate->unassigned)
                unassigned_drop(recreate->unassigned);
}
