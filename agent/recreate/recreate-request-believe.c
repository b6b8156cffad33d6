/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/recreate/recreate-request.h"

#define SEC ((uint64_t) 1000000)
#define DOUBT_USEC \
        (10 * SEC) /* for so long an object that is older than our own write is not believed */

static void container_done(RequestContainer *container) {
        free(container->name);
        free(container->id);
        free(container->ended_id);
}

void recreate_request_drop_containers(RecreateRequest *request) {
        for (size_t i = 0; i < request->n_containers; i++)
                container_done(&request->containers[i]);
        free(request->containers);
        request->containers = NULL;
        request->n_containers = 0;
}

static bool has_same_containers(const RecreateRequest *request, const RecreateSpec *spec) {
        if (request->n_containers != spec->n_containers || !request->containers)
                return false;

        for (size_t i = 0; i < spec->n_containers; i++)
                if (strcmp(request->containers[i].name, spec->containers[i].name) != 0)
                        return false;

        return true;
}

/* At the first sight, or when somebody has changed what cannot be changed: what is done for those
 * of before is not known any more, but what was written about them is. */
static int set_containers(RecreateRequest *request, const RecreateSpec *spec) {
        recreate_request_drop_containers(request);
        recreate_request_drop_stop(request);
        recreate_status_done(&request->wanted);

        request->containers = calloc(spec->n_containers + 1, sizeof(request->containers[0]));
        if (!request->containers)
                return -ENOMEM;
        for (size_t i = 0; i < spec->n_containers; i++) {
                request->containers[i].name = strdup(spec->containers[i].name);
                if (!request->containers[i].name)
                        return -ENOMEM;
                request->n_containers++;
        }

        return recreate_status_copy(&spec->status, &request->wanted);
}

static int copy_message(RecreateStatus *to, const char *message) {
        free(to->message);
        to->message = message ? strdup(message) : NULL;
        return message && !to->message ? -ENOMEM : 0;
}

static int follow(RecreateRequest *request) {
        const RecreateStatus *known = &request->spec->status;
        RecreateStatus *wanted = &request->wanted;

        wanted->phase = known->phase;
        wanted->is_completed = known->is_completed;
        wanted->completed_at = known->completed_at;
        return copy_message(wanted, known->message);
}

/* Somebody else may have decided more than we; what is final stays. */
static int merge_status(RecreateRequest *request) {
        const RecreateStatus *known = &request->spec->status;
        int r;

        for (size_t i = 0; i < known->n_states; i++) {
                const RecreateState *theirs = &known->states[i];
                RecreateState *ours = &request->wanted.states[i];

                ours->is_killed = ours->is_killed || theirs->is_killed;
                if (!recreate_phase_is_final(theirs->phase) || recreate_phase_is_final(ours->phase))
                        continue;
                r = recreate_state_set(ours, theirs->phase, theirs->message);
                if (r < 0)
                        return r;
        }

        return known->is_completed ? follow(request) : recreate_request_reconsider(request);
}

int recreate_request_reconsider(RecreateRequest *request) {
        return request->call ? 0 : follow(request);
}

static void note_drain(RecreateRequest *request) {
        uint64_t now_usec = recreate_now_usec(request->recreate);
        const RecreateSpec *spec = request->spec;

        if (!spec->is_drained) {
                request->undrained_usec = now_usec;
                request->drained_usec = 0;
                return;
        }
        if (request->drained_usec > 0)
                return;

        /* In an earlier life we may have closed the gate: whoever drains closes it before. */
        if (spec->is_managed && spec->unready_sec >= 0)
                request->is_gate_closed = true;
        request->drained_usec = now_usec;
        request->drain_done_usec =
                spec->unready_sec < 0
                        ? 0
                        : recreate_plan_drained_usec(spec, recreate_server_usec(request->recreate),
                                                     request->undrained_usec > 0
                                                             ? now_usec - request->undrained_usec
                                                             : UINT64_MAX);
}

static void tell_problem(RecreateRequest *request) {
        const RecreateSpec *spec = request->spec;

        if (request->is_problem_told || !spec->problem)
                return;

        request->is_problem_told = true;
        log_warning(request->recreate->log, NULL, "The restart request `%s/%s` makes no sense: %s.",
                    spec->namespace, spec->name, spec->problem);
}

/* The watch may be quicker than the answer to the write. */
static bool is_our_end(const RecreateRequest *request) {
        const RecreateStatus *status = &request->spec->status, *sent = &request->sent;

        return request->call && request->write == REQUEST_WRITE_STATUS && sent->is_completed &&
               status->completed_at == sent->completed_at && status->message && sent->message &&
               strcmp(status->message, sent->message) == 0;
}

int recreate_request_believe(RecreateRequest *request, RecreateSpec *spec,
                             struct json_object *object) {
        int r;

        request->is_gone = false;
        request->is_stale = true;
        if (request->spec != spec) {
                recreate_spec_free(request->spec);
                json_object_put(request->object);
                request->spec = spec;
                request->object = object;
        }
        request->doubted = recreate_spec_free(request->doubted);
        json_object_put(request->doubted_object);
        request->doubted_object = NULL;

        r = has_same_containers(request, spec) ? merge_status(request)
                                               : set_containers(request, spec);
        if (r < 0)
                return r;

        note_drain(request);
        tell_problem(request);
        if (spec->status.is_completed)
                recreate_request_note_end(request, is_our_end(request));
        return 0;
}

static int doubt(RecreateRequest *request, RecreateSpec *spec, struct json_object *object) {
        if (!request->doubted)
                request->doubted_usec = recreate_now_usec(request->recreate);
        recreate_spec_free(request->doubted);
        json_object_put(request->doubted_object);
        request->doubted = spec;
        request->doubted_object = object;
        return 0;
}

int recreate_request_show(RecreateRequest *request, RecreateSpec *spec,
                          struct json_object *object) {
        request->is_unseen = false;
        return recreate_spec_is_older(spec->version, request->spec->version)
                       ? doubt(request, spec, object)
                       : recreate_request_believe(request, spec, object);
}

void recreate_request_show_gone(RecreateRequest *request) {
        request->is_gone = true;
        request->doubted = recreate_spec_free(request->doubted);
        json_object_put(request->doubted_object);
        request->doubted_object = NULL;
}

int recreate_request_look_at_doubted(RecreateRequest *request) {
        uint64_t now_usec = recreate_now_usec(request->recreate);
        int r;

        if (!request->doubted)
                return 0;
        if (now_usec < request->doubted_usec + DOUBT_USEC) {
                recreate_request_wait(request, request->doubted_usec + DOUBT_USEC - now_usec);
                return 0;
        }

        r = recreate_request_believe(request, take_ptr(request->doubted),
                                     take_ptr(request->doubted_object));
        return r < 0 ? r : recreate_look(request->recreate); /* whose turn it is may differ */
}
