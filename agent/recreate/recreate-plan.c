/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-plan.h"

#include <string.h>

#include "agent/base/quote.h"
#include "agent/base/text.h"

#define SEC ((uint64_t) 1000000)
#define NOT_FOUND "not found container on Node"
#define RUNS_ONCE "not stopped: an init or ephemeral container is not started again"
#define STAYS_ENDED \
        "not stopped: it has ended before, and its restart policy does not start it again"
#define RULES_DECIDE                                                                      \
        "not stopped: by its exit status, its restart rules may end it or restart other " \
        "containers; forceRecreate stops it all the same"

/* The order of requests */

static int compare_pods(const RecreateSpec *a, const RecreateSpec *b) {
        int order = strcmp(a->pod_uid ?: "", b->pod_uid ?: "");

        if (order != 0)
                return order;

        order = strcmp(a->namespace, b->namespace);
        return order != 0 ? order : strcmp(a->pod_name ?: "", b->pod_name ?: "");
}

bool recreate_queue_is_same_pod(const RecreateSpec *a, const RecreateSpec *b) {
        return compare_pods(a, b) == 0;
}

static int weight(const RecreateSpec *spec) {
        switch (spec->status.phase) {
        case RECREATE_RECREATING: return 0;
        case RECREATE_PENDING: return 1;
        case RECREATE_NONE:
        case RECREATE_SUCCEEDED:
        case RECREATE_FAILED:
        case RECREATE_COMPLETED:
        case _RECREATE_PHASE_MAX: break;
        }

        return 2;
}

int recreate_queue_compare(const RecreateSpec *a, const RecreateSpec *b) {
        int order = compare_pods(a, b);

        if (order != 0)
                return order;
        if (weight(a) != weight(b))
                return weight(a) - weight(b);
        if (a->created_at != b->created_at)
                return a->created_at < b->created_at ? -1 : 1;

        return strcmp(a->name, b->name);
}

/* A step of a request that has its turn */

/* The running container is not the one that the request names. If the request has no context of it,
 * decides by whether the request has killed one, or by its creation, in the API's whole seconds. */
static bool is_another(const RecreateSpec *spec, const RecreateContainer *container,
                       const RecreateFact *fact, bool is_killed) {
        const char *id = container->context_id;

        if (!id)
                return is_killed || fact->created_at_sec > spec->created_at;

        id = strstr(id, "://");
        return !id || strcmp(id + strlen("://"), fact->id) != 0 ||
               fact->restart_count > container->restart_count;
}

static bool has_started(const RecreateSpec *spec, const RecreateFact *fact) {
        return spec->min_started_sec == 0 ||
               fact->age_usec > (uint64_t) spec->min_started_sec * SEC;
}

static void wait_at_most(RecreateStep *step, uint64_t usec) {
        if (usec < step->wait_usec)
                step->wait_usec = usec;
}

/* A container that is not in the pod will never come, since the list is fixed. */
static int state_of_missing(const RecreateContainer *container, const RecreateFact *fact,
                            RecreateState *state) {
        bool will_come = container->context_id || !fact->is_pod_known || fact->is_in_pod;

        return recreate_state_set(state, will_come ? RECREATE_PENDING : RECREATE_FAILED, NOT_FOUND);
}

static int state_of_other(const RecreateSpec *spec, const RecreateFact *fact, RecreateState *state,
                          RecreateStep *step) {
        bool is_back = fact->is_running && fact->is_ready;

        if (is_back && has_started(spec, fact))
                return recreate_state_set(state, RECREATE_SUCCEEDED, NULL);

        if (is_back)
                wait_at_most(step, (uint64_t) spec->min_started_sec * SEC - fact->age_usec + 1);
        return recreate_state_set(state, RECREATE_RECREATING, NULL);
}

/* Controllers that end sidecars of finished jobs stop containers that nothing starts again: those
 * keep the state that OpenKruise gives them. */
static int state_of_exited(const RecreateFact *fact, RecreateState *state) {
        bool is_over = fact->stays_ended && !state->is_killed;

        return recreate_state_set(state, is_over ? RECREATE_FAILED : RECREATE_RECREATING,
                                  is_over ? STAYS_ENDED : NULL);
}

