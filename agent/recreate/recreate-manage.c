/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-internal.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/recreate/recreate-json.h"
#include "agent/recreate/recreate-manage-spec.h"

#define SEC ((uint64_t) 1000000)
#define CLOSE_FAILURES_MAX 5 /* then the request goes on without the gate */
#define LOOK_AGAIN_SEC 60    /* clocks are set */
#define TEXT_MAX ((size_t) 64 << 10)

DEFINE_CLEANUP(char **, recreate_gate_requests_free)

/* The gate of the pod's readiness */

static int gate_done(RecreateRequest *request) {
        kube_patch_succeed(&request->write);
        request->is_gate_closed = true;
        request->is_gate_opened = !request->must_gate_close;
        return recreate_look(request->recreate);
}

static int gate_failed(RecreateRequest *request, RecreateRight right, const Error *error) {
        if (error->kind == ERROR_NOT_FOUND)
                return gate_done(request);
        if (error->kind != ERROR_CONFLICT) {
                recreate_note_written(request->recreate, right, request->spec->name,
                                      request->write.n_failures == 1, error);
                if (request->write.n_failures >= CLOSE_FAILURES_MAX)
                        request->is_gate_closed = true;
        }

        return recreate_look(request->recreate);
}

static int on_gate_patched(const KubePatchAnswer *answer, void *userdata) {
        RecreateRequest *request = userdata;

        if (answer->error)
                return gate_failed(request, RECREATE_RIGHT_PATCH_POD, answer->error);

        recreate_note_written(request->recreate, RECREATE_RIGHT_PATCH_POD, request->spec->name,
                              true, NULL);
        return gate_done(request);
}

/* With a body, a patch of its status. */
static int call_pod(RecreateRequest *request, struct json_object *body,
                    KubePatchAnswered on_answered) {
        request->call = REQUEST_CALL_GATE;
        return kube_patch_send(&request->write,
                               &(KubePatchRequest){
                                       .verb = body ? KUBE_PATCH_STRATEGIC : KUBE_PATCH_GET,
                                       .path = { .version = "v1",
                                                 .namespace = request->spec->namespace,
                                                 .resource = "pods",
                                                 .name = request->spec->pod_name,
                                                 .subresource = body ? "status" : NULL },
                                       .body = body,
                                       .needs_object = !body,
                                       .on_answered = on_answered,
                               });
}

static int patch_gate(RecreateRequest *request, struct json_object *pod) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        struct json_object *metadata = recreate_json_get(pod, "metadata", json_type_object);
        int r;

        if (!request->spec->pod_uid || !recreate_json_is(metadata, "uid", request->spec->pod_uid))
                return gate_done(request); /* it is another pod now */

        r = recreate_manage_gate(pod, request->spec, request->must_gate_close,
                                 recreate_server_usec(request->recreate) / (int64_t) SEC, &patch);
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
                return gate_failed(request, RECREATE_RIGHT_GET_POD, answer->error);

        r = json_parse(answer->reply->body, answer->reply->size, &pod, &unread);
        if (r < 0 && unread.kind == ERROR_NONE)
                return r;
        if (r < 0) {
                kube_patch_fail(&request->write, answer->reply);
                return gate_failed(request, RECREATE_RIGHT_GET_POD, &unread);
        }

        recreate_note_read(request->recreate, RECREATE_RIGHT_GET_POD);
        return patch_gate(request, pod);
}

/* It is there, and may have made the pod unready itself. */
static int read_successor(const RecreateRequest *request, const KubeReply *reply, bool *ret_keeps) {
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(error_done) Error ignored = ERROR_INIT;
        RecreateSpec *spec;
        int r;

        *ret_keeps = true;
        r = json_parse(reply->body, reply->size, &object, &ignored);
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
                return recreate_look(request->recreate);
        }
        if (!answer->error)
                r = read_successor(request, answer->reply, &keeps_gate);
        if (r < 0)
                return r;

        recreate_note_read(request->recreate, RECREATE_RIGHT_GET);
        if (keeps_gate)
                return gate_done(request);

        request->is_unproven = false;
        kube_patch_succeed(&request->write);
        log_info(request->recreate->log, NULL,
                 "The restart request `%s/%s` is gone, but keeps the pod `%s` unready: making the "
                 "pod ready again.",
                 spec->namespace, spec->name, spec->pod_name);
        return recreate_look(request->recreate);
}

