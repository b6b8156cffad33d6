/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl inplace restart
 *
 * Each pod gets its images in another spelling, which the kubelet answers with new containers; where that is impossible, or
 * when it is asked for, a ContainerRecreateRequest. As many pods restart at a time as may be unavailable. The next batch begins
 * when all pods of the one before are as ready as they were; one that fails ends the command. What has begun is never
 * taken back, since containers may be stopped already; but a pod whose image cannot be had gets the text before.
 */

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/base/clock.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/pod-choice.h"
#include "agent/kubectl/restart-image-plan.h"
#include "agent/kubectl/restart-plan.h"
#include "agent/kubectl/restart-show.h"
#include "agent/kubectl/restart-wait.h"
#include "agent/kubectl/rights.h"
#include "agent/kubectl/rollout-plan.h"
#include "agent/kubectl/run-result.h"
#include "agent/kubectl/workload.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"

#define KEEP_SEC 600
#define ATTEMPTS_MAX 10
#define LOST_PAUSE_USEC USEC_PER_SEC

typedef struct Restarts {
        Session *session;
        const Flags *flags;
        const char *version; /* version of the requests; NULL: the cluster has none */
        json_object *changes;
        RolloutView
                view; /* workload: if all arguments are one; pods and budgets: while a turn is awaited */
        PodChoice choice; /* pods of that workload */
        int64_t max_unavailable;
        Announcer requests; /* announcer of the awaited requests */
        RestartShow show;
        bool has_changes;
        char run[17];
        PodRestart *items;
        size_t n_items;

        const char *const *only; /* names of the pods that may be chosen; NULL: all */
        size_t n_only;
        int64_t since_sec; /* restarts since then are enough; 0: none is */

        /* while arguments are read */
        const char *containers; /* separated by commas; NULL: all */
        const PodChoice *choosing;
        size_t n_chosen; /* pods that run, by this argument */
        Error error;
} Restarts;

static void restarts_done(Restarts *restarts) {
        for (size_t i = 0; i < restarts->n_items; i++)
                pod_restart_done(&restarts->items[i]);
        free(restarts->items);
        json_object_put(restarts->changes);
        json_object_put(restarts->view.workload);
        json_object_put(restarts->view.pods);
        json_object_put(restarts->view.budgets);
        json_object_put(restarts->view.replica_set_owners);
        pod_choice_done(&restarts->choice);
        restart_show_done(&restarts->show);
        error_done(&restarts->error);
}

static PodRestart *find(const Restarts *restarts, const char *pod) {
        for (size_t i = 0; i < restarts->n_items; i++)
                if (strcmp(restarts->items[i].pod, pod) == 0)
                        return &restarts->items[i];

        return NULL;
}

/* The same pod may be named by several arguments. */
static int add_containers(PodRestart *restart, json_object *names) {
        for (size_t i = 0; i < json_object_array_length(names); i++) {
                json_object *name = json_object_array_get_idx(names, i);

                if (!list_has_text(restart->containers, json_object_get_string(name)) &&
                    patch_append(restart->containers, json_object_get(name)) < 0)
                        return -ENOMEM;
        }

        return 0;
}

static int add_pod(Restarts *restarts, json_object *pod, json_object *names) {
        PodRestart *known = find(restarts, object_name(pod)), *more;

        if (known)
                return add_containers(known, names);

        more = reallocarray(restarts->items, restarts->n_items + 1, sizeof(*more));
        if (!more)
                return -ENOMEM;

        restarts->items = more;
        more[restarts->n_items] = (PodRestart){ .pod = strdup(object_name(pod)),
                                                .containers = json_object_get(names),
                                                .before = json_object_get(pod),
                                                .was_ready = pod_is_ready(pod) };
        return more[restarts->n_items++].pod ? 0 : -ENOMEM;
}

static bool may_choose(const Restarts *restarts, json_object *pod) {
        const PodChoice *choice = restarts->choosing;

        if (choice->workload && !restart_plan_is_of(choice->kind, choice->workload,
                                                    restarts->view.replica_set_owners, pod))
                return false;
        for (size_t i = 0; i < restarts->n_only; i++)
                if (text_equal(restarts->only[i], object_name(pod)))
                        return true;

        return !restarts->only;
}

/* A refusal is kept, since the list that shows the pod cannot return it. */
static int on_pod(json_object *pod, void *userdata) {
        cleanup(json_object_put_p) json_object *names = NULL;
        Restarts *restarts = userdata;
        int r;

        if (restart_plan_is_over(pod) || restarts->error.kind != ERROR_NONE ||
            !may_choose(restarts, pod))
                return 0;

        restarts->n_chosen++;
        r = restart_plan_containers(pod, restarts->containers, &names, &restarts->error);
        if (restarts->error.kind != ERROR_NONE)
                return 0;

        return r < 0 ? r : add_pod(restarts, pod, names);
}

