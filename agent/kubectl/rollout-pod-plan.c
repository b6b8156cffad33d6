/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-pod-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/slice.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/restart-image-plan.h"
#include "agent/pod/pod.h"

#define MESSAGE_CUT \
        1000 /* bytes: the agent cuts longer messages at 1024, and may have cut this one */
/* After that a pod that was not ready before need not be any more. */
#define GIVE_UP_SEC 60
#define BACKOFF_MAX_SEC 300 /* the kubelet's longest back-off */
#define CRASHES_MAX 3       /* with the restart for the new image */
#define REFUSALS_MAX 2      /* starts of the new container that the runtime refuses */

static json_object *condition_of(json_object *pod, const char *type) {
        return json_find(object_at(pod, "status.conditions"), "type", type);
}

static bool is_true(json_object *pod, const char *type) {
        return json_is(condition_of(pod, type), "status", "True");
}

bool pod_is_ready(json_object *pod) {
        return is_true(pod, "Ready");
}

bool pod_is_resizing(json_object *pod) {
        return is_true(pod, "PodResizePending") || is_true(pod, "PodResizeInProgress");
}

bool view_pod_is_available(const RolloutView *view, json_object *pod) {
        int64_t wait_sec = object_integer(view->workload, "spec.minReadySeconds");
        json_object *ready = condition_of(pod, "Ready");
        json_object *statuses = object_list(pod, "status.containerStatuses");
        int64_t since_sec;

        if (!json_is(ready, "status", "True") || wait_sec <= 0)
                return json_is(ready, "status", "True");
        since_sec = json_get_time(ready, "lastTransitionTime");
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

/* They were open before the pod became unready. Just after they open, its kubelet has to say yet that it is ready. */
static bool were_gates_open(json_object *pod) {
        int64_t unready_sec = json_get_time(condition_of(pod, "Ready"), "lastTransitionTime");
        json_object *gates = object_list(pod, "spec.readinessGates");

        for (size_t i = 0; gates && i < json_object_array_length(gates); i++) {
                const char *type =
                        json_get_text(json_object_array_get_idx(gates, i), "conditionType");
                int64_t open_sec =
                        type ? json_get_time(condition_of(pod, type), "lastTransitionTime") : 0;

                if (open_sec == 0 || open_sec >= unready_sec || !is_true(pod, type))
                        return false;
        }
        return true;
}

/* The kubelet of a lost node does not say any more that its containers are not ready; the control plane says it
 * of the pod. */
static bool is_lost(json_object *pod) {
        return !pod_is_ready(pod) && is_true(pod, "ContainersReady") && were_gates_open(pod);
}

static bool is_unready(json_object *pod) {
        return json_is(condition_of(pod, "ContainersReady"), "status", "False") ||
               (!pod_is_ready(pod) && !pod_gate_is_closed(pod));
}

static const char *id_of(json_object *pod, const char *container) {
        const char *id = json_get_text(container_status(pod, container), "containerID");

        return id ? id : "";
}

/* {container: {"image", "id", "imageID", "since", "unready", "silent"}}: what ran in the pod before it was updated, since when
 * that update is open, and whether the pod was out of service before, or silent; NULL: it was not updated. */
static json_object *read_former(json_object *pod) {
        return object_annotation_json(pod, ROLLOUT_POD_ANNOTATION);
}

/* A pod of an update, and what it should become. */
typedef struct Subject {
        const RolloutView *view;
        json_object *pod;
        json_object *images;  /* images that it should have */
        json_object *former;  /* see read_former() */
        json_object *noted;   /* see RolloutView */
        const char *since;    /* the record's */
        const char *revision; /* which it should name; NULL: none */
} Subject;

static Subject subject_make(const RolloutView *view, json_object *record, json_object *pod) {
        return (Subject){
                .view = view,
                .pod = pod,
                .images = record_target(record),
                .since = json_get_text(record, "since"),
                .former = read_former(pod),
                .noted = json_get(view->noted, object_name(pod), json_type_object),
                .revision = view_target_revision(view, record),
        };
}

/* A pod that was not ready when it got the images says little about them, whether it runs them or not. */
static bool was_unready(const Subject *subject) {
        if (!subject->former)
                return false;
        json_object_object_foreach(subject->former, container, entry) {
                (void) container;
                if (json_object_get_boolean(object_at(entry, "unready")))
                        return true;
        }
        return false;
}

/* A run before has found it, in this update: since one before, the node may have come back. */
static bool was_silent(const Subject *subject) {
        if (!subject->former)
                return false;
        json_object_object_foreach(subject->former, container, entry) {
                (void) container;
                if (json_object_get_boolean(object_at(entry, "silent")) &&
                    text_equal(json_get_text(entry, "since"), subject->since))
                        return true;
        }
        return false;
}

/* Time for which this run has seen it being updated. */
static int64_t updating_sec(const Subject *subject) {
        return json_is(subject->noted, "phase", rollout_phase_to_string(ROLLOUT_UPDATING))
                       ? subject->view->now_sec - json_get_integer(subject->noted, "since")
                       : 0;
}

/* A kubelet has ended the old container by then. */
static int64_t patience_sec(const Subject *subject) {
        return GIVE_UP_SEC + object_integer(subject->pod, "spec.terminationGracePeriodSeconds");
}

static bool is_overdue(const Subject *subject) {
        return updating_sec(subject) > patience_sec(subject);
}

static bool is_noted_as_updated(const Subject *subject) {
        return json_is(subject->noted, "phase", rollout_phase_to_string(ROLLOUT_UPDATED));
}

/* The container before is the last one still, for an image that the pod does not have any more. A user may have written the
 * note, and of a container that the pod does not have. */
static bool is_left(const Subject *subject, const char *container, json_object *entry) {
        return json_is(entry, "id", id_of(subject->pod, container)) &&
               !text_equal(json_get_text(entry, "image"), template_image(subject->pod, container));
}

/* The kubelet may have started another container of the image before, for one that had ended, before it saw the pod as it is.
 * On the way back it may have started one of the image that is taken away again. */
static bool may_be_of_before(const Subject *subject, const char *container, const char *image) {
        json_object *entry = json_get(subject->former, container, json_type_object);
        const char *before = json_get_filled(entry, "imageID");
        const char *now = json_get_filled(container_status(subject->pod, container), "imageID");
        bool leads_back = json_is(entry, "image", image);

        return before && now && !json_is(entry, "id", id_of(subject->pod, container)) &&
               text_equal(before, now) != leads_back;
}

/* Time for which the container has run. Where the clock of its node is ahead, this run has to have seen the pod being updated
 * for as long. */
static int64_t running_sec(const Subject *subject, const char *container) {
        json_object *running =
                object_at(container_status(subject->pod, container), "state.running");
        int64_t started_sec = json_get_time(running, "startedAt");

        return started_sec <= subject->view->now_sec ? subject->view->now_sec - started_sec
                                                     : updating_sec(subject);
}

/* The container may be of the image before, unless this run has seen that the kubelet had the pod as it is while the container
 * before was still the last one. Images may be the same under two names: such a doubt ends when a container of the image before
 * would have been replaced. */
static bool is_in_doubt(const Subject *subject, const char *container, const char *image) {
        return subject->view->noted && running_sec(subject, container) <= patience_sec(subject) &&
               !is_noted_as_updated(subject) &&
               object_at(subject->pod, "status.observedGeneration") &&
               may_be_of_before(subject, container, image) &&
               json_get_integer(subject->noted, "seen") !=
                       object_integer(subject->pod, "metadata.generation");
}

/* The container was started for this image. Where that follows from its ID alone, the kubelet has to have
 * seen the pod as it is; one that says so has a status.observedGeneration. */
static bool runs_image(const Subject *subject, const char *container, const char *image) {
        json_object *entry = json_get(subject->former, container, json_type_object);

        if (template_ends(subject->pod, container))
                return true;
        if (!object_at(container_status(subject->pod, container), "state.running"))
                return false;
        if (!json_is(entry, "id", id_of(subject->pod, container)) || json_is(entry, "image", image))
                return !is_in_doubt(subject, container, image);
        /* The kubelet started it before it saw the other image, which the way back has taken away again. A pod that this run has
         * found updated by that is so in each further turn. */
        return (is_overdue(subject) || is_noted_as_updated(subject)) &&
               object_is_observed(subject->pod) &&
               json_is(container_status(subject->pod, container), "image", image);
}

/* The kubelet has seen the pod as it is, and the containers before are the last ones still: each one that follows is for the
 * images that the pod has. */
static bool is_old_seen(const Subject *subject) {
        if (!subject->former || !object_at(subject->pod, "status.observedGeneration") ||
            !object_is_observed(subject->pod))
                return false;
        json_object_object_foreach(subject->former, container, entry) {
                if (!json_is(entry, "id", id_of(subject->pod, container)))
                        return false;
        }
        return true;
}

static int64_t count_restarts(const Subject *subject) {
        int64_t sum = 0;

        json_object_object_foreach(subject->images, container, image) {
                (void) image;
                sum += json_get_integer(container_status(subject->pod, container), "restartCount");
        }
        return sum;
}

/* The closed gate hides that the node is lost. */
static bool is_silent(const Subject *subject) {
        json_object *pod = subject->pod;
        bool is_noted =
                json_object_get_boolean(object_at(subject->noted, "silent")) || was_silent(subject);

        if (!subject->former || !pod_gate_is_closed(pod) || (!is_noted && !is_overdue(subject)))
                return false;
        json_object_object_foreach(subject->former, container, entry) {
                /* On the way back, the pod has the image of the old container again. */
                if (object_at(container_status(pod, container), "state.running") &&
                    json_is(entry, "id", id_of(pod, container)) &&
                    (is_noted || !json_is(entry, "image", template_image(pod, container))))
                        return true;
        }
        return false;
}

/* Restarts that an updated pod may have: each change of its resources in place gives it a new generation, and may restart each
 * container once, also long after that. */
static int64_t count_allowed(const Subject *subject) {
        int64_t n_changes = object_integer(subject->pod, "metadata.generation");
        json_object *noted;

        n_changes = json_object_object_get_ex(subject->noted, "generation", &noted)
                            ? n_changes - json_object_get_int64(noted)
                            : 0;
        return json_get_integer(subject->noted, "restarts") +
               (n_changes > 0 ? n_changes : 0) * json_object_object_length(subject->images);
}

/* This update has changed its images. OpenKruise's controller changes those of its workloads, and leaves no such note. */
static bool was_changed(const Subject *subject) {
        if (workload_is_of_kruise(subject->view->kind))
                return true;
        if (!subject->former)
                return false;
        json_object_object_foreach(subject->former, container, entry) {
                (void) container;
                if (!subject->since || json_is(entry, "since", subject->since))
                        return true;
        }
        return false;
}

/* Since this program saw it updated: its new containers do not keep running. Where a pod had the images already, perhaps while
 * it waited to be started again, only one that keeps failing says something about them. */
static bool has_restarted(const Subject *subject) {
        return was_changed(subject) &&
               json_object_object_get_ex(subject->noted, "restarts", NULL) &&
               count_restarts(subject) > count_allowed(subject);
}

/* The words behind "container NAME " in the condition's message, which names each container with a problem. NULL: it does not
 * name this one. */
static const char *find_complaint(const char *message, const char *container) {
        size_t size = strlen(container);

        for (const char *at = message; (at = strstr(at, "container "));) {
                at += strlen("container ");
                if (strncmp(at, container, size) == 0 && at[size] == ' ')
                        return at + size + 1;
        }
        return NULL;
}

/* The environment is stale, and the agent does not restart the container for that; or it is unknown, since a runtime may report
 * none. Neither ends by an update. */
static bool is_about_environment(const char *complaint) {
        return slice_starts_with(slice(complaint), "has the environment of ") ||
               slice_starts_with(slice(complaint), "is unknown");
}

/* "runs sha256:0123… and its reference NAME is sha256:4567…", and the pod has another reference by now. */
static bool is_about_image_before(const char *complaint, const char *image) {
        static const char between[] = " and its reference ";
        const char *end = strstr(complaint, "; "), *at = strstr(complaint, between);
        size_t size = strlen(image);

        if (!at || (end && end < at))
                return false;
        at += strlen(between);
        return strncmp(at, image, size) != 0 || at[size] != ' ';
}

/* An agent that is gone, or away, leaves what it said of the container before: also that it does not run, although its kubelet
 * says that it does. A message that was cut may have named it. */
static bool is_complaint_about(const Subject *subject, const char *message, const char *container) {
        const char *complaint = find_complaint(message, container);

        if (!complaint)
                return strlen(message) >= MESSAGE_CUT;
        return !is_about_environment(complaint) &&
               !is_about_image_before(complaint, template_image(subject->pod, container) ?: "") &&
               !slice_starts_with(slice(complaint), "does not run");
}

/* It had another image before: one that is named with the image that it has already is left alone, too. */
static bool is_replaced(const Subject *subject, const char *container) {
        json_object *entry = json_get(subject->former, container, json_type_object);

        return !json_is(entry, "image", template_image(subject->pod, container));
}

/* Reasons that no update ends where they are about a container that it leaves alone, about an environment, or from before. */
static bool may_be_another(json_object *verified) {
        return json_is(verified, "reason", "Unknown") ||
               json_is(verified, "reason", "NotRunning") ||
               json_is(verified, "reason", "ImageStale") ||
               json_is(verified, "reason", "EnvironmentStale") ||
               json_is(verified, "reason", "CannotRestart");
}

/* The tag of a container that the update leaves alone may have moved on the node, or be gone from it, or the labels of its
 * environment may have changed, before or meanwhile: the new containers run what they should. */
static bool agent_agrees(const Subject *subject) {
        json_object *verified = condition_of(subject->pod, POD_VERIFIED_CONDITION);
        const char *message = json_get_text(verified, "message");

        if (!verified || json_is(verified, "status", "True"))
                return true;
        if (!message || !may_be_another(verified))
                return false;
        json_object_object_foreach(subject->images, container, image) {
                (void) image;
                if (is_replaced(subject, container) &&
                    is_complaint_about(subject, message, container))
                        return false;
        }
        return true;
}

static bool is_verified(const Subject *subject) {

        /* The kubelet may not have seen yet that the gate is closed. */
        if (pod_gate_is_closed(subject->pod))
                return false;
        if (object_at(subject->pod, "status.observedGeneration") &&
            !object_is_observed(subject->pod))
                return false;
        json_object_object_foreach(subject->images, container, image) {
                if (!runs_image(subject, container, json_object_get_string(image)))
                        return false;
        }
        return view_pod_is_available(subject->view, subject->pod) && agent_agrees(subject);
}

static bool is_any_of(const char *text, const char *const *texts, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (text_equal(text, texts[i]))
                        return true;

        return false;
}

/* OpenKruise's controller has changed the pod since the last container was started. Texts of one form in UTC. */
static bool ran_before_update(json_object *pod, const char *container) {
        const char *started =
                object_text(container_status(pod, container), "lastState.terminated.startedAt");
        json_object *state = object_annotation_json(pod, KRUISE_STATE_ANNOTATION);
        const char *changed = json_get_text(state, "updateTimestamp");

        return started && changed && strcmp(started, changed) <= 0;
}

/* It may wait for a database, or the runtime dies while it starts the container: neither the first failure is the end,
 * nor one that this run has found. */
static bool keeps_failing(const Subject *subject, int64_t starts_max) {
        if (!json_object_object_get_ex(subject->noted, "first", NULL))
                return !subject->view->noted;
        return count_restarts(subject) - json_get_integer(subject->noted, "first") >= starts_max;
}

/* The connection broke or the runtime was slow, as gRPC and containerd say it: the kubelet tries again. */
static bool is_about_runtime(const char *message) {
        static const char *const texts[] = { "error reading from server", "transport:",
                                             "transport is closing",      "context canceled",
                                             "context deadline exceeded", "is reserved for" };

        for (size_t i = 0; message && i < sizeof(texts) / sizeof(texts[0]); i++)
                if (strstr(message, texts[i]))
                        return true;
        return false;
}

/* This container will not start by itself. A status that is about the image before does not count. */
static bool has_failed(const Subject *subject, const char *container, const char *image) {
        static const char *const of_image[] = { "ImagePullBackOff", "InvalidImageName",
                                                "ErrImageNeverPull", "RegistryUnavailable" };
        static const char *const of_creation[] = { "SignatureValidationFailed", "ImageInspectError",
                                                   "CreateContainerConfigError",
                                                   "CreateContainerError" };
        json_object *entry = json_get(subject->former, container, json_type_object),
                    *pod = subject->pod;
        json_object *waiting = object_at(container_status(pod, container), "state.waiting");
        const char *reason = json_get_text(waiting, "reason");
        const char *message = json_get_text(waiting, "message");
        bool is_same = entry ? text_equal(json_get_text(entry, "id"), id_of(pod, container))
                             : ran_before_update(pod, container);

        if (is_any_of(reason, of_image, sizeof(of_image) / sizeof(of_image[0])))
                return message && (message_is_about_image(message, image) ||
                                   message_is_about_volume(message, pod));
        if (is_any_of(reason, of_creation, sizeof(of_creation) / sizeof(of_creation[0])) &&
            !is_about_runtime(message))
                return object_at(pod, "status.observedGeneration") ? object_is_observed(pod)
                                                                   : !is_same;
        return !is_same &&
               ((text_equal(reason, "CrashLoopBackOff") && keeps_failing(subject, CRASHES_MAX)) ||
                (text_equal(reason, "RunContainerError") && keeps_failing(subject, REFUSALS_MAX)));
}

/* The kubelet is about to start it for the first time, and has not tried for long. */
static bool is_starting(const Subject *subject, const char *container) {
        json_object *pod = subject->pod;
        int64_t seen_sec =
                json_get_time(object_at(pod, "status"), "startTime"); /* by the kubelet */
        int64_t since_sec =
                seen_sec ?: json_get_time(object_at(pod, "metadata"), "creationTimestamp");
        const char *reason = object_text(container_status(pod, container), "state.waiting.reason");

        if (since_sec > 0 && subject->view->now_sec - since_sec > GIVE_UP_SEC)
                return false;
        return object_text(pod, "spec.nodeName") && !*id_of(pod, container) &&
               (!reason || text_equal(reason, "ContainerCreating") ||
                text_equal(reason, "PodInitializing"));
}

/* The kubelet has acted on what the pod asked for before, so that what runs next is known to be for the next
 * image; or it will not. */
static bool is_settled(const Subject *subject) {
        json_object *pod = subject->pod;
        bool is_hopeless =
                is_silent(subject) || (is_unready(pod) && (is_lost(pod) || was_unready(subject)));

        json_object_object_foreach(subject->images, container, image) {
                json_object *entry = json_get(subject->former, container, json_type_object);
                const char *now = template_image(pod, container);

                (void) image;
                if (is_starting(subject, container))
                        return false;
                if (entry && now && !is_hopeless && !has_failed(subject, container, now) &&
                    (is_in_doubt(subject, container, now) ||
                     (is_left(subject, container, entry) && !runs_image(subject, container, now))))
                        return false;
        }
        return true;
}

static bool has_target(const Subject *subject) {
        return template_has_images(subject->pod, subject->images) &&
               (!subject->revision || text_equal(object_revision(subject->pod), subject->revision));
}

/* The first container that has failed; NULL: none. */
static const char *find_failed(const Subject *subject) {
        json_object_object_foreach(subject->images, container, image) {
                if (has_failed(subject, container, json_object_get_string(image)))
                        return container;
        }
        return NULL;
}

/* The phase of a pod that the update is about. */
static RolloutPhase find_phase(const Subject *subject) {
        json_object *pod = subject->pod;

        if (pod_has_ended(pod))
                return ROLLOUT_FAILED;
        if (!has_target(subject)) {
                if (!is_settled(subject))
                        return ROLLOUT_UPDATING;
                return pod_gate_is_closed_for(pod, subject->images) ? ROLLOUT_DRAINING
                                                                    : ROLLOUT_OLD;
        }
        if (has_restarted(subject))
                return ROLLOUT_FAILED;
        if (is_verified(subject))
                return ROLLOUT_UPDATED;
        if (find_failed(subject))
                return ROLLOUT_FAILED;
        /* The controller made it as it is, and it does not wait for us. */
        if (!subject->former && !pod_gate_is_closed(pod) &&
            !workload_is_of_kruise(subject->view->kind))
                return ROLLOUT_UPDATED;
        return ROLLOUT_UPDATING;
}

/* In plain words */

static int explain_backoff(const Subject *subject, json_object *status, const char *container,
                           char **ret) {
        json_object *ended = object_at(status, "lastState.terminated");
        int64_t whole_sec = container_backoff_sec(status);
        int64_t ended_sec = json_get_time(ended, "finishedAt");
        int64_t left_sec = ended_sec + whole_sec - subject->view->now_sec;

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

static int explain_old(const Subject *subject, char **ret) {
        json_object *grace = object_at(subject->pod, "spec.terminationGracePeriodSeconds");
        int64_t grace_sec = grace ? json_object_get_int64(grace) : 30;
        int64_t left_sec = grace_sec - updating_sec(subject);
        const char *node = object_text(subject->pod, "spec.nodeName");

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

static int explain_container(const Subject *subject, const char *container, char **ret) {
        json_object *pod = subject->pod;
        json_object *entry = json_get(subject->former, container, json_type_object);
        json_object *status = container_status(pod, container);
        const char *reason = object_text(status, "state.waiting.reason");
        const char *message = object_text(status, "state.waiting.message");
        const char *ended = template_ends(pod, container)
                                    ? NULL
                                    : object_text(status, "state.terminated.reason");

        if (text_equal(reason, "CrashLoopBackOff"))
                return explain_backoff(subject, status, container, ret);
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
        if (is_left(subject, container, entry))
                return explain_old(subject, ret);
        if (is_in_doubt(subject, container, template_image(pod, container)))
                return text_format(ret,
                                   "container %s may be one of the image before, which the kubelet "
                                   "had started just then",
                                   container);
        return 0;
}

static int explain_wait(const Subject *subject, char **ret) {
        json_object *pod = subject->pod;
        json_object *scheduled = condition_of(pod, "PodScheduled");
        json_object *ready = condition_of(pod, "Ready");
        const char *node = object_text(pod, "spec.nodeName");
        const char *message = json_get_text(ready, "message");
        const char *found = json_get_filled(condition_of(pod, POD_VERIFIED_CONDITION), "message");

        if (json_is(scheduled, "status", "False"))
                return text_format(ret, "it has no node: %s",
                                   json_get_text(scheduled, "message") ?: "unschedulable");
        if (is_lost(pod) || is_silent(subject))
                return text_format(ret, "its node \"%s\" does not answer", node ? node : "");
        json_object_object_foreach(subject->images, container, image) {
                int r = explain_container(subject, container, ret);

                (void) image;
                if (r < 0 || *ret)
                        return r;
        }
        if (pod_gate_is_closed(pod))
                return text_format(ret,
                                   "the agent on node \"%s\" has not opened its readiness gate",
                                   node ? node : "");
        if (!pod_is_ready(pod))
                return text_format(ret, "it is not ready%s%s", message ? ": " : "",
                                   message ? message : "");
        if (!agent_agrees(subject))
                return text_format(
                        ret, "the agent of node \"%s\" has not verified yet what runs in it%s%s",
                        node ? node : "", found ? ": " : "", found ? found : "");
        return view_pod_is_available(subject->view, pod)
                       ? 0
                       : text_format(ret, "it is ready, but not yet for minReadySeconds");
}

/* How its container has ended; the kubelet's own sentence says only that it waits. */
static int explain_crash(json_object *pod, const char *container, const char *image, char **ret) {
        json_object *status = container_status(pod, container);
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

static int explain_failure(const Subject *subject, char **ret) {
        json_object *pod = subject->pod, *waiting;
        const char *container = find_failed(subject), *reason, *message;

        if (pod_has_ended(pod))
                return text_format(ret, "it has ended, and its containers are not started again");
        if (!container)
                return text_format(ret, "a container has restarted since the update: see kubectl "
                                        "logs --previous");
        waiting = object_at(container_status(pod, container), "state.waiting");
        reason = json_get_text(waiting, "reason");
        message = json_get_filled(waiting, "message");
        if (text_equal(reason, "CrashLoopBackOff"))
                return explain_crash(pod, container, json_get_text(subject->images, container),
                                     ret);
        return text_format(ret, "container %s: %s", container, message ? message : reason);
}

static int explain(const Subject *subject, RolloutPhase phase, char **ret) {
        switch (phase) {
        case ROLLOUT_FAILED: return explain_failure(subject, ret);
        case ROLLOUT_UPDATING: return explain_wait(subject, ret);
        case ROLLOUT_DRAINING: return text_format(ret, "it is being taken out of service");
        case ROLLOUT_LEFT:
        case ROLLOUT_OLD:
        case ROLLOUT_UPDATED:
        case _ROLLOUT_PHASE_MAX: break;
        }
        return 0;
}

static bool is_given_up(const Subject *subject, RolloutPhase phase) {
        json_object *pod = subject->pod;
        int64_t wait_sec = patience_sec(subject) +
                           object_integer(subject->view->workload, "spec.minReadySeconds");

        if (is_silent(subject))
                return phase == ROLLOUT_UPDATING && has_target(subject);
        if (!is_lost(pod) && !was_unready(subject))
                return false;
        if (phase == ROLLOUT_FAILED)
                return true;
        json_object_object_foreach(subject->images, container, image) {
                (void) image;
                /* The kubelet is there, and will try again. */
                if (text_equal(object_text(container_status(pod, container),
                                           "state.waiting.reason"),
                               "CrashLoopBackOff"))
                        wait_sec += BACKOFF_MAX_SEC;
        }
        return phase == ROLLOUT_UPDATING && has_target(subject) && updating_sec(subject) > wait_sec;
}

/* A StatefulSet's or DaemonSet's controller makes none in its place before its kubelet has ended it. That of a StatefulSet
 * waits for its finalizers, too. */
static bool is_stuck(const RolloutView *view, json_object *pod) {
        int64_t deleted_sec = json_get_time(object_at(pod, "metadata"), "deletionTimestamp");

        return view_kind(view)->has_revisions && deleted_sec > 0 &&
               view->now_sec - deleted_sec > GIVE_UP_SEC &&
               (view_kind(view)->has_ordinals || !pod_has_ended(pod)) && view_owns_pod(view, pod);
}

static int explain_stuck(json_object *pod, char **ret) {
        json_object *finalizers = object_list(pod, "metadata.finalizers");

        if (pod_has_ended(pod) && finalizers && json_object_array_length(finalizers) > 0)
                return text_format(ret, "it is deleted, and its finalizer \"%s\" keeps it",
                                   json_object_get_string(
                                           json_object_array_get_idx(finalizers, 0)));
        return text_format(ret, "it is deleted, and its node \"%s\" does not end it",
                           object_text(pod, "spec.nodeName") ?: "");
}

int rollout_aim(const RolloutView *view, json_object *record, char **ret) {
        json_object *owner =
                view_kind(view)->has_replica_sets ? view_base(view, record) : view->workload;
        const char *images = json_to_text(record_target(record));

        if (!images)
                return -ENOMEM;
        return text_format(ret, "%s %s %s %lld %lld %lld %s %s",
                           object_text(owner, "metadata.uid") ?: "",
                           json_get_text(record, "revision") ?: "",
                           view_target_revision(view, record) ?: "",
                           (long long) view_partition(view, record),
                           (long long) object_integer(view->workload, "spec.minReadySeconds"),
                           (long long) view->now_sec, json_get_text(record, "since") ?: "", images);
}

/* While a StatefulSet is held, its controller makes pods of its current revision, which may be from before a rollout that
 * has not been completed. */
static int is_foreign(const RolloutView *view, json_object *record, json_object *pod, bool *ret) {
        const char *revision = object_revision(pod);
        cleanup(free_p) char *difference = NULL;
        json_object *base, *made_from;
        int r;

        *ret = false;
        if (!view_kind(view)->has_ordinals ||
            text_equal(revision, view_target_revision(view, record)))
                return 0;
        base = view_base(view, record);
        made_from = view_find_revision(view, revision);
        if (!base || !made_from || made_from == base)
                return 0;
        r = template_compare(object_template(base), object_template(made_from), &difference);
        *ret = difference;
        return r;
}

/* The kubelet has to replace a container yet, whether this update goes on with the pod or not. */
static bool is_awaited(const Subject *subject) {
        if (!subject->former)
                return false;
        json_object_object_foreach(subject->former, container, entry) {
                if (is_left(subject, container, entry))
                        return true;
        }
        return false;
}

int pod_state_read(const RolloutView *view, json_object *record, json_object *pod, PodState *ret) {
        const Subject subject = subject_make(view, record, pod);
        int r;

        *ret = (PodState){ .pod = json_object_get(pod),
                           .noted = json_object_get(subject.noted),
                           .phase = ROLLOUT_LEFT,
                           .n_restarts = count_restarts(&subject),
                           .is_member =
                                   !object_is_deleted(pod) && view_has_pod(view, record, pod) };
        if (!ret->is_member && is_stuck(view, pod)) {
                ret->is_given_up = true;
                return explain_stuck(pod, &ret->reason);
        }
        if (!ret->is_member)
                return 0;
        ret->is_restarting = restart_image_is_awaited(pod, view->now_sec);
        ret->is_available = view_pod_is_available(view, pod) && !ret->is_restarting;
        if (pod_ordinal(pod) < view_partition(view, record)) {
                ret->is_available = ret->is_available && !is_awaited(&subject);
                return 0;
        }
        r = is_foreign(view, record, pod, &ret->is_foreign);
        if (r < 0 || ret->is_foreign)
                return r < 0 ? r
                             : text_copy("it was made of an older template, and its controller "
                                         "replaces it",
                                         &ret->reason);
        ret->phase = find_phase(&subject);
        ret->is_silent = is_silent(&subject);
        ret->is_old_seen = is_old_seen(&subject);
        ret->is_given_up = is_given_up(&subject, ret->phase);
        return explain(&subject, ret->phase, &ret->reason);
}

void pod_state_done(PodState *state) {
        json_object_put(state->pod);
        json_object_put(state->noted);
        free(state->reason);
}

bool pod_state_is_in_flight(const PodState *state) {
        return state->phase == ROLLOUT_DRAINING || state->phase == ROLLOUT_UPDATING ||
               state->phase == ROLLOUT_FAILED;
}

const char *rollout_phase_to_string(RolloutPhase phase) {
        static const char *const names[_ROLLOUT_PHASE_MAX] = {
                [ROLLOUT_LEFT] = "left as it is", [ROLLOUT_OLD] = "waiting",
                [ROLLOUT_DRAINING] = "draining",  [ROLLOUT_UPDATING] = "updating",
                [ROLLOUT_FAILED] = "failed",      [ROLLOUT_UPDATED] = "updated",
        };

        return names[phase];
}

/* The open update has changed the pod already, or an update before whose image has not been started. */
static bool is_touched(const Subject *subject) {
        if (!subject->former)
                return false;
        json_object_object_foreach(subject->former, container, entry) {
                if (is_left(subject, container, entry) ||
                    (subject->since && json_is(entry, "since", subject->since)))
                        return true;
        }
        return false;
}

/* The pod was in service when this update took it out of it, and a container has ended since. */
static bool was_closed_before(json_object *pod) {
        int64_t closed_sec = pod_gate_closed_sec(pod);

        return pod_gate_is_closed(pod) && closed_sec > 0 &&
               json_get_time(condition_of(pod, "ContainersReady"), "lastTransitionTime") >=
                       closed_sec;
}

/* A pod that an image of this program has made unready was not so before; the way back waits for no unready pod. */
static bool counts_as_unready(const Subject *subject, json_object *record) {
        return is_unready(subject->pod) && !was_closed_before(subject->pod) &&
               (record_is_undo(record) || was_unready(subject) || !is_touched(subject));
}

bool pod_has_gone_back(json_object *pod, json_object *record) {
        json_object *former = read_former(pod);

        if (!former || record_is_undo(record))
                return false;
        json_object_object_foreach(record_target(record), container, image) {
                json_object *entry = json_get(former, container, json_type_object);

                if (json_is(entry, "image", json_object_get_string(image)) &&
                    json_is(entry, "since", json_get_text(record, "since")) &&
                    !text_equal(template_image(pod, container), json_object_get_string(image)))
                        return true;
        }
        return false;
}

/* Notes the containers that run now, so that the new ones can be distinguished from them. */
json_object *pod_make_former(const RolloutView *view, json_object *pod, json_object *record) {
        const Subject subject = subject_make(view, record, pod);
        cleanup(json_object_put_p) json_object *former = json_object_new_object();

        json_object_object_foreach(subject.images, container, image) {
                json_object *known = json_get(subject.former, container, json_type_object);
                cleanup(json_object_put_p) json_object *entry = json_object_new_object();
                const char *now = template_image(pod, container);
                const char *content = json_get_filled(container_status(pod, container), "imageID");

                (void) image;
                if (template_ends(pod, container))
                        continue;
                /* It was updated, and the container has not been replaced since. */
                if (known && text_equal(json_get_text(known, "id"), id_of(pod, container)))
                        now = json_get_text(known, "image");
                if (patch_add_text(entry, "image", now ? now : "") < 0 ||
                    patch_add_text(entry, "id", id_of(pod, container)) < 0 ||
                    (content && patch_add_text(entry, "imageID", content) < 0) ||
                    (subject.since && patch_add_text(entry, "since", subject.since) < 0) ||
                    (counts_as_unready(&subject, record) &&
                     patch_add_bool(entry, "unready", true) < 0) ||
                    (is_silent(&subject) && patch_add_bool(entry, "silent", true) < 0) ||
                    patch_add(former, container, take_ptr(entry)) < 0)
                        return NULL;
        }
        return take_ptr(former);
}
