/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/restart-plan.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/restart-image-plan.h"
#include "agent/kubectl/rollout-plan.h"
#include "agent/kubectl/rollout-pod-plan.h"
#include "agent/kubectl/workload.h"

/* How many of its parts say which pods: one, or two if the first is a kind. */
static bool begins_with_kind(const char *text) {
        const char *slash = strchr(text, '/');
        const char *second = slash ? strchr(slash + 1, '/') : NULL;
        cleanup(free_p) char *name =
                slash ? strndup(text, second ? (size_t) (second - text) : strlen(text)) : NULL;
        WorkloadKind kind;

        return name && workload_name_parse(name, &kind, &(const char *){ NULL }, NULL) >= 0;
}

int restart_target_parse(const char *text, RestartTarget *ret, Error *reterr) {
        cleanup(restart_target_done) RestartTarget target = RESTART_TARGET_INIT;
        const char *start = begins_with_kind(text) ? strchr(text, '/') + 1 : text;
        const char *slash = strchr(start, '/');

        if (!start[0] || start[0] == '/' || (slash && (!slash[1] || strchr(slash + 1, '/'))))
                return error_set(reterr, ERROR_INVALID,
                                 "\"%s\": expected POD, POD/CONTAINER, KIND/NAME or "
                                 "KIND/NAME/CONTAINER",
                                 text);

        target.pods = slash ? strndup(text, (size_t) (slash - text)) : strdup(text);
        if (!target.pods || (slash && text_copy(slash + 1, &target.container) < 0))
                return -ENOMEM;

        *ret = target;
        target = RESTART_TARGET_INIT;
        return 0;
}

void restart_target_done(RestartTarget *target) {
        free(target->pods);
        free(target->container);
        *target = RESTART_TARGET_INIT;
}

static int add_name(json_object *names, const char *name) {
        return patch_append(names, json_object_new_string(name));
}

static int add_all(json_object *pod, json_object *names) {
        json_object *containers = object_at(pod, "spec.containers");
        size_t n = json_object_is_type(containers, json_type_array)
                           ? json_object_array_length(containers)
                           : 0;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_name(names,
                             json_get_text(json_object_array_get_idx(containers, i), "name") ?: "");
        return r;
}

static int refuse_container(json_object *pod, const char *name, Error *reterr) {
        cleanup(free_p) char *names = NULL;

        if (template_name_containers(pod, &names) < 0)
                return -ENOMEM;
        return error_set(reterr, ERROR_INVALID,
                         "pod/%s has no container \"%s\" that keeps running; the pod has %s",
                         object_name(pod), name, names);
}

static int add_named(json_object *pod, const char *list, json_object *names, Error *reterr) {
        cleanup(free_p) char *copy = strdup(list);
        char *rest = copy;

        if (!copy)
                return -ENOMEM;

        for (char *name; (name = strsep(&rest, ","));) {
                json_object *sidecar =
                        json_find(object_at(pod, "spec.initContainers"), "name", name);

                if (!json_find(object_at(pod, "spec.containers"), "name", name) &&
                    !json_is(sidecar, "restartPolicy", "Always"))
                        return refuse_container(pod, name, reterr);
                if (add_name(names, name) < 0)
                        return -ENOMEM;
        }

        return 0;
}

int restart_plan_containers(json_object *pod, const char *names, json_object **ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        int r;

        if (!list)
                return -ENOMEM;

        r = names ? add_named(pod, names, list, reterr) : add_all(pod, list);
        if (r < 0)
                return r;

        *ret = take_ptr(list);
        return 0;
}

static json_object *containers_of(const RestartRequest *request) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        for (size_t i = 0; list && i < json_object_array_length(request->containers); i++) {
                json_object *name = json_object_array_get_idx(request->containers, i);

                if (patch_append(list, patch_wrap("name", json_object_get(name))) < 0)
                        return NULL;
        }

        return take_ptr(list);
}

int restart_plan_body(const RestartRequest *request, json_object **ret) {
        cleanup(json_object_put_p) json_object *body = json_parse_known(
                "{\"kind\":\"ContainerRecreateRequest\","
                "\"metadata\":{\"generateName\":\"inplace-restart-\",\"labels\":{}},\"spec\":{}}");
        json_object *spec = object_at(body, "spec");
        char version[64];

        (void) snprintf(version, sizeof(version), "apps.kruise.io/%s", request->version);
        if (patch_add_text(body, "apiVersion", version) < 0 ||
            patch_add_text(object_at(body, "metadata.labels"), RESTART_LABEL, request->run) < 0 ||
            patch_add_text(spec, "podName", request->pod) < 0 ||
            patch_add(spec, "containers", containers_of(request)) < 0 ||
            patch_add(spec, "ttlSecondsAfterFinished", json_object_new_int64(request->keep_sec)) <
                    0)
                return -ENOMEM;

        *ret = take_ptr(body);
        return 0;
}