static int add_choice(Restarts *restarts, const PodChoice *choice, Error *reterr) {
        size_t n;
        int r;

        restarts->n_chosen = 0;
        restarts->choosing = choice;
        r = pod_choice_list(restarts->session, choice, session_namespace(restarts->session), on_pod,
                            restarts, &n, reterr);
        if (r < 0)
                return r;
        if (restarts->error.kind != ERROR_NONE)
                return error_copy(reterr, &restarts->error);
        if (restarts->n_chosen == 0)
                return error_set(
                        reterr, ERROR_NOT_FOUND,
                        "%s: there is no such pod that runs in namespace %s: see kubectl get "
                        "pods -A",
                        choice->name ?: choice->labels, session_namespace(restarts->session));

        return 0;
}

static int on_replica_set(json_object *replica_set, void *userdata) {
        Restarts *restarts = userdata;
        const char *uid = object_text(replica_set, "metadata.uid");

        return uid ? patch_add_text(restarts->view.replica_set_owners, uid,
                                    object_owner(replica_set) ?: "")
                   : 0;
}

/* A user who may not read them restarts all pods of ReplicaSets that the selector chooses. */
static int read_owners(Restarts *restarts, Error *reterr) {
        const KubePath path =
                workload_path(WORKLOAD_REPLICA_SET, session_namespace(restarts->session), NULL);
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (restarts->view.replica_set_owners)
                return 0;
        restarts->view.replica_set_owners = json_object_new_object();
        if (!restarts->view.replica_set_owners)
                return -ENOMEM;
        r = session_list_metadata(restarts->session, &path, on_replica_set, restarts, &error);
        if (error.kind == ERROR_DENIED)
                return 0;
        return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
}

static int add_argument(Restarts *restarts, const char *text, Error *reterr) {
        cleanup(restart_target_done) RestartTarget target = RESTART_TARGET_INIT;
        cleanup(pod_choice_done) PodChoice choice = POD_CHOICE_INIT;
        int r;

        r = restart_target_parse(text, &target, reterr);
        if (r < 0)
                return r;
        r = pod_choice_of_name(restarts->session, target.pods, &choice, reterr);
        if (r < 0)
                return r;

        restarts->containers = target.container ?: restarts->flags->containers;
        r = choice.workload && choice.kind == WORKLOAD_DEPLOYMENT ? read_owners(restarts, reterr)
                                                                  : 0;
        if (r >= 0)
                r = add_choice(restarts, &choice, reterr);
        if (r < 0 || !choice.workload || restarts->flags->n_arguments > 1)
                return r;

        /* The workload's settings say how many pods may be unavailable, and when a pod is available. */
        restarts->view.kind = choice.kind;
        restarts->view.workload = json_object_get(choice.workload);
        restarts->choice = choice;
        choice = POD_CHOICE_INIT;
        return 0;
}

/* All that is to be restarted, before anything is. */
static int read_targets(Restarts *restarts, Error *reterr) {
        cleanup(pod_choice_done) PodChoice choice = POD_CHOICE_INIT;
        int r;

        for (int i = 0; i < restarts->flags->n_arguments; i++) {
                r = add_argument(restarts, restarts->flags->arguments[i], reterr);
                if (r < 0)
                        return r;
        }
        if (!restarts->flags->selector)
                return 0;

        r = pod_choice_of_labels(restarts->flags->selector, &choice);
        if (r < 0)
                return r;

        restarts->containers = restarts->flags->containers;
        return add_choice(restarts, &choice, reterr);
}

static size_t count(const Restarts *restarts, bool has_begun) {
        size_t n = 0;

        for (size_t i = 0; i < restarts->n_items; i++)
                n += has_begun ? restarts->items[i].has_begun
                               : restarts->items[i].end != RESTART_SUCCEEDED;
        return n;
}

static void on_wait(const char *pod, const char *why, void *userdata) {
        Restarts *restarts = userdata;

        restart_show_draw(&restarts->show, restarts->items, restarts->n_items, pod, why);
}

static RestartWait wait_of(Restarts *restarts) {
        return (RestartWait){ .session = restarts->session,
                              .view = &restarts->view,
                              .labels = restarts->choice.labels,
                              .max_unavailable = restarts->max_unavailable,
                              .on_wait = restarts->show.is_live ? on_wait : NULL,
                              .userdata = restarts };
}

