/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/kube/path.h"
#include "agent/kube/reply-spec.h"
#include "agent/kube/retry.h"
#include "agent/recreate/recreate-json.h"
#include "agent/recreate/recreate-manage-spec.h"
#include "agent/recreate/recreate-internal.h"

#define CONFLICT_USEC ((uint64_t) 500 * 1000)

/* clang-format off */
static const struct {
        const char *verb;
        const char *method;
        const char *content_type;
        bool is_status;
        RecreateRight right;
} writes[_REQUEST_WRITE_MAX] = {
        [REQUEST_WRITE_STATUS]  = { "patch",  "PATCH",  KUBE_MERGE_PATCH, true,
                                    RECREATE_RIGHT_PATCH_STATUS },
        [REQUEST_WRITE_DRAIN]   = { "patch",  "PATCH",  KUBE_MERGE_PATCH, true,
                                    RECREATE_RIGHT_PATCH_STATUS },
        [REQUEST_WRITE_UNLABEL] = { "patch",  "PATCH",  KUBE_MERGE_PATCH, false,
                                    RECREATE_RIGHT_PATCH },
        [REQUEST_WRITE_DELETE]  = { "delete", "DELETE", KUBE_JSON,        false,
                                    RECREATE_RIGHT_DELETE },
};
/* clang-format on */

static bool find_field(RequestWrite write, RecreateField *ret) {
        switch (write) {
        case REQUEST_WRITE_STATUS: *ret = RECREATE_FIELD_STATUS; return true;
        case REQUEST_WRITE_DRAIN: *ret = RECREATE_FIELD_DRAIN; return true;
        case REQUEST_WRITE_UNLABEL: *ret = RECREATE_FIELD_ACTIVE; return true;
        case REQUEST_WRITE_DELETE:
        case REQUEST_WRITE_GATE:
        case _REQUEST_WRITE_MAX: break;
        }

        return false;
}

uint64_t recreate_request_repeat_usec(const RecreateRequest *request, RequestWrite write) {
        bool is_status = write == REQUEST_WRITE_STATUS;
        uint64_t digest = is_status ? recreate_status_digest(&request->wanted) : 0;
        RecreateField field;

        return find_field(write, &field)
                       ? recreate_repeats_when_usec(&request->recreate->repeats, request->spec->uid,
                                                    field, digest)
                       : 0;
}

static void note_repeat(RecreateRequest *request) {
        bool is_status = request->write == REQUEST_WRITE_STATUS;
        uint64_t digest = is_status ? recreate_status_digest(&request->sent) : 0;
        RecreateField field;

        if (find_field(request->write, &field))
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
                request->recreate->on_completed(is_success, request->recreate->userdata);
}

void recreate_request_rest(RecreateRequest *request, const KubeReply *reply) {
        uint32_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        request->rest_usec = recreate_now_usec(request->recreate) +
                             kube_retry_usec(++request->n_failures, reply, random);
}

