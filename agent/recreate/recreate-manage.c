/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-manage-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "agent/recreate/recreate-json.h"
#include "agent/recreate/recreate-manage-spec.h"
#include "agent/recreate/recreate-request.h"

#define SEC ((uint64_t) 1000000)
#define LOOK_AGAIN_SEC 60 /* clocks are set */

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
        case RECREATE_CHORE_CLOSE_GATE: return recreate_request_set_gate(request, true);
        case RECREATE_CHORE_OPEN_GATE: return recreate_request_set_gate(request, false);
        case RECREATE_CHORE_DRAIN:
                r = recreate_manage_drain(request->object, spec, request->recreate->dialect,
                                          recreate_server_usec(request->recreate) / (int64_t) SEC,
                                          &body);
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

static uint64_t get_chore_usec(const RecreateRequest *request, RecreateChore chore) {
        uint64_t usec = 0;

        if (chore == RECREATE_CHORE_DRAIN)
                usec = recreate_request_repeat_usec(request, REQUEST_WRITE_DRAIN);
        if (chore == RECREATE_CHORE_UNLABEL)
                usec = recreate_request_repeat_usec(request, REQUEST_WRITE_UNLABEL);

        return request->rest_usec > usec ? request->rest_usec : usec;
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

        if (!request->spec->is_managed || request->call)
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
