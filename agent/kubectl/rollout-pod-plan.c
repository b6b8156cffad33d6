/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-pod-plan.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/pod/gate-spec.h"
#include "agent/pod/pod.h"

/* After that a pod that was not ready before need not be any more. */
#define GIVE_UP_SEC 60
#define BACKOFF_MAX_SEC 300 /* the kubelet's longest back-off */
#define CRASHES_MAX 3       /* with the restart for the new image */

#define KRUISE_STATE "apps.kruise.io/inplace-update-state"

static json_object *condition_of(json_object *pod, const char *type) {
        return list_find(object_at(pod, "status.conditions"), "type", type);
}

static bool is_true(json_object *pod, const char *type) {
        return json_is(condition_of(pod, type), "status", "True");
}

bool pod_is_ready(json_object *pod) {
        return is_true(pod, "Ready");
}

int64_t pod_gate_closed_sec(json_object *pod) {
        return json_get_time(condition_of(pod, GATE_CONDITION), "lastTransitionTime");
}

static bool has_gate(json_object *pod) {
        return list_find(object_at(pod, "spec.readinessGates"), "conditionType", GATE_CONDITION);
}

bool pod_gate_is_closed(json_object *pod) {
        json_object *gate = condition_of(pod, GATE_CONDITION);

        return json_is(gate, "status", "False") && json_is(gate, "reason", GATE_REASON_UPDATE);
}

/* The agent opens it when these images run. */
static bool gate_is_closed_for(json_object *pod, json_object *images) {
        const char *text = json_get_text(condition_of(pod, GATE_CONDITION), "message");
        cleanup(json_object_put_p) json_object *message = NULL;

        if (!pod_gate_is_closed(pod) || !text || json_parse(text, strlen(text), &message, NULL) < 0)
                return false;
        return json_object_equal(json_get(message, "images", json_type_object), images);
}

/* A gate that is closed for another reason belongs to another client. */
bool pod_gate_must_close(json_object *pod, json_object *images) {
        json_object *gate = condition_of(pod, GATE_CONDITION);

        return has_gate(pod) && !gate_is_closed_for(pod, images) &&
               (pod_gate_is_closed(pod) || !json_is(gate, "status", "False"));
}

bool view_pod_is_available(const RolloutView *view, json_object *pod) {
        int64_t wait_sec = object_integer(view->workload, "spec.minReadySeconds");
        int64_t since_sec = json_get_time(condition_of(pod, "Ready"), "lastTransitionTime");
        json_object *statuses = object_list(pod, "status.containerStatuses");

        if (!pod_is_ready(pod) || wait_sec <= 0)
                return pod_is_ready(pod);
        /* A container that was replaced at once may have left the condition as it was. */
        for (size_t i = 0; statuses && i < json_object_array_length(statuses); i++) {
                json_object *status = json_object_array_get_idx(statuses, i);
                int64_t started_sec =
                        json_get_time(object_at(status, "state.running"), "startedAt");

                if (started_sec > since_sec)
                        since_sec = started_sec;
        }
        return view->now_sec - since_sec > wait_sec;
}

static json_object *status_of(json_object *pod, const char *container) {
        json_object *found =
                list_find(object_at(pod, "status.containerStatuses"), "name", container);

        return found ? found
                     : list_find(object_at(pod, "status.initContainerStatuses"), "name", container);
}

/* The kubelet of a lost node does not say any more that its containers are not ready; the control plane says it
 * of the pod. */
static bool is_lost(json_object *pod) {
        return !object_at(pod, "spec.readinessGates") && !pod_is_ready(pod) &&
               is_true(pod, "ContainersReady");
}

static bool is_unready(json_object *pod) {
        return json_is(condition_of(pod, "ContainersReady"), "status", "False") ||
               (!pod_is_ready(pod) && !pod_gate_is_closed(pod));
}

static const char *id_of(json_object *pod, const char *container) {
        const char *id = json_get_text(status_of(pod, container), "containerID");

        return id ? id : "";
}