/* Asks whether there is such a request. */
static int prove(RecreateRequest *request) {
        if (!request->recreate->version)
                return 0;

        request->call = REQUEST_CALL_GATE;
        return kube_patch_send(&request->write,
                               &(KubePatchRequest){
                                       .verb = KUBE_PATCH_GET,
                                       .path = { .group = RECREATE_GROUP,
                                                 .version = request->recreate->version,
                                                 .namespace = request->spec->namespace,
                                                 .resource = RECREATE_RESOURCE,
                                                 .name = request->spec->name },
                                       .needs_object = true,
                                       .on_answered = on_proved,
                               });
}

/* Makes the pod unready, or ready again as far as this request is concerned. */
static int set_gate(RecreateRequest *request, bool is_closed) {
        request->must_gate_close = is_closed;
        return request->is_unproven ? prove(request) : call_pod(request, NULL, on_pod);
}

static bool is_named(const RecreateRequest *request, const char *namespace, const char *name) {
        return strcmp(request->spec->name, name) == 0 &&
               strcmp(request->spec->namespace, namespace) == 0;
}

/* Another request has its name by now, and so what is written in the pod is about that one. */
static bool has_successor(const RecreateRequest *request) {
        const Recreate *recreate = request->recreate;
        const RecreateSpec *spec = request->spec;

        for (size_t i = 0; i < recreate->n_requests; i++) {
                const RecreateRequest *other = recreate->requests[i];

                if (other != request && !other->is_gone && !other->is_missing &&
                    is_named(other, spec->namespace, spec->name) &&
                    recreate_gate_may_be_of(other->spec, spec->pod_name ?: ""))
                        return true;
        }

        return false;
}

bool recreate_request_owes_gate(const RecreateRequest *request) {
        const Pod *pod = recreate_request_pod(request);

        if (!request->is_gate_closed || request->is_gate_opened || has_successor(request))
                return false;

        return pod ? pod->has_kruise_gate : !pods_are_synced(request->recreate->pods);
}

static bool is_known(const Recreate *recreate, const Pod *pod, const char *name) {
        for (size_t i = 0; i < recreate->n_requests; i++)
                if (is_named(recreate->requests[i], pod->namespace, name))
                        return true;

        return false;
}

/* A request of which nothing is left but the pod that it keeps unready. */
static int add_remnant(Recreate *recreate, const Pod *pod, const char *name) {
        RecreateRequest *request;
        RecreateSpec *spec;
        int r;

        spec = malloc(sizeof(*spec));
        if (!spec)
                return -ENOMEM;

        *spec = (RecreateSpec){
                .namespace = strdup(pod->namespace),
                .name = strdup(name),
                .version = strdup(""),
                .pod_uid = strdup(pod->uid),
                .pod_name = strdup(pod->name),
                .is_managed = true,
                .grace_sec = -1,
                .deadline_sec = -1,
                .ttl_sec = -1,
        };
        /* No object has such a UID. */
        if (asprintf(&spec->uid, "%s/%s/%s", pod->uid, pod->namespace, name) < 0)
                spec->uid = NULL;
        if (!spec->namespace || !spec->name || !spec->uid || !spec->version || !spec->pod_uid ||
            !spec->pod_name) {
                recreate_spec_free(spec);
                return -ENOMEM;
        }

        r = recreate_add(recreate, spec, NULL, &request);
        if (r < 0 || !request)
                return r;

        request->is_gone = request->is_unproven = request->is_gate_closed = true;
        return 0;
}

static int look_at_pod(Recreate *recreate, const Pod *pod) {
        cleanup(recreate_gate_requests_free_p) char **names = NULL;
        int r;

        if (!pod->has_kruise_gate || !pod->kruise_message)
                return 0;

        r = recreate_gate_requests(pod, &names);
        for (size_t i = 0; r >= 0 && names[i]; i++)
                if (!is_known(recreate, pod, names[i]))
                        r = add_remnant(recreate, pod, names[i]);

        return r;
}

int recreate_find_remnants(Recreate *recreate) {
        int r = 0;

        if (recreate->has_found_remnants || !pods_are_synced(recreate->pods) ||
            !recreate_is_synced(recreate))
                return 0;

        recreate->has_found_remnants = true;
        for (size_t i = 0; i < pods_count(recreate->pods) && r >= 0; i++)
                r = look_at_pod(recreate, pods_get(recreate->pods, i));

        return r;
}

/* What a controller does */

