/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/controller-plan.h"
#include "agent/kubectl/history-plan.h"
#include "agent/kubectl/restart-image-plan.h"
#include "agent/pod/gate-spec.h"

#define AWAITED_CONTROLLER \
        "for its controller to see its last change: does kube-controller-manager run?"
/* After that the status of a budget counts a pod that has become ready. */
#define BUDGET_COUNTED_SEC 10
#define PROGRESS_SEC 600 /* as a Deployment's progressDeadlineSeconds */

int rollout_step_set(RolloutStep *step, RolloutAction action, const char *format, ...) {
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = text_vformat(&step->message, format, arguments);
        va_end(arguments);
        if (r < 0)
                return r;
        step->action = action;
        return 0;
}

int rollout_step_set_pod(RolloutStep *step, RolloutAction action, const PodState *state) {
        step->name = object_name(state->pod);
        return rollout_step_set(step, action, "%spod \"%s\"%s%s",
                                action == ROLLOUT_WAIT ? "for " : "", step->name,
                                state->reason ? ": " : "", state->reason ?: "");
}

static int step_patch(RolloutStep *step, RolloutAction action, const char *name,
                      json_object *patch) {
        step->action = action;
        step->name = name;
        step->patch = patch;
        return patch ? 0 : -ENOMEM;
}

void rollout_step_done(RolloutStep *step) {
        json_object_put(step->patch);
        free(step->message);
        *step = ROLLOUT_STEP_INIT;
}

int rollout_check_answer(json_object *patch, json_object *answer, Error *reterr) {
        json_object *asked = object_template(patch), *made = object_template(answer), *container;

        for (size_t i = 0; (container = template_container(asked, i)); i++) {
                const char *name = json_get_text(container, "name");
                const char *image = json_get_text(container, "image");
                const char *got = template_image(made, name);

                if (got && !text_equal(image, got))
                        return error_set(
                                reterr, ERROR_UNSUPPORTED,
                                "admission makes \"%s\" of the image \"%s\" of container "
                                "\"%s\" in %s \"%s\": set that image instead, or exempt it",
                                got, image, name, json_get_text(answer, "kind") ?: "object",
                                object_name(answer));
        }
        return 0;
}

int rollout_step_key(const RolloutStep *step, json_object *record, char **ret) {
        const char *uid = object_text(step->patch, "metadata.uid");
        const char *created = object_text(step->patch, "metadata.name");
        json_object *spec = object_at(step->patch, "spec");
        const char *change = spec ? json_to_text(spec) : "";
        const char *target = json_to_text(record_target(record));

        if (!change || !target)
                return -ENOMEM;

        return text_format(ret, "%d %s %s %s", (int) step->action, uid ?: created ?: "", change,
                           target);
}

static int step_abandon(RolloutStep *step, const RolloutView *view, json_object *record,
                        bool gives_back) {
        step->action = ROLLOUT_ABANDON;
        return takeover_patch_state(view->workload, record, "abandoned", gives_back, &step->patch);
}

/* The message says why, and what follows. */
__attribute__((format(printf, 5, 6))) static int
step_abandon_because(RolloutStep *step, const RolloutView *view, json_object *record,
                     bool gives_back, const char *format, ...) {
        va_list arguments;
        int r = step_abandon(step, view, record, gives_back);

        if (r < 0)
                return r;
        va_start(arguments, format);
        r = text_vformat(&step->message, format, arguments);
        va_end(arguments);
        return r;
}

/* Metadata with the uid: the patch is refused for another object of that name. */
static json_object *identify(json_object *object) {
        const char *uid = object_text(object, "metadata.uid");

        return patch_wrap("metadata", patch_wrap("uid", json_object_new_string(uid ? uid : "")));
}

/* The same for a pod, as it was seen: a container that was started since would count as one of the new image, and a pod
 * that was not ready may be ready by now. */
static json_object *identify_pod(json_object *pod) {
        cleanup(json_object_put_p) json_object *patch = identify(pod);
        const char *version = object_text(pod, "metadata.resourceVersion");

        if (version && patch_add_text(json_get(patch, "metadata", json_type_object),
                                      "resourceVersion", version) < 0)
                return NULL;
        return take_ptr(patch);
}

/* The controller copies the record from the Deployment, where it is replaced in the end. */
static int add_no_record(json_object *patch) {
        cleanup(json_object_put_p) json_object *annotations = json_object_new_object();

        if (patch_add_null(annotations, ROLLOUT_ANNOTATION) < 0)
                return -ENOMEM;
        return patch_add(json_get(patch, "metadata", json_type_object), "annotations",
                         take_ptr(annotations));
}

static int step_replica_set(RolloutStep *step, json_object *replica_set, json_object *images) {
        cleanup(json_object_put_p) json_object *patch = identify(replica_set);

        if (!patch || add_no_record(patch) < 0 ||
            takeover_add_images(patch, replica_set, images) < 0)
                return -ENOMEM;

        return step_patch(step, ROLLOUT_PATCH_REPLICA_SET, object_name(replica_set),
                          take_ptr(patch));
}

/* Gives the other images of the update to a twin, so that the two differ. Where pods only lag behind the template, the images
 * before and after are the same, and the twin stays. */
static int step_twin(RolloutStep *step, const RolloutView *view, json_object *record,
                     json_object *replica_set) {
        bool has_before =
                template_has_images(object_template(replica_set), record_images(record, true));
        json_object *others = record_images(record, !has_before), *twin;
        int r = view_find_twin(view, replica_set, &twin);

        return r < 0 || !twin || template_has_images(object_template(twin), others)
                       ? r
                       : step_replica_set(step, twin, others);
}

static int step_template(RolloutStep *step, const RolloutView *view, json_object *record,
                         json_object *images) {
        bool is_before = images == record_images(record, true);
        cleanup(json_object_put_p) json_object *patch =
                takeover_patch_written(view->workload, record, is_before);

        if (!patch || takeover_add_images(patch, view->workload, images) < 0)
                return -ENOMEM;
        return step_patch(step, ROLLOUT_PATCH_WORKLOAD, NULL, take_ptr(patch));
}

static int step_create(RolloutStep *step, json_object *replica_set) {
        return step_patch(step, ROLLOUT_CREATE_REPLICA_SET, object_name(replica_set), replica_set);
}