static KubePath requests_path(const Restarts *restarts) {
        return (KubePath){ .group = "apps.kruise.io",
                           .version = restarts->version,
                           .namespace = session_namespace(restarts->session),
                           .resource = "containerrecreaterequests" };
}

static bool is_same_pod(const PodRestart *restart, json_object *pod) {
        return !restart_plan_is_over(pod) &&
               text_equal(object_text(pod, "metadata.uid"),
                          object_text(restart->before, "metadata.uid"));
}

static int on_same_name(json_object *pod, void *userdata) {
        PodRestart *restart = userdata;

        restart->is_gone = !is_same_pod(restart, pod);
        return 0;
}

/* Requests need no right to get pods. */
static int find_gone(const Restarts *restarts, PodRestart *restart, Error *reterr) {
        cleanup(pod_choice_done) PodChoice choice = POD_CHOICE_INIT;
        size_t n;
        int r = pod_choice_of_name(restarts->session, restart->pod, &choice, reterr);

        restart->is_gone = true;
        if (r >= 0)
                r = pod_choice_list(restarts->session, &choice,
                                    session_namespace(restarts->session), on_same_name, restart, &n,
                                    reterr);
        restart->is_gone = restart->is_gone && r >= 0;
        return r;
}

static int create_request(Restarts *restarts, PodRestart *restart, Error *reterr) {
        const RestartRequest request = { .version = restarts->version,
                                         .pod = restart->pod,
                                         .run = restarts->run,
                                         .containers = restart->containers,
                                         .keep_sec = KEEP_SEC };
        const KubePath path = requests_path(restarts);
        cleanup(json_object_put_p) json_object *body = NULL;
        cleanup(json_object_put_p) json_object *made = NULL;
        int r;

        r = find_gone(restarts, restart, reterr);
        if (r < 0 || restart->is_gone)
                return r;
        r = restart_plan_body(&request, &body);
        if (r < 0)
                return r;
        r = session_create(restarts->session, &path, body, &made, reterr);
        /* It may be there though its answer was lost, and goes on then. */
        restart->has_begun = r < 0 && session_is_lost(restarts->session, reterr);
        if (r < 0)
                return r;

        return text_copy(object_name(made), &restart->request);
}

static KubePath pod_path(const Restarts *restarts, const PodRestart *restart) {
        return workload_path(WORKLOAD_POD, session_namespace(restarts->session), restart->pod);
}

static void announce_delay(Restarts *restarts, const PodRestart *restart, int64_t delay_sec) {
        cleanup(free_p) char *text = NULL;

        if (text_format(&text,
                        "the kubelet may start it up to %" PRId64
                        "s later: it delays containers that it has started repeatedly within ten "
                        "minutes",
                        delay_sec) >= 0)
                restart_show_say(&restarts->show, restart, text);
}

/* Another program may have restarted them. */
static bool has_restarted(const Restarts *restarts, const PodRestart *restart) {
        json_object *names = restart->containers;

        for (size_t i = 0; i < json_object_array_length(names); i++) {
                const char *name = json_object_get_string(json_object_array_get_idx(names, i));
                json_object *running =
                        object_at(container_status(restart->before, name), "state.running");

                if (restart_image_began(restart->before, name) < restarts->since_sec &&
                    json_get_time(running, "startedAt") < restarts->since_sec)
                        return false;
        }
        return restarts->since_sec > 0;
}

/* As it is now, or it is gone: the workload may have been scaled while others restarted. */
static int read_pod(const Restarts *restarts, PodRestart *restart, Error *reterr) {
        const KubePath path = pod_path(restarts, restart);
        cleanup(json_object_put_p) json_object *pod = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r = session_get(restarts->session, &path, &pod, &error);

        restart->is_gone = error.kind == ERROR_NOT_FOUND || (r >= 0 && !is_same_pod(restart, pod));
        if (restart->is_gone)
                return 0;
        if (r < 0)
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
        json_object_put(restart->before);
        restart->before = take_ptr(pod);
        return 0;
}

/* A write, and the pod for which it was made. */
typedef struct PodWrite {
        json_object *patch; /* NULL: there was none yet */
        json_object *before;
} PodWrite;

static void pod_write_done(PodWrite *write) {
        json_object_put(write->patch);
        json_object_put(write->before);
}

/* Where admission makes another image of the one that was written, the kubelet starts that. */
static bool keeps_images(const PodRestart *restart, json_object *answer) {
        json_object *names = restart->containers;

        for (size_t i = 0; i < json_object_array_length(names); i++) {
                const char *name = json_object_get_string(json_object_array_get_idx(names, i));

                if (!text_equal(template_image(restart->before, name),
                                template_image(answer, name)))
                        return false;
        }
        return true;
}