/* {container: {"image", "id"}}: what ran in the pod before it was updated; NULL: it was not. */
static json_object *read_former(json_object *pod) {
        json_object *annotations = object_at(pod, "metadata.annotations");
        const char *text = annotations ? json_get_text(annotations, ROLLOUT_POD_ANNOTATION) : NULL;
        json_object *former = NULL;

        if (!text || json_parse(text, strlen(text), &former, NULL) < 0)
                return NULL;
        return former;
}

static bool says_unready(json_object *former) {
        if (!former)
                return false;
        json_object_object_foreach(former, container, entry) {
                (void) container;
                if (json_object_get_boolean(object_at(entry, "unready")))
                        return true;
        }
        return false;
}

bool pod_was_unready(json_object *pod) {
        cleanup(json_object_put_p) json_object *former = read_former(pod);

        return says_unready(former);
}

/* The container was started for this image. Where that follows from its ID alone, the kubelet has to have
 * seen the pod as it is; one that says so has a status.observedGeneration. */
static bool runs_image(json_object *pod, json_object *former, const char *container,
                       const char *image) {
        json_object *entry = json_get(former, container, json_type_object);
        json_object *status = status_of(pod, container);

        if (!object_at(status, "state.running"))
                return false;
        if (entry && text_equal(json_get_text(entry, "id"), id_of(pod, container)))
                return json_is(entry, "image", image);
        return true;
}

int64_t pod_restarts(json_object *pod, json_object *containers) {
        int64_t sum = 0;

        json_object_object_foreach(containers, container, image) {
                (void) image;
                sum += json_get_integer(status_of(pod, container), "restartCount");
        }
        return sum;
}

static json_object *noted_of(const RolloutView *view, json_object *pod) {
        return view->noted ? json_get(view->noted, object_name(pod), json_type_object) : NULL;
}

/* For how long this run has seen it being updated. */
static int64_t updating_sec(const RolloutView *view, json_object *pod) {
        json_object *noted = noted_of(view, pod);

        return json_is(noted, "phase", rollout_phase_to_string(ROLLOUT_UPDATING))
                       ? view->now_sec - json_get_integer(noted, "since")
                       : 0;
}

/* Since this program saw it updated: its new containers do not keep running. */
static bool has_restarted(const RolloutView *view, json_object *pod, json_object *images) {
        json_object *noted = noted_of(view, pod);

        return json_object_object_get_ex(noted, "restarts", NULL) &&
               pod_restarts(pod, images) > json_get_integer(noted, "restarts");
}

static bool is_verified(const RolloutView *view, json_object *pod, json_object *former,
                        json_object *images) {
        json_object *verified = condition_of(pod, POD_VERIFIED_CONDITION);

        /* The kubelet may not have seen yet that the gate is closed. */
        if (pod_gate_is_closed(pod))
                return false;
        if (object_at(pod, "status.observedGeneration") && !object_is_observed(pod))
                return false;
        json_object_object_foreach(images, container, image) {
                if (!runs_image(pod, former, container, json_object_get_string(image)))
                        return false;
        }
        return view_pod_is_available(view, pod) &&
               (!verified || json_is(verified, "status", "True"));
}

static bool is_any_of(const char *text, const char *const *texts, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (text_equal(text, texts[i]))
                        return true;

        return false;
}

static bool continues_reference(const char *end) {
        if (*end == '.' || *end == ':')
                end++;
        return isalnum((unsigned char) *end) || (*end && strchr("_-@/", *end));
}

/* The kubelet's message is about this image, and not about one whose name begins or ends with its name. */
static bool is_about_image(const char *message, const char *image) {
        for (const char *at = strstr(message, image); at; at = strstr(at + 1, image)) {
                bool is_begun = at > message && continues_reference(at - 1);

                if (!is_begun && !continues_reference(at + strlen(image)))
                        return true;
        }
        return false;
}