/* Keeps the template before as the revision before: kubectl rollout undo goes there. The Deployment has the new
 * template first, so that its controller takes the ReplicaSet for an old one from its beginning. */
static int step_history(RolloutStep *step, const RolloutView *view, json_object *record,
                        const RolloutLimits *limits, json_object *replica_set) {
        cleanup(json_object_put_p) json_object *made = NULL;
        json_object *twin = NULL;
        int r = 0;

        if (!limits->keeps_no_history && !record_is_undo(record))
                r = history_make(view, record, /* is_before= */ true, replica_set, &made);
        if (r < 0 || !made || view_find_revision(view, object_name(made)))
                return r;
        r = view_find_twin(view, made, &twin);
        if (r < 0 || twin)
                return r;
        if (!template_has_images(object_template(view->workload), record_target(record)))
                return step_template(step, view, record, record_target(record));
        return step_create(step, take_ptr(made));
}

static int step_gate_for(RolloutStep *step, const RolloutView *view, json_object *record,
                         json_object *pod, RolloutAction action, json_object *images) {
        cleanup(json_object_put_p) json_object *patch = identify_pod(pod);
        cleanup(json_object_put_p) json_object *conditions = json_object_new_array();
        cleanup(json_object_put_p) json_object *awaited = pod_gate_images(pod, images);
        json_object *gate = NULL;
        int r = awaited ? gate_close(json_get_text(record, "by"), view->now_sec, awaited, &gate)
                        : -ENOMEM;

        if (r >= 0)
                r = patch_append(conditions, gate);
        if (r < 0 || !patch ||
            patch_add(patch, "status", patch_wrap("conditions", take_ptr(conditions))) < 0)
                return -ENOMEM;

        return step_patch(step, action, object_name(pod), take_ptr(patch));
}

static int step_gate(RolloutStep *step, const RolloutView *view, json_object *record,
                     json_object *pod) {
        return step_gate_for(step, view, record, pod, ROLLOUT_CLOSE_GATE, record_target(record));
}

static int step_pod(RolloutStep *step, const RolloutView *view, json_object *record,
                    json_object *pod) {
        cleanup(json_object_put_p) json_object *patch = identify_pod(pod);
        cleanup(json_object_put_p) json_object *former = pod_make_former(view, pod, record);
        json_object *metadata = json_get(patch, "metadata", json_type_object);
        const char *revision = view_target_revision(view, record);
        json_object *annotations = json_object_new_object();

        if (patch_add(metadata, "annotations", annotations) < 0 || !former)
                return -ENOMEM;
        if (patch_add_text(annotations, ROLLOUT_POD_ANNOTATION, json_to_text(former)) < 0 ||
            restart_image_note(pod, record_target(record), view->now_sec, annotations) < 0 ||
            (revision &&
             patch_add(metadata, "labels",
                       patch_wrap(REVISION_LABEL, json_object_new_string(revision))) < 0) ||
            patch_add(patch, "spec", template_image_patch(pod, record_target(record))) < 0)
                return -ENOMEM;

        return step_patch(step, ROLLOUT_PATCH_POD, object_name(pod), take_ptr(patch));
}

/* Limits of how many pods change at a time */

int view_max_unavailable(const RolloutView *view, const char *asked, int64_t *ret, Error *reterr) {
        const RolloutKind *kind = view_kind(view);
        json_object *own =
                kind->max_unavailable ? object_at(view->workload, kind->max_unavailable) : NULL;
        const char *text = asked;
        int64_t number = 1;
        int r = 0;

        if (!text && own)
                text = json_object_get_string(own);
        if (text)
                r = share_parse(text, view_desired_pods(view), kind->rounding, &number, reterr);
        if (r < 0)
                return r;

        *ret = number > 0 ? number : 1;
        return 0;
}

/* As long as Kubernetes gives a Deployment, and a pod by its own spec. */
int64_t rollout_patience_sec(const RolloutView *view, const RolloutLimits *limits) {
        int64_t progress_sec = object_integer(view->workload, "spec.progressDeadlineSeconds");

        if (progress_sec <= 0)
                progress_sec = PROGRESS_SEC;
        if (limits->progress_sec > 0 && progress_sec > limits->progress_sec)
                progress_sec = limits->progress_sec;
        return progress_sec + limits->grace_sec +
               object_integer(view->workload, "spec.minReadySeconds") +
               object_integer(object_template(view->workload),
                              "spec.terminationGracePeriodSeconds");
}

/* Budgets */

/* How many more of its pods may be disrupted. The controller of budgets may not have counted yet what has just
 * become unready: where the budget is about this workload alone, its pods are counted here as well. */
static int64_t count_allowed(const RolloutView *view, const Census *census, json_object *budget) {
        int64_t allowed = budget_allowed(budget);
        int64_t spare = -object_integer(budget, "status.desiredHealthy");

        for (size_t i = 0; i < census->n_pods; i++) {
                const PodState *state = &census->pods[i];

                if (!pod_is_ready(state->pod) || object_is_deleted(state->pod) ||
                    !budget_covers(budget, state->pod))
                        continue;
                if (pod_state_is_in_flight(state) || state->is_restarting)
                        allowed--;
                else
                        spare++;
        }
        if (object_integer(budget, "status.expectedPods") > view_desired_pods(view))
                return allowed;
        return spare < allowed ? spare : allowed;
}

/* The budget that does not let another pod go; NULL: none. */
static const char *find_budget(const RolloutView *view, const Census *census, json_object *pod) {
        json_object_object_foreach(view->budgets, name, budget) {
                if (budget_covers(budget, pod) && count_allowed(view, census, budget) <= 0)
                        return name;
        }
        return NULL;
}

static int check_budgets(const RolloutView *view, json_object *pod, Error *reterr) {
        json_object_object_foreach(view->budgets, name, budget) {
                int64_t n_pods = object_integer(budget, "status.expectedPods");
                int64_t n_healthy = object_integer(budget, "status.desiredHealthy");

                if (n_pods > 0 && object_is_observed(budget) && n_healthy >= n_pods &&
                    budget_covers(budget, pod))
                        return error_set(reterr, ERROR_CONFLICT,
                                         "the PodDisruptionBudget \"%s\" allows no pod to be "
                                         "unavailable: it wants %lld of %lld healthy; change "
                                         "it, or run more pods",
                                         name, (long long) n_healthy, (long long) n_pods);
        }
        return 0;
}