/* What the server said of the version that it made; NULL: nothing. */
static int read_version(const KubeReply *reply, char **ret) {
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(error_done) Error ignored = ERROR_INIT;
        const char *version;
        int r;

        r = reply_spec_parse(reply->body, reply->size, &object, &ignored);
        if (r < 0 && ignored.kind == ERROR_NONE)
                return r;

        version = recreate_json_text(recreate_json_get(object, "metadata", json_type_object),
                                     "resourceVersion");
        *ret = version ? strdup(version) : NULL;
        return version && !*ret ? -ENOMEM : 0;
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
static int note_written(RecreateRequest *request, const KubeReply *reply) {
        cleanup(free_p) char *version = NULL;
        RecreateSpec *spec = request->spec;
        bool was_completed = spec->status.is_completed;
        int r;

        note_repeat(request);
        r = read_version(reply, &version);
        if (r < 0)
                return r;
        if (version && recreate_spec_is_older(version, spec->version))
                return 0;

        /* The watch does not show it any more, unless somebody has given the label back already. */
        request->is_missing = request->is_missing || request->write == REQUEST_WRITE_UNLABEL;
        if (request->write == REQUEST_WRITE_STATUS) {
                r = copy_sent_states(request);
                if (r < 0)
                        return r;
        }
        if (request->write == REQUEST_WRITE_DRAIN) {
                spec->is_drained = true;
                request->drained_usec = recreate_now_usec(request->recreate);
                request->drain_done_usec = 0;
        }
        if (version) {
                free(spec->version);
                spec->version = take_ptr(version);
        }

        if (spec->status.is_completed && !was_completed)
                recreate_request_note_end(request, true);
        return 0;
}

/* Somebody was quicker: the watch shows it, or has already. */
static int on_conflict(RecreateRequest *request) {
        request->rest_usec = recreate_now_usec(request->recreate) + CONFLICT_USEC;
        return recreate_request_reconsider(request);
}

/* In this dialect that is an annotation, which belongs to the object itself. */
static bool is_annotation(const Recreate *recreate, RequestWrite write) {
        return write == REQUEST_WRITE_DRAIN && recreate->dialect == RECREATE_V1ALPHA1;
}

static RecreateRight get_right(const RecreateRequest *request) {
        return is_annotation(request->recreate, request->write) ? RECREATE_RIGHT_PATCH
                                                                : writes[request->write].right;
}

/* There is no such object any more, or another one has its name. */
static bool is_gone(const RecreateRequest *request, const Error *error) {
        return error->kind == ERROR_NOT_FOUND || (error->kind == ERROR_INVALID && request->is_gone);
}

static int on_written(const KubeReply *reply, const Error *error, void *userdata) {
        RecreateRequest *request = userdata;
        Recreate *recreate = request->recreate;
        int r = 0;

        request->call = kube_call_unref(request->call);
        if (error && is_gone(request, error))
                request->is_missing = true;
        else if (error && error->kind == ERROR_CONFLICT)
                r = on_conflict(request);
        else
                recreate_note_written(recreate, get_right(request), request->spec->name,
                                      request->n_failures, reply, error);
        if (r < 0)
                return r;

        if (error && !request->is_missing && error->kind != ERROR_CONFLICT)
                recreate_request_rest(request, reply);
        if (!error) {
                request->n_failures = 0;
                request->rest_usec = 0;
                r = note_written(request, reply);
                if (r < 0)
                        return r;
        }
        if (!error && request->write == REQUEST_WRITE_DELETE)
                request->is_missing = true;

        return recreate_look(recreate);
}

int recreate_request_send(RecreateRequest *request, RequestWrite write, struct json_object *body) {
        Recreate *recreate = request->recreate;
        bool is_status = writes[write].is_status && !is_annotation(recreate, write);
        const KubePath path = {
                .group = RECREATE_GROUP,
                .version = recreate->version,
                .namespace = request->spec->namespace,
                .resource = RECREATE_RESOURCE,
                .name = request->spec->name,
                .subresource = is_status ? "status" : NULL,
        };
        KubeRequest call = {
                .verb = writes[write].verb,
                .method = writes[write].method,
                .accept = KUBE_METADATA_ONLY,
                .content_type = json_object_is_type(body, json_type_array)
                                        ? KUBE_JSON_PATCH
                                        : writes[write].content_type,
                .body = recreate_json_body(body),
                .on_replied = on_written,
                .userdata = request,
        };
        cleanup(free_p) char *text = NULL;
        int r;

        if (!call.body)
                return -ENOMEM;
        r = kube_path_format(&path, &text);
        if (r < 0)
                return r;

        call.path = text;
        request->write = write;
        return kube_call(recreate->client, &call, &request->call);
}

/* Once somebody else has decided, only what our stop led to is still to be told. */
static bool may_write(RecreateRequest *request) {
        const RecreateSpec *spec = request->spec;

        if (request->call || request->is_missing || !request->recreate->version)
                return false;
        if (request->is_gone || spec->is_deleted || spec->status.is_completed)
                return request->owes_report;

        return true;
}

static uint64_t get_rest(const RecreateRequest *request, uint64_t now_usec) {
        uint64_t until = recreate_request_repeat_usec(request, REQUEST_WRITE_STATUS);

        if (request->rest_usec > until)
                until = request->rest_usec;
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
                return recreate_request_send(request, REQUEST_WRITE_STATUS, patch);

        r = recreate_status_bind(patch, request->spec->uid, &bound);
        return r < 0 ? r : recreate_request_send(request, REQUEST_WRITE_STATUS, bound);
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