/* OpenKruise's controller has changed the pod since the last container was started. Texts of one form in UTC. */
static bool ran_before_update(json_object *pod, const char *container) {
        json_object *annotations = object_at(pod, "metadata.annotations");
        const char *text = annotations ? json_get_text(annotations, KRUISE_STATE) : NULL;
        const char *started =
                object_text(status_of(pod, container), "lastState.terminated.startedAt");
        cleanup(json_object_put_p) json_object *state = NULL;
        const char *changed;

        if (!text || !started || json_parse(text, strlen(text), &state, NULL) < 0)
                return false;
        changed = json_get_text(state, "updateTimestamp");
        return changed && strcmp(started, changed) <= 0;
}

/* It may wait for a database: the kubelet's first pause is not the end, nor is one that this program has found. */
static bool keeps_crashing(const RolloutView *view, json_object *pod, json_object *images) {
        json_object *noted = noted_of(view, pod);

        return !json_object_object_get_ex(noted, "first", NULL) ||
               pod_restarts(pod, images) - json_get_integer(noted, "first") >= CRASHES_MAX;
}

/* This container will not start by itself. A status that is about the image before does not count. */
static bool has_failed(const RolloutView *view, json_object *pod, json_object *former,
                       json_object *images, const char *container, const char *image) {
        static const char *const of_image[] = { "ImagePullBackOff", "InvalidImageName",
                                                "ErrImageNeverPull", "RegistryUnavailable" };
        static const char *const of_creation[] = { "SignatureValidationFailed", "ImageInspectError",
                                                   "CreateContainerConfigError",
                                                   "CreateContainerError", "RunContainerError" };
        static const char *const of_container[] = { "CrashLoopBackOff" };
        json_object *entry = json_get(former, container, json_type_object);
        json_object *waiting = object_at(status_of(pod, container), "state.waiting");
        const char *reason = json_get_text(waiting, "reason");
        const char *message = json_get_text(waiting, "message");
        bool is_same = entry ? text_equal(json_get_text(entry, "id"), id_of(pod, container))
                             : ran_before_update(pod, container);

        if (is_any_of(reason, of_image, sizeof(of_image) / sizeof(of_image[0])))
                return message && is_about_image(message, image);
        if (is_any_of(reason, of_creation, sizeof(of_creation) / sizeof(of_creation[0])))
                return object_at(pod, "status.observedGeneration") ? object_is_observed(pod)
                                                                   : !is_same;
        return !is_same && is_any_of(reason, of_container, 1) && keeps_crashing(view, pod, images);
}

/* The kubelet is about to start it for the first time, and has not tried for long. */
static bool is_starting(const RolloutView *view, json_object *pod, const char *container) {
        int64_t seen_sec =
                json_get_time(object_at(pod, "status"), "startTime"); /* by the kubelet */
        int64_t since_sec =
                seen_sec ?: json_get_time(object_at(pod, "metadata"), "creationTimestamp");
        const char *reason = object_text(status_of(pod, container), "state.waiting.reason");

        if (since_sec > 0 && view->now_sec - since_sec > GIVE_UP_SEC)
                return false;
        return object_text(pod, "spec.nodeName") && !*id_of(pod, container) &&
               (!reason || text_equal(reason, "ContainerCreating") ||
                text_equal(reason, "PodInitializing"));
}

/* The kubelet has acted on what the pod asked for before, so that what runs next is known to be for the next
 * image; or it will not. */
static bool is_settled(const RolloutView *view, json_object *pod, json_object *former,
                       json_object *images) {
        bool is_hopeless = is_unready(pod) && (is_lost(pod) || says_unready(former));

        json_object_object_foreach(images, container, image) {
                json_object *entry = json_get(former, container, json_type_object);
                const char *now = template_image(pod, container);

                (void) image;
                if (is_starting(view, pod, container))
                        return false;
                if (entry && now && !is_hopeless && !json_is(entry, "image", now) &&
                    json_is(entry, "id", id_of(pod, container)) &&
                    !has_failed(view, pod, former, images, container, now))
                        return false;
        }
        return true;
}