int rollout_check_budgets(const RolloutView *view, const Census *census, Error *reterr) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < census->n_pods; i++)
                if (census->pods[i].phase == ROLLOUT_OLD && pod_is_ready(census->pods[i].pod))
                        r = check_budgets(view, census->pods[i].pod, reterr);
        return r;
}

/* Whether the kubelet starts the container for this image, also if it cannot pull at once. */
static int check_return(json_object *pod, const char *name, const char *image, bool has_preloaded,
                        Error *reterr) {
        json_object *spec = template_find_container(pod, name);
        bool is_pulled = !has_preloaded || json_is(spec, "imagePullPolicy", "Always");
        const char *volume = template_pulled_volume(pod);
        int r;

        if (!spec || template_ends(pod, name) || json_is(spec, "image", image) ||
            restart_image_comes_back(pod, name))
                return 0;
        r = restart_image_check_ended(pod, name, reterr);
        if (r < 0 || (!is_pulled && !volume))
                return r;

        return error_set(reterr, ERROR_UNSUPPORTED,
                         "pod \"%s\" would be lost if the image of %s %s could not be pulled at "
                         "once: its restart policy or rules do not start it again; create it anew",
                         object_name(pod), is_pulled ? "container" : "volume",
                         is_pulled ? name : volume);
}

int rollout_check_returns(const Census *census, json_object *record, bool has_preloaded,
                          Error *reterr) {
        int r = 0;

        for (size_t i = 0; i < census->n_pods; i++) {
                if (census->pods[i].phase != ROLLOUT_OLD)
                        continue;
                json_object_object_foreach(record_images(record, false), name, image) {
                        if (r >= 0)
                                r = check_return(census->pods[i].pod, name,
                                                 json_object_get_string(image), has_preloaded,
                                                 reterr);
                }
        }
        return r;
}

/* The choice of the next pod */

/* A turn of the plan, and the pods that it may be about. NULL: there is none. */
typedef struct Turn {
        const RolloutView *view;
        json_object *record;
        const RolloutLimits *limits;
        const Census *census;
        json_object *source;  /* makes the pods, where the update writes its template by itself */
        bool needs_proof;     /* no pod runs the images yet that it should get */
        const PodState *next; /* the next pod in the order of the kind */
        const PodState *next_well; /* among those that are available */
        const PodState *next_ill;  /* among those that are not */
        const PodState *closed;    /* this pod is out of service, to be the next */
        const PodState *draining;  /* the same, and its grace period is over */
        const PodState *awaited;
        const PodState *unavailable;
        const PodState *failed;
        const PodState *spoiled; /* it failed, but was not ready before either */
        const PodState *turned;  /* the gate of this pod is closed for other images than it has */
} Turn;

/* The highest ordinal first, as a StatefulSet's controller does; else those that are not ready anyway, by their names: two
 * runs that know not yet of each other's last write change the same pod, and one of them is refused. */
static const PodState *first_of(const Turn *turn, const PodState *a, const PodState *b) {
        if (!a)
                return b;
        if (view_kind(turn->view)->has_ordinals)
                return pod_ordinal(b->pod) > pod_ordinal(a->pod) ? b : a;
        if (a->is_available != b->is_available)
                return a->is_available ? b : a;
        return strcmp(object_name(b->pod), object_name(a->pod)) < 0 ? b : a;
}

static bool is_drained(const Turn *turn, json_object *pod) {
        return !pod_is_ready(pod) &&
               turn->view->now_sec >= pod_gate_closed_sec(pod) + turn->limits->grace_sec;
}

static void choose(Turn *turn, const PodState *state) {
        const PodState **next = state->is_available ? &turn->next_well : &turn->next_ill;

        if (state->is_member && !state->is_given_up &&
            (pod_state_is_in_flight(state) || !state->is_available))
                turn->unavailable = state;
        switch (state->phase) {
        case ROLLOUT_OLD:
                turn->next = first_of(turn, turn->next, state);
                *next = first_of(turn, *next, state);
                break;
        case ROLLOUT_DRAINING:
                turn->closed = state;
                *(is_drained(turn, state->pod) ? &turn->draining : &turn->awaited) = state;
                break;
        case ROLLOUT_UPDATING:
                if (!state->is_given_up)
                        turn->awaited = state;
                if (pod_gate_awaits_others(state->pod, record_target(turn->record)))
                        turn->turned = state;
                break;
        case ROLLOUT_FAILED: *(state->is_given_up ? &turn->spoiled : &turn->failed) = state; break;
        case ROLLOUT_UPDATED:
        case ROLLOUT_LEFT:
        case _ROLLOUT_PHASE_MAX: break;
        }
}

static int64_t count_old(const Turn *turn) {
        return (int64_t) (turn->census->n_by_phase[ROLLOUT_OLD] +
                          turn->census->n_by_phase[ROLLOUT_DRAINING]);
}

static int64_t count_updated(const Turn *turn) {
        return (int64_t) turn->census->n_by_phase[ROLLOUT_UPDATED];
}

/* The last ones end, or were taken away, and the ReplicaSet's controller has not made others yet. */
static bool awaits_pods(const Turn *turn) {
        const Census *census = turn->census;

        if (view_desired_pods(turn->view) == 0)
                return false;
        if (object_integer(turn->source, "status.replicas") > 0)
                return true;
        for (size_t i = 0; i < census->n_pods; i++)
                if (object_is_deleted(census->pods[i].pod))
                        return true;
        return false;
}

/* Until a pod runs the new images, pods that are made anew get the ones before, which are known to work: the
 * template of a ReplicaSet follows the first pod. */
static bool is_proven(const Turn *turn) {
        const Census *census = turn->census;

        if (record_is_undo(turn->record) || count_updated(turn) > 0)
                return true;
        if (census->n_members == 0)
                return !awaits_pods(turn);
        /* There is none that could prove it, and none that has refuted it. */
        return census->n_given_up == census->n_members && census->n_spoiled == 0;
}

/* The object whose template the pods are made of, where the update writes it by itself; NULL: none. */
static json_object *find_source(const RolloutView *view, json_object *record) {
        if (view_kind(view)->has_replica_sets)
                return view_base(view, record);
        return view_template_follows(view) && record_sets_images(record) ? view->workload : NULL;
}

