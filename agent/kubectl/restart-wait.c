/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/restart-wait.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "agent/base/text.h"
#include "agent/document/json-patch.h"
#include "agent/kubectl/restart-image-plan.h"
#include "agent/kubectl/rollout-pod-plan.h"
#include "agent/view/terminal.h"

#define PROGRESS_SEC 600 /* as for an update; longer than the kubelet's back-off */

bool restart_announce(const RestartWait *wait, Announcer *announcer, const char *pod,
                      const char *why, int64_t grace_sec) {
        if (wait->on_wait)
                wait->on_wait(pod, why, wait->userdata);
        else if (why && announcer_is_due(announcer))
                complain("waiting for pod/%s: %s", pod, why);
        return announcer_still_sec(announcer) >= PROGRESS_SEC + grace_sec;
}

int restart_announce_away(const RestartWait *wait, Announcer *announcer, const char *pod,
                          const Error *error, char **ret_why) {
        const char *message = error->kind == ERROR_NONE ? "no answer yet" : error_message(error);

        if (text_format(ret_why, "the API server: %s", message) < 0)
                return -ENOMEM;
        return restart_announce(wait, announcer, pod, *ret_why, /* grace_sec= */ 0);
}

typedef struct Turn {
        const RestartWait *wait;
        json_object *pod;
        Announcer announcer;
        bool is_over;  /* it does not come */
        bool has_lost; /* a pod of the workload, while it waits */
} Turn;

static int on_view_pod(const KubeObject *object, void *userdata) {
        Turn *turn = userdata;
        json_object *known = json_object_object_get(turn->wait->view->pods, object->name);

        turn->has_lost |= known && !object_is_deleted(known) && object_is_deleted(object->json);
        return patch_add(turn->wait->view->pods, object->name, json_object_get(object->json));
}

static int on_view_pod_gone(const KubeObject *object, void *userdata) {
        Turn *turn = userdata;

        json_object_object_del(turn->wait->view->pods, object->name);
        turn->has_lost = true;
        return 0;
}

static int on_budget(const KubeObject *object, void *userdata) {
        Turn *turn = userdata;

        return patch_add(turn->wait->view->budgets, object->name, json_object_get(object->json));
}

static int on_budget_gone(const KubeObject *object, void *userdata) {
        Turn *turn = userdata;

        json_object_object_del(turn->wait->view->budgets, object->name);
        return 0;
}

static int is_turn(void *userdata) {
        Turn *turn = userdata;
        cleanup(free_p) char *why = NULL;
        int64_t n_allowed;
        int r;

        turn->wait->view->now_sec = session_server_sec(turn->wait->session);
        r = restart_plan_allowance(turn->wait->view, turn->wait->max_unavailable, turn->pod,
                                   &n_allowed, &why);
        if (r < 0)
                return r;

        turn->is_over = restart_announce(turn->wait, &turn->announcer, object_name(turn->pod), why,
                                         /* grace_sec= */ 0) &&
                        n_allowed <= 0;
        return n_allowed > 0 || turn->is_over || turn->has_lost;
}

static int is_turn_away(const Error *error, void *userdata) {
        Turn *turn = userdata;
        cleanup(free_p) char *why = NULL;
        int r = restart_announce_away(turn->wait, &turn->announcer, object_name(turn->pod), error,
                                      &why);

        turn->is_over = r > 0;
        return r;
}

int restart_wait_turn(const RestartWait *wait, json_object *pod, bool *ret_may_begin,
                      Error *reterr) {
        const char *namespace = session_namespace(wait->session);
        const SessionWatch watches[] = {
                { .path = budgets_path(namespace),
                  .on_object = on_budget,
                  .on_gone = on_budget_gone },
                { .path = workload_path(WORKLOAD_POD, namespace, NULL),
                  .labels = wait->labels,
                  .on_object = on_view_pod,
                  .on_gone = on_view_pod_gone },
        };
        Turn turn = { .wait = wait, .pod = pod };
        int r;

        announcer_begin(&turn.announcer);
        if (patch_clear(&wait->view->pods) < 0 || patch_clear(&wait->view->budgets) < 0)
                return -ENOMEM;

        r = session_wait(wait->session,
                         &(SessionWait){ .watches = watches,
                                         .n_watches = wait->view->workload ? 2 : 1,
                                         .is_done = is_turn,
                                         .is_away = is_turn_away,
                                         .userdata = &turn },
                         reterr);
        if (r >= 0 && turn.is_over)
                return error_set(
                        reterr, ERROR_TIMEOUT,
                        "pod/%s did not get its turn within ten minutes: repeat the command "
                        "when more pods are ready, or with a greater --max-unavailable",
                        object_name(pod));
        *ret_may_begin = !turn.has_lost;
        return r;
}