static bool has_target(const RolloutView *view, json_object *record, json_object *pod) {
        const char *revision = view_target_revision(view, record);

        return template_has_images(pod, record_target(record)) &&
               (!revision || text_equal(object_revision(pod), revision));
}

/* The first container that has failed; NULL: none. */
static const char *find_failed(const RolloutView *view, json_object *pod, json_object *former,
                               json_object *images) {
        json_object_object_foreach(images, container, image) {
                if (has_failed(view, pod, former, images, container, json_object_get_string(image)))
                        return container;
        }
        return NULL;
}

RolloutPhase rollout_phase(const RolloutView *view, json_object *record, json_object *pod) {
        cleanup(json_object_put_p) json_object *former = read_former(pod);
        json_object *images = record_target(record);

        if (object_is_deleted(pod) || !view_has_pod(view, record, pod) ||
            (view->kind == WORKLOAD_STATEFUL_SET &&
             pod_ordinal(pod) < view_partition(view, record)))
                return ROLLOUT_LEFT;
        if (pod_has_ended(pod))
                return ROLLOUT_FAILED;
        if (!has_target(view, record, pod)) {
                if (!is_settled(view, pod, former, images))
                        return ROLLOUT_UPDATING;
                return gate_is_closed_for(pod, images) ? ROLLOUT_DRAINING : ROLLOUT_OLD;
        }
        if (has_restarted(view, pod, images))
                return ROLLOUT_FAILED;
        if (is_verified(view, pod, former, images))
                return ROLLOUT_UPDATED;
        if (find_failed(view, pod, former, images))
                return ROLLOUT_FAILED;
        /* The controller made it as it is, and it does not wait for us. */
        if (!former && !pod_gate_is_closed(pod) && !workload_is_of_kruise(view->kind))
                return ROLLOUT_UPDATED;
        return ROLLOUT_UPDATING;
}

/* In plain words */

/* As the kubelet writes it: "back-off 2m40s restarting failed container"; 0: it does not say. */
static int64_t backoff_sec(const char *message) {
        const char *at = message ? strstr(message, "back-off ") : NULL;
        int64_t sum = 0;

        for (at = at ? at + strlen("back-off ") : ""; isdigit((unsigned char) *at); at++) {
                char *end;
                int64_t number = strtoll(at, &end, 10);

                if (number > 3600)
                        return 0;
                sum += *end == 'm' ? 60 * number : number;
                at = end;
                if (*at != 'm')
                        break;
        }
        return sum;
}

static int explain_backoff(const RolloutView *view, json_object *status, const char *container,
                           char **ret) {
        json_object *ended = object_at(status, "lastState.terminated");
        int64_t whole_sec = backoff_sec(object_text(status, "state.waiting.message"));
        int64_t ended_sec = json_get_time(ended, "finishedAt");
        int64_t left_sec = ended_sec + whole_sec - view->now_sec;

        if (whole_sec == 0 || ended_sec == 0 || left_sec <= 0)
                return text_format(ret,
                                   "the kubelet starts %s again soon (its back-off after several "
                                   "starts within ten minutes)",
                                   container);
        return text_format(ret,
                           "the kubelet starts %s again in %lldm%02llds (its back-off after "
                           "several starts within ten minutes)",
                           container, (long long) left_sec / 60, (long long) left_sec % 60);
}

static int explain_old(const RolloutView *view, json_object *pod, char **ret) {
        json_object *grace = object_at(pod, "spec.terminationGracePeriodSeconds");
        int64_t grace_sec = grace ? json_object_get_int64(grace) : 30;
        int64_t left_sec = grace_sec - updating_sec(view, pod);
        const char *node = object_text(pod, "spec.nodeName");

        if (left_sec >= 0)
                return text_format(ret,
                                   "the old container is stopping (grace period %lld s, %lld s "
                                   "left)",
                                   (long long) grace_sec, (long long) left_sec);
        return text_format(ret,
                           "the old container still runs %lld s after its grace period: does the "
                           "kubelet of node \"%s\" work?",
                           (long long) -left_sec, node ? node : "");
}