/* Writes a patch, unless the pod has the one of the last write, whose answer was lost: the restart is then that one's. */
static int write_pod(Restarts *restarts, PodRestart *restart, PodWrite *write, Error *reterr) {
        cleanup(json_object_put_p) json_object *answer = NULL;
        const KubePath path = pod_path(restarts, restart);
        bool is_first = !write->patch;
        int64_t delay_sec;
        int r = read_pod(restarts, restart, reterr);

        if (r < 0 || restart->is_gone)
                return r;
        if (restart_image_is_written(restart->before, write->patch)) {
                json_object_put(restart->before);
                restart->before = take_ptr(write->before);
                return 0;
        }
        restart->is_needless = has_restarted(restarts, restart);
        if (restart->is_needless)
                return 0;
        pod_write_done(write);
        *write = (PodWrite){ .before = json_object_get(restart->before) };
        r = restart_image_patch(restart->before, restart->containers, restarts->changes,
                                session_server_sec(restarts->session), &write->patch, &delay_sec,
                                reterr);
        if (r < 0)
                return r;
        if (delay_sec > 0 && is_first)
                announce_delay(restarts, restart, delay_sec);
        r = session_patch(restarts->session, &path, KUBE_STRATEGIC_MERGE_PATCH, write->patch,
                          &answer, reterr);
        restart->has_begun = restart->has_begun || session_is_lost(restarts->session, reterr) ||
                             (r >= 0 && !keeps_images(restart, answer));
        return r < 0 ? r : rollout_check_answer(write->patch, answer, reterr);
}

/* The patch is for the pod as it was read: what another client writes meanwhile is read again. */
static int patch_pod(Restarts *restarts, PodRestart *restart, Error *reterr) {
        cleanup(pod_write_done) PodWrite write = { .patch = NULL };

        for (int n_attempts = 0;; n_attempts++) {
                cleanup(error_done) Error error = ERROR_INIT;
                int r = write_pod(restarts, restart, &write, &error);
                bool is_lost = restart->has_begun && session_is_lost(restarts->session, &error);

                if (error.kind == ERROR_NONE)
                        return r;
                if (n_attempts == ATTEMPTS_MAX ||
                    (!is_lost && error.kind != ERROR_CONFLICT && error.kind != ERROR_NOT_FOUND))
                        return error_copy(reterr, &error);
                r = is_lost ? session_pause(restarts->session, LOST_PAUSE_USEC, reterr) : 0;
                if (r < 0)
                        return r;
        }
}

static int begin(Restarts *restarts, PodRestart *restart, Error *reterr) {
        int r;

        restart_show_begun(&restarts->show, restart);
        r = restart->is_by_request ? create_request(restarts, restart, reterr)
                                   : patch_pod(restarts, restart, reterr);
        restart->has_begun = restart->has_begun || r >= 0;
        restart->since_usec = clock_monotonic_usec();
        return r;
}

static PodRestart *find_request(const Restarts *restarts, const char *name) {
        for (size_t i = 0; i < restarts->n_items; i++)
                if (restarts->items[i].request && strcmp(restarts->items[i].request, name) == 0)
                        return &restarts->items[i];

        return NULL;
}

static int on_request(const KubeObject *object, void *userdata) {
        PodRestart *restart = find_request(userdata, object->name);

        if (!restart || restart->end != RESTART_RUNNING)
                return 0;

        return restart_plan_read(object->json, &restart->end, &restart->why);
}

static int on_request_gone(const KubeObject *object, void *userdata) {
        PodRestart *restart = find_request(userdata, object->name);

        if (!restart || restart->end != RESTART_RUNNING)
                return 0;

        restart->end = RESTART_FAILED;
        return text_copy("its request was deleted", &restart->why);
}

static int is_batch_done(void *userdata) {
        static const char why[] =
                "the agent of its node has not completed the ContainerRecreateRequest";
        Restarts *restarts = userdata;
        const RestartWait wait = wait_of(restarts);

        for (size_t i = 0; i < restarts->n_items; i++) {
                PodRestart *restart = &restarts->items[i];

                if (!restart->request || restart->end != RESTART_RUNNING)
                        continue;
                if (!restart_announce(&wait, &restarts->requests, restart->pod, why,
                                      object_integer(restart->before,
                                                     "spec.terminationGracePeriodSeconds")))
                        return 0;

                restart->end = RESTART_FAILED;
                if (text_copy(why, &restart->why) < 0)
                        return -ENOMEM;
        }

        return 1;
}

