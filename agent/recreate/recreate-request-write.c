/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/random.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/kube/retry.h"
#include "agent/recreate/recreate-json.h"
#include "agent/recreate/recreate-manage-spec.h"
#include "agent/recreate/recreate-internal.h"

#define CONFLICTS_MAX 4

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
        case REQUEST_CALL_GATE:
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

void recreate_request_note_end(RecreateRequest *request, bool is_by_us) {
        const RecreateSpec *spec = request->spec;
        bool is_success = recreate_status_is_success(&request->wanted);
        int level = is_success || !is_by_us ? LOG_INFO : LOG_WARNING;

        if (request->is_ended)
                return;

        request->is_ended = true;
        log_write(request->recreate->log, level, NULL,
                  "The restart request `%s/%s` for the pod `%s` is completed%s: %s.",
                  spec->namespace, spec->name, spec->pod_name ?: "",
                  is_by_us ? "" : " by another client",
                  spec->status.message ?: "no reason is given");
        if (is_by_us)
                metrics_count(request->recreate->metrics, METRIC_RECREATE_REQUESTS, is_success);
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
        copy.is_foreign = false;
        recreate_status_done(known);
        *known = copy;
        return 0;
}

/* What was written is what is known, unless something newer has been seen meanwhile. */
static int note_written(RecreateRequest *request, const char *version) {
        RecreateSpec *spec = request->spec;
        bool was_completed = spec->status.is_completed;
        int r;

        note_repeat(request);
        if (version && kube_version_is_older(version, spec->version))
                return 0;

        /* The watch does not show it any more, unless the label was given back already. */
        request->is_missing = request->is_missing || request->call == REQUEST_CALL_UNLABEL;
        if (request->call == REQUEST_CALL_STATUS) {
                r = copy_sent_states(request);
                if (r < 0)
                        return r;
        }
        if (request->call == REQUEST_CALL_DRAIN) {
                spec->is_drained = true;
                request->drained_usec = recreate_now_usec(request->recreate);
                request->drain_done_usec = 0;
        }
        if (version) {
                free(spec->version);
                spec->version = strdup(version);
                if (!spec->version)
                        return -ENOMEM;
        }

        if (spec->status.is_completed && !was_completed)
                recreate_request_note_end(request, true);
        return 0;
}

/* In this dialect that is an annotation, which belongs to the object itself. */
static bool is_annotation(const Recreate *recreate, RequestCall call) {
        return call == REQUEST_CALL_DRAIN && recreate->dialect == RECREATE_V1ALPHA1;
}

static RecreateRight get_right(const RecreateRequest *request) {
        return is_annotation(request->recreate, request->call) ? RECREATE_RIGHT_PATCH
                                                               : calls[request->call].right;
}

/* There is no such object any more, or another one has its name. */
static bool is_gone(const RecreateRequest *request, const KubePatchAnswer *answer) {
        return answer->outcome == KUBE_PATCH_GONE ||
               (answer->error && answer->error->kind == ERROR_INVALID && request->is_gone);
}

/* The watch shows what it is, or has already. If it does not, again and again, the server is asked. */
static int on_conflict(RecreateRequest *request, const KubePatchAnswer *answer) {
        int r = 0;

        if (++request->n_conflicts >= CONFLICTS_MAX) {
                kube_patch_rest(&request->write, kube_retry_usec(request->n_conflicts,
                                                                 answer->reply, random_number()));
                r = recreate_check(request->recreate, request->spec);
        }

        return r < 0 ? r : recreate_request_reconsider(request);
}

static int on_written(const KubePatchAnswer *answer, void *userdata) {
        RecreateRequest *request = userdata;
        Recreate *recreate = request->recreate;
        int r = 0;

        if (answer->outcome != KUBE_PATCH_CONFLICT)
                request->n_conflicts = 0;
        if (is_gone(request, answer)) {
                request->is_missing = true;
                kube_patch_succeed(&request->write);
        } else if (answer->outcome == KUBE_PATCH_CONFLICT) {
                r = on_conflict(request, answer);
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
        return recreate_look(recreate);
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

/* Once somebody else has decided, only what our stop led to is still to be told. */
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

/* What a controller would tell by a write of its own. */
static int add_snapshot(const RecreateRequest *request, struct json_object *patch) {
        struct json_object *status = recreate_json_get(patch, "status", json_type_object);
        const Pod *pod = recreate_request_pod(request);
        struct json_object *list;
        int r;

        if (!request->spec->is_managed || request->recreate->dialect != RECREATE_V1BETA1 || !pod ||
            !recreate_json_get(status, "containerRecreateStates", json_type_array))
                return 0;

        r = recreate_manage_snapshot(request->spec, pod, &list);
        return r < 0 || !list ? r : patch_add(status, "containerStatusSnapshot", list);
}

static int send_status(RecreateRequest *request, struct json_object *patch) {
        cleanup(json_object_put_p) json_object *bound = NULL;
        int r;

        if (recreate_json_get(patch, "metadata", json_type_object))
                return recreate_request_send(request, REQUEST_CALL_STATUS, patch);

        r = recreate_status_bind(patch, request->spec->uid, &bound);
        return r < 0 ? r : recreate_request_send(request, REQUEST_CALL_STATUS, bound);
}

int recreate_request_write_status(RecreateRequest *request) {
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
