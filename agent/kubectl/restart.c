/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl inplace restart
 *
 * A ContainerRecreateRequest for each pod, as many at a time as may be unavailable. The next batch begins
 * when all pods of the one before are as ready as they were; one that fails ends the command. Requests
 * that have begun are never taken back: their containers may be stopped already.
 */

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/base/random.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/pod-choice.h"
#include "agent/kubectl/restart-plan.h"
#include "agent/kubectl/workload.h"

#define KEEP_SEC 600

typedef struct PodRestart {
        char *pod;
        json_object *containers; /* a list of names */
        bool was_ready;
        char *request; /* its name; NULL: not begun */
        RestartEnd end;
        char *why; /* of a failure; NULL: nothing is said */
} PodRestart;

typedef struct Restarts {
        Session *session;
        const Flags *flags;
        const char *version;
        char run[17];
        PodRestart *items;
        size_t n_items;

        /* while arguments are read */
        const char *containers; /* separated by commas; NULL: all */
        size_t n_chosen;        /* pods that run, by this argument */
        Error error;
} Restarts;

static void restarts_done(Restarts *restarts) {
        for (size_t i = 0; i < restarts->n_items; i++) {
                free(restarts->items[i].pod);
                json_object_put(restarts->items[i].containers);
                free(restarts->items[i].request);
                free(restarts->items[i].why);
        }
        free(restarts->items);
        error_done(&restarts->error);
}

static PodRestart *find(const Restarts *restarts, const char *pod) {
        for (size_t i = 0; i < restarts->n_items; i++)
                if (strcmp(restarts->items[i].pod, pod) == 0)
                        return &restarts->items[i];

        return NULL;
}

static bool has_name(json_object *names, const char *name) {
        for (size_t i = 0; i < json_object_array_length(names); i++)
                if (strcmp(json_object_get_string(json_object_array_get_idx(names, i)), name) == 0)
                        return true;

        return false;
}

/* The same pod may be named by several arguments. */
static int add_containers(PodRestart *restart, json_object *names) {
        for (size_t i = 0; i < json_object_array_length(names); i++) {
                json_object *name = json_object_array_get_idx(names, i);

                if (!has_name(restart->containers, json_object_get_string(name)) &&
                    !output_append(restart->containers, json_object_get(name)))
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
                                                .was_ready = restart_plan_is_ready(pod) };
        return more[restarts->n_items++].pod ? 0 : -ENOMEM;
}