/* A server that does not tell its time has made the request no earlier than it was seen: this node's
 * clock may run ahead, and end requests that nobody has served. */
static int64_t get_now_sec(const RecreateRequest *request, uint64_t known_sec) {
        int64_t usec;

        return kube_client_server_usec(request->recreate->client, &usec)
                       ? usec / (int64_t) SEC
                       : request->spec->created_at + (int64_t) known_sec;
}

static RecreateChorePlan make_plan(const RecreateRequest *request, bool has_turn) {
        const Recreate *recreate = request->recreate;
        const Pod *pod = recreate_request_pod(request);
        uint64_t known_sec = (recreate_now_usec(recreate) - request->first_usec) / SEC;
        const RecreateView view = {
                .now_sec = get_now_sec(request, known_sec),
                .known_sec = known_sec,
                .has_turn = has_turn,
                .is_stopping = request->stop,
                .are_pods_known = pods_are_synced(recreate->pods),
                .has_pod = pod,
                .is_pod_deleted = pod && pod->is_deleted,
                .is_pod_finished = pod && pod->is_finished,
                .has_pod_gate = pod && pod->has_kruise_gate,
                .is_gate_closed = request->is_gate_closed,
                .is_gate_opened = request->is_gate_opened,
        };

        return recreate_manage_plan(request->spec, &view);
}

static void wait_for(RecreateRequest *request, uint64_t seconds) {
        if (seconds == UINT64_MAX)
                return;

        recreate_request_wait(request, (seconds < LOOK_AGAIN_SEC ? seconds : LOOK_AGAIN_SEC) * SEC);
}