static int is_batch_away(const Error *error, void *userdata) {
        Restarts *restarts = userdata;
        const RestartWait wait = wait_of(restarts);

        for (size_t i = 0; i < restarts->n_items; i++) {
                PodRestart *restart = &restarts->items[i];
                cleanup(free_p) char *why = NULL;
                int r;

                if (!restart->request || restart->end != RESTART_RUNNING)
                        continue;
                r = restart_announce_away(&wait, &restarts->requests, restart->pod, error, &why);
                if (r <= 0)
                        return r;

                restart->end = RESTART_FAILED;
                restart->why = take_ptr(why);
        }

        return 1;
}

static int wait_requests(Restarts *restarts, Error *reterr) {
        char labels[64];
        const SessionWatch watch = { .path = requests_path(restarts),
                                     .labels = labels,
                                     .on_object = on_request,
                                     .on_gone = on_request_gone };

        announcer_begin(&restarts->requests);
        if (is_batch_done(restarts))
                return 0;

        (void) snprintf(labels, sizeof(labels), RESTART_LABEL "=%s", restarts->run);
        return session_wait(restarts->session,
                            &(SessionWait){ .watches = &watch,
                                            .n_watches = 1,
                                            .is_done = is_batch_done,
                                            .is_away = is_batch_away,
                                            .userdata = restarts },
                            reterr);
}

/* The text before may lead to an image where the digest does not. */
static int put_back(Restarts *restarts, PodRestart *restart, Error *reterr) {
        cleanup(json_object_put_p) json_object *before = json_object_get(restart->before);
        const KubePath path = pod_path(restarts, restart);

        restart->end = RESTART_FAILED;
        for (int n_conflicts = 0;; n_conflicts++) {
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(error_done) Error error = ERROR_INIT;
                int r = read_pod(restarts, restart, reterr);

                if (r >= 0 && !restart->is_gone)
                        r = restart_image_unpatch(before, restart->before, restart->containers,
                                                  &patch);
                if (r < 0 || !patch)
                        return r;
                r = session_patch(restarts->session, &path, KUBE_STRATEGIC_MERGE_PATCH, patch,
                                  /* ret= */ NULL, &error);
                if (error.kind == ERROR_CONFLICT && n_conflicts < ATTEMPTS_MAX)
                        continue;
                if (error.kind != ERROR_NONE)
                        return error_copy(reterr, &error);
                if (r >= 0)
                        restart_show_say(&restarts->show, restart, "its images were written back");
                return r;
        }
}

static int wait_pod(Restarts *restarts, PodRestart *restart, Error *reterr) {
        const RestartWait wait = wait_of(restarts);
        int r = restart_wait_pod(&wait, restart->before, restart->containers, restart->was_ready,
                                 &restart->end, &restart->why, reterr);

        if (r >= 0 && restart->end == RESTART_GONE) {
                restart->is_gone = true;
                restart->end = RESTART_SUCCEEDED;
        }
        return r >= 0 && restart->end == RESTART_NOT_PULLED ? put_back(restarts, restart, reterr)
                                                            : r;
}

/* --max-unavailable, or as the workload's own strategy has it; at least one. */
static int get_max_unavailable(Restarts *restarts, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        const char *asked = restarts->flags->max_unavailable;
        int64_t n = 1;

        if (restarts->view.workload)
                (void) view_max_unavailable(&restarts->view, asked, &n, &error);
        else if (asked)
                (void) share_parse(asked, (int64_t) restarts->n_items, SHARE_ROUNDED_UP, &n,
                                   &error);
        if (error.kind != ERROR_NONE)
                return error_set(reterr, ERROR_INVALID, "--max-unavailable: %s",
                                 error_message(&error));

        restarts->max_unavailable = n > 0 ? n : 1;
        return 0;
}

/* Takes pods that are not ready anyway first, then the highest ordinals of a StatefulSet. */
static int compare_items(const void *a, const void *b) {
        const PodRestart *x = a, *y = b;
        int64_t difference = pod_ordinal(y->before) - pod_ordinal(x->before);

        if (x->was_ready != y->was_ready)
                return x->was_ready ? 1 : -1;
        return difference > 0 ? 1 : difference < 0 ? -1 : strcmp(x->pod, y->pod);
}

/* It may have been scaled or deleted since. Where that cannot be read, it counts as it was. */
static int read_workload(Restarts *restarts) {
        RolloutView *view = &restarts->view;
        cleanup(json_object_put_p) json_object *workload = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        KubePath path;
        int r = view->workload
                        ? workload_find(restarts->session, view->kind, object_name(view->workload),
                                        &path, &workload, &error)
                        : 0;

        if (workload || error.kind == ERROR_NOT_FOUND) {
                json_object_put(view->workload);
                view->workload = take_ptr(workload);
        }
        return error.kind == ERROR_NONE ? r : 0;
}