static Turn make_turn(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                      const Census *census) {
        Turn turn = { .view = view, .record = record, .limits = limits, .census = census };

        for (size_t i = 0; i < census->n_pods; i++)
                choose(&turn, &census->pods[i]);
        turn.source = find_source(view, record);
        turn.needs_proof =
                turn.source && !is_proven(&turn) &&
                !template_has_images(object_template(turn.source), record_target(record));
        return turn;
}

/* Some pods wait, or will when they are made anew. */
static bool is_limited(const Turn *turn) {
        return record_first(turn->record) > 0 &&
               (count_old(turn) > 0 || turn->census->n_members < view_desired_pods(turn->view));
}

/* Whether the first pods are updated, and so no further pod for now. Pods that were given up have
 * the images, too. */
static bool has_first(const Turn *turn) {
        int64_t first = record_first(turn->record);

        return first > 0 &&
               count_updated(turn) + turn->census->n_in_flight + turn->census->n_given_up >= first;
}

/* The next pod's turn, if the limits allow it. */
static int step_next(const Turn *turn, const PodState *state, RolloutStep *step, Error *reterr) {
        const RolloutView *view = turn->view;
        const PodState *other = turn->unavailable;
        /* It serves, if perhaps not yet for minReadySeconds. */
        bool is_ready = pod_is_ready(state->pod);
        const char *budget = is_ready ? find_budget(view, turn->census, state->pod) : NULL;
        int64_t n_missing =
                view_desired_pods(view) - turn->census->n_members - turn->census->n_barred;
        int64_t n_max;
        int r = view_max_unavailable(view, turn->limits->max_unavailable, &n_max, reterr);

        if (r < 0)
                return r;
        if (is_ready && turn->census->n_unavailable + (n_missing > 0 ? n_missing : 0) >= n_max)
                return rollout_step_set(step, ROLLOUT_WAIT,
                                        "until %s%s%s is available: --max-unavailable is %lld",
                                        other ? "pod \"" : "a missing pod",
                                        other ? object_name(other->pod) : "", other ? "\"" : "",
                                        (long long) n_max);
        if (budget)
                return rollout_step_set(step, ROLLOUT_WAIT,
                                        "until the PodDisruptionBudget \"%s\" allows another pod",
                                        budget);
        return pod_gate_must_close(state->pod, record_target(turn->record))
                       ? step_gate(step, view, turn->record, state->pod)
                       : step_pod(step, view, turn->record, state->pod);
}

/* Follows the order of the kind, but a healthy pod comes first to prove the image. NULL: none is
 * left. */
static const PodState *find_next(const Turn *turn) {
        bool is_well = turn->needs_proof || record_first(turn->record) > 0;

        return is_well && turn->next_well ? turn->next_well : turn->next;
}

/* A pod that is not ready anyway need not wait for the others, unless healthy pods can still be among the first. */
static int step_any_next(const Turn *turn, RolloutStep *step, Error *reterr) {
        int r = step_next(turn, find_next(turn), step, reterr);

        if (r < 0 || step->action != ROLLOUT_WAIT || !turn->next_ill ||
            (record_first(turn->record) > 0 && turn->next_well))
                return r;
        rollout_step_done(step);
        return step_next(turn, turn->next_ill, step, reterr);
}

int rollout_plan_return_pod(const RolloutView *view, json_object *record, json_object *pod,
                            RolloutStep *step) {
        cleanup(json_object_put_p) json_object *images =
                template_images(pod, record_target(record));

        if (!images)
                return -ENOMEM;
        if (!pod_gate_awaits_others(pod, images))
                return 0;
        rollout_step_done(step);
        return step_gate_for(step, view, record, pod, ROLLOUT_RETURN_POD, images) ?: 1;
}

static int step_pods(const Turn *turn, RolloutStep *step, Error *reterr) {
        const RolloutView *view = turn->view;
        const Census *census = turn->census;
        bool is_undo = record_is_undo(turn->record);

        if (turn->turned)
                return step_gate(step, view, turn->record, turn->turned->pod);
        /* Going back is the way out of a failure: pods that failed have the old images already. */
        if (turn->failed && !(is_undo && count_old(turn) > 0)) {
                int r = turn->closed && !is_undo ? rollout_plan_return_pod(view, turn->record,
                                                                           turn->closed->pod, step)
                                                 : 0;

                return r < 0   ? r
                       : r > 0 ? 0
                               : rollout_step_set_pod(step, ROLLOUT_STOP, turn->failed);
        }
        if (turn->spoiled && !is_undo && count_updated(turn) == 0 && !turn->next_well &&
            census->n_in_flight == 0)
                return rollout_step_set_pod(step, ROLLOUT_STOP, turn->spoiled);
        if (turn->draining)
                return step_pod(step, view, turn->record, turn->draining->pod);
        if (turn->next && !(turn->needs_proof && census->n_in_flight > 0) && !has_first(turn)) {
                int r = step_any_next(turn, step, reterr);

                if (r < 0 || step->action != ROLLOUT_WAIT || !turn->awaited)
                        return r;
                rollout_step_done(step);
        }
        if (turn->awaited)
                return rollout_step_set_pod(step, ROLLOUT_WAIT, turn->awaited);
        step->action = ROLLOUT_DONE;
        return 0;
}

/* The end */

static bool are_observed(json_object *objects) {
        json_object_object_foreach(objects, name, object) {
                (void) name;
                if (!object_is_observed(object))
                        return false;
        }
        return true;
}

/* The controller has seen all of it, so that it will find nothing to do. Where a twin stays, it counts the pods of that, which
 * has none. */
static int find_content(const RolloutView *view, json_object *record, int64_t n_revised,
                        bool *ret) {
        const RolloutKind *kind = view_kind(view);
        json_object *base = view_base(view, record), *twin = NULL;
        int r = kind->has_replica_sets && base ? view_find_twin(view, base, &twin) : 0;

        *ret = view_is_observed(view) &&
               !(kind->has_replica_sets && base && !are_observed(view->owned)) &&
               (twin || !kind->has_counted ||
                kind->has_counted(view->workload, base, record_target(record), n_revised));
        return r;
}