/* A refusal is kept, since the list that shows the pod cannot return it. */
static int on_pod(json_object *pod, void *userdata) {
        cleanup(json_put_p) json_object *names = NULL;
        Restarts *restarts = userdata;
        int r;

        if (restart_plan_is_over(pod) || restarts->error.kind != ERROR_NONE)
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
        r = pod_choice_list(restarts->session, choice, session_namespace(restarts->session), on_pod,
                            restarts, &n, reterr);
        if (r < 0)
                return r;
        if (restarts->error.kind != ERROR_NONE)
                return error_copy(reterr, &restarts->error);
        if (restarts->n_chosen == 0)
                return error_set(reterr, ERROR_NOT_FOUND,
                                 "%s: there is no such pod that runs in namespace %s",
                                 choice->name ?: choice->labels,
                                 session_namespace(restarts->session));

        return 0;
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
        return add_choice(restarts, &choice, reterr);
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

static KubePath requests_path(const Restarts *restarts) {
        return (KubePath){ .group = "apps.kruise.io",
                           .version = restarts->version,
                           .namespace = session_namespace(restarts->session),
                           .resource = "containerrecreaterequests" };
}

static int begin(Restarts *restarts, PodRestart *restart, Error *reterr) {
        const RestartRequest request = { .version = restarts->version,
                                         .pod = restart->pod,
                                         .run = restarts->run,
                                         .containers = restart->containers,
                                         .keep_sec = KEEP_SEC };
        const KubePath path = requests_path(restarts);
        cleanup(json_put_p) json_object *body = NULL;
        cleanup(json_put_p) json_object *made = NULL;
        int r;

        r = restart_plan_body(&request, &body);
        if (r < 0)
                return r;
        r = session_create(restarts->session, &path, body, &made, reterr);
        if (r < 0)
                return r;

        restart->request = strdup(object_name(made));
        return restart->request ? 0 : -ENOMEM;
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
        restart->why = strdup("its request was deleted");
        return restart->why ? 0 : -ENOMEM;
}

static int is_batch_done(void *userdata) {
        const Restarts *restarts = userdata;

        for (size_t i = 0; i < restarts->n_items; i++)
                if (restarts->items[i].request && restarts->items[i].end == RESTART_RUNNING)
                        return 0;

        return 1;
}

static int wait_requests(Restarts *restarts, Error *reterr) {
        char labels[64];
        const SessionWatch watch = { .path = requests_path(restarts),
                                     .labels = labels,
                                     .on_object = on_request,
                                     .on_gone = on_request_gone };

        (void) snprintf(labels, sizeof(labels), RESTART_LABEL "=%s", restarts->run);
        return session_wait(restarts->session,
                            &(SessionWait){ .watches = &watch,
                                            .n_watches = 1,
                                            .is_done = is_batch_done,
                                            .userdata = restarts },
                            reterr);
}

/* A pod that is gone needs no waiting. */
typedef struct Readiness {
        bool is_ready;
        bool is_gone;
        bool was_seen;
} Readiness;

static int on_readiness(const KubeObject *object, void *userdata) {
        Readiness *readiness = userdata;

        readiness->was_seen = true;
        readiness->is_ready = restart_plan_is_ready(object->json);
        readiness->is_gone = restart_plan_is_over(object->json);
        return 0;
}

static int on_readiness_gone(const KubeObject *object, void *userdata) {
        Readiness *readiness = userdata;

        readiness->is_gone = true;
        return 0;
}

static int is_ready_again(void *userdata) {
        const Readiness *readiness = userdata;

        return readiness->is_ready || readiness->is_gone || !readiness->was_seen;
}

static int wait_ready(Restarts *restarts, const PodRestart *restart, Error *reterr) {
        cleanup(free_p) char *fields = NULL;
        Readiness readiness = { .is_ready = false };
        SessionWatch watch = { .path = { .version = "v1",
                                         .namespace = session_namespace(restarts->session),
                                         .resource = "pods" },
                               .on_object = on_readiness,
                               .on_gone = on_readiness_gone };

        if (text_format(&fields, "metadata.name=%s", restart->pod) < 0)
                return -ENOMEM;

        watch.fields = fields;
        return session_wait(restarts->session,
                            &(SessionWait){ .watches = &watch,
                                            .n_watches = 1,
                                            .is_done = is_ready_again,
                                            .userdata = &readiness },
                            reterr);
}

static int print_end(const Restarts *restarts, const PodRestart *restart) {
        const bool is_table =
                restarts->flags->format == OUTPUT_TABLE || restarts->flags->format == OUTPUT_WIDE;
        int r = 0;

        if (restart->end == RESTART_FAILED)
                complain("pod/%s was not restarted: %s", restart->pod,
                         restart->why ?: "no reason given");
        else if (is_table && restarts->flags->wants_names)
                r = print_safe("pod/%s", restart->pod);
        else if (is_table)
                r = print_safe("pod/%s restarted%s", restart->pod,
                               session_is_dry_run(restarts->session) ? " (server dry run)" : "");
        (void) fflush(stdout);
        return r;
}

/* How many pods there are at a time, at least one. */
static int get_batch_size(const Restarts *restarts, size_t *ret, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        int64_t n = 1;

        if (restarts->flags->max_unavailable &&
            share_parse(restarts->flags->max_unavailable, (int64_t) restarts->n_items,
                        SHARE_ROUNDED_UP, &n, &error) < 0)
                return error_set(reterr, ERROR_INVALID, "--max-unavailable: %s",
                                 error_message(&error));

        *ret = n > 0 ? (size_t) n : 1;
        return 0;
}

/* Those from *next on, and after that what they are waited for. */
static int run_batch(Restarts *restarts, PodRestart *batch, size_t n, Error *reterr) {
        bool is_dry_run = session_is_dry_run(restarts->session);
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = begin(restarts, &batch[i], reterr);
        if (r >= 0 && !is_dry_run)
                r = wait_requests(restarts, reterr);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                if (is_dry_run)
                        batch[i].end = RESTART_SUCCEEDED;
                else if (batch[i].end == RESTART_SUCCEEDED && batch[i].was_ready)
                        r = wait_ready(restarts, &batch[i], reterr);
                if (r >= 0)
                        r = print_end(restarts, &batch[i]);
        }

        return r;
}

static bool has_failed(const Restarts *restarts) {
        for (size_t i = 0; i < restarts->n_items; i++)
                if (restarts->items[i].end == RESTART_FAILED)
                        return true;

        return false;
}