typedef struct Awaited {
        const RestartWait *wait;
        json_object *before, *containers; /* borrowed */
        bool was_ready, was_seen, is_gone;
        Announcer announcer;
        json_object *pod;
        RestartEnd end;
        char *why; /* reason of a failure */
} Awaited;

static void awaited_done(Awaited *awaited) {
        json_object_put(awaited->pod);
        free(awaited->why);
}

static int on_pod_change(const KubeObject *object, void *userdata) {
        Awaited *awaited = userdata;

        awaited->was_seen = true;
        awaited->is_gone = restart_plan_is_over(object->json) ||
                           !text_equal(object_text(awaited->before, "metadata.uid"), object->uid);
        json_object_put(awaited->pod);
        awaited->pod = json_object_get(object->json);
        return 0;
}

static int on_pod_gone(const KubeObject *object, void *userdata) {
        Awaited *awaited = userdata;

        awaited->is_gone = true;
        return 0;
}

/* Whether the pod has ended by the restart; where all containers come back, its node has evicted it, and its controller
 * makes another. */
static bool has_ended(const Awaited *awaited) {
        return awaited->pod && pod_has_ended(awaited->pod) && !object_is_deleted(awaited->pod) &&
               text_equal(object_text(awaited->before, "metadata.uid"),
                          object_text(awaited->pod, "metadata.uid")) &&
               !restart_image_all_come_back(awaited->before, awaited->containers);
}

static int is_restarted(void *userdata) {
        Awaited *awaited = userdata;
        cleanup(free_p) char *why = NULL;
        int r;

        if (has_ended(awaited)) {
                awaited->end = RESTART_FAILED;
                return text_copy("the pod has ended: its containers are not started again",
                                 &awaited->why) < 0
                               ? -ENOMEM
                               : 1;
        }
        if (awaited->is_gone || !awaited->was_seen) {
                awaited->end = RESTART_GONE;
                return 1;
        }

        awaited->wait->view->now_sec = session_server_sec(awaited->wait->session);
        r = restart_plan_observe(awaited->before, awaited->pod, awaited->containers,
                                 awaited->wait->view->now_sec, &awaited->end, &why);
        if (r < 0)
                return r;
        if (awaited->end == RESTART_FAILED || awaited->end == RESTART_NOT_PULLED) {
                awaited->why = take_ptr(why);
                return 1;
        }
        if (awaited->end == RESTART_SUCCEEDED &&
            (!awaited->was_ready || view_pod_is_available(awaited->wait->view, awaited->pod)))
                return 1;

        if (!why && text_copy("its new containers are not ready for long enough", &why) < 0)
                return -ENOMEM;
        if (!restart_announce(awaited->wait, &awaited->announcer, object_name(awaited->pod), why,
                              object_integer(awaited->pod, "spec.terminationGracePeriodSeconds") +
                                      object_integer(awaited->wait->view->workload,
                                                     "spec.minReadySeconds")))
                return 0;

        awaited->end = RESTART_FAILED;
        awaited->why = take_ptr(why);
        return 1;
}

static int is_pod_away(const Error *error, void *userdata) {
        Awaited *awaited = userdata;
        cleanup(free_p) char *why = NULL;
        int r = restart_announce_away(awaited->wait, &awaited->announcer,
                                      object_name(awaited->before), error, &why);

        if (r > 0) {
                awaited->end = RESTART_FAILED;
                awaited->why = take_ptr(why);
        }
        return r;
}

int restart_wait_pod(const RestartWait *wait, json_object *before, json_object *containers,
                     bool was_ready, RestartEnd *ret_end, char **ret_why, Error *reterr) {
        cleanup(awaited_done) Awaited awaited = {
                .wait = wait, .before = before, .containers = containers, .was_ready = was_ready
        };
        cleanup(free_p) char *fields = NULL;
        SessionWatch watch = { .path = workload_path(WORKLOAD_POD, session_namespace(wait->session),
                                                     NULL),
                               .on_object = on_pod_change,
                               .on_gone = on_pod_gone };
        int r;

        announcer_begin(&awaited.announcer);
        if (text_format(&fields, "metadata.name=%s", object_name(before)) < 0)
                return -ENOMEM;

        watch.fields = fields;
        r = session_wait(wait->session,
                         &(SessionWait){ .watches = &watch,
                                         .n_watches = 1,
                                         .is_done = is_restarted,
                                         .is_away = is_pod_away,
                                         .userdata = &awaited },
                         reterr);
        if (r < 0)
                return r;

        *ret_end = awaited.end;
        *ret_why = take_ptr(awaited.why);
        return 0;
}