/* How many pods it should have, and how many of these may be unavailable, are those of now. */
static int read_limits(Restarts *restarts, Error *reterr) {
        int r = read_workload(restarts);

        return r < 0 ? r : get_max_unavailable(restarts, reterr);
}

/* Waits for the turn of the first pod of a batch. While it waits, an autoscaler may have asked for more pods. */
static int wait_turn(Restarts *restarts, json_object *pod, bool *ret_may_begin, Error *reterr) {
        const RestartWait wait = wait_of(restarts);
        cleanup(free_p) char *why = NULL;
        int64_t n_allowed;
        int r = restart_wait_turn(&wait, pod, ret_may_begin, reterr);

        if (r >= 0)
                r = read_limits(restarts, reterr);
        if (r < 0 || !*ret_may_begin)
                return r;
        r = restart_plan_allowance(&restarts->view, restarts->max_unavailable, pod, &n_allowed,
                                   &why);
        *ret_may_begin = n_allowed > 0;
        return r;
}

/* A pod that was not ready may serve by now, and then waits for its turn as well. */
static int read_readiness(Restarts *restarts, PodRestart *restart, Error *reterr) {
        int r = restart->was_ready ? 0 : read_pod(restarts, restart, reterr);

        restart->was_ready =
                restart->was_ready || (!restart->is_gone && pod_is_ready(restart->before));
        return r;
}

/* How many of these may begin now; at least the first one, which is waited for. */
static int get_batch(Restarts *restarts, PodRestart *items, size_t n_items, size_t *ret,
                     Error *reterr) {
        bool may_begin;
        size_t n = 1;
        int r;

        if (session_is_dry_run(restarts->session)) {
                *ret = n_items;
                return 0;
        }

        r = read_limits(restarts, reterr);
        if (r >= 0)
                r = read_readiness(restarts, &items[0], reterr);
        may_begin = !items[0].was_ready;
        while (r >= 0 && !may_begin)
                r = wait_turn(restarts, items[0].before, &may_begin, reterr);
        while (r >= 0 && n < n_items && n < (size_t) restarts->max_unavailable) {
                cleanup(free_p) char *why = NULL;
                int64_t n_allowed = INT64_MAX;

                r = read_readiness(restarts, &items[n], reterr);
                if (r < 0 || items[n].was_ready != items[0].was_ready)
                        break;
                if (items[n].was_ready)
                        r = restart_plan_allowance(&restarts->view, restarts->max_unavailable,
                                                   items[n].before, &n_allowed, &why);
                if (r < 0 || n_allowed <= (int64_t) n)
                        break;
                n++;
        }

        *ret = n;
        return r;
}

/* A request fails as well because its pod goes, which needs no restart then. */
static int read_failed(const Restarts *restarts, PodRestart *restart, Error *reterr) {
        return restart->request && restart->end == RESTART_FAILED
                       ? find_gone(restarts, restart, reterr)
                       : 0;
}

static int run_batch(Restarts *restarts, PodRestart *batch, size_t n, Error *reterr) {
        bool is_dry_run = session_is_dry_run(restarts->session);
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = begin(restarts, &batch[i], reterr);
        if (r >= 0 && !is_dry_run)
                r = wait_requests(restarts, reterr);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                r = read_failed(restarts, &batch[i], reterr);
                if (r < 0)
                        break;
                if (is_dry_run || batch[i].is_needless || batch[i].is_gone)
                        batch[i].end = RESTART_SUCCEEDED;
                else if (batch[i].end != RESTART_FAILED)
                        r = wait_pod(restarts, &batch[i], reterr);
                batch[i].since_usec = clock_monotonic_usec();
                if (r >= 0)
                        restart_show_ended(&restarts->show, &batch[i]);
        }

        return r;
}

static bool has_failed(const Restarts *restarts) {
        for (size_t i = 0; i < restarts->n_items; i++)
                if (restarts->items[i].end == RESTART_FAILED)
                        return true;

        return false;
}