/* The hold of admission ends in the same write. A partition that a person has asked for outlasts that of the hold. */
static int add_end_of_hold(RolloutStep *step, const RolloutView *view, json_object *record,
                           const RolloutLimits *limits) {
        json_object *rolling;

        if (!workload_held(view->workload) || limits->leaves_hold)
                return 0;
        if (update_add_end_of_hold(view->kind, view->workload, step->patch) < 0)
                return -ENOMEM;
        rolling = object_at(step->patch, "spec.updateStrategy.rollingUpdate");
        return rolling && json_get(record, "partition", json_type_int)
                       ? patch_add(rolling, "partition",
                                   json_object_new_int64(record_partition(record)))
                       : 0;
}

/* On the way back the template leads forward: the hold of admission stays. */
static int step_hand_back(RolloutStep *step, const RolloutView *view, json_object *record,
                          const RolloutLimits *limits) {
        json_object *template = object_template(view->workload);
        bool has_images = !view_kind(view)->has_replica_sets || !record_sets_images(record) ||
                          template_has_images(template, record_target(record));
        int r;

        /* In the write that lets its controller go, admission would take the images for another update. */
        if (!has_images && workload_is_declared(view->workload))
                return step_template(step, view, record, record_target(record));
        r = takeover_patch_state(view->workload, record, record_is_undo(record) ? "undone" : "done",
                                 true, &step->patch);
        if (r >= 0 && !record_is_undo(record))
                r = add_end_of_hold(step, view, record, limits);
        if (r < 0)
                return r;
        step->action = ROLLOUT_HAND_BACK;
        return has_images ? 0
                          : takeover_add_images(step->patch, view->workload, record_target(record));
}

/* Pods that an end of the update leaves besides those that were given up or are to be replaced. */
typedef struct Rest {
        const char *budget; /* which keeps those back whose turn has not come; NULL: none */
        bool has_in_flight; /* pods that are on their way belong to it, too */
} Rest;

static bool is_of_rest(const PodState *state, const Rest *rest) {
        return (rest->budget && state->phase == ROLLOUT_OLD) || state->is_given_up ||
               state->is_foreign || (rest->has_in_flight && pod_state_is_in_flight(state));
}

/* By name and reason; NULL: none. */
static int name_pods(const Census *census, const Rest *rest, char **ret) {
        size_t size;
        FILE *stream = text_open(ret, &size);
        int r;

        if (!stream)
                return -ENOMEM;
        for (size_t i = 0; i < census->n_pods; i++) {
                const PodState *state = &census->pods[i];
                bool is_kept = rest->budget && state->phase == ROLLOUT_OLD;

                if (!is_of_rest(state, rest))
                        continue;
                (void) fprintf(stream, "%spod \"%s\"%s", ftell(stream) > 0 ? "; " : "",
                               object_name(state->pod), is_kept || state->reason ? ": " : "");
                if (is_kept)
                        (void) fprintf(
                                stream,
                                "the PodDisruptionBudget \"%s\" allows no further pod to be unavailable",
                                rest->budget);
                else
                        (void) fprintf(stream, "%s", state->reason ?: "");
        }
        r = text_close(stream, ret);
        if (r >= 0 && size == 0)
                free(take_ptr(*ret));
        return r;
}

/* budget: NULL: there is none. */
static int name_rest(const Census *census, const char *budget, char **ret) {
        return name_pods(census, &(Rest){ .budget = budget }, ret);
}

/* For people. An update of a workload that was held before it has nothing to give back. */
static const char *after_abandon(const RolloutView *view, json_object *record) {
        json_object *workload = view->workload;
        bool is_kept = view_is_held(view) && !object_at(record, "former");

        if (is_kept && !workload_held(workload))
                return "its pods stay as they are";
        return is_kept && workload_is_in_place_only(workload)
                       ? "it stays held, and kubectl inplace rollout --release lets its "
                         "controller go on"
                       : "its controller brings its pods to its template now";
}

/* The controller makes none while it is paused, and one of the same template has the same name: it has made this one before it
 * saw the pause, and scaled another one up before it saw this one. */
static bool is_made_anew(json_object *replica_set, json_object *record) {
        const char *uid = json_get_text(record, "uid");

        return uid && !text_equal(uid, object_text(replica_set, "metadata.uid"));
}

/* Scaled up from 0, a paused Deployment gets pods of its youngest ReplicaSet, or of one that has its template. */
static int step_leave_to_rival(RolloutStep *step, const RolloutView *view, json_object *record,
                               json_object *rival) {
        if (replica_set_is_scaled_to_zero(view_base(view, record)))
                return step_abandon_because(step, view, record, true,
                                            "another client has scaled it to 0 and up again, and "
                                            "the new pods are of the ReplicaSet \"%s\"; %s",
                                            object_name(rival), after_abandon(view, record));
        if (is_made_anew(view_base(view, record), record))
                return step_abandon_because(step, view, record, true,
                                            "another client has deleted its ReplicaSet \"%s\" as "
                                            "the update began, and the new pods are of the "
                                            "ReplicaSet \"%s\"; %s",
                                            json_get_text(record, "revision"), object_name(rival),
                                            after_abandon(view, record));
        return step_abandon_because(step, view, record, false,
                                    "another client has let its controller go on, which has "
                                    "replaced pods by those of the ReplicaSet \"%s\", and holds "
                                    "it again; to let it go on: kubectl rollout resume",
                                    object_name(rival));
}

/* Where its controller leaves the pods as they are, a run that takes the update up holds it again; with images that are not
 * the update's, none can. */
static int step_not_held(RolloutStep *step, const RolloutView *view, json_object *record) {
        cleanup(free_p) char *difference = NULL;
        TemplateChange change;
        bool is_resumed;
        int r = view_is_resumed(view, record, &is_resumed);

        if (r < 0)
                return r;
        if (!is_resumed)
                return step_abandon_because(step, view, record, false,
                                            "another client has let its controller go on, which "
                                            "brings its pods to its template now");
        r = view_find_change(view, record, &change, &difference);
        if (r < 0)
                return r;
        if (change == TEMPLATE_CHANGED)
                return step_abandon_because(step, view, record, false,
                                            "another client has resumed it with other images, and "
                                            "its controller leaves its pods as they are");
        return rollout_step_set(step, ROLLOUT_STOP,
                                "another client has resumed it, and its controller leaves its "
                                "pods as they are");
}

