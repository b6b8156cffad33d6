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
#include "agent/pod/gate-spec.h"

#define AWAITED_CONTROLLER \
        "for its controller to see its last change: does kube-controller-manager run?"

int rollout_step_set(RolloutStep *step, RolloutAction action, const char *format, ...) {
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = vasprintf(&step->message, format, arguments);
        va_end(arguments);
        if (r < 0) {
                step->message = NULL;
                return -ENOMEM;
        }
        step->action = action;
        return 0;
}

int rollout_step_set_pod(RolloutStep *step, RolloutAction action, const RolloutView *view,
                         json_object *record, json_object *pod) {
        cleanup(free_p) char *reason = NULL;
        int r = rollout_explain(view, record, pod, &reason);

        return r < 0 ? r
                     : rollout_step_set(step, action, "%spod \"%s\"%s%s",
                                        action == ROLLOUT_WAIT ? "for " : "", object_name(pod),
                                        reason ? ": " : "", reason ? reason : "");
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
        static const char *const lists[] = { "spec.containers", "spec.initContainers" };

        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
                json_object *asked = object_list(object_template(patch), lists[i]);
                json_object *made = object_list(object_template(answer), lists[i]);

                for (size_t n = 0; asked && n < json_object_array_length(asked); n++) {
                        json_object *container = json_object_array_get_idx(asked, n);
                        const char *name = json_get_text(container, "name");
                        const char *image = json_get_text(container, "image");
                        const char *got = json_get_text(list_find(made, "name", name), "image");

                        if (got && !text_equal(image, got))
                                return error_set(reterr, ERROR_INVALID,
                                                 "admission makes \"%s\" of the image \"%s\" of "
                                                 "container \"%s\" in %s \"%s\": set that image "
                                                 "instead, or exempt it",
                                                 got, image, name,
                                                 json_get_text(answer, "kind") ?: "object",
                                                 object_name(answer));
                }
        }
        return 0;
}

int rollout_step_key(const RolloutStep *step, json_object *record, char **ret) {
        const char *uid = object_text(step->patch, "metadata.uid");
        bool has_spec = object_at(step->patch, "spec");

        return text_format(ret, "%d %s %s %s", (int) step->action, uid ?: "",
                           has_spec ? "spec" : "", json_to_text(record_target(record)));
}

static int step_abandon(RolloutStep *step, const RolloutView *view, json_object *record,
                        bool gives_back) {
        step->action = ROLLOUT_ABANDON;
        return takeover_patch_state(view->workload, record, "abandoned", gives_back, &step->patch);
}

/* Metadata with the uid: the patch is refused for another object of that name. */
static json_object *identify(json_object *object) {
        const char *uid = object_text(object, "metadata.uid");

        return patch_wrap("metadata", patch_wrap("uid", json_object_new_string(uid ? uid : "")));
}