static int explain_container(const RolloutView *view, json_object *pod, json_object *former,
                             const char *container, char **ret) {
        json_object *entry = json_get(former, container, json_type_object);
        json_object *status = status_of(pod, container);
        const char *reason = object_text(status, "state.waiting.reason");
        const char *message = object_text(status, "state.waiting.message");
        const char *ended = object_text(status, "state.terminated.reason");

        if (text_equal(reason, "CrashLoopBackOff"))
                return explain_backoff(view, status, container, ret);
        if (text_equal(reason, "ContainerCreating"))
                return text_format(ret, "container %s is being created", container);
        if (text_equal(reason, "PodInitializing"))
                return text_format(ret, "its init containers come first");
        if (reason)
                return text_format(ret, "container %s: %s%s%s", container, reason,
                                   message ? ": " : "", message ? message : "");
        if (ended)
                return text_format(ret, "container %s has ended (%s), and is started again",
                                   container, ended);
        if (entry && json_is(entry, "id", id_of(pod, container)) &&
            !json_is(entry, "image", template_image(pod, container)))
                return explain_old(view, pod, ret);
        return 0;
}

static int explain_wait(const RolloutView *view, json_object *pod, json_object *images,
                        json_object *former, char **ret) {
        json_object *scheduled = condition_of(pod, "PodScheduled");
        json_object *ready = condition_of(pod, "Ready");
        const char *node = object_text(pod, "spec.nodeName");
        const char *message = json_get_text(ready, "message");

        if (json_is(scheduled, "status", "False"))
                return text_format(ret, "it has no node: %s",
                                   json_get_text(scheduled, "message") ?: "unschedulable");
        if (is_lost(pod))
                return text_format(ret, "its node \"%s\" does not answer", node ? node : "");
        json_object_object_foreach(images, container, image) {
                int r;

                (void) image;
                r = explain_container(view, pod, former, container, ret);
                if (r < 0 || *ret)
                        return r;
        }
        if (pod_gate_is_closed(pod))
                return text_format(ret, "the agent of node \"%s\" opens its readiness gate",
                                   node ? node : "");
        if (!pod_is_ready(pod))
                return text_format(ret, "it is not ready%s%s", message ? ": " : "",
                                   message ? message : "");
        if (json_is(condition_of(pod, POD_VERIFIED_CONDITION), "status", "False"))
                return text_format(ret,
                                   "the agent of node \"%s\" has not verified yet what runs in it",
                                   node ? node : "");
        return view_pod_is_available(view, pod)
                       ? 0
                       : text_format(ret, "it is ready, but not yet for minReadySeconds");
}

/* How its container has ended; the kubelet's own sentence says only that it waits. */
static int explain_crash(json_object *pod, const char *container, const char *image, char **ret) {
        json_object *status = status_of(pod, container);
        json_object *ended = object_at(status, "lastState.terminated");
        const char *message = json_get_filled(ended, "message");
        const char *reason = json_get_text(ended, "reason");
        const char *namespace = object_text(pod, "metadata.namespace");

        if (!ended)
                return text_format(ret, "container %s does not keep running (image %s)", container,
                                   image);
        if (text_equal(reason, "StartError") || text_equal(reason, "ContainerCannotRun"))
                return text_format(ret, "container %s cannot be started (image %s): %s", container,
                                   image, message ? message : reason);
        return text_format(ret,
                           "container %s ends with exit code %lld%s%s%s (image %s); see kubectl "
                           "logs%s%s %s -c %s --previous",
                           container, (long long) json_get_integer(ended, "exitCode"),
                           reason ? " (" : "", reason ? reason : "", reason ? ")" : "", image,
                           namespace ? " -n " : "", namespace ? namespace : "", object_name(pod),
                           container);
}

