/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-manage-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/path.h"
#include "agent/kube/reply-spec.h"
#include "agent/recreate/recreate-json.h"
#include "agent/recreate/recreate-manage-spec.h"
#include "agent/recreate/recreate-request.h"

#define SEC ((uint64_t) 1000000)
#define CONFLICT_USEC ((uint64_t) 500 * 1000)
#define LOOK_AGAIN_SEC 60    /* clocks are set */
#define CLOSE_FAILURES_MAX 5 /* then the request goes on without the gate */

static RecreateChorePlan make_plan(const RecreateRequest *request, bool has_turn) {
        const Recreate *recreate = request->recreate;
        const Pod *pod = recreate_request_pod(request);
        const RecreateView view = {
                .now_sec = recreate_wall_usec() / (int64_t) SEC,
                .known_sec = (recreate_now_usec(recreate) - request->first_usec) / SEC,
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

static int gate_failed(RecreateRequest *request, RecreateRight right, const KubeReply *reply,
                       const Error *error) {
        if (error->kind == ERROR_NOT_FOUND) {
                request->is_gate_closed = true;
                request->is_gate_opened = !request->must_gate_close;
        } else if (error->kind == ERROR_CONFLICT) {
                request->rest_usec = recreate_now_usec(request->recreate) + CONFLICT_USEC;
        } else {
                recreate_note_written(request->recreate, right, request->spec->name,
                                      request->n_failures, reply, error);
                recreate_request_rest(request, reply);
                if (request->must_gate_close && request->n_failures >= CLOSE_FAILURES_MAX)
                        request->is_gate_closed = true;
        }

        return recreate_look(request->recreate);
}

static int gate_done(RecreateRequest *request) {
        request->n_failures = 0;
        request->is_gate_closed = true;
        request->is_gate_opened = !request->must_gate_close;
        return recreate_look(request->recreate);
}

static int on_gate_patched(const KubeReply *reply, const Error *error, void *userdata) {
        RecreateRequest *request = userdata;

        request->call = kube_call_unref(request->call);
        if (error)
                return gate_failed(request, RECREATE_RIGHT_PATCH_POD, reply, error);

        recreate_note_written(request->recreate, RECREATE_RIGHT_PATCH_POD, request->spec->name, 0,
                              reply, NULL);
        return gate_done(request);
}

static int call_pod(RecreateRequest *request, KubeRequest *call, const char *subresource) {
        const KubePath path = {
                .version = "v1",
                .namespace = request->spec->namespace,
                .resource = "pods",
                .name = request->spec->pod_name,
                .subresource = subresource,
        };
        cleanup(free_p) char *text = NULL;
        int r;

        r = kube_path_format(&path, &text);
        if (r < 0)
                return r;

        call->path = text;
        call->userdata = request;
        request->write = REQUEST_WRITE_GATE;
        return kube_call(request->recreate->client, call, &request->call);
}

static int patch_gate(RecreateRequest *request, struct json_object *pod) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        struct json_object *metadata = recreate_json_get(pod, "metadata", json_type_object);
        KubeRequest call = {
                .verb = "patch",
                .method = "PATCH",
                .accept = KUBE_METADATA_ONLY,
                .content_type = KUBE_STRATEGIC_MERGE_PATCH,
                .on_replied = on_gate_patched,
        };
        int r;

        if (!request->spec->pod_uid || !recreate_json_is(metadata, "uid", request->spec->pod_uid))
                return gate_done(request); /* it is another pod now */

        r = recreate_manage_gate(pod, request->spec, request->must_gate_close,
                                 recreate_wall_usec() / (int64_t) SEC, &patch);
        if (r < 0)
                return r;
        if (!patch)
                return gate_done(request);

        call.body = recreate_json_body(patch);
        return call.body ? call_pod(request, &call, "status") : -ENOMEM;
}

static int on_pod(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(json_object_put_p) json_object *pod = NULL;
        cleanup(error_done) Error unread = ERROR_INIT;
        RecreateRequest *request = userdata;
        int r;

        request->call = kube_call_unref(request->call);
        if (error)
                return gate_failed(request, RECREATE_RIGHT_GET_POD, reply, error);

        r = reply_spec_parse(reply->body, reply->size, &pod, &unread);
        if (r < 0 && unread.kind == ERROR_NONE)
                return r;
        if (r < 0)
                return gate_failed(request, RECREATE_RIGHT_GET_POD, reply, &unread);

        recreate_note_read(request->recreate, RECREATE_RIGHT_GET_POD);
        return patch_gate(request, pod);
}

static int set_gate(RecreateRequest *request, bool is_closed) {
        request->must_gate_close = is_closed;
        return call_pod(request,
                        &(KubeRequest){
                                .verb = "get",
                                .method = "GET",
                                .on_replied = on_pod,
                        },
                        NULL);
}

static int send_made(RecreateRequest *request, RequestWrite write, int r,
                     struct json_object *body) {
        if (r < 0)
                return r;

        r = recreate_request_send(request, write, body);
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
                                          recreate_wall_usec() / (int64_t) SEC, &body);
                return send_made(request, REQUEST_WRITE_DRAIN, r, body);
        case RECREATE_CHORE_UNLABEL:
                r = recreate_manage_unlabel(spec, &body);
                return send_made(request, REQUEST_WRITE_UNLABEL, r, body);
        case RECREATE_CHORE_DELETE:
                r = recreate_manage_delete(spec, &body);
                return send_made(request, REQUEST_WRITE_DELETE, r, body);
        case _RECREATE_CHORE_MAX: break;
        }

        abort();
}

bool recreate_request_owes_gate(const RecreateRequest *request) {
        const Pod *pod = recreate_request_pod(request);

        if (!request->is_gate_closed || request->is_gate_opened)
                return false;

        return pod ? pod->has_kruise_gate : !pods_are_synced(request->recreate->pods);
}

/* Who deletes a request does not want its pod to stay unready. */
static RecreateChore chore_of_gone(const RecreateRequest *request) {
        return recreate_request_owes_gate(request) && recreate_request_pod(request)
                       ? RECREATE_CHORE_OPEN_GATE
                       : RECREATE_CHORE_NONE;
}

int recreate_request_do_chore(RecreateRequest *request, bool has_turn) {
        uint64_t now_usec = recreate_now_usec(request->recreate);
        RecreateChore chore;

        if (!request->spec->is_managed || request->call || !request->recreate->version)
                return 0;

        chore = request->is_gone || request->is_missing || request->spec->is_deleted
                        ? chore_of_gone(request)
                        : make_plan(request, has_turn).chore;
        if (chore == RECREATE_CHORE_NONE || request->rest_usec <= now_usec)
                return do_planned(request, chore);

        recreate_request_wait(request, request->rest_usec - now_usec);
        return 0;
}