/* Sets the state by the first rule that applies. */
static int update_state(const RecreateSpec *spec, const RecreateContainer *container,
                        const RecreateFact *fact, RecreateState *state, RecreateStep *step) {
        if (recreate_phase_is_final(state->phase))
                return 0;

        state->is_killed = state->is_killed || fact->was_killed;
        if (fact->is_stopping)
                return state->phase == RECREATE_NONE
                               ? recreate_state_set(state, RECREATE_PENDING, NULL)
                               : 0;
        if (fact->runs_once)
                return recreate_state_set(state, RECREATE_FAILED, RUNS_ONCE);
        if (!fact->is_here)
                return state_of_missing(container, fact, state);
        if (fact->is_exited)
                return state_of_exited(fact, state);
        if (spec->is_forced && !state->is_killed)
                return recreate_state_set(state, RECREATE_PENDING, NULL);
        if (is_another(spec, container, fact, state->is_killed))
                return state_of_other(spec, fact, state, step);
        if (fact->rules_decide && !spec->is_forced)
                return recreate_state_set(state, RECREATE_FAILED, RULES_DECIDE);

        return recreate_state_set(state, RECREATE_PENDING, NULL);
}

/* Plans for one pending container. Returns whether the walk over the containers ends here. */
static bool plan_pending(const RecreateSpec *spec, const RecreateFact *facts, size_t i,
                         RecreateStep *step) {
        if (facts[i].is_stopping)
                return true;
        if (!facts[i].is_here)
                return spec->is_ordered;
        /* Only the pod says whether the container runs once, and whether restart rules decide. */
        if (!facts[i].is_pod_known)
                return true;
        if (facts[i].rest_usec > 0) {
                wait_at_most(step, facts[i].rest_usec);
                return true;
        }

        step->kind = RECREATE_STEP_STOP;
        step->index = i;
        return true;
}

static bool has_failed(const RecreateSpec *spec, const RecreateStatus *status) {
        for (size_t i = 0; i < spec->n_containers; i++)
                if (status->states[i].phase == RECREATE_FAILED)
                        return true;

        return false;
}

static void plan_walk(const RecreateSpec *spec, const RecreateFact *facts,
                      const RecreateStatus *status, RecreateStep *step) {
        size_t n_final = 0;

        for (size_t i = 0; i < spec->n_containers; i++) {
                RecreatePhase phase = status->states[i].phase;

                n_final += recreate_phase_is_final(phase);
                if (phase == RECREATE_FAILED && !spec->ignores_failure) {
                        step->kind = RECREATE_STEP_COMPLETE;
                        return;
                }
                if (phase == RECREATE_RECREATING && spec->is_ordered)
                        return;
                if (phase == RECREATE_PENDING && plan_pending(spec, facts, i, step))
                        return;
        }

        if (n_final == spec->n_containers)
                step->kind = RECREATE_STEP_COMPLETE;
}

int recreate_plan_step(const RecreateSpec *spec, const RecreateFact *facts, RecreateStatus *status,
                       RecreateStep *ret) {
        RecreateStep step = { .kind = RECREATE_STEP_WAIT, .wait_usec = UINT64_MAX };
        int r;

        for (size_t i = 0; i < spec->n_containers; i++) {
                r = update_state(spec, &spec->containers[i], &facts[i], &status->states[i], &step);
                if (r < 0)
                        return r;
        }

        plan_walk(spec, facts, status, &step);
        /* After a failure stops nothing more, wherever in the list it was. */
        if (step.kind == RECREATE_STEP_STOP && !spec->ignores_failure && has_failed(spec, status))
                step.kind = RECREATE_STEP_COMPLETE;
        *ret = step;
        return 0;
}

/* A prepared request has the IDs of the pod's status. If the agent prepared it, a container without
 * one did not exist; otherwise a name that is not in the pod has a message of its own. */
static bool may_lack_context(const RecreateSpec *spec, const RecreateFact *fact) {
        return spec->is_managed || (fact->is_pod_known && !fact->is_in_pod);
}

int recreate_plan_runtime(const RecreateSpec *spec, const RecreateFact *facts,
                          char scheme[static RECREATE_SCHEME_SIZE], char **ret_problem) {
        scheme[0] = '\0';
        if (spec->n_containers == 0)
                return text_copy("no runtime type found in Pod", ret_problem);

        for (size_t i = 0; i < spec->n_containers; i++) {
                const char *name = spec->containers[i].name, *id = spec->containers[i].context_id;
                const char *end = id ? strstr(id, "://") : NULL;
                char quoted[QUOTE_SIZE];

                if (!id && may_lack_context(spec, &facts[i]))
                        continue;
                if (!id)
                        return text_format(ret_problem,
                                           "no statusContext or empty containerID in %s "
                                           "container",
                                           name);
                if (!end || end == id || end - id >= RECREATE_SCHEME_SIZE)
                        return text_format(ret_problem,
                                           "failed to parse containerID %s in %s container: "
                                           "invalid container ID: %s",
                                           id, name, quote(id, quoted));
                if (scheme[0] && (strlen(scheme) != (size_t) (end - id) ||
                                  strncmp(scheme, id, strlen(scheme)) != 0))
                        return text_format(ret_problem,
                                           "has different runtime types %s, %.*s in Pod", scheme,
                                           (int) (end - id), id);

                memcpy(scheme, id, (size_t) (end - id));
                scheme[end - id] = '\0';
        }

        return 0;
}