static int explain_failure(const RolloutView *view, json_object *pod, json_object *images,
                           json_object *former, char **ret) {
        const char *container = find_failed(view, pod, former, images);
        const char *image = container ? json_get_text(images, container) : NULL;
        json_object *waiting;
        const char *reason, *message;

        if (pod_has_ended(pod))
                return text_format(ret, "it has ended, and its containers are not started again");
        if (!container)
                return text_format(ret, "a container has restarted since the update: see kubectl "
                                        "logs --previous");
        waiting = object_at(status_of(pod, container), "state.waiting");
        reason = json_get_text(waiting, "reason");
        message = json_get_filled(waiting, "message");
        if (text_equal(reason, "CrashLoopBackOff"))
                return explain_crash(pod, container, image, ret);
        return text_format(ret, "container %s: %s", container, message ? message : reason);
}

int rollout_explain(const RolloutView *view, json_object *record, json_object *pod, char **ret) {
        cleanup(json_object_put_p) json_object *former = read_former(pod);
        json_object *images = record_target(record);

        *ret = NULL;
        switch (rollout_phase(view, record, pod)) {
        case ROLLOUT_FAILED: return explain_failure(view, pod, images, former, ret);
        case ROLLOUT_UPDATING: return explain_wait(view, pod, images, former, ret);
        case ROLLOUT_DRAINING: return text_format(ret, "it is being taken out of service");
        case ROLLOUT_LEFT:
        case ROLLOUT_OLD:
        case ROLLOUT_UPDATED:
        case _ROLLOUT_PHASE_MAX: break;
        }
        return 0;
}

bool rollout_is_given_up(const RolloutView *view, json_object *record, json_object *pod) {
        RolloutPhase phase = rollout_phase(view, record, pod);
        int64_t patience_sec = GIVE_UP_SEC +
                               object_integer(pod, "spec.terminationGracePeriodSeconds") +
                               object_integer(view->workload, "spec.minReadySeconds");

        if (!is_lost(pod) && !pod_was_unready(pod))
                return false;
        if (phase == ROLLOUT_FAILED)
                return true;
        json_object_object_foreach(record_target(record), container, image) {
                (void) image;
                /* The kubelet is there, and will try again. */
                if (text_equal(object_text(status_of(pod, container), "state.waiting.reason"),
                               "CrashLoopBackOff"))
                        patience_sec += BACKOFF_MAX_SEC;
        }
        return phase == ROLLOUT_UPDATING && has_target(view, record, pod) &&
               updating_sec(view, pod) > patience_sec;
}

const char *rollout_phase_to_string(RolloutPhase phase) {
        static const char *const names[_ROLLOUT_PHASE_MAX] = {
                [ROLLOUT_LEFT] = "left as it is", [ROLLOUT_OLD] = "waiting",
                [ROLLOUT_DRAINING] = "draining",  [ROLLOUT_UPDATING] = "updating",
                [ROLLOUT_FAILED] = "failed",      [ROLLOUT_UPDATED] = "updated",
        };

        return names[phase];
}

/* Notes the containers that run now, so that the new ones can be distinguished from them. */
json_object *pod_make_former(json_object *pod, json_object *images) {
        cleanup(json_object_put_p) json_object *before = read_former(pod);
        cleanup(json_object_put_p) json_object *former = json_object_new_object();

        json_object_object_foreach(images, container, image) {
                json_object *known = json_get(before, container, json_type_object);
                cleanup(json_object_put_p) json_object *entry = json_object_new_object();
                const char *now = template_image(pod, container);

                (void) image;
                /* It was updated, and the container has not been replaced since. */
                if (known && text_equal(json_get_text(known, "id"), id_of(pod, container)))
                        now = json_get_text(known, "image");
                if (!entry || patch_add_text(entry, "image", now ? now : "") < 0 ||
                    patch_add_text(entry, "id", id_of(pod, container)) < 0 ||
                    (is_unready(pod) &&
                     patch_add(entry, "unready", json_object_new_boolean(true)) < 0) ||
                    patch_add(former, container, take_ptr(entry)) < 0)
                        return NULL;
        }
        return take_ptr(former);
}
