/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"

#define SEC ((uint64_t) 1000000)
#define POLL_USEC (10 * SEC) /* between two looks for which nobody has given a reason */
#define GIVE_UP_FAILURES 8   /* to write to what is gone from the watch */
#define FOREVER_USEC (24 * 3600 * SEC)

DEFINE_CLEANUP(RecreateRequest *, recreate_request_free)

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        RecreateRequest *request = userdata;

        request->is_stale = true;
        return recreate_look(request->recreate);
}

void recreate_request_wait(RecreateRequest *request, uint64_t usec) {
        uint64_t now_usec = recreate_now_usec(request->recreate);

        if (usec > FOREVER_USEC)
                usec = FOREVER_USEC;
        if (now_usec + usec < request->due_usec)
                request->due_usec = now_usec + usec;
}

static int arm_timer(RecreateRequest *request) {
        int r;

        if (request->due_usec == UINT64_MAX)
                return sd_event_source_set_enabled(request->timer, SD_EVENT_OFF);

        r = sd_event_source_set_time(request->timer, request->due_usec);
        return r < 0 ? r : sd_event_source_set_enabled(request->timer, SD_EVENT_ONESHOT);
}

const Pod *recreate_request_pod(const RecreateRequest *request) {
        const RecreateSpec *spec = request->spec;
        const Pod *pod =
                spec->pod_name ? pods_find(request->recreate->pods, spec->namespace, spec->pod_name)
                               : NULL;

        return pod && (!spec->pod_uid || strcmp(pod->uid, spec->pod_uid) == 0) ? pod : NULL;
}

RequestContainer *recreate_request_find(RecreateRequest *request, const char *name) {
        for (size_t i = 0; i < request->n_containers; i++)
                if (strcmp(request->containers[i].name, name) == 0)
                        return &request->containers[i];

        return NULL;
}

bool recreate_request_is_over(const RecreateRequest *request) {
        const RecreateSpec *spec = request->spec;

        return request->is_gone || request->is_missing || spec->is_deleted ||
               spec->status.is_completed;
}

bool recreate_request_is_useless(const RecreateRequest *request) {
        bool gives_up = request->is_missing || request->n_failures >= GIVE_UP_FAILURES;

        if ((!request->is_gone && !(request->is_missing && !request->owes_report)) ||
            request->stop || request->call)
                return false;
        if (recreate_request_owes_gate(request))
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

static int complete_with_summary(RecreateRequest *request) {
        cleanup(free_p) char *message = NULL;
        int r;

        r = recreate_status_summarize(&request->wanted, &message);
        return r < 0 ? r : recreate_request_complete(request, message);
}

static int complete_without_runtime(RecreateRequest *request, const char *reason) {
        cleanup(free_p) char *message = NULL;

        if (asprintf(&message, "failed to find runtime service: %s", reason) < 0) {
                message = NULL;
                return -ENOMEM;
        }

        return recreate_request_complete(request, message);
}

static int complete_with_bad_drain(RecreateRequest *request) {
        const char *bad = request->spec->bad_drain;
        cleanup(free_p) char *message = NULL;

        if (asprintf(&message,
                     "failed to parse unready time %s: expected a time such as "
                     "2026-01-31T12:00:00Z",
                     bad) < 0) {
                message = NULL;
                return -ENOMEM;
        }

        return recreate_request_complete(request, message);
}

/* Whether the pod has been unready for long enough, or need not be. */
static bool is_drained(RecreateRequest *request) {
        uint64_t period = (uint64_t) request->spec->unready_sec * SEC, elapsed;

        if (request->spec->unready_sec < 0)
                return true;
        if (!request->spec->is_drained)
                return false;

        elapsed = request->drain_done_usec + recreate_now_usec(request->recreate) -
                  request->drained_usec;
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
        case RECREATE_STEP_STOP: return recreate_request_stop(request, step.index, scheme);
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

        r = recreate_request_make_facts(request, &facts);
        if (r < 0)
                return r;
        r = recreate_plan_runtime(request->spec, facts, scheme, &problem);
        if (r < 0)
                return r;
        if (problem)
                return complete_without_runtime(request, problem);

        runtime = recreate_find_runtime(request->recreate, scheme, &may_come);
        if (!runtime && !may_come) {
                if (asprintf(&problem, "not found runtime service for %s in daemon", scheme) < 0) {
                        problem = NULL;
                        return -ENOMEM;
                }
                return complete_without_runtime(request, problem);
        }
        if (!runtime) {
                request->is_stale = true;
                return 0; /* it will be told when it is there */
        }
        if (request->is_stale || request->list)
                return recreate_request_ask(request, runtime_client(runtime));

        return do_step(request, facts, scheme);
}

/* It is said that it has begun before it begins. */
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
        int r;

        r = recreate_request_manage(request, has_turn);
        if (r < 0)
                return r;

        if (recreate_request_is_over(request) || request->wanted.is_completed) {
                recreate_request_drop_stop(request);
                return 0;
        }
        if (request->spec->problem)
                return 0; /* its controller has to end it */
        if (has_turn)
                return take_turn(request);

        if (request->wanted.phase == RECREATE_NONE)
                request->wanted.phase = RECREATE_PENDING;
        return 0;
}

int recreate_request_look(RecreateRequest *request, bool has_turn) {
        int r;

        request->due_usec = UINT64_MAX;
        r = recreate_request_look_at_doubted(request);
        if (r >= 0)
                r = decide(request, has_turn);
        if (r >= 0)
                r = recreate_request_check(request);
        if (r >= 0)
                r = recreate_request_write_status(request);
        if (r >= 0)
                r = recreate_request_do_chore(request, has_turn);

        return r < 0 ? r : arm_timer(request);
}

int recreate_request_new(Recreate *recreate, RecreateSpec *spec, struct json_object *object,
                         RecreateRequest **ret) {
        cleanup(recreate_request_free_p) RecreateRequest *request = NULL;
        int r;

        request = malloc(sizeof(*request));
        if (!request) {
                recreate_spec_free(spec);
                json_object_put(object);
                return -ENOMEM;
        }

        *request = (RecreateRequest){
                .recreate = recreate,
                .spec = spec,
                .object = object,
                .first_usec = recreate_now_usec(recreate),
                .is_ended = spec->status.is_completed,
        };
        r = loop_add_time(recreate->event, &request->timer, CLOCK_MONOTONIC, 0, 1000, on_timer,
                          request);
        if (r >= 0)
                r = sd_event_source_set_enabled(request->timer, SD_EVENT_OFF);
        if (r >= 0)
                r = recreate_request_believe(request, spec, object);
        if (r < 0)
                return r;

        *ret = take_ptr(request);
        return 0;
}

RecreateRequest *recreate_request_free(RecreateRequest *request) {
        if (!request)
                return NULL;

        if (request->stop)
                stop_leave(request->stop);
        rpc_call_unref(request->check);
        rpc_call_unref(request->list);
        kube_call_unref(request->call);
        sd_event_source_disable_unref(request->timer);
        recreate_spec_free(request->doubted);
        json_object_put(request->doubted_object);
        recreate_status_done(&request->sent);
        recreate_status_done(&request->wanted);
        recreate_request_drop_containers(request);
        free(request->stop_id);
        free(request->stop_name);
        recreate_spec_free(request->spec);
        json_object_put(request->object);
        free(request);
        return NULL;
}