/* Another client has changed what only we should change now. */
static int check_unchanged(const RolloutView *view, json_object *record, RolloutStep *step) {
        cleanup(free_p) char *difference = NULL;
        json_object *rival;
        TemplateChange change;
        int r;

        if (object_is_deleted(view->workload))
                return rollout_step_set(step, ROLLOUT_STOP, "it is being deleted");
        if (!view_is_held(view))
                return step_not_held(step, view, record);
        if (view_kind(view)->has_replica_sets && !view_base(view, record))
                return step_abandon_because(step, view, record, true,
                                            "its ReplicaSet \"%s\" is gone; its controller makes "
                                            "one of its template now",
                                            json_get_text(record, "revision"));
        rival = view_kind(view)->has_replica_sets ? view_find_rival(view, view_base(view, record))
                                                  : NULL;
        if (rival)
                return step_leave_to_rival(step, view, record, rival);
        r = view_find_change(view, record, &change, &difference);
        if (r < 0 || change == TEMPLATE_UNCHANGED)
                return r;
        if (change == TEMPLATE_RETARGETED) {
                step->action = ROLLOUT_RETARGET;
                return 0;
        }

        return step_abandon_because(step, view, record, true,
                                    "another client has changed its template%s%s; %s",
                                    difference ? " in " : "", difference ? difference : "",
                                    after_abandon(view, record));
}

/* A ReplicaSet that the controller gave a copy of the record while that was open: kubectl rollout undo would
 * copy it back. *ret is NULL where there is none. */
static int find_stale_copy(const RolloutView *view, json_object **ret) {
        *ret = NULL;
        if (!view_kind(view)->has_replica_sets)
                return 0;
        json_object_object_foreach(view->owned, name, replica_set) {
                cleanup(json_object_put_p) json_object *copy = NULL;
                int r = rollout_record_read(replica_set, &copy, NULL);

                (void) name;
                if (r == -ENOMEM)
                        return r;
                if (r >= 0 && rollout_record_is_open(copy)) {
                        *ret = replica_set;
                        return 0;
                }
        }
        return 0;
}

int rollout_plan_clean(const RolloutView *view, RolloutStep *ret) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        json_object *replica_set;
        int r = find_stale_copy(view, &replica_set);

        *ret = ROLLOUT_STEP_INIT;
        if (r < 0 || !replica_set)
                return r;
        patch = identify(replica_set);
        if (!patch || add_no_record(patch) < 0)
                return -ENOMEM;
        return step_patch(ret, ROLLOUT_PATCH_REPLICA_SET, object_name(replica_set),
                          take_ptr(patch));
}

/* The update has ended as it was to, and no other one has begun since. */
static bool has_reached_target(const RolloutView *view, json_object *record) {
        return (json_is(record, "state", "done") || json_is(record, "state", "undone")) &&
               template_has_images(object_template(view->workload), record_target(record));
}

/* The pods stay so: no controller minds what they have, though the template has the images still. */
static bool leaves_late(const RolloutView *view, json_object *record) {
        return has_reached_target(view, record) &&
               (!view_kind(view)->has_revisions || view_is_held(view));
}

int rollout_name_unfinished(const RolloutView *view, json_object *record, const Census *census,
                            char **ret) {
        *ret = NULL;
        return has_reached_target(view, record)
                       ? name_pods(census, &(Rest){ .has_in_flight = true }, ret)
                       : 0;
}

int rollout_name_late(const RolloutView *view, json_object *record, const Census *census,
                      char **ret) {
        size_t size;
        FILE *stream = text_open(ret, &size);
        bool is_left = leaves_late(view, record);
        int r;

        if (!stream)
                return -ENOMEM;
        for (size_t i = 0; is_left && i < census->n_pods; i++) {
                const PodState *state = &census->pods[i];

                if (state->phase == ROLLOUT_LEFT || state->is_given_up || state->is_foreign ||
                    template_has_images(state->pod, record_target(record)))
                        continue;
                (void) fprintf(stream, "%spod \"%s\": it has other images than the template",
                               ftell(stream) > 0 ? "; " : "", object_name(state->pod));
        }
        r = text_close(stream, ret);
        if (r >= 0 && size == 0)
                free(take_ptr(*ret));
        return r;
}

static int step_after_end(const RolloutView *view, json_object *record, const Census *census,
                          RolloutStep *step) {
        bool is_content;
        int r = find_content(view, record, census->n_revised, &is_content);

        if (r < 0)
                return r;
        if (!is_content)
                return rollout_step_set(step, ROLLOUT_WAIT, AWAITED_CONTROLLER);
        r = rollout_plan_clean(view, step);
        if (r < 0 || step->action != ROLLOUT_WAIT)
                return r;
        step->action = ROLLOUT_DONE;
        return rollout_name_late(view, record, census, &step->message);
}

/* This run has just seen a pod become ready: the controller of budgets may not have counted it yet. */
static bool has_fresh_pod(const RolloutView *view) {
        json_object_object_foreach(view->pods, name, pod) {
                json_object *noted = json_get(view->noted, name, json_type_object);

                (void) pod;
                if (json_is(noted, "phase", rollout_phase_to_string(ROLLOUT_UPDATED)) &&
                    view->now_sec - json_get_integer(noted, "since") < BUDGET_COUNTED_SEC)
                        return true;
        }
        return false;
}

/* The budget that keeps the other pods back only because of pods that were given up, which will not return by
 * this update, or do not end; NULL: none. */
static const char *find_spent_budget(const Turn *turn) {
        const RolloutView *view = turn->view;
        const Census *census = turn->census;
        const char *name;
        json_object *budget;

        if (census->n_given_up + census->n_stuck == 0 || census->n_unavailable > 0 ||
            !turn->next_well || census->n_members + census->n_barred < view_desired_pods(view) ||
            record_first(turn->record) > 0 || has_fresh_pod(view))
                return NULL;
        name = find_budget(view, census, turn->next_well->pod);
        budget = name ? json_object_object_get(view->budgets, name) : NULL;
        for (size_t i = 0; budget && object_is_observed(budget) && i < census->n_pods; i++)
                if (census->pods[i].is_given_up && budget_covers(budget, census->pods[i].pod))
                        return name;

        return NULL;
}

/* A StatefulSet's controller makes pods of its current revision until it sees that it may act again, and would then
 * replace them: that revision has to be the template's. It is once all pods are ready, unless some were given up, are to be
 * replaced, or stay below the partition. */