static int run_batches(Restarts *restarts, Error *reterr) {
        size_t n;

        for (size_t i = 0; i < restarts->n_items; i++)
                restarts->items[i].since_usec = clock_monotonic_usec();
        if (restarts->view.workload)
                qsort(restarts->items, restarts->n_items, sizeof(*restarts->items), compare_items);
        for (size_t i = 0; i < restarts->n_items && !has_failed(restarts); i += n) {
                int r;

                r = get_batch(restarts, &restarts->items[i], restarts->n_items - i, &n, reterr);
                if (r >= 0)
                        r = run_batch(restarts, &restarts->items[i], n, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Says which restarts go on, and which never began. */
static void explain_rest(const Restarts *restarts) {
        size_t n_begun = count(restarts, true), n_undone = count(restarts, false);
        size_t n_running =
                n_begun + n_undone > restarts->n_items ? n_begun + n_undone - restarts->n_items : 0;

        if (n_running > 0 && !has_failed(restarts) && !session_is_dry_run(restarts->session)) {
                if (restarts->version)
                        complain("restarts in progress continue; to watch them: kubectl get "
                                 "containerrecreaterequests -n %s -l " RESTART_LABEL "=%s",
                                 session_namespace(restarts->session), restarts->run);
                else
                        complain("restarts in progress continue: the kubelet restarts the "
                                 "containers");
        }
        if (n_begun < restarts->n_items)
                complain("%zu of %zu pods were not restarted: restart them by name",
                         restarts->n_items - n_begun, restarts->n_items);
}

static int find_requests(Restarts *restarts, Error *reterr) {
        int r;

        if (restarts->version)
                return 0;

        r = session_find_kruise(restarts->session, "containerrecreaterequests", &restarts->version,
                                reterr);
        if (r >= 0 && !restarts->version)
                return error_set(reterr, ERROR_NOT_FOUND,
                                 "%s serves no ContainerRecreateRequests; apply the definitions of "
                                 "inplaced, or install OpenKruise",
                                 session_target(restarts->session));
        return r;
}

/* OpenKruise's controllers compare the images of a pod with those of its revision. */
static bool is_of_kruise(json_object *pod) {
        const char *version = json_get_text(object_controller(pod), "apiVersion");

        return version && strncmp(version, "apps.kruise.io/", 15) == 0;
}

/* By the kubelet alone where the digest of each image is known; else by a request, which changes no metadata, and would stop
 * containers whether they come back or not. */
static int choose_way(Restarts *restarts, PodRestart *restart, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT, missing = ERROR_INIT;
        cleanup(json_object_put_p) json_object *patch = NULL;
        int64_t delay_sec;
        int r;

        restart->is_by_request = restarts->flags->request ||
                                 (!restarts->has_changes && is_of_kruise(restart->before));
        if (restart->is_by_request) {
                r = restart_image_check_stop(restart->before, restart->containers, reterr);
                return r < 0 ? r : find_requests(restarts, reterr);
        }

        r = restart_image_patch(restart->before, restart->containers, restarts->changes,
                                session_server_sec(restarts->session), &patch, &delay_sec, &error);
        if (error.kind == ERROR_NONE)
                return r;
        if (restarts->has_changes ||
            !restart_image_all_come_back(restart->before, restart->containers) ||
            find_requests(restarts, &missing) < 0)
                return error_copy(reterr, &error);

        restart->is_by_request = true;
        return 0;
}

/* A controller of an unknown kind may find the pod by any label that it has. */
static int check_labels(const Restarts *restarts, const PodRestart *restart, Error *reterr) {
        json_object *labels = object_at(restart->before, "metadata.labels");
        cleanup(json_object_put_p) json_object *selector =
                patch_wrap("matchLabels", json_object_get(labels) ?: json_object_new_object());

        return selector
                       ? restart_changes_check(restarts->changes, restart->before, selector, reterr)
                       : -ENOMEM;
}

/* The selector of the controller that would replace a pod which it does not find any more. */
static int check_owner(Restarts *restarts, const PodRestart *restart, Error *reterr) {
        json_object *found = object_controller(restart->before);
        cleanup(json_object_put_p) json_object *owner = NULL;
        WorkloadKind kind;
        KubePath path;
        int r;

        if (!found)
                return 0;
        if (!workload_kind_of_owner(found, &kind))
                return check_labels(restarts, restart, reterr);

        r = workload_find(restarts->session, kind, json_get_text(found, "name") ?: "", &path,
                          &owner, reterr);
        return r < 0 ? r
                     : restart_changes_check(restarts->changes, restart->before,
                                             object_at(owner, "spec.selector"), reterr);
}

/* Whichever way it is: an update decides what runs next. */
static int check_updates(const PodRestart *restart, Error *reterr) {
        json_object *names = restart->containers;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(names); i++)
                r = restart_image_check(restart->before,
                                        json_object_get_string(json_object_array_get_idx(names, i)),
                                        reterr);
        return r;
}

/* Asks for the rights that the chosen ways need. */
static int check_rights(Restarts *restarts, Error *reterr) {
        size_t n_requests = 0;
        int r = 0;

        for (size_t i = 0; i < restarts->n_items; i++)
                n_requests += restarts->items[i].is_by_request;
        if (n_requests < restarts->n_items)
                r = rights_require_task(restarts->session, RIGHTS_RESTART, reterr);
        if (r >= 0 && n_requests > 0)
                r = rights_require_task(restarts->session, RIGHTS_RESTART_BY_REQUESTS, reterr);
        return r;
}

static int check_targets(Restarts *restarts, Error *reterr) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < restarts->n_items; i++) {
                r = check_updates(&restarts->items[i], reterr);
                if (r >= 0 && restarts->flags->labels[0])
                        r = check_owner(restarts, &restarts->items[i], reterr);
                if (r >= 0)
                        r = choose_way(restarts, &restarts->items[i], reterr);
        }
        return r < 0 ? r : check_rights(restarts, reterr);
}