/* The first container that did not succeed. */
static json_object *find_failed(json_object *states) {
        size_t n =
                json_object_is_type(states, json_type_array) ? json_object_array_length(states) : 0;

        for (size_t i = 0; i < n; i++) {
                json_object *state = json_object_array_get_idx(states, i);

                if (!json_is(state, "phase", "Succeeded"))
                        return state;
        }

        return NULL;
}

int restart_plan_read(json_object *request, RestartEnd *ret_end, char **ret_why) {
        json_object *status = object_at(request, "status");
        json_object *states = object_at(status, "containerRecreateStates");
        json_object *failed = find_failed(states);
        const char *message = json_get_filled(status, "message");

        *ret_why = NULL;
        if (!json_is(status, "phase", "Completed")) {
                *ret_end = RESTART_RUNNING;
                return 0;
        }
        if (!failed && states) {
                *ret_end = RESTART_SUCCEEDED;
                return 0;
        }

        *ret_end = RESTART_FAILED;
        if (!failed)
                return text_copy(message, ret_why);
        if (text_format(ret_why, "container %s: %s", json_get_text(failed, "name") ?: "",
                     json_get_filled(failed, "message") ?: message ?: "it was not restarted") < 0)
                return -ENOMEM;

        return 0;
}

static int explain_backoff(json_object *status, const char *container, int64_t now_sec,
                           char **ret_why) {
        int64_t left_sec = json_get_time(object_at(status, "lastState.terminated"), "finishedAt") +
                           container_backoff_sec(status) - now_sec;

        if (left_sec <= 0)
                return text_format(ret_why, "the kubelet starts %s again when its back-off is over",
                                   container);
        return text_format(ret_why,
                           "the kubelet starts %s again in %" PRId64
                           "s: it delays a container that it has started repeatedly",
                           container, left_sec);
}

static bool is_any_of(const char *text, const char *const *texts) {
        for (; *texts; texts++)
                if (text_equal(text, *texts))
                        return true;

        return false;
}

/* The one before is still there, or nothing has taken its place. */
static int observe_old(json_object *pod, json_object *status, const char *container,
                       int64_t now_sec, RestartEnd *ret_end, char **ret_why) {
        static const char *const no_image[] = { "ImagePullBackOff", "InvalidImageName",
                                                "ErrImageNeverPull", NULL };
        json_object *waiting = object_at(status, "state.waiting");
        const char *reason = json_get_text(waiting, "reason");
        const char *message = json_get_text(waiting, "message") ?: "";
        const char *image = template_image(pod, container) ?: "";

        if (is_any_of(reason, no_image) &&
            (message_is_about_image(message, image) || message_is_about_volume(message, pod))) {
                *ret_end = RESTART_NOT_PULLED;
                return text_format(ret_why, "container %s: %s: %s", container, reason, message);
        }
        *ret_end = RESTART_RUNNING;
        if (text_equal(reason, "CrashLoopBackOff"))
                return explain_backoff(status, container, now_sec, ret_why);
        if (reason)
                return text_format(ret_why, "container %s: %s", container, reason);
        return text_format(ret_why,
                           "the old container of %s is stopping (grace period %" PRId64 "s)",
                           container, object_integer(pod, "spec.terminationGracePeriodSeconds"));
}

/* Another one was started; by the kubelet's back-off it may be one more of the spec before, which ends once more. */
static int observe_new(json_object *pod, json_object *status, const char *container,
                       RestartEnd *ret_end, char **ret_why) {
        int64_t code = json_get_integer(object_at(status, "lastState.terminated"), "exitCode");
        bool is_seen = !object_at(pod, "status.observedGeneration") || object_is_observed(pod);
        json_object *ended = object_at(status, "state.terminated");

        if (is_seen && (object_at(status, "state.running") ||
                        (ended && json_get_integer(ended, "exitCode") == 0))) {
                *ret_end = RESTART_SUCCEEDED;
                return 0;
        }
        if (!is_seen ||
            !text_equal(object_text(status, "state.waiting.reason"), "CrashLoopBackOff")) {
                *ret_end = RESTART_RUNNING;
                return text_format(ret_why, "container %s is being started", container);
        }
        *ret_end = RESTART_FAILED;
        return text_format(ret_why,
                           "container %s has ended again, with exit code %" PRId64
                           "; see kubectl logs --previous",
                           container, code);
}