static int step_current(const Turn *turn, RolloutStep *ret) {
        const RolloutView *view = turn->view;
        const Census *census = turn->census;
        json_object *workload = view->workload;

        if (!view_kind(view)->has_ordinals || !workload_is_rolling(workload) ||
            !text_equal(view_target_revision(view, turn->record), view_revision(view)) ||
            census->n_given_up + census->n_stuck + census->n_foreign > 0)
                return 0;
        if (census->n_members < view_desired_pods(view))
                return rollout_step_set(ret, ROLLOUT_WAIT,
                                        "for its controller to make the missing pods");
        if (view_record_partition(view, turn->record) > 0 ||
            text_equal(object_text(workload, "status.currentRevision"), view_revision(view)))
                return 0;
        return rollout_step_set(ret, ROLLOUT_WAIT,
                                "for its controller to make its newest revision the current one");
}

/* A run that has not seen yet that another one has turned the update may still write a pod or a template. */
static bool is_unsettled(const RolloutView *view, const RolloutLimits *limits) {
        return view->now_sec < limits->settled_sec;
}

static int step_settle(RolloutStep *step) {
        return rollout_step_set(step, ROLLOUT_WAIT,
                                "for other runs to see that this one goes on with the update");
}

/* No pod has to change any more, or the budget allows none to. budget: its name, or NULL. */
static int step_end(const Turn *turn, json_object *replica_set, const char *budget,
                    RolloutStep *ret) {
        bool is_content;
        int r;

        if (is_limited(turn)) {
                ret->action = ROLLOUT_PAUSE;
                return name_rest(turn->census, NULL, &ret->message);
        }
        *ret = ROLLOUT_STEP_INIT;
        if (replica_set) {
                r = step_history(ret, turn->view, turn->record, turn->limits, replica_set);
                if (r < 0 || ret->action != ROLLOUT_WAIT)
                        return r;
        }
        r = find_content(turn->view, turn->record, turn->census->n_revised, &is_content);
        if (r < 0)
                return r;
        if (!is_content)
                return rollout_step_set(ret, ROLLOUT_WAIT,
                                        "for its controller to count the updated pods in its "
                                        "status: does kube-controller-manager run?");
        r = step_current(turn, ret);
        if (r < 0 || ret->message)
                return r;
        if (is_unsettled(turn->view, turn->limits))
                return step_settle(ret);
        r = step_hand_back(ret, turn->view, turn->record, turn->limits);
        return r < 0 ? r : name_rest(turn->census, budget, &ret->message);
}

/* Handed back, the controller of a StatefulSet or DaemonSet would replace the pods that the budget keeps back, and a declared
 * update would count as done. */
static bool stays_held(const RolloutView *view) {
        return view_kind(view)->has_revisions || workload_is_declared(view->workload);
}

static int step_stop_spent(const Turn *turn, const char *budget, RolloutStep *ret) {
        cleanup(free_p) char *rest = NULL;
        int r = name_rest(turn->census, budget, &rest);

        return r < 0 ? r
                     : rollout_step_set(ret, ROLLOUT_STOP, "not all pods run the images: %s", rest);
}

/* The images are not proven, and the budget lets no pod go that could prove them. */
static int step_release(const Turn *turn, const char *budget, RolloutStep *ret) {
        cleanup(free_p) char *rest = NULL;
        int r = rollout_plan_release(turn->view, turn->record, turn->limits, ret);

        if (r >= 0 && ret->action == ROLLOUT_ABANDON)
                r = name_rest(turn->census, budget, &rest);
        return r < 0 || !rest ? r : rollout_step_set(ret, ROLLOUT_ABANDON, "handed back: %s", rest);
}

/* A Deployment's status counts the pods of the ReplicaSet that has its template as updated, and "kubectl rollout status" ends
 * when all are: where the template of the Deployment comes first, that of the ReplicaSet comes last. */
static bool comes_last(const Turn *turn) {
        return view_kind(turn->view)->has_replica_sets && !record_sets_images(turn->record) &&
               workload_is_declared(turn->view->workload) &&
               (turn->next || turn->census->n_in_flight > 0);
}

/* The images that pods which are made anew should get; NULL: as it is. */
static json_object *source_images(const Turn *turn) {
        if (comes_last(turn))
                return NULL;
        if (is_limited(turn))
                return record_images(turn->record, true);
        return is_proven(turn) ? record_target(turn->record) : NULL;
}

/* The template that new pods are made from comes before the next pod. */
static int step_source(const Turn *turn, json_object *replica_set, RolloutStep *ret) {
        const RolloutView *view = turn->view;
        json_object *record = turn->record, *images = source_images(turn), *source = turn->source;
        int r = 0;

        if (source && images && !template_has_images(object_template(source), images))
                return replica_set ? step_replica_set(ret, replica_set, images)
                                   : step_template(ret, view, record, images);
        if (replica_set)
                r = step_twin(ret, view, record, replica_set);
        if (r < 0 || ret->action != ROLLOUT_WAIT)
                return r;
        if (replica_set && !object_is_observed(replica_set))
                return rollout_step_set(ret, ROLLOUT_WAIT,
                                        "for the controller of ReplicaSet \"%s\" to see its new "
                                        "template: does kube-controller-manager run?",
                                        object_name(replica_set));
        /* The revisions have a watch of their own: the newest one that was seen may be that of a template before. */
        if (view_kind(view)->names_revisions &&
            text_equal(view_target_revision(view, record), view_revision(view)) &&
            !template_has_images(object_template(view_newest_revision(view)),
                                 record_target(record)))
                return rollout_step_set(ret, ROLLOUT_WAIT,
                                        "for its controller to make a ControllerRevision of its "
                                        "new template: does kube-controller-manager run?");
        return 0;
}

static int step_open(const Turn *turn, RolloutStep *ret, Error *reterr) {
        json_object *replica_set = view_replica_set(turn->view, turn->record);
        const char *budget;
        int r = step_source(turn, replica_set, ret);

        if (r < 0 || ret->action != ROLLOUT_WAIT || ret->message)
                return r;
        if (turn->needs_proof && turn->census->n_members == 0)
                return rollout_step_set(ret, ROLLOUT_WAIT,
                                        "for its controller to make the missing pods");
        r = step_pods(turn, ret, reterr);
        budget = r >= 0 && ret->action == ROLLOUT_WAIT ? find_spent_budget(turn) : NULL;
        if (budget)
                rollout_step_done(ret);
        else if (r < 0 || ret->action != ROLLOUT_DONE)
                return r;
        if (budget && stays_held(turn->view))
                return step_stop_spent(turn, budget, ret);
        return turn->needs_proof && budget ? step_release(turn, budget, ret)
                                           : step_end(turn, replica_set, budget, ret);
}

