/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/recreate/recreate-request.h"
#include "cri/client.h"

#define REST_USEC ((uint64_t) 1000000) /* before a stop that came to nothing is tried again */

static bool has_begun(const RecreateRequest *request) {
        return request->stop && stop_has_begun(request->stop);
}

bool recreate_request_is_stopping(const RecreateRequest *request) {
        return has_begun(request);
}

static void forget_stop(RecreateRequest *request) {
        request->check = rpc_call_unref(request->check);
        request->check_usec = 0;
        request->n_check_failures = 0;
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
        case STOP_GONE:
                container->rest_usec = recreate_now_usec(request->recreate) + REST_USEC;
                return note_ended(container, request->stop_id, false);
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

static int answer(RecreateRequest *request, const char *why_not) {
        request->check_usec = 0;
        request->n_check_failures = 0;
        return stop_answer(request->stop, !why_not, why_not);
}

static bool is_over(const RecreateRequest *request) {
        return recreate_request_is_over(request) || request->wanted.is_completed;
}

/* Whoever is told that it is not asked for forgets how far it came in an earlier life of the agent,
 * and its hook would run again: a runtime that does not tell now is asked again. */
static int check_later(RecreateRequest *request, const char *reason) {
        const RecreateSpec *spec = request->spec;
        uint32_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        request->check_usec = recreate_now_usec(request->recreate) +
                              backoff_usec(++request->n_check_failures, random);
        log_debug(request->recreate->log, NULL,
                  "Whether the restart request `%s/%s` still asks for container `%s` to be stopped "
                  "is not known, looking again: %s.",
                  spec->namespace, spec->name, request->stop_name, reason);
        return recreate_look(request->recreate);
}

static int compare(RecreateRequest *request, const CriContainerList *list) {
        cleanup(runtime_pods_done) RuntimePods pods = RUNTIME_PODS_INIT;
        const RuntimeContainer *newest;
        const RuntimePod *pod;
        bool is_newest;
        int r;

        r = runtime_pods_read(list, &pods);
        if (r < 0)
                return r;

        pod = recreate_request_find_running(request, &pods);
        newest = pod ? runtime_pod_find(pod, request->stop_name) : NULL;
        is_newest = newest && strcmp(newest->id, request->stop_id) == 0;
        return answer(request, is_newest ? NULL : "it is not the newest any more");
}

static int on_checked(const void *reply, const Error *error, void *userdata) {
        RecreateRequest *request = userdata;

        request->check = rpc_call_unref(request->check);
        if (is_over(request))
                return answer(request, "the request is over");

        return error ? check_later(request, error_message(error)) : compare(request, reply);
}

static int ask(RecreateRequest *request) {
        const char *uid = recreate_request_runtime_uid(request);
        Runtime *runtime;
        bool may_come;

        if (is_over(request))
                return answer(request, "the request is over");

        runtime = recreate_find_runtime(request->recreate, request->stop_scheme, &may_come);
        if (!runtime || !uid)
                return check_later(request, "the runtime cannot be asked");

        request->check_usec = 0;
        request->check = rpc_call_unref(request->check);
        return cri_list_pod_containers(runtime_client(runtime), uid, on_checked, request,
                                       &request->check);
}

static int on_check(Stop *stop, void *userdata) {
        return ask(userdata);
}

int recreate_request_check(RecreateRequest *request) {
        uint64_t now_usec = recreate_now_usec(request->recreate);

        if (!request->stop || request->check_usec == 0)
                return 0;
        if (request->check_usec <= now_usec)
                return ask(request);

        recreate_request_wait(request, request->check_usec - now_usec);
        return 0;
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
                .is_init = in_pod && in_pod->kind != POD_CONTAINER_MAIN,
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