uint64_t recreate_plan_drained_usec(const RecreateSpec *spec, int64_t now_usec,
                                    uint64_t since_undrained_usec) {
        uint64_t period = (uint64_t) spec->unready_sec * SEC;
        uint64_t elapsed = 0;

        if (spec->drained_at > 0 && spec->drained_at < now_usec / (int64_t) SEC + 1)
                elapsed = (uint64_t) (now_usec - spec->drained_at * (int64_t) SEC);
        if (elapsed > since_undrained_usec)
                elapsed = since_undrained_usec;

        return elapsed < period ? elapsed : period;
}

/* Next action of a controller */

static RecreateActionPlan plan_complete(const char *message) {
        return (RecreateActionPlan){ .action = RECREATE_ACTION_COMPLETE,
                                     .message = message,
                                     .wait_sec = UINT64_MAX };
}

static RecreateActionPlan plan_action(RecreateAction action, uint64_t wait_sec) {
        return (RecreateActionPlan){ .action = action, .wait_sec = wait_sec };
}

/* Returns the seconds that are left. */
static uint64_t rest_sec(int64_t since, int64_t seconds, int64_t now) {
        if (now >= since + seconds)
                return 0;

        return (uint64_t) (since + seconds - now);
}

/* Whether it has a gate is unknown as well; the agent decides again when the pods are known. */
static bool is_pod_unknown(const RecreateView *view) {
        return !view->are_pods_known && !view->has_pod;
}

static RecreateActionPlan plan_after(const RecreateSpec *spec, const RecreateView *view) {
        uint64_t rest;

        if (spec->unready_sec >= 0 && is_pod_unknown(view) && !view->is_gate_opened)
                return plan_action(RECREATE_ACTION_NONE, UINT64_MAX);
        if (spec->unready_sec >= 0 && view->has_pod && view->has_pod_gate && !view->is_gate_opened)
                return plan_action(RECREATE_ACTION_OPEN_GATE, UINT64_MAX);
        if (view->is_stopping)
                return plan_action(RECREATE_ACTION_NONE, UINT64_MAX);
        if (spec->ttl_sec < 0)
                return plan_action(RECREATE_ACTION_UNLABEL, UINT64_MAX);

        rest = rest_sec(spec->status.completed_at, spec->ttl_sec, view->now_sec);
        return rest > 0 ? plan_action(RECREATE_ACTION_NONE, rest)
                        : plan_action(RECREATE_ACTION_DELETE, UINT64_MAX);
}

/* The deadline is over by the server's clock, or if the request has been known for so long,
 * whatever that clock says. */
static uint64_t deadline_rest(const RecreateSpec *spec, const RecreateView *view) {
        uint64_t rest;

        if (spec->deadline_sec < 0)
                return UINT64_MAX;

        rest = rest_sec(spec->created_at, spec->deadline_sec, view->now_sec);
        if (view->known_sec >= (uint64_t) spec->deadline_sec)
                return 0;
        if ((uint64_t) spec->deadline_sec - view->known_sec < rest)
                rest = (uint64_t) spec->deadline_sec - view->known_sec;

        return rest;
}

RecreateActionPlan recreate_controller_plan(const RecreateSpec *spec, const RecreateView *view) {
        uint64_t rest = deadline_rest(spec, view);
        bool has_begun = spec->status.phase == RECREATE_RECREATING;

        if (spec->is_deleted)
                return plan_action(RECREATE_ACTION_NONE, UINT64_MAX);
        if (spec->status.is_completed)
                return plan_after(spec, view);
        if (spec->problem)
                return plan_complete(spec->problem);
        if (rest == 0)
                return plan_complete("recreating has exceeded the activeDeadlineSeconds");
        if (view->are_pods_known && (!view->has_pod || view->is_pod_deleted))
                return plan_complete("pod has gone");
        if (view->has_pod && view->is_pod_finished && !(has_begun && view->is_stopping))
                return plan_complete("pod has finished");
        if (!view->has_turn || !has_begun || spec->unready_sec < 0 || spec->is_drained ||
            is_pod_unknown(view))
                return plan_action(RECREATE_ACTION_NONE, rest);
        if (view->has_pod && view->has_pod_gate && !view->is_gate_closed)
                return plan_action(RECREATE_ACTION_CLOSE_GATE, rest);

        return plan_action(RECREATE_ACTION_DRAIN, rest);
}