int rollout_plan(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                 const Census *census, RolloutStep *ret, Error *reterr) {
        Turn turn = make_turn(view, record, limits, census);
        int r;

        *ret = ROLLOUT_STEP_INIT;
        if (json_is(record, "state", "abandoned"))
                return rollout_step_set(ret, ROLLOUT_STOP, "another run has abandoned it; %s",
                                        after_abandon(view, record));
        if (!rollout_record_is_open(record))
                return step_after_end(view, record, census, ret);
        r = check_unchanged(view, record, ret);
        if (r < 0 || ret->action != ROLLOUT_WAIT)
                return r;
        if (!view_is_observed(view))
                return rollout_step_set(ret, ROLLOUT_WAIT, AWAITED_CONTROLLER);
        return step_open(&turn, ret, reterr);
}

int rollout_plan_lost(const RolloutView *view, json_object *record, RolloutStep *ret) {
        /* The annotation of admission shows a hold of its own, for an update that comes after this one. */
        bool is_ours = view_is_held(view) && !workload_held(view->workload);

        *ret = ROLLOUT_STEP_INIT;
        return step_abandon_because(ret, view, record, is_ours,
                                    "another client has removed the annotation " ROLLOUT_ANNOTATION
                                    "; %s",
                                    after_abandon(view, record));
}

/* The Deployment gets the images of its ReplicaSet: then its controller replaces no pod. */
static int add_source_images(RolloutStep *step, const RolloutView *view, json_object *record,
                             json_object *replica_set) {
        cleanup(json_object_put_p) json_object *images = NULL;
        json_object *template = object_template(view->workload);

        if (!replica_set || !record_sets_images(record) ||
            (!template_has_images(template, record_images(record, true)) &&
             !template_has_images(template, record_images(record, false))))
                return 0;
        images = template_images(object_template(replica_set), record_target(record));
        return images ? takeover_add_images(step->patch, view->workload, images) : -ENOMEM;
}

int rollout_plan_release(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                         RolloutStep *ret) {
        json_object *replica_set = view_replica_set(view, record);
        bool is_held = view_is_held(view);
        cleanup(rollout_step_done) RolloutStep unchanged = ROLLOUT_STEP_INIT;
        int r = 0;

        *ret = ROLLOUT_STEP_INIT;
        if (is_held && view_kind(view)->has_revisions) {
                r = check_unchanged(view, record, ret);
                if (r < 0 || ret->action != ROLLOUT_WAIT)
                        return r;
        }
        if (replica_set && is_held) {
                r = step_twin(ret, view, record, replica_set);
                if (r < 0 || ret->action != ROLLOUT_WAIT)
                        return r;
                if (!object_is_observed(view->workload) || !are_observed(view->owned))
                        return rollout_step_set(ret, ROLLOUT_WAIT,
                                                "for the controllers to see the last change");
                r = check_unchanged(view, record, &unchanged);
                if (r >= 0 && unchanged.action == ROLLOUT_WAIT)
                        r = step_history(ret, view, record, limits, replica_set);
                if (r < 0 || ret->action != ROLLOUT_WAIT)
                        return r;
        }
        if (is_held && is_unsettled(view, limits))
                return step_settle(ret);
        r = step_abandon(ret, view, record, is_held);
        if (r >= 0)
                r = add_end_of_hold(ret, view, record, limits);
        return r < 0 || !is_held ? r : add_source_images(ret, view, record, replica_set);
}

int rollout_plan_return(const RolloutView *view, json_object *record, RolloutStep *step) {
        /* Another run may have abandoned it while this one closed a gate. */
        bool is_abandoned = step->action == ROLLOUT_ABANDON ||
                            (step->action == ROLLOUT_STOP && json_is(record, "state", "abandoned"));
        int64_t partition = rollout_record_is_open(record) ? view_partition(view, record) : 0;

        if (!is_abandoned && partition == 0)
                return 0;
        json_object_object_foreach(view->pods, name, pod) {
                int r;

                (void) name;
                if ((!is_abandoned && pod_ordinal(pod) >= partition) || object_is_deleted(pod) ||
                    !view_has_pod(view, record, pod))
                        continue;
                r = rollout_plan_return_pod(view, record, pod, step);
                if (r != 0)
                        return r < 0 ? r : 0;
        }
        return 0;
}

/* None is created where an older ReplicaSet has the template after: it will get the one before. */
static int rehearse_history(const RolloutView *view, json_object *record, RolloutStep *ret) {
        json_object *replica_set = view_replica_set(view, record), *twin = NULL;
        cleanup(json_object_put_p) json_object *after = NULL;
        cleanup(json_object_put_p) json_object *before = NULL;
        int r = 0;

        if (replica_set)
                r = history_make(view, record, /* is_before= */ false, replica_set, &after);
        if (r >= 0 && after)
                r = view_find_twin(view, after, &twin);
        if (r >= 0 && after && !twin)
                r = history_make(view, record, /* is_before= */ true, replica_set, &before);
        return r < 0 || !before ? r : step_create(ret, take_ptr(before));
}

int rollout_rehearse(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                     const Census *census, RolloutAction action, RolloutStep *ret) {
        Turn turn = make_turn(view, record, limits, census);
        const PodState *next = find_next(&turn);
        json_object *replica_set = view_replica_set(view, record), *images = record_target(record);

        *ret = ROLLOUT_STEP_INIT;
        if (action == ROLLOUT_PATCH_WORKLOAD && record_sets_images(record) &&
            view_template_follows(view))
                return step_template(ret, view, record, images);
        if (action == ROLLOUT_PATCH_REPLICA_SET && replica_set)
                return step_replica_set(ret, replica_set, images);
        if (action == ROLLOUT_CREATE_REPLICA_SET)
                return rehearse_history(view, record, ret);
        if (action == ROLLOUT_CLOSE_GATE && next && pod_gate_must_close(next->pod, images))
                return step_gate(ret, view, record, next->pod);
        return action == ROLLOUT_PATCH_POD && next ? step_pod(ret, view, record, next->pod) : 0;
}
