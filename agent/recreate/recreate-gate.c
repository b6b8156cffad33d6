/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
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
#define CLOSE_FAILURES_MAX 5 /* then the request goes on without the gate */

DEFINE_CLEANUP(char **, recreate_gate_requests_free)

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
                if (request->n_failures >= CLOSE_FAILURES_MAX)
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
                                 recreate_server_usec(request->recreate) / (int64_t) SEC, &patch);
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

/* It is there, and may have made the pod unready itself. */
static int read_successor(const RecreateRequest *request, const KubeReply *reply, bool *ret_keeps) {
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(error_done) Error ignored = ERROR_INIT;
        RecreateSpec *spec;
        int r;

        *ret_keeps = true;
        r = reply_spec_parse(reply->body, reply->size, &object, &ignored);
        if (r >= 0)
                r = recreate_spec_parse(object, request->recreate->dialect, &spec, &ignored);
        if (r < 0)
                return ignored.kind == ERROR_NONE ? r : 0;

        *ret_keeps = recreate_gate_may_be_of(spec, request->spec->pod_name);
        recreate_spec_free(spec);
        return 0;
}

static int on_proved(const KubeReply *reply, const Error *error, void *userdata) {
        RecreateRequest *request = userdata;
        const RecreateSpec *spec = request->spec;
        bool keeps_gate = false;
        int r = 0;

        request->call = kube_call_unref(request->call);
        if (error && error->kind != ERROR_NOT_FOUND) {
                recreate_note_written(request->recreate, RECREATE_RIGHT_GET, spec->name,
                                      request->n_failures, reply, error);
                recreate_request_rest(request, reply);
                return recreate_look(request->recreate);
        }
        if (!error)
                r = read_successor(request, reply, &keeps_gate);
        if (r < 0)
                return r;

        recreate_note_read(request->recreate, RECREATE_RIGHT_GET);
        if (keeps_gate)
                return gate_done(request);

        request->is_unproven = false;
        request->n_failures = 0;
        log_info(request->recreate->log, NULL,
                 "The restart request `%s/%s` is gone, but keeps the pod `%s` unready: making the "
                 "pod ready again.",
                 spec->namespace, spec->name, spec->pod_name);
        return recreate_look(request->recreate);
}

/* Asks whether there is such a request. */
static int prove(RecreateRequest *request) {
        const KubePath path = {
                .group = RECREATE_GROUP,
                .version = request->recreate->version,
                .namespace = request->spec->namespace,
                .resource = RECREATE_RESOURCE,
                .name = request->spec->name,
        };
        KubeRequest call = {
                .verb = "get",
                .method = "GET",
                .on_replied = on_proved,
                .userdata = request,
        };
        cleanup(free_p) char *text = NULL;
        int r;

        if (!path.version)
                return 0;
        r = kube_path_format(&path, &text);
        if (r < 0)
                return r;

        call.path = text;
        request->write = REQUEST_WRITE_GATE;
        return kube_call(request->recreate->client, &call, &request->call);
}

int recreate_request_set_gate(RecreateRequest *request, bool is_closed) {
        request->must_gate_close = is_closed;
        if (request->is_unproven)
                return prove(request);

        return call_pod(request,
                        &(KubeRequest){
                                .verb = "get",
                                .method = "GET",
                                .on_replied = on_pod,
                        },
                        NULL);
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