/* The controller copies the record from the Deployment, where it is replaced in the end. */
static int add_no_record(json_object *patch) {
        cleanup(json_object_put_p) json_object *annotations = json_object_new_object();

        if (!annotations || patch_add_null(annotations, ROLLOUT_ANNOTATION) < 0)
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

/* Gives the images of the other direction to a twin, so that its template is that of the way back. */
static int step_twin(RolloutStep *step, const RolloutView *view, json_object *record,
                     json_object *replica_set) {
        json_object *twin;
        int r = view_find_twin(view, replica_set, &twin);

        return r < 0 || !twin ? r
                              : step_replica_set(step, twin,
                                                 record_images(record, !record_is_undo(record)));
}

static int step_template(RolloutStep *step, const RolloutView *view, json_object *record) {
        cleanup(json_object_put_p) json_object *patch = takeover_patch(view->workload, record);

        if (!patch || takeover_add_images(patch, view->workload, record_target(record)) < 0)
                return -ENOMEM;
        return step_patch(step, ROLLOUT_PATCH_WORKLOAD, NULL, take_ptr(patch));
}

static int step_gate(RolloutStep *step, const RolloutView *view, json_object *record,
                     json_object *pod) {
        cleanup(json_object_put_p) json_object *patch = identify(pod);
        cleanup(json_object_put_p) json_object *conditions = json_object_new_array();
        json_object *gate = NULL;
        int r = gate_close(json_get_text(record, "by"), view->now_sec, record_target(record),
                           &gate);

        if (r >= 0)
                r = patch_append(conditions, gate);
        if (r < 0 || !patch ||
            patch_add(patch, "status", patch_wrap("conditions", take_ptr(conditions))) < 0)
                return -ENOMEM;

        return step_patch(step, ROLLOUT_CLOSE_GATE, object_name(pod), take_ptr(patch));
}

static int step_pod(RolloutStep *step, const RolloutView *view, json_object *record,
                    json_object *pod) {
        cleanup(json_object_put_p) json_object *patch = identify(pod);
        cleanup(json_object_put_p) json_object *former =
                pod_make_former(pod, record_target(record));
        json_object *metadata = json_get(patch, "metadata", json_type_object);
        const char *revision = view_target_revision(view, record);
        const char *version = object_text(pod, "metadata.resourceVersion");

        if (!patch || !former)
                return -ENOMEM;
        /* A container that was started since would count as one of the new image. */
        if ((version && patch_add_text(metadata, "resourceVersion", version) < 0) ||
            patch_add(metadata, "annotations",
                      patch_wrap(ROLLOUT_POD_ANNOTATION,
                                 json_object_new_string(json_to_text(former)))) < 0 ||
            (revision &&
             patch_add(metadata, "labels",
                       patch_wrap(REVISION_LABEL, json_object_new_string(revision))) < 0) ||
            patch_add(patch, "spec", template_image_patch(pod, record_target(record))) < 0)
                return -ENOMEM;

        return step_patch(step, ROLLOUT_PATCH_POD, object_name(pod), take_ptr(patch));
}

/* Limits of how many pods change at a time */

int64_t view_desired_pods(const RolloutView *view) {
        if (view->kind == WORKLOAD_POD)
                return 1;
        if (view->kind == WORKLOAD_DAEMON_SET)
                return object_integer(view->workload, "status.desiredNumberScheduled");
        return object_integer(view->workload, "spec.replicas");
}

int view_max_unavailable(const RolloutView *view, const char *asked, int64_t *ret, Error *reterr) {
        json_object *own = object_at(view->workload,
                                     view->kind == WORKLOAD_DEPLOYMENT
                                             ? "spec.strategy.rollingUpdate.maxUnavailable"
                                             : "spec.updateStrategy.rollingUpdate.maxUnavailable");
        /* As the kind's own controller does. */
        ShareRounding rounding =
                view->kind == WORKLOAD_DEPLOYMENT ? SHARE_ROUNDED_DOWN : SHARE_ROUNDED_UP;
        const char *text = asked;
        int64_t number = 1;
        int r = 0;

        if (!text && own)
                text = json_object_get_string(own);
        if (text)
                r = share_parse(text, view_desired_pods(view), rounding, &number, reterr);
        if (r < 0)
                return r;

        *ret = number > 0 ? number : 1;
        return 0;
}

/* It may be updated now, or is being: it counts as unavailable, whatever its status still says. */
static bool is_in_flight(RolloutPhase phase) {
        return phase == ROLLOUT_DRAINING || phase == ROLLOUT_UPDATING || phase == ROLLOUT_FAILED;
}

/* How many more of its pods may be disrupted. The controller of budgets may not have counted yet what has just
 * become unready: where the budget is about this workload alone, its pods are counted here as well. */
static int64_t count_allowed(const RolloutView *view, json_object *record, json_object *budget) {
        json_object *selector = object_at(budget, "spec.selector");
        int64_t allowed = object_integer(budget, "status.disruptionsAllowed");
        int64_t spare = -object_integer(budget, "status.desiredHealthy");

        json_object_object_foreach(view->pods, name, pod) {
                (void) name;
                if (!pod_is_ready(pod) || object_is_deleted(pod) ||
                    !selector_matches(selector, object_at(pod, "metadata.labels")))
                        continue;
                if (is_in_flight(rollout_phase(view, record, pod)))
                        allowed--;
                else
                        spare++;
        }
        if (object_integer(budget, "status.expectedPods") > view_desired_pods(view))
                return allowed;
        return spare < allowed ? spare : allowed;
}

int rollout_check_budgets(const RolloutView *view, json_object *record, Error *reterr) {
        json_object_object_foreach(view->pods, pod_name, pod) {
                (void) pod_name;
                if (!pod_is_ready(pod) || rollout_phase(view, record, pod) != ROLLOUT_OLD)
                        continue;
                json_object_object_foreach(view->budgets, name, budget) {
                        int64_t n_pods = object_integer(budget, "status.expectedPods");

                        if (n_pods > 0 && object_is_observed(budget) &&
                            object_integer(budget, "status.desiredHealthy") >= n_pods &&
                            selector_matches(object_at(budget, "spec.selector"),
                                             object_at(pod, "metadata.labels")))
                                return error_set(
                                        reterr, ERROR_CONFLICT,
                                        "the PodDisruptionBudget \"%s\" never lets a pod "
                                        "go: it wants %lld of %lld healthy",
                                        name,
                                        (long long) object_integer(budget, "status.desiredHealthy"),
                                        (long long) n_pods);
                }
        }
        return 0;
}

/* The budget that does not let another pod go; NULL: none. */
static const char *find_budget(const RolloutView *view, json_object *record, json_object *pod) {
        json_object_object_foreach(view->budgets, name, budget) {
                if (selector_matches(object_at(budget, "spec.selector"),
                                     object_at(pod, "metadata.labels")) &&
                    count_allowed(view, record, budget) <= 0)
                        return name;
        }
        return NULL;
}

/* The highest ordinal first, as a StatefulSet's controller does; else those that are not ready anyway. */
static bool is_before(const RolloutView *view, json_object *a, json_object *b) {
        if (view->kind == WORKLOAD_STATEFUL_SET)
                return pod_ordinal(a) > pod_ordinal(b);
        return !view_pod_is_available(view, a) && view_pod_is_available(view, b);
}

typedef struct Census {
        json_object *failed; /* the first pod of this phase; NULL: none */
        json_object *next;
        json_object *next_well; /* next pod among those that are available */
        json_object *next_ill;  /* next pod among those that are not */
        json_object *spoiled;   /* it failed, but was not ready before either */
        json_object *awaited;
        json_object *draining; /* pod whose grace period is over */
        json_object *unavailable;
        json_object *turned; /* pod whose gate is closed for other images than it has */
        int64_t n_pods;
        int64_t n_unavailable;
        int64_t n_in_flight;
        int64_t n_updated;
        int64_t n_old;
        int64_t n_given_up;
        int64_t n_revised; /* pods that name the revision of the template */
} Census;

static bool is_drained(const RolloutView *view, const RolloutLimits *limits, json_object *pod) {
        int64_t closed_sec = pod_gate_closed_sec(pod);

        return !pod_is_ready(pod) && view->now_sec >= closed_sec + limits->grace_sec;
}

static void count_pod(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                      json_object *pod, Census *census) {
        RolloutPhase phase = rollout_phase(view, record, pod);
        bool is_given_up = rollout_is_given_up(view, record, pod);
        bool is_available = view_pod_is_available(view, pod);
        json_object **candidate;

        if (object_is_deleted(pod) || !view_has_pod(view, record, pod))
                return;

        census->n_pods++;
        census->n_given_up += is_given_up;
        census->n_in_flight += is_in_flight(phase) && !is_given_up;
        census->n_updated += phase == ROLLOUT_UPDATED;
        if (!is_given_up && (is_in_flight(phase) || !is_available)) {
                census->n_unavailable++;
                census->unavailable = pod;
        }
        census->n_revised += text_equal(object_revision(pod), view_revision(view));
        switch (phase) {
        case ROLLOUT_OLD:
                census->n_old++;
                if (!census->next || is_before(view, pod, census->next))
                        census->next = pod;
                candidate = is_available ? &census->next_well : &census->next_ill;
                if (!*candidate || is_before(view, pod, *candidate))
                        *candidate = pod;
                break;
        case ROLLOUT_DRAINING:
                census->n_old++;
                if (is_drained(view, limits, pod))
                        census->draining = pod;
                else
                        census->awaited = pod;
                break;
        case ROLLOUT_UPDATING:
                if (!is_given_up)
                        census->awaited = pod;
                if (pod_gate_is_closed(pod) && pod_gate_must_close(pod, record_target(record)))
                        census->turned = pod;
                break;
        case ROLLOUT_FAILED:
                if (is_given_up)
                        census->spoiled = pod;
                else
                        census->failed = pod;
                break;
        case ROLLOUT_UPDATED:
        case ROLLOUT_LEFT:
        case _ROLLOUT_PHASE_MAX: break;
        }
}

/* The next pod's turn, if the limits allow it. */
static int step_next(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                     const Census *census, json_object *pod, RolloutStep *step, Error *reterr) {
        const char *budget;
        int64_t n_missing = view_desired_pods(view) - census->n_pods, n_max;
        int r = view_max_unavailable(view, limits->max_unavailable, &n_max, reterr);

        if (r < 0)
                return r;
        if (view_pod_is_available(view, pod) &&
            census->n_unavailable + (n_missing > 0 ? n_missing : 0) >= n_max)
                return rollout_step_set(step, ROLLOUT_WAIT,
                                        "until %s%s%s is available: --max-unavailable is %lld",
                                        census->unavailable ? "pod \"" : "a missing pod",
                                        census->unavailable ? object_name(census->unavailable) : "",
                                        census->unavailable ? "\"" : "", (long long) n_max);
        if (pod_is_ready(pod)) {
                budget = find_budget(view, record, pod);
                if (budget)
                        return rollout_step_set(
                                step, ROLLOUT_WAIT,
                                "until the PodDisruptionBudget \"%s\" allows another "
                                "pod",
                                budget);
        }
        if (pod_gate_must_close(pod, record_target(record)))
                return step_gate(step, view, record, pod);
        return step_pod(step, view, record, pod);
}

/* In the order of the kind; but a healthy pod comes first to prove the image, and one that is not ready anyway
 * need not wait for the others. */
static int step_any_next(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                         const Census *census, bool is_proof, RolloutStep *step, Error *reterr) {
        json_object *first = is_proof && census->next_well ? census->next_well : census->next;
        int r = step_next(view, record, limits, census, first, step, reterr);

        if (r < 0 || step->action != ROLLOUT_WAIT || !census->next_ill)
                return r;
        rollout_step_done(step);
        return step_next(view, record, limits, census, census->next_ill, step, reterr);
}

static Census take_census(const RolloutView *view, json_object *record,
                          const RolloutLimits *limits) {
        Census census = { .n_pods = 0 };

        json_object_object_foreach(view->pods, name, pod) {
                (void) name;
                count_pod(view, record, limits, pod, &census);
        }
        return census;
}

/* Until a pod runs the new images, pods that are made anew get the ones before, which are known to work: the
 * template of a ReplicaSet follows the first pod. */
static bool is_proven(json_object *record, const Census *census) {
        if (record_is_undo(record) || census->n_updated > 0 || census->n_pods == 0)
                return true;
        /* There is none that could prove it, and none that has refuted it. */
        return census->n_given_up == census->n_pods && !census->spoiled;
}

static int step_pods(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                     const Census *census, bool one_at_a_time, RolloutStep *step, Error *reterr) {
        if (census->turned)
                return step_gate(step, view, record, census->turned);
        /* Going back is the way out of a failure: pods that failed have the old images already. */
        if (census->failed && !(record_is_undo(record) && census->n_old > 0))
                return rollout_step_set_pod(step, ROLLOUT_STOP, view, record, census->failed);
        if (census->spoiled && !record_is_undo(record) && census->n_updated == 0 &&
            !census->next_well && census->n_in_flight == 0)
                return rollout_step_set_pod(step, ROLLOUT_STOP, view, record, census->spoiled);
        if (census->draining)
                return step_pod(step, view, record, census->draining);
        if (census->next && !(one_at_a_time && census->n_in_flight > 0)) {
                int r = step_any_next(view, record, limits, census, one_at_a_time, step, reterr);

                if (r < 0 || step->action != ROLLOUT_WAIT || !census->awaited)
                        return r;
                rollout_step_done(step);
        }
        if (census->awaited)
                return rollout_step_set_pod(step, ROLLOUT_WAIT, view, record, census->awaited);
        step->action = ROLLOUT_DONE;
        return 0;
}

static bool are_observed(json_object *objects) {
        json_object_object_foreach(objects, name, object) {
                (void) name;
                if (!object_is_observed(object))
                        return false;
        }
        return true;
}

/* The controller has seen all of it, so that it will find nothing to do. */
static bool is_content(const RolloutView *view, json_object *record, json_object *replica_set,
                       const Census *census) {
        cleanup(json_object_put_p) json_object *now = NULL;
        json_object *workload = view->workload;
        bool is_same;

        if (view->kind == WORKLOAD_POD)
                return true;
        if (!object_is_observed(workload) || (replica_set && !are_observed(view->owned)))
                return false;
        if (view->kind == WORKLOAD_STATEFUL_SET)
                return object_integer(workload, "status.updatedReplicas") == census->n_revised;
        if (view->kind == WORKLOAD_DAEMON_SET)
                /* The status counts no revision of pods on nodes where none should be, such as tainted ones. */
                return object_integer(workload, "status.updatedNumberScheduled") >=
                       census->n_revised - object_integer(workload, "status.numberMisscheduled");
        if (view->kind != WORKLOAD_DEPLOYMENT)
                return true;

        /* It counts the pods of the ReplicaSet whose template is its own. */
        now = template_images(object_template(workload), record_target(record));
        is_same = now && template_has_images(object_template(replica_set), now);
        return object_integer(workload, "status.updatedReplicas") ==
               (is_same ? object_integer(replica_set, "status.replicas") : 0);
}

static int step_hand_back(RolloutStep *step, const RolloutView *view, json_object *record) {
        json_object *template = object_template(view->workload);
        int r = takeover_patch_state(view->workload, record,
                                     record_is_undo(record) ? "undone" : "done", true,
                                     &step->patch);

        if (r < 0)
                return r;
        step->action = ROLLOUT_HAND_BACK;
        if (view->kind != WORKLOAD_DEPLOYMENT || !record_sets_images(record) ||
            template_has_images(template, record_target(record)))
                return 0;
        return takeover_add_images(step->patch, view->workload, record_target(record));
}

/* The template has the images as before, or as it will be. */
static bool has_expected_images(const RolloutView *view, json_object *record) {
        json_object *template = object_template(view->workload);

        if (!record_sets_images(record))
                return template_has_images(template, record_images(record, false));
        return template_has_images(template, record_target(record)) ||
               (!workload_has_revisions(view->kind) &&
                template_has_images(template, record_images(record, !record_is_undo(record))));
}

/* The pods that were given up, by name and reason; NULL: none. */
static int name_given_up(const RolloutView *view, json_object *record, char **ret) {
        size_t size;
        FILE *stream = open_memstream(ret, &size);
        int r = 0;

        if (!stream)
                return -ENOMEM;
        json_object_object_foreach(view->pods, name, pod) {
                cleanup(free_p) char *reason = NULL;

                if (r < 0 || !rollout_is_given_up(view, record, pod))
                        continue;
                r = rollout_explain(view, record, pod, &reason);
                (void) fprintf(stream, "%spod \"%s\"%s%s", ftell(stream) > 0 ? "; " : "", name,
                               reason ? ": " : "", reason ? reason : "");
        }
        if (fclose(stream) != 0)
                r = -ENOMEM;
        if (r < 0 || size == 0) {
                free(*ret);
                *ret = NULL;
        }
        return r;
}

/* Another client has changed what only we should change now. */
static int check_unchanged(const RolloutView *view, json_object *record, json_object *base,
                           RolloutStep *step) {
        json_object *template = object_template(view->workload);
        cleanup(free_p) char *difference = NULL;
        int r;

        if (object_is_deleted(view->workload))
                return rollout_step_set(step, ROLLOUT_STOP, "it is being deleted");
        if (!workload_is_held(view->kind, view->workload)) {
                r = step_abandon(step, view, record, false);
                return r < 0 ? r
                             : rollout_step_set(
                                       step, ROLLOUT_ABANDON,
                                       "another client has let its controller go on, which "
                                       "brings its pods to its template now");
        }
        if (view->kind == WORKLOAD_POD)
                return 0;
        /* Without a history there is nothing to compare with. */
        if (!base && view->kind != WORKLOAD_DEPLOYMENT)
                return 0;
        if (!base) {
                r = step_abandon(step, view, record, true);
                return r < 0 ? r
                             : rollout_step_set(step, ROLLOUT_ABANDON, "\"%s\" is gone",
                                                json_get_text(record, "revision"));
        }
        r = template_compare(object_template(base), template, &difference);
        if (r < 0)
                return r;
        if (!difference && has_expected_images(view, record))
                return 0;

        r = step_abandon(step, view, record, true);
        return r < 0 ? r
                     : rollout_step_set(
                               step, ROLLOUT_ABANDON,
                               "another client has changed its template%s%s; its controller "
                               "brings its pods there now",
                               difference ? " in " : "", difference ? difference : "");
}

static json_object *base_of(const RolloutView *view, json_object *record) {
        const char *revision = json_get_text(record, "revision");

        if (view->kind == WORKLOAD_REPLICA_SET || view->kind == WORKLOAD_POD)
                return view->workload;
        return revision ? view_find_revision(view, revision) : NULL;
}

/* A ReplicaSet that the controller gave a copy of the record while that was open: kubectl rollout undo would
 * copy it back. NULL: there is none. */
static json_object *find_stale_copy(const RolloutView *view) {
        json_object_object_foreach(view->owned, name, replica_set) {
                cleanup(json_object_put_p) json_object *copy = NULL;

                (void) name;
                if (rollout_record_read(replica_set, &copy, NULL) >= 0 &&
                    rollout_record_is_open(copy))
                        return replica_set;
        }
        return NULL;
}

static int step_stale_copy(RolloutStep *step, json_object *replica_set) {
        cleanup(json_object_put_p) json_object *patch = identify(replica_set);

        if (!patch || add_no_record(patch) < 0)
                return -ENOMEM;
        return step_patch(step, ROLLOUT_PATCH_REPLICA_SET, object_name(replica_set),
                          take_ptr(patch));
}

static int step_after_end(const RolloutView *view, json_object *record, RolloutStep *step) {
        json_object *base = base_of(view, record), *stale;
        Census census = { .n_pods = 0 };

        json_object_object_foreach(view->pods, name, pod) {
                (void) name;
                census.n_revised += !object_is_deleted(pod) && view_has_pod(view, record, pod) &&
                                    text_equal(object_revision(pod), view_revision(view));
        }
        if (!is_content(view, record, view->kind == WORKLOAD_DEPLOYMENT ? base : NULL, &census))
                return rollout_step_set(step, ROLLOUT_WAIT, AWAITED_CONTROLLER);
        stale = view->kind == WORKLOAD_DEPLOYMENT ? find_stale_copy(view) : NULL;
        if (stale)
                return step_stale_copy(step, stale);
        step->action = ROLLOUT_DONE;
        return 0;
}

int rollout_plan(const RolloutView *view, json_object *record, const RolloutLimits *limits,
                 RolloutStep *ret, Error *reterr) {
        json_object *base = base_of(view, record);
        json_object *replica_set = view->kind == WORKLOAD_DEPLOYMENT ? base : NULL;
        json_object *source = replica_set ? replica_set
                              : view->kind == WORKLOAD_REPLICA_SET && record_sets_images(record)
                                      ? view->workload
                                      : NULL;
        bool is_old =
                source && !template_has_images(object_template(source), record_target(record));
        Census census;
        int r;

        *ret = ROLLOUT_STEP_INIT;
        if (json_is(record, "state", "abandoned"))
                return rollout_step_set(
                        ret, ROLLOUT_STOP,
                        "another run has left it to its controller, which brings its "
                        "pods to its template now");
        if (!rollout_record_is_open(record))
                return step_after_end(view, record, ret);
        r = check_unchanged(view, record, base, ret);
        if (r < 0 || ret->action != ROLLOUT_WAIT)
                return r;
        if (view->kind != WORKLOAD_POD && !object_is_observed(view->workload))
                return rollout_step_set(ret, ROLLOUT_WAIT, AWAITED_CONTROLLER);
        census = take_census(view, record, limits);
        if (is_old && is_proven(record, &census))
                return replica_set ? step_replica_set(ret, replica_set, record_target(record))
                                   : step_template(ret, view, record);
        if (replica_set) {
                r = step_twin(ret, view, record, replica_set);
                if (r < 0 || ret->action != ROLLOUT_WAIT)
                        return r;
        }
        if (replica_set && !object_is_observed(replica_set))
                return rollout_step_set(ret, ROLLOUT_WAIT,
                                        "for the controller of ReplicaSet \"%s\" to see its new "
                                        "template: does kube-controller-manager run?",
                                        object_name(replica_set));
        if (view->kind == WORKLOAD_DAEMON_SET && record_sets_images(record) &&
            !template_has_images(object_template(view_newest_revision(view)),
                                 record_target(record)))
                return rollout_step_set(ret, ROLLOUT_WAIT,
                                        "for its controller to make a ControllerRevision of its "
                                        "new template: does kube-controller-manager run?");

        r = step_pods(view, record, limits, &census, /* one_at_a_time= */ is_old, ret, reterr);
        if (r < 0 || ret->action != ROLLOUT_DONE)
                return r;
        if (!is_content(view, record, replica_set, &census))
                return rollout_step_set(ret, ROLLOUT_WAIT,
                                        "for its controller to count the updated pods in its "
                                        "status: does kube-controller-manager run?");
        r = step_hand_back(ret, view, record);
        return r < 0 ? r : name_given_up(view, record, &ret->message);
}

int rollout_plan_lost(const RolloutView *view, json_object *record, RolloutStep *ret) {
        int r;

        *ret = ROLLOUT_STEP_INIT;
        r = step_abandon(ret, view, record, workload_is_held(view->kind, view->workload));
        return r < 0 ? r
                     : rollout_step_set(
                               ret, ROLLOUT_ABANDON,
                               "another client has removed the annotation " ROLLOUT_ANNOTATION
                               "; its controller brings its pods to its template now");
}

/* The Deployment gets the images of its ReplicaSet: then its controller replaces no pod. */
static int add_source_images(RolloutStep *step, const RolloutView *view, json_object *record,
                             json_object *replica_set) {
        cleanup(json_object_put_p) json_object *images = NULL;

        if (!replica_set || !record_sets_images(record) ||
            !template_has_images(object_template(view->workload), record_images(record, true)))
                return 0;
        images = template_images(object_template(replica_set), record_target(record));
        return images ? takeover_add_images(step->patch, view->workload, images) : -ENOMEM;
}

int rollout_plan_release(const RolloutView *view, json_object *record, RolloutStep *ret) {
        json_object *replica_set = view->kind == WORKLOAD_DEPLOYMENT ? base_of(view, record) : NULL;
        bool is_held = workload_is_held(view->kind, view->workload);
        int r = 0;

        *ret = ROLLOUT_STEP_INIT;
        if (replica_set && is_held) {
                r = step_twin(ret, view, record, replica_set);
                if (r < 0 || ret->action != ROLLOUT_WAIT)
                        return r;
                if (!object_is_observed(view->workload) || !are_observed(view->owned))
                        return rollout_step_set(ret, ROLLOUT_WAIT,
                                                "for the controllers to see the last change");
        }
        r = step_abandon(ret, view, record, is_held);
        return r < 0 || !is_held ? r : add_source_images(ret, view, record, replica_set);
}

int rollout_rehearse(const RolloutView *view, json_object *record, unsigned n, RolloutStep *ret) {
        json_object *base = base_of(view, record);
        RolloutStep steps[] = { ROLLOUT_STEP_INIT, ROLLOUT_STEP_INIT, ROLLOUT_STEP_INIT,
                                ROLLOUT_STEP_INIT };
        unsigned n_steps = 0;
        int r = 0;

        if (record_sets_images(record) &&
            (view->kind == WORKLOAD_DEPLOYMENT || view->kind == WORKLOAD_REPLICA_SET))
                r = step_template(&steps[n_steps++], view, record);
        if (r >= 0 && view->kind == WORKLOAD_DEPLOYMENT && base)
                r = step_replica_set(&steps[n_steps++], base, record_target(record));
        json_object_object_foreach(view->pods, name, pod) {
                (void) name;
                if (r < 0 || rollout_phase(view, record, pod) != ROLLOUT_OLD)
                        continue;
                if (pod_gate_must_close(pod, record_target(record)))
                        r = step_gate(&steps[n_steps++], view, record, pod);
                if (r >= 0)
                        r = step_pod(&steps[n_steps++], view, record, pod);
                break;
        }
        *ret = (RolloutStep){ .action = ROLLOUT_DONE };
        for (unsigned i = 0; i < n_steps; i++)
                if (r >= 0 && i == n)
                        *ret = steps[i];
                else
                        rollout_step_done(&steps[i]);
        return r;
}
