/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/pod/runtime-pod.h"
#include "agent/recreate/recreate-request.h"
#include "cri/client.h"

#define REST_USEC ((uint64_t) 1000000) /* before a stop that came to nothing is tried again */

static bool has_begun(const RecreateRequest *request) {
        return request->stop && stop_step(request->stop) >= STOP_STEP_HOOK;
}

bool recreate_request_is_stopping(const RecreateRequest *request) {
        return has_begun(request);
}

static void forget_stop(RecreateRequest *request) {
        request->check = rpc_call_unref(request->check);
        request->stop = NULL;
        request->stop_name = (free(request->stop_name), NULL);
        request->stop_id = (free(request->stop_id), NULL);
}

void recreate_request_drop_stop(RecreateRequest *request) {
        if (!request->stop || has_begun(request))
                return;

        stop_leave(request->stop);
        forget_stop(request);
}

static int note_ended(RequestContainer *container, const char *id, bool was_killed) {
        free(container->ended_id);
        container->ended_id = strdup(id);
        container->was_killed = container->was_killed || was_killed;
        return container->ended_id ? 0 : -ENOMEM;
}

static int note_failed(RecreateRequest *request, RecreateState *state, const char *reason) {
        cleanup(free_p) char *message = NULL;

        request->owes_report = true;
        if (asprintf(&message, "kill container error: %s", reason ?: "unknown") < 0) {
                message = NULL;
                return -ENOMEM;
        }

        return recreate_state_set(state, RECREATE_FAILED, message);
}

static int note_report(RecreateRequest *request, const StopReport *report) {
        RequestContainer *container = recreate_request_find(request, request->stop_name);
        RecreateState *state;

        if (!container)
                return 0; /* somebody has taken it out of the request meanwhile */

        state = &request->wanted.states[container - request->containers];
        switch (report->result) {
        case STOP_STOPPED:
                request->owes_report = true;
                state->is_killed = true;
                if (recreate_state_set(state, RECREATE_RECREATING, NULL) < 0)
                        return -ENOMEM;
                return note_ended(container, request->stop_id, true);
        case STOP_GONE: return note_ended(container, request->stop_id, false);
        case STOP_NOT_ASKED:
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

        request->is_stale = true;
        return recreate_look(request->recreate);
}

static const char *why_not(const RecreateRequest *request, const CriContainerList *list) {
        cleanup(runtime_pods_done) RuntimePods pods = RUNTIME_PODS_INIT;
        const RuntimeContainer *newest = NULL;

        if (recreate_request_is_over(request) || request->wanted.is_completed)
                return "the request is over";
        if (runtime_pods_read(list, &pods) < 0)
                return "there is no memory";

        for (size_t i = 0; i < pods.n_items && !newest; i++)
                newest = runtime_pod_find(&pods.items[i], request->stop_name);

        return newest && strcmp(newest->id, request->stop_id) == 0
                       ? NULL
                       : "it is not the newest any more";
}

static int on_checked(const void *reply, const Error *error, void *userdata) {
        RecreateRequest *request = userdata;
        const char *reason;

        request->check = rpc_call_unref(request->check);
        reason = error ? error_message(error) : why_not(request, reply);
        return stop_answer(request->stop, !reason, reason);
}

static int on_check(Stop *stop, void *userdata) {
        RecreateRequest *request = userdata;
        const Pod *pod = recreate_request_pod(request);
        const char *uid = pod ? pod->runtime_uid : request->spec->pod_uid;
        Runtime *runtime;
        bool may_come;

        runtime = recreate_find_runtime(request->recreate, request->stop_scheme, &may_come);
        if (!runtime || !uid)
                return stop_answer(stop, false, "the runtime cannot be asked");

        request->check = rpc_call_unref(request->check);
        return cri_list_pod_containers(runtime_client(runtime), uid, on_checked, request,
                                       &request->check);
}

static int add_stop(RecreateRequest *request, const char *name) {
        const Pod *pod = recreate_request_pod(request);
        const PodContainer *in_pod = pod ? pod_find(pod, name) : NULL;
        cleanup(free_p) char *owner = NULL;
        cleanup(free_p) char *cause = NULL;
        StopOptions options = {
                .runtime = request->stop_scheme[0] ? request->stop_scheme : NULL,
                .container_id = request->stop_id,
                .pod_address = pod && pod->ip[0] ? pod->ip : NULL,
                .grace_sec = request->spec->grace_sec >= 0 ? request->spec->grace_sec
                                                           : STOP_GRACE_OF_POD,
                .needs_kubelet = in_pod && in_pod->comes_back,
                .on_check = on_check,
                .on_done = on_stop_done,
                .userdata = request,
        };

        if (asprintf(&owner, "recreate/%s", request->spec->uid) < 0) {
                owner = NULL;
                return -ENOMEM;
        }
        if (asprintf(&cause, "Stopping container %s by ContainerRecreateRequest %s", name,
                     request->spec->name) < 0) {
                cause = NULL;
                return -ENOMEM;
        }

        options.owner = owner;
        options.cause = cause;
        return stops_add(request->recreate->stops, &options, &request->stop);
}

int recreate_request_stop(RecreateRequest *request, size_t index, const char *scheme) {
        const RequestContainer *container = &request->containers[index];

        if (request->stop)
                return 0;

        request->stop_name = strdup(container->name);
        request->stop_id = strdup(container->id);
        if (!request->stop_name || !request->stop_id)
                return -ENOMEM;

        (void) snprintf(request->stop_scheme, sizeof(request->stop_scheme), "%s", scheme);
        return add_stop(request, container->name);
}