int recreate_request_manage(RecreateRequest *request, bool has_turn) {
        RecreateChorePlan plan;

        if (!request->spec->is_managed || request->is_gone || request->is_missing)
                return 0;

        plan = make_plan(request, has_turn);
        wait_for(request, plan.wait_sec);
        return plan.chore == RECREATE_CHORE_COMPLETE
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

static int do_planned(RecreateRequest *request, RecreateChore chore) {
        const RecreateSpec *spec = request->spec;
        struct json_object *body = NULL;
        int r;

        switch (chore) {
        case RECREATE_CHORE_NONE:
        case RECREATE_CHORE_COMPLETE: return 0; /* the status is on its way */
        case RECREATE_CHORE_CLOSE_GATE: return set_gate(request, true);
        case RECREATE_CHORE_OPEN_GATE: return set_gate(request, false);
        case RECREATE_CHORE_DRAIN:
                r = recreate_manage_drain(request->object, spec, request->recreate->dialect,
                                          recreate_server_usec(request->recreate) / (int64_t) SEC,
                                          &body);
                return send_made(request, REQUEST_CALL_DRAIN, r, body);
        case RECREATE_CHORE_UNLABEL:
                r = recreate_manage_unlabel(spec, &body);
                return send_made(request, REQUEST_CALL_UNLABEL, r, body);
        case RECREATE_CHORE_DELETE:
                return recreate_request_send(request, REQUEST_CALL_DELETE, NULL);
        case _RECREATE_CHORE_MAX: break;
        }

        abort();
}

static uint64_t get_chore_usec(const RecreateRequest *request, RecreateChore chore) {
        uint64_t usec = 0;

        if (chore == RECREATE_CHORE_DRAIN)
                usec = recreate_request_repeat_usec(request, REQUEST_CALL_DRAIN);
        if (chore == RECREATE_CHORE_UNLABEL)
                usec = recreate_request_repeat_usec(request, REQUEST_CALL_UNLABEL);

        return request->write.rest_usec > usec ? request->write.rest_usec : usec;
}

/* Who deletes a request does not want its pod to stay unready. */
static RecreateChore chore_of_gone(const RecreateRequest *request) {
        return recreate_request_owes_gate(request) && recreate_request_pod(request)
                       ? RECREATE_CHORE_OPEN_GATE
                       : RECREATE_CHORE_NONE;
}

int recreate_request_do_chore(RecreateRequest *request, bool has_turn) {
        uint64_t now_usec = recreate_now_usec(request->recreate), usec;
        RecreateChore chore;

        if (!request->spec->is_managed || request->write.call)
                return 0;

        if (request->is_gone || request->is_missing || request->spec->is_deleted)
                chore = chore_of_gone(request);
        else if (request->recreate->version)
                chore = make_plan(request, has_turn).chore;
        else
                chore = RECREATE_CHORE_NONE;
        usec = get_chore_usec(request, chore);
        if (chore == RECREATE_CHORE_NONE || usec <= now_usec)
                return do_planned(request, chore);

        recreate_request_wait(request, usec - now_usec);
        return 0;
}

/* Requests that nobody has prepared */

/* A request without a node: for a pod of another one, for one that is still to come, or for one
 * here that is being taken. Kept as text, which is small. */
struct RecreateOrphan {
        Recreate *recreate;
        char *namespace;
        char *name;
        char *uid;
        char *pod_name;
        char *text;
        bool is_gone; /* from the watch, while it is being taken: what comes of that is awaited */
        KubePatch write;
        Timer retry;
        LIST_LINKS(struct RecreateOrphan);
};

static RecreateOrphan *orphan_free(RecreateOrphan *orphan) {
        if (!orphan)
                return NULL;

        kube_patch_done(&orphan->write);
        timer_done(&orphan->retry);
        free(orphan->text);
        free(orphan->pod_name);
        free(orphan->uid);
        free(orphan->name);
        free(orphan->namespace);
        free(orphan);
        return NULL;
}

DEFINE_CLEANUP(RecreateOrphan *, orphan_free)

static void orphan_drop(RecreateOrphan *orphan) {
        list_remove(&orphan->recreate->orphans, orphan);
        orphan->recreate->n_orphans--;
        orphan_free(orphan);
}

/* Until it may be taken once more, if somebody else lets it go each time; 0: it may. */
static uint64_t get_rest_usec(const RecreateOrphan *orphan) {
        const Recreate *recreate = orphan->recreate;
        uint64_t now_usec = recreate_now_usec(recreate);
        uint64_t usec = recreate_repeats_when_usec(&recreate->repeats, orphan->uid,
                                                   RECREATE_FIELD_LABELS, 0);

        return usec > now_usec ? usec - now_usec : 0;
}

static int drop_gone(RecreateOrphan *orphan) {
        Recreate *recreate = orphan->recreate;

        orphan_drop(orphan);
        return recreate->are_orphans_overfull ? recreate_look(recreate) : 0;
}

/* Taken, or changed or gone meanwhile: the watches show what is true now, often before the answer. */
static int on_adopted(const KubePatchAnswer *answer, void *userdata) {
        RecreateOrphan *orphan = userdata;
        bool is_late = answer->outcome == KUBE_PATCH_CONFLICT || answer->outcome == KUBE_PATCH_GONE;

        if (!answer->error)
                recreate_repeats_note(&orphan->recreate->repeats, orphan->uid,
                                      RECREATE_FIELD_LABELS, 0,
                                      recreate_now_usec(orphan->recreate));
        if (!is_late)
                recreate_note_written(orphan->recreate, RECREATE_RIGHT_PATCH, orphan->name,
                                      orphan->write.n_failures == 1, answer->error);
        if (orphan->is_gone)
                return drop_gone(orphan);

        return answer->error && !is_late ? timer_start_at(&orphan->retry, orphan->write.rest_usec)
                                         : 0;
}

static int adopt(RecreateOrphan *orphan, struct json_object *patch) {
        return kube_patch_send(&orphan->write,
                               &(KubePatchRequest){
                                       .verb = KUBE_PATCH_MERGE,
                                       .path = { .group = RECREATE_GROUP,
                                                 .version = orphan->recreate->version,
                                                 .namespace = orphan->namespace,
                                                 .resource = RECREATE_RESOURCE,
                                                 .name = orphan->name },
                                       .body = patch,
                                       .on_answered = on_adopted,
                               });
}

static int orphan_look(RecreateOrphan *orphan) {
        cleanup(json_object_put_p) json_object *object = NULL, *patch = NULL;
        cleanup(error_done) Error ignored = ERROR_INIT;
        const Recreate *recreate = orphan->recreate;
        const Pod *pod = pods_find(recreate->pods, orphan->namespace, orphan->pod_name);
        uint64_t rest_usec = get_rest_usec(orphan);
        int r;

        if (!pod || orphan->write.call || orphan->is_gone || timer_is_running(&orphan->retry) ||
            !recreate->version)
                return 0;
        if (rest_usec > 0)
                return timer_start(&orphan->retry, rest_usec);

        r = json_parse(orphan->text, strlen(orphan->text), &object, &ignored);
        if (r < 0)
                return ignored.kind == ERROR_NONE ? r : 0;
        r = recreate_manage_adopt(object, pod, recreate->node_name, &patch);
        return r < 0 ? r : adopt(orphan, patch);
}

static int on_retry(void *userdata) {
        return orphan_look(userdata);
}

static RecreateOrphan *find_orphan(const Recreate *recreate, const char *uid) {
        RecreateOrphan *orphan = recreate->orphans;

        while (orphan && (orphan->is_gone || strcmp(orphan->uid, uid) != 0))
                orphan = orphan->next;

        return orphan;
}

static void tell_overfull(Recreate *recreate) {
        if (!recreate->are_orphans_overfull)
                log_warning(recreate->log, NULL,
                            "There are more than %d unprepared restart requests: the "
                            "others wait.",
                            RECREATE_REQUESTS_MAX);
        recreate->are_orphans_overfull = true;
}

static int add_orphan(Recreate *recreate, const RecreateSpec *spec, struct json_object *object) {
        cleanup(orphan_free_p) RecreateOrphan *orphan = NULL;
        const char *text;

        if (recreate->n_orphans >= RECREATE_REQUESTS_MAX) {
                tell_overfull(recreate);
                return 0;
        }
        text = recreate_json_body(object);
        if (!text)
                return -ENOMEM;
        if (strlen(text) > TEXT_MAX) {
                log_warning(recreate->log, NULL,
                            "The restart request `%s/%s` is too large to be prepared.",
                            spec->namespace, spec->name);
                return 0;
        }

        orphan = malloc(sizeof(*orphan));
        if (!orphan)
                return -ENOMEM;
        *orphan = (RecreateOrphan){
                .recreate = recreate,
                .write = { .client = recreate->client, .userdata = orphan },
                .namespace = strdup(spec->namespace),
                .name = strdup(spec->name),
                .uid = strdup(spec->uid),
                .pod_name = strdup(spec->pod_name),
                .text = strdup(text),
        };
        if (!orphan->namespace || !orphan->name || !orphan->uid || !orphan->pod_name ||
            !orphan->text)
                return -ENOMEM;

        timer_init(&orphan->retry, recreate->event, 0, on_retry, orphan);
        list_prepend(&recreate->orphans, orphan);
        recreate->n_orphans++;
        return orphan_look(take_ptr(orphan));
}

int recreate_orphan_show(Recreate *recreate, const KubeObject *object) {
        cleanup(error_done) Error ignored = ERROR_INIT;
        RecreateSpec *spec = NULL;
        int r;

        r = recreate_orphan_gone(recreate, object->uid);
        if (r < 0)
                return r;
        r = recreate_spec_parse(object->json, recreate->dialect, &spec, &ignored);
        if (r < 0)
                return ignored.kind == ERROR_NONE ? r : 0;

        /* Without the name of a pod it is nobody's. */
        if (spec->pod_name && !spec->is_deleted && !spec->status.is_completed)
                r = add_orphan(recreate, spec, object->json);
        recreate_spec_free(spec);
        return r;
}

int recreate_orphan_gone(Recreate *recreate, const char *uid) {
        RecreateOrphan *orphan = find_orphan(recreate, uid);

        if (!orphan)
                return 0;

        orphan->is_gone = true;
        return orphan->write.call ? 0 : drop_gone(orphan);
}

int recreate_orphans_list_those_without_place(Recreate *recreate) {
        if (!recreate->are_orphans_overfull || !recreate->version ||
            recreate->n_orphans > RECREATE_REQUESTS_MAX / 2)
                return 0;

        recreate->are_orphans_overfull = false;
        return recreate_list_orphans_again(recreate);
}

int recreate_orphans_look(Recreate *recreate, const Pod *pod) {
        int r = 0;

        for (RecreateOrphan *orphan = recreate->orphans; orphan && r >= 0; orphan = orphan->next)
                if (strcmp(orphan->pod_name, pod->name) == 0 &&
                    strcmp(orphan->namespace, pod->namespace) == 0)
                        r = orphan_look(orphan);

        return r;
}

int recreate_orphans_kick(Recreate *recreate) {
        int r = 0;

        for (RecreateOrphan *orphan = recreate->orphans; orphan && r >= 0; orphan = orphan->next)
                if (timer_is_running(&orphan->retry)) {
                        timer_stop(&orphan->retry);
                        r = orphan_look(orphan);
                }

        return r;
}

void recreate_orphans_drop(Recreate *recreate) {
        while (recreate->orphans)
                orphan_drop(recreate->orphans);
}