static int restart_all(Restarts *restarts, Error *reterr) {
        int r;

        r = read_targets(restarts, reterr);
        if (r >= 0)
                r = get_max_unavailable(restarts, reterr);
        if (r >= 0)
                r = check_targets(restarts, reterr);
        return r < 0 ? r : run_batches(restarts, reterr);
}

/* Nothing was changed: it failed. Some was: part of it is not done. */
static int end_status(const Restarts *restarts) {
        if (session_end_status(restarts->session) > 0)
                return session_end_status(restarts->session);
        return exit_status_of(count(restarts, false) > 0,
                              count(restarts, false) < restarts->n_items);
}

int kubectl_restart(Session *session, const Flags *flags) {
        cleanup(restarts_done) Restarts restarts = {
                .session = session,
                .flags = flags,
                .show = restart_show_init(flags, session_is_dry_run(session)),
        };
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if ((flags->n_arguments > 0) == (flags->selector != NULL)) {
                complain("expected pods, or labels by -l; try: kubectl inplace help restart");
                return EXIT_STATUS_USAGE;
        }

        restarts.has_changes = flags->labels[0] || flags->annotations[0];
        if (restarts.has_changes && flags->request) {
                complain("--request changes neither labels nor annotations: leave one out");
                return EXIT_STATUS_USAGE;
        }

        r = restart_changes_parse(flags->labels, flags->annotations, &restarts.changes, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (error.kind != ERROR_NONE) {
                complain("%s; try: kubectl inplace help restart", error_message(&error));
                return EXIT_STATUS_USAGE;
        }

        (void) snprintf(restarts.run, sizeof(restarts.run), "%016" PRIx64, random_id());
        r = restart_all(&restarts, &error);
        restart_show_end(&restarts.show, restarts.items, restarts.n_items);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (error.kind != ERROR_NONE)
                complain("%s", error_message(&error));
        if (restarts.n_items == 0)
                return session_end_status(session) ?: EXIT_STATUS_FAILED;

        explain_rest(&restarts);
        if (output_is_document(flags->format)) {
                r = restart_show_document(&restarts.show, restarts.items, restarts.n_items);
                if (r < 0)
                        return r;
        }

        return end_status(&restarts);
}

/* Why it has not restarted all; NULL: it has, or there is nothing to say. The caller owns *ret. */
static int explain_failure(const Restarts *restarts, const Error *error, char **ret) {
        if (error->kind != ERROR_NONE)
                return text_copy(error_message(error), ret);
        for (size_t i = 0; i < restarts->n_items; i++)
                if (restarts->items[i].end == RESTART_FAILED)
                        return text_format(ret, "pod/%s: %s", restarts->items[i].pod,
                                           restarts->items[i].why ?: "no reason given");
        return 0;
}

int kubectl_restart_pods(Session *session, const Flags *flags) {
        Flags workload = *flags;
        cleanup(restarts_done) Restarts restarts = {
                .session = session,
                .flags = &workload,
                .since_sec = strtoll(flags->arguments[1], NULL, 10),
                .only = (const char *const *) flags->arguments + 2,
                .n_only = (size_t) flags->n_arguments - 2,
        };
        cleanup(json_object_put_p) json_object *result = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *reason = NULL;
        int r;

        /* The next controller begins where this one has ended. */
        (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
        workload.n_arguments = 1;
        workload.format = OUTPUT_JSON;
        restarts.show = restart_show_init(&workload, /* is_dry_run= */ false);
        (void) snprintf(restarts.run, sizeof(restarts.run), "%016" PRIx64, random_id());
        r = restart_all(&restarts, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (explain_failure(&restarts, &error, &reason) < 0)
                return -ENOMEM;
        r = run_result(error.kind == ERROR_NONE && count(&restarts, false) == 0 ? "restarted"
                                                                                : "failed",
                       reason, &result);
        return r < 0 ? r : output_tree(OUTPUT_JSON, result);
}
