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

/* One that is closed for another reason is another's. */
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

/* Since this program saw it updated: its new containers do not keep running. */
static bool has_restarted(const RolloutView *view, json_object *pod, json_object *images) {
        json_object *noted =
                view->noted ? json_get(view->noted, object_name(pod), json_type_object) : NULL;

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

/* Why this container will not start by itself; NULL: it may. A status that is about the image before does
 * not count. */
static const char *failure_of(json_object *pod, json_object *former, const char *container,
                              const char *image) {
        static const char *const of_image[] = { "ImagePullBackOff", "InvalidImageName",
                                                "ErrImageNeverPull", "RegistryUnavailable" };
        static const char *const of_container[] = { "CrashLoopBackOff" };
        json_object *entry = json_get(former, container, json_type_object);
        json_object *waiting = object_at(status_of(pod, container), "state.waiting");
        const char *reason = json_get_text(waiting, "reason");
        const char *message = json_get_text(waiting, "message");
        bool is_same = entry ? text_equal(json_get_text(entry, "id"), id_of(pod, container))
                             : ran_before_update(pod, container);

        if (is_any_of(reason, of_image, sizeof(of_image) / sizeof(of_image[0])))
                return message && is_about_image(message, image) ? message : NULL;
        if (!is_same && is_any_of(reason, of_container, 1))
                return message ? message : reason;
        return NULL;
}

/* The kubelet is about to start it for the first time. */
static bool is_starting(json_object *pod, const char *container) {
        const char *reason = object_text(status_of(pod, container), "state.waiting.reason");

        return object_text(pod, "spec.nodeName") && !*id_of(pod, container) &&
               (!reason || text_equal(reason, "ContainerCreating") ||
                text_equal(reason, "PodInitializing"));
}

/* The kubelet has acted on what the pod asked for before, so that what runs next is known to be for the next
 * image. */
static bool is_settled(json_object *pod, json_object *former, json_object *images) {
        json_object_object_foreach(images, container, image) {
                json_object *entry = json_get(former, container, json_type_object);
                const char *now = template_image(pod, container);

                (void) image;
                if (is_starting(pod, container))
                        return false;
                if (entry && now && !json_is(entry, "image", now) &&
                    json_is(entry, "id", id_of(pod, container)) &&
                    !failure_of(pod, former, container, now))
                        return false;
        }
        return true;
}

/* As kubectl has it in the column STATUS, or why no node has been chosen. */
static const char *waiting_of(const RolloutView *view, json_object *pod, json_object *images) {
        json_object *verified = condition_of(pod, POD_VERIFIED_CONDITION);
        json_object *scheduled = condition_of(pod, "PodScheduled");

        if (json_is(scheduled, "status", "False"))
                return json_get_text(scheduled, "message");
        json_object_object_foreach(images, container, image) {
                json_object *status = status_of(pod, container);
                const char *reason = object_text(status, "state.waiting.reason");

                (void) image;
                if (!reason)
                        reason = object_text(status, "state.terminated.reason");
                if (reason)
                        return reason;
        }
        if (json_is(verified, "status", "False"))
                return json_get_text(verified, "message");
        return pod_is_ready(pod) && !view_pod_is_available(view, pod)
                       ? "it is ready, but not yet for minReadySeconds"
                       : NULL;
}

static bool has_target(const RolloutView *view, json_object *record, json_object *pod) {
        const char *revision = view_target_revision(view, record);

        return template_has_images(pod, record_target(record)) &&
               (!revision || text_equal(object_revision(pod), revision));
}

RolloutPhase rollout_phase(const RolloutView *view, json_object *record, json_object *pod,
                           const char **ret_reason) {
        cleanup(json_object_put_p) json_object *former = read_former(pod);
        json_object *images = record_target(record);

        *ret_reason = NULL;
        if (object_is_deleted(pod) || !view_has_pod(view, record, pod) ||
            (view->kind == WORKLOAD_STATEFUL_SET &&
             pod_ordinal(pod) < view_partition(view, record)))
                return ROLLOUT_LEFT;
        if (pod_has_ended(pod)) {
                *ret_reason = "it has ended, and its containers are not started again";
                return ROLLOUT_FAILED;
        }
        if (!has_target(view, record, pod) && !is_settled(pod, former, images)) {
                *ret_reason = waiting_of(view, pod, images);
                return ROLLOUT_UPDATING;
        }
        if (!has_target(view, record, pod))
                return gate_is_closed_for(pod, images) ? ROLLOUT_DRAINING : ROLLOUT_OLD;
        if (has_restarted(view, pod, images)) {
                *ret_reason =
                        "a container has restarted since the update: see kubectl logs --previous";
                return ROLLOUT_FAILED;
        }
        if (is_verified(view, pod, former, images))
                return ROLLOUT_UPDATED;
        json_object_object_foreach(images, container, image) {
                *ret_reason = failure_of(pod, former, container, json_object_get_string(image));
                if (*ret_reason)
                        return ROLLOUT_FAILED;
        }
        /* The controller made it as it is, and it does not wait for us. */
        if (!former && !pod_gate_is_closed(pod) && !workload_is_of_kruise(view->kind))
                return ROLLOUT_UPDATED;

        *ret_reason = waiting_of(view, pod, images);
        return ROLLOUT_UPDATING;
}

const char *rollout_phase_to_string(RolloutPhase phase) {
        static const char *const names[_ROLLOUT_PHASE_MAX] = {
                [ROLLOUT_LEFT] = "left as it is", [ROLLOUT_OLD] = "waiting",
                [ROLLOUT_DRAINING] = "draining",  [ROLLOUT_UPDATING] = "updating",
                [ROLLOUT_FAILED] = "failed",      [ROLLOUT_UPDATED] = "updated",
        };

        return names[phase];
}

/* What runs now, so that what runs afterwards can be distinguished. */
json_object *pod_make_former(json_object *pod, json_object *images) {
        cleanup(json_object_put_p) json_object *before = read_former(pod);
        cleanup(json_object_put_p) json_object *former = json_object_new_object();

        json_object_object_foreach(images, container, image) {
                json_object *known = json_get(before, container, json_type_object);
                const char *now = template_image(pod, container);
                json_object *entry;

                (void) image;
                /* It was updated, and the container has not been replaced since. */
                if (known && text_equal(json_get_text(known, "id"), id_of(pod, container))) {
                        entry = json_object_get(known);
                } else {
                        entry = patch_wrap("image", json_object_new_string(now ? now : ""));
                        if (!entry || patch_add_text(entry, "id", id_of(pod, container)) < 0) {
                                json_object_put(entry);
                                return NULL;
                        }
                }
                if (patch_add(former, container, entry) < 0)
                        return NULL;
        }
        return take_ptr(former);
}