static int run_batches(Restarts *restarts, size_t size, Error *reterr) {
        for (size_t i = 0; i < restarts->n_items && !has_failed(restarts); i += size) {
                size_t rest = restarts->n_items - i;
                int r;

                r = run_batch(restarts, &restarts->items[i], rest < size ? rest : size, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static size_t count(const Restarts *restarts, bool has_begun) {
        size_t n = 0;

        for (size_t i = 0; i < restarts->n_items; i++)
                n += has_begun ? restarts->items[i].request != NULL
                               : restarts->items[i].end != RESTART_SUCCEEDED;
        return n;
}

/* What goes on, and what never began. */
static void explain_rest(const Restarts *restarts) {
        size_t n_begun = count(restarts, true), n_undone = count(restarts, false);
        size_t n_running =
                n_begun + n_undone > restarts->n_items ? n_begun + n_undone - restarts->n_items : 0;

        if (n_running > 0 && !has_failed(restarts) && !session_is_dry_run(restarts->session))
                complain(
                        "what has begun goes on; to watch it: kubectl get containerrecreaterequests "
                        "-n %s -l " RESTART_LABEL "=%s",
                        session_namespace(restarts->session), restarts->run);
        if (n_begun < restarts->n_items)
                complain("%zu of %zu pods were left alone", restarts->n_items - n_begun,
                         restarts->n_items);
}

static int print_document(const Restarts *restarts) {
        cleanup(json_put_p) json_object *tree = json_object_new_object();
        json_object *list = json_object_new_array();

        if (!tree || !output_add(tree, "items", list))
                return -ENOMEM;

        for (size_t i = 0; i < restarts->n_items; i++) {
                const PodRestart *restart = &restarts->items[i];
                static const char *const ends[] = { "Running", "Succeeded", "Failed" };
                json_object *item = json_object_new_object();

                if (!output_append(list, item) || !output_add_string(item, "pod", restart->pod) ||
                    !output_add(item, "containers", json_object_get(restart->containers)) ||
                    !output_add_string(item, "phase",
                                       restart->request ? ends[restart->end] : "NotBegun") ||
                    (restart->why && !output_add_string(item, "message", restart->why)) ||
                    (restart->request && !output_add_string(item, "request", restart->request)))
                        return -ENOMEM;
        }

        return output_tree(restarts->flags->format, tree);
}

static int restart_all(Restarts *restarts, Error *reterr) {
        static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };
        size_t size = 0;
        int r;

        r = session_find_version(restarts->session, "apps.kruise.io", versions,
                                 "containerrecreaterequests", &restarts->version, reterr);
        if (r < 0)
                return r;
        if (!restarts->version)
                return error_set(reterr, ERROR_NOT_FOUND,
                                 "%s serves no ContainerRecreateRequests; apply the definitions of "
                                 "inplaced, or install OpenKruise",
                                 session_target(restarts->session));

        r = read_targets(restarts, reterr);
        if (r >= 0)
                r = get_batch_size(restarts, &size, reterr);
        return r < 0 ? r : run_batches(restarts, size, reterr);
}

/* Nothing was changed: it failed. Some was: part of it is not done. */
static int end_status(const Restarts *restarts) {
        if (session_end_status(restarts->session) > 0)
                return session_end_status(restarts->session);
        if (count(restarts, false) == 0)
                return EXIT_STATUS_DONE;

        return count(restarts, false) < restarts->n_items ? EXIT_STATUS_PARTLY : EXIT_STATUS_FAILED;
}

int kubectl_restart(Session *session, const Flags *flags) {
        cleanup(restarts_done) Restarts restarts = { .session = session, .flags = flags };
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if ((flags->n_arguments > 0) == (flags->selector != NULL)) {
                complain("expected pods, or labels by -l; try: kubectl inplace help restart");
                return EXIT_STATUS_USAGE;
        }

        (void) snprintf(restarts.run, sizeof(restarts.run), "%016" PRIx64, random_id());
        r = restart_all(&restarts, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (error.kind != ERROR_NONE)
                complain("%s", error_message(&error));
        if (restarts.n_items == 0)
                return session_end_status(session) ?: EXIT_STATUS_FAILED;

        explain_rest(&restarts);
        if (flags->format == OUTPUT_JSON || flags->format == OUTPUT_YAML) {
                r = print_document(&restarts);
                if (r < 0)
                        return r;
        }

        return end_status(&restarts);
}