/* A failure ends it, whatever the other containers do; success needs them all. */
static bool outweighs(RestartEnd end, RestartEnd other) {
        return end > RESTART_SUCCEEDED ? end > other
                                       : end == RESTART_RUNNING && other == RESTART_SUCCEEDED;
}

int restart_plan_observe(json_object *before, json_object *pod, json_object *containers,
                         int64_t now_sec, RestartEnd *ret_end, char **ret_why) {
        *ret_why = NULL;
        *ret_end = RESTART_SUCCEEDED;
        for (size_t i = 0; i < json_object_array_length(containers); i++) {
                const char *name = json_object_get_string(json_object_array_get_idx(containers, i));
                json_object *status = container_status(pod, name);
                const char *id = json_get_filled(status, "containerID");
                bool is_new = id && !json_is(container_status(before, name), "containerID", id);
                cleanup(free_p) char *why = NULL;
                RestartEnd end;
                int r = is_new ? observe_new(pod, status, name, &end, &why)
                               : observe_old(pod, status, name, now_sec, &end, &why);

                if (r < 0)
                        return r;
                if (outweighs(end, *ret_end)) {
                        free(*ret_why);
                        *ret_why = take_ptr(why);
                        *ret_end = end;
                }
        }
        return 0;
}

/* It is ready, but not for long: another run restarts or updates it. The next one may be that pod itself, which makes no
 * further one unavailable. */
static bool is_leaving(const RolloutView *view, json_object *pod, json_object *next) {
        return restart_image_is_awaited(pod, view->now_sec) &&
               !text_equal(object_name(pod), object_name(next));
}

/* Pods that the controller of budgets has yet to count as unready. */
static int64_t count_leaving(const RolloutView *view, json_object *budget, json_object *next) {
        int64_t n = 0;

        json_object_object_foreach(view->pods, name, pod) {
                (void) name;
                n += pod_is_ready(pod) && !object_is_deleted(pod) && budget_covers(budget, pod) &&
                     is_leaving(view, pod, next);
        }
        return n;
}

static int limit_by_budgets(const RolloutView *view, json_object *pod, int64_t *allowed,
                            char **ret_why) {
        if (!view->budgets)
                return 0;
        json_object_object_foreach(view->budgets, name, budget) {
                int64_t n = budget_allowed(budget) - count_leaving(view, budget, pod);

                if (n >= *allowed || !budget_covers(budget, pod))
                        continue;
                *allowed = n > 0 ? n : 0;
                if (n <= 0)
                        return text_format(ret_why,
                                           "until the PodDisruptionBudget \"%s\" allows another "
                                           "pod",
                                           name) < 0
                                       ? -ENOMEM
                                       : 0;
        }
        return 0;
}

bool restart_plan_is_of(WorkloadKind kind, json_object *workload, json_object *owners,
                        json_object *pod) {
        const char *uid = object_text(workload, "metadata.uid"), *owner = object_owner(pod);
        WorkloadKind its;

        if (kind != WORKLOAD_DEPLOYMENT)
                return owner && text_equal(owner, uid);
        if (!workload_kind_of_owner(object_controller(pod), &its) || its != WORKLOAD_REPLICA_SET)
                return false;
        owner = owner ? json_get_text(owners, owner) : NULL;
        return !owner || text_equal(owner, uid);
}

static int64_t count_available(const RolloutView *view, json_object *next) {
        int64_t n = 0;

        json_object_object_foreach(view->pods, name, pod) {
                (void) name;
                n += restart_plan_is_of(view->kind, view->workload, view->replica_set_owners,
                                        pod) &&
                     !object_is_deleted(pod) && !view_pod_is_surplus(view, pod) &&
                     view_pod_is_available(view, pod) && !is_leaving(view, pod, next);
        }
        return n;
}

int restart_plan_allowance(const RolloutView *view, int64_t max_unavailable, json_object *pod,
                           int64_t *ret, char **ret_why) {
        int64_t n_missing =
                view->workload ? view_desired_pods(view) - count_available(view, pod) : 0;
        int64_t allowed = max_unavailable - (n_missing > 0 ? n_missing : 0);
        int r = 0;

        *ret_why = NULL;
        if (allowed > 0)
                r = limit_by_budgets(view, pod, &allowed, ret_why);
        else
                r = text_format(ret_why,
                                "until more pods are available: %" PRId64 " of %" PRId64
                                " are not, --max-unavailable is %" PRId64,
                                n_missing, view_desired_pods(view), max_unavailable);
        *ret = allowed > 0 ? allowed : 0;
        return r < 0 ? r : 0;
}

bool restart_plan_is_over(json_object *pod) {
        return object_is_deleted(pod) || pod_has_ended(pod);
}
