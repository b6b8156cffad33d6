/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl inplace controller
 *
 * Watches the workloads that declare updates in place, and runs one program for each that has to be brought to its
 * template, as a person would run "kubectl inplace rollout". What is known here is not needed by anyone else: after a crash
 * the next controller begins with the workloads as they are, and so do two at once.
 */

#include <assert.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kube/event.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/config-restarts.h"
#include "agent/kubectl/controller-plan.h"
#include "agent/kubectl/leader.h"
#include "agent/kubectl/own-run.h"

#define LEASE "inplaced-controller"
#define COMPONENT "inplaced-controller"
#define RUNS_MAX \
        32 /* at a time; each takes about 4 MB beside the program itself, and 30 kB for each pod */
#define WRITE_RETRY_SEC 10
#define UNBOUND_USEC \
        (3 * USEC_PER_SEC) /* API servers read the bindings of policies once a second */
#define OUSTED_USEC (LEASE_RENEW_USEC + 2 * USEC_PER_SEC) /* it has looked at its Lease by then */
#define ADMISSION "admissionregistration.k8s.io"
#define LOOK_USEC (60 * USEC_PER_SEC)     /* until the binding is looked for again */
#define REMOVAL_USEC (300 * USEC_PER_SEC) /* a removal of the controller has ended by then */

static const WorkloadKind watched_kinds[] = { WORKLOAD_DEPLOYMENT, WORKLOAD_STATEFUL_SET,
                                              WORKLOAD_DAEMON_SET };

#define N_KINDS (sizeof(watched_kinds) / sizeof(watched_kinds[0]))

typedef struct Controller Controller;

/* A workload that declares updates in place, or that is still held for one. */
typedef struct Declared {
        Controller *controller;
        WorkloadKind kind;
        char *namespace, *name, *uid;
        char *key; /* "KIND/NAMESPACE/NAME" */
        UpdateFacts facts;
        UpdateRun last;
        Program *program;       /* the run that is under way; NULL: none */
        char *outcome, *reason; /* result of a run, until it is reported; NULL: none */
        int64_t not_before_sec; /* when a write that was refused is tried again */
        bool is_announced;      /* an event says that the update has begun */
        bool is_gone;
} Declared;

struct Controller {
        Session *session;
        const Flags *flags;
        Log *log;
        KubeEvents *events;
        Leader leader;
        ConfigRestarts *config; /* NULL: restarts for changed configuration are not asked for */
        SessionFollow *follow;
        Declared **declared; /* by key */
        size_t n_declared;
        Declared *running[RUNS_MAX]; /* borrowed; their programs run */
        size_t n_running;
        OwnRunGuard guard;
        bool is_ready;         /* leads, and workloads may be held from now on */
        uint64_t unbound_usec; /* when the binding was removed or missed first; 0: it was not */
        uint64_t look_usec;    /* when the binding is looked for again */
        bool lacks_policies;   /* the API server is older than them */
        uint64_t ousted_usec;  /* when another controller lost its Lease to this one; 0: none did */
};

/* The workloads */

static Declared *declared_free(Declared *declared) {
        if (!declared)
                return NULL;
        program_free(declared->program);
        free(declared->namespace);
        free(declared->name);
        free(declared->uid);
        free(declared->key);
        free(declared->outcome);
        free(declared->reason);
        free(declared);
        return NULL;
}

DEFINE_CLEANUP(Declared *, declared_free)

static int compare_key(const void *item, const void *key) {
        return strcmp(((const Declared *) item)->key, key);
}

static int declared_new(Controller *controller, WorkloadKind kind, const KubeObject *object,
                        Declared **ret) {
        cleanup(declared_free_p) Declared *declared = calloc(1, sizeof(*declared));

        if (!declared)
                return -ENOMEM;
        declared->controller = controller;
        declared->kind = kind;
        if (text_copy(object->namespace, &declared->namespace) < 0 ||
            text_copy(object->name, &declared->name) < 0 ||
            text_copy(object->uid, &declared->uid) < 0 ||
            text_format(&declared->key, "%s/%s/%s", workload_kind_to_string(kind),
                        object->namespace, object->name) < 0)
                return -ENOMEM;
        *ret = take_ptr(declared);
        return 0;
}

/* *ret: NULL: it is not known, and `at` is its place. */
static int find(const Controller *controller, WorkloadKind kind, const char *namespace,
                const char *name, size_t *ret_at, Declared **ret) {
        cleanup(free_p) char *key = NULL;

        if (text_format(&key, "%s/%s/%s", workload_kind_to_string(kind), namespace, name) < 0)
                return -ENOMEM;
        *ret = sorted_find(controller->declared, controller->n_declared, compare_key, key, ret_at)
                       ? controller->declared[*ret_at]
                       : NULL;
        return 0;
}

static int read_facts(const Controller *controller, WorkloadKind kind, json_object *workload,
                      UpdateFacts *ret) {
        return controller->flags->release_all ? update_facts_at_removal(kind, workload, ret)
                                              : update_facts(kind, workload, ret);
}

/* Ends the run of the workload, if there is one. */
static void end_run(Declared *declared) {
        Controller *controller = declared->controller;
        size_t at = 0;

        while (at < controller->n_running && controller->running[at] != declared)
                at++;
        if (at < controller->n_running)
                controller->running[at] = controller->running[--controller->n_running];
        declared->program = program_free(declared->program);
}

/* Another workload of that name has come in its place: a run that has begun for the one before says nothing of it. */
static int renew(Declared *declared, const char *uid) {
        end_run(declared);
        free(take_ptr(declared->outcome));
        free(take_ptr(declared->reason));
        declared->last = (UpdateRun){ .outcome = UPDATE_NOT_TRIED };
        declared->is_announced = false;
        declared->not_before_sec = 0;
        return text_set(&declared->uid, uid);
}

/* Also that of a workload which declares nothing. */
static int note_open_update(Controller *controller, WorkloadKind kind, const KubeObject *object) {
        cleanup(free_p) char *workload = NULL;

        return text_format(&workload, "%s/%s", workload_kind_to_string(kind), object->name) < 0
                       ? -ENOMEM
                       : config_restarts_end(controller->config, workload, object->namespace);
}

static int note(Controller *controller, WorkloadKind kind, const KubeObject *object) {
        cleanup(declared_free_p) Declared *made = NULL;
        Declared *declared;
        UpdateFacts facts;
        size_t at;
        int r = read_facts(controller, kind, object->json, &facts);

        if (r >= 0 && facts.has_open_record)
                r = note_open_update(controller, kind, object);
        if (r >= 0)
                r = find(controller, kind, object->namespace, object->name, &at, &declared);
        if (r < 0)
                return r;
        if (declared) {
                if (!text_equal(declared->uid, object->uid) && renew(declared, object->uid) < 0)
                        return -ENOMEM;
                update_follow(&declared->facts, &declared->last, &facts);
                declared->is_gone = !update_is_concerned(&facts, /* was_concerned= */ true);
                return 0;
        }
        if (!update_is_concerned(&facts, /* was_concerned= */ false))
                return 0;

        r = declared_new(controller, kind, object, &made);
        if (r >= 0)
                r = sorted_insert(&controller->declared, &controller->n_declared, at, made);
        if (r < 0)
                return r;
        made->facts = facts;
        take_ptr(made);
        return 0;
}

static int note_gone(Controller *controller, WorkloadKind kind, const KubeObject *object) {
        Declared *declared;
        size_t at;
        int r = find(controller, kind, object->namespace, object->name, &at, &declared);

        if (r >= 0 && declared)
                declared->is_gone = true;
        return r;
}

static int on_deployment(const KubeObject *object, void *userdata) {
        return note(userdata, WORKLOAD_DEPLOYMENT, object);
}

static int on_deployment_gone(const KubeObject *object, void *userdata) {
        return note_gone(userdata, WORKLOAD_DEPLOYMENT, object);
}

static int on_stateful_set(const KubeObject *object, void *userdata) {
        return note(userdata, WORKLOAD_STATEFUL_SET, object);
}

static int on_stateful_set_gone(const KubeObject *object, void *userdata) {
        return note_gone(userdata, WORKLOAD_STATEFUL_SET, object);
}

static int on_daemon_set(const KubeObject *object, void *userdata) {
        return note(userdata, WORKLOAD_DAEMON_SET, object);
}

static int on_daemon_set_gone(const KubeObject *object, void *userdata) {
        return note_gone(userdata, WORKLOAD_DAEMON_SET, object);
}

static bool is_over(const Declared *declared) {
        return declared->is_gone && !declared->program;
}

static void forget_gone(Controller *controller) {
        for (size_t i = controller->n_declared; i > 0; i--) {
                Declared *declared = controller->declared[i - 1];

                if (!is_over(declared))
                        continue;
                sorted_remove(controller->declared, &controller->n_declared, i - 1);
                declared_free(declared);
        }
}

/* Events, annotations and conditions */

static void say(const Declared *declared, int level, const char *type, const char *reason,
                const char *message) {
        static const char *const kinds[_WORKLOAD_KIND_MAX] = {
                [WORKLOAD_DEPLOYMENT] = "Deployment",
                [WORKLOAD_STATEFUL_SET] = "StatefulSet",
                [WORKLOAD_DAEMON_SET] = "DaemonSet",
        };
        const KubeReference object = { .api_version = "apps/v1",
                                       .kind = kinds[declared->kind],
                                       .namespace = declared->namespace,
                                       .name = declared->name,
                                       .uid = declared->uid };

        log_write(declared->controller->log, level,
                  LOG_FIELDS({ "WORKLOAD", declared->key }, { "REASON", reason }), "\"%s\": %s",
                  declared->key, message);
        (void) kube_event_send(declared->controller->events, &object, type, reason, message);
}

static KubePath path_of(const Declared *declared) {
        return workload_path(declared->kind, declared->namespace, declared->name);
}

static int patch(const Declared *declared, const char *subresource, const char *type,
                 json_object *body, Error *reterr) {
        KubePath path = path_of(declared);

        path.subresource = subresource;
        return session_patch(declared->controller->session, &path, type, body, /* ret= */ NULL,
                             reterr);
}

/* Whether the reason is shown after this write: one that was refused is said again by the next run, and one that could not be
 * removed is there still. */
static bool is_shown_after(Declared *declared, const char *reason, int r) {
        if (r < 0)
                declared->not_before_sec = clock_monotonic_sec() + WRITE_RETRY_SEC;
        return (r >= 0) == (reason != NULL);
}

/* Shows on the workload why its update does not go on, or, without a reason, that it does. Where that is refused, the event has
 * said it. The facts are those of the workload after these writes, which the watch may show later. */
static int show(Declared *declared, const char *reason) {
        int64_t server_sec = session_server_sec(declared->controller->session);
        cleanup(json_object_put_p) json_object *status = NULL;
        cleanup(json_object_put_p) json_object *condition = NULL;
        UpdateFacts *facts = &declared->facts;

        if (update_status_patch(declared->uid, reason, &status) < 0 ||
            update_condition_patch(declared->uid, reason, server_sec, &condition) < 0)
                return -ENOMEM;
        if (reason || facts->has_status) {
                int r = patch(declared, NULL, KUBE_MERGE_PATCH, status, /* reterr= */ NULL);

                facts->has_status = is_shown_after(declared, reason, r);
        }
        if (declared->kind == WORKLOAD_DEPLOYMENT && (reason || facts->has_late_condition)) {
                int r = patch(declared, "status", KUBE_STRATEGIC_MERGE_PATCH, condition,
                              /* reterr= */ NULL);

                facts->has_late_condition = is_shown_after(declared, reason, r);
        }
        return 0;
}

/* Runs */

static UpdateOutcome read_outcome(const char *text) {
        if (text_equal(text, "updated") || text_equal(text, "unchanged"))
                return UPDATE_DONE;
        if (text_equal(text, "undone") || text_equal(text, "released"))
                return UPDATE_ABANDONED;
        return text_equal(text, "impossible") ? UPDATE_IMPOSSIBLE : UPDATE_FAILED;
}

static int on_run(const char *output, size_t size, const Error *error, void *userdata) {
        Declared *declared = userdata;
        cleanup(json_object_put_p) json_object *result = NULL;
        cleanup(error_done) Error unreadable = ERROR_INIT;
        const char *reason = error ? error_message(error) : NULL;
        int r;

        end_run(declared);
        r = error ? 0 : json_parse(output, size, &result, &unreadable);
        if (r < 0 && unreadable.kind == ERROR_NONE)
                return r;
        if (r < 0)
                reason = error_message(&unreadable);
        update_run_end(&declared->last, read_outcome(json_get_text(result, "outcome")),
                       clock_monotonic_sec());
        if (text_set(&declared->outcome, json_get_text(result, "outcome") ?: "failed") < 0 ||
            text_set(&declared->reason, json_get_text(result, "reason") ?: reason) < 0)
                return -ENOMEM;
        return 0;
}

/* way: "--undo" or "--release"; NULL: to the template. */
static int run(Declared *declared, const char *way) {
        Controller *controller = declared->controller;
        cleanup(free_p) char *workload = NULL;
        int r;

        if (text_format(&workload, "%s/%s", workload_kind_to_string(declared->kind),
                        declared->name) < 0)
                return -ENOMEM;
        update_run_begin(&declared->last, &declared->facts);
        r = own_run(controller->session, controller->flags,
                    (const char *const[]){ "__carry-out", workload, "--namespace",
                                           declared->namespace, way, "--take-over", NULL },
                    on_run, declared, &declared->program);
        if (r < 0)
                return r;
        controller->running[controller->n_running++] = declared;
        return own_run_guard(&controller->guard, controller->session);
}

/* A run has ended. */
static int report(Declared *declared) {
        cleanup(free_p) char *outcome = take_ptr(declared->outcome);
        cleanup(free_p) char *reason = take_ptr(declared->reason);
        UpdateOutcome ended = read_outcome(outcome);

        /* Nothing is left to be repaired. */
        if (declared->is_gone && (ended == UPDATE_FAILED || ended == UPDATE_IMPOSSIBLE))
                return 0;

        switch (ended) {
        case UPDATE_DONE:
        case UPDATE_ABANDONED:
                if (declared->facts.mode != UPDATE_ORDINARY && ended == UPDATE_DONE &&
                    !text_equal(outcome, "unchanged"))
                        say(declared, LOG_INFO, "Normal", "InPlaceUpdateSucceeded",
                            reason ?: "all pods run the images of its template");
                declared->is_announced = false;
                return show(declared, NULL);
        case UPDATE_IMPOSSIBLE:
                say(declared, LOG_WARNING, "Warning", "InPlaceUpdateImpossible",
                    reason ?: "it cannot be updated in place");
                break;
        case UPDATE_FAILED:
                say(declared, LOG_WARNING, "Warning", "InPlaceUpdateFailed",
                    reason ?: "the update was refused");
                break;
        case UPDATE_NOT_TRIED:
        case _UPDATE_OUTCOME_MAX: break;
        }
        /* The failure of a template that is there no more. Where nothing is declared any more, the undo depends on it. */
        if (declared->facts.mode != UPDATE_ORDINARY &&
            declared->last.template_hash != declared->facts.template_hash)
                return 0;
        /* It is given back, unless its manifest holds it. */
        return ended == UPDATE_IMPOSSIBLE && declared->facts.mode == UPDATE_IN_PLACE_IF_POSSIBLE &&
                               declared->facts.is_ours
                       ? 0
                       : show(declared, reason ?: "the update was refused");
}

/* Actions */

/* A conflict is with a write that the watch shows soon. Another refusal may last, and the workload stays held. */
static int note_trouble(Declared *declared, const Error *error) {
        Session *session = declared->controller->session;
        bool is_expected = error->kind == ERROR_CONFLICT || error->kind == ERROR_NOT_FOUND;
        cleanup(free_p) char *reason = NULL;

        declared->not_before_sec = clock_monotonic_sec() + (is_expected ? 1 : WRITE_RETRY_SEC);
        if (is_expected || session_is_ended(session))
                return 0;
        if (text_format(&reason,
                        "it cannot be given back to its controller, trying again in %d s: %s",
                        WRITE_RETRY_SEC, error_message(error)) < 0)
                return -ENOMEM;
        if (error_is_unanswered(error)) {
                log_write(declared->controller->log, LOG_WARNING,
                          LOG_FIELDS({ "WORKLOAD", declared->key }), "\"%s\": %s", declared->key,
                          reason);
                return 0;
        }
        say(declared, LOG_WARNING, "Warning", "InPlaceUpdateFailed", reason);
        return declared->facts.has_status ? 0 : show(declared, reason);
}

/* Reads the workload anew, since the next template may be there already. */
static int give_back(Declared *declared) {
        Session *session = declared->controller->session;
        cleanup(json_object_put_p) json_object *workload = NULL;
        cleanup(json_object_put_p) json_object *body = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        const KubePath path = path_of(declared);
        UpdateFacts facts;
        int r = session_get(session, &path, &workload, &error);

        if (r >= 0)
                r = read_facts(declared->controller, declared->kind, workload, &facts);
        if (r >= 0)
                update_follow(&declared->facts, &declared->last, &facts);
        if (r >= 0 && update_plan(&declared->facts, &declared->last, clock_monotonic_sec()) !=
                              UPDATE_DO_GIVE_BACK)
                return 0;
        if (r >= 0)
                r = update_give_back_patch(declared->kind, workload,
                                           declared->controller->flags->release_all, &body);
        if (r >= 0)
                r = patch(declared, NULL, KUBE_MERGE_PATCH, body, &error);
        return error.kind == ERROR_NONE ? r : note_trouble(declared, &error);
}

static int begin(Declared *declared) {
        if (declared->last.template_hash != declared->facts.template_hash) {
                int r = show(declared, NULL);

                if (r < 0)
                        return r;
        }
        return run(declared, /* way= */ NULL);
}

/* A run has written its record: from then on there is something to announce. */
static bool is_new(const Declared *declared) {
        return declared->program && !declared->is_announced && declared->facts.has_open_record &&
               declared->facts.mode != UPDATE_ORDINARY;
}

static void announce(Declared *declared) {
        if (!is_new(declared))
                return;
        declared->is_announced = true;
        say(declared, LOG_INFO, "Normal", "InPlaceUpdateStarted",
            "its pods get the images of its template in place");
}

/* The run goes on with another template than the one whose failure the workload shows. */
static bool shows_former_failure(const Declared *declared) {
        return declared->program && declared->last.begun_hash != declared->facts.template_hash &&
               (declared->facts.has_status || declared->facts.has_late_condition) &&
               clock_monotonic_sec() >= declared->not_before_sec;
}

static bool has_place(const Declared *declared) {
        const Controller *controller = declared->controller;
        size_t n = 0;

        for (size_t i = 0; i < controller->n_running; i++)
                n += strcmp(controller->running[i]->namespace, declared->namespace) == 0;
        return update_has_place(controller->n_running, n, RUNS_MAX,
                                controller->flags->all_namespaces);
}

static UpdateAction next_action(const Declared *declared) {
        UpdateAction action;

        if (declared->program || declared->is_gone ||
            clock_monotonic_sec() < declared->not_before_sec)
                return UPDATE_DO_NOTHING;
        action = update_plan(&declared->facts, &declared->last, clock_monotonic_sec());
        return action == UPDATE_DO_NOTHING || action == UPDATE_DO_GIVE_BACK || has_place(declared)
                       ? action
                       : UPDATE_DO_NOTHING;
}

static int act(Declared *declared) {
        announce(declared);
        if (declared->outcome)
                return report(declared);
        if (shows_former_failure(declared))
                return show(declared, NULL);
        switch (next_action(declared)) {
        case UPDATE_DO_RUN: return begin(declared);
        case UPDATE_DO_UNDO: return run(declared, "--undo");
        case UPDATE_DO_RELEASE: return run(declared, "--release");
        case UPDATE_DO_GIVE_BACK: return give_back(declared);
        case UPDATE_DO_NOTHING:
        case _UPDATE_ACTION_MAX: break;
        }
        return 0;
}

/* There is a place for its run. */
static bool may_run(const Declared *declared) {
        UpdateAction action = next_action(declared);

        return action == UPDATE_DO_RUN || action == UPDATE_DO_UNDO || action == UPDATE_DO_RELEASE;
}

static bool has_news(const Declared *declared) {
        return declared->outcome || next_action(declared) != UPDATE_DO_NOTHING ||
               is_new(declared) || shows_former_failure(declared);
}

/* since_usec: 0: nothing is waited for. */
static bool has_passed(uint64_t since_usec, uint64_t usec) {
        return since_usec == 0 || clock_monotonic_usec() - since_usec >= usec;
}

/* No workload is held any more, and none will be. */
static bool is_released(const Controller *controller) {
        return controller->n_declared == 0 && has_passed(controller->unbound_usec, UNBOUND_USEC) &&
               has_passed(controller->ousted_usec, OUSTED_USEC);
}

static int is_due(void *userdata) {
        const Controller *controller = userdata;

        if (leader_is_due(&controller->leader) ||
            (controller->flags->release_all && is_released(controller)))
                return 1;
        for (size_t i = 0; controller->is_ready && i < controller->n_declared; i++)
                if (has_news(controller->declared[i]) || is_over(controller->declared[i]))
                        return 1;
        return controller->is_ready && config_restarts_is_due(controller->config);
}

static const KubePath bindings = { .group = ADMISSION,
                                   .version = "v1",
                                   .resource = "mutatingadmissionpolicybindings" };

/* The policy holds workloads from now on. It must not do that without a controller, so no manifest has its binding.
 * is_look: nothing is written; to read the binding would take one more right. *ret_missing: there was none. */
static int bind_policy(Controller *controller, bool is_look, bool *ret_missing, Error *reterr) {
        const char *name = controller->flags->policy;
        cleanup(json_object_put_p) json_object *binding =
                patch_wrap("metadata", patch_wrap("name", json_object_new_string(name ?: "")));
        cleanup(error_done) Error error = ERROR_INIT;
        KubePath path = bindings;
        int r;

        *ret_missing = false;
        controller->look_usec = name ? clock_monotonic_usec() + LOOK_USEC : UINT64_MAX;
        if (!name)
                return 0;
        if (!binding ||
            patch_add(binding, "spec", patch_wrap("policyName", json_object_new_string(name))) < 0)
                return -ENOMEM;
        path.query = is_look ? "dryRun=All" : NULL;
        r = session_create(controller->session, &path, binding, /* ret= */ NULL, &error);
        *ret_missing = error.kind == ERROR_NONE && r >= 0;
        if (error.kind == ERROR_NONE || error.kind == ERROR_CONFLICT) {
                controller->lacks_policies = false;
                return error.kind == ERROR_CONFLICT ? 0 : r;
        }
        if (error.kind != ERROR_NOT_FOUND)
                return error_copy(reterr, &error);
        if (!controller->lacks_policies)
                log_write(controller->log, LOG_WARNING, NULL,
                          "The API server has no MutatingAdmissionPolicy, which needs Kubernetes "
                          "1.36: workloads are updated in place while their manifests hold them");
        controller->lacks_policies = true;
        return 0;
}

/* The removal of the controller deletes the binding as well, beside one that leads, and must not be undone. Where the API
 * server has just been upgraded, there was none to delete. */
static int look_at_binding(Controller *controller) {
        cleanup(error_done) Error error = ERROR_INIT;
        uint64_t now_usec = clock_monotonic_usec(), since_usec = controller->unbound_usec;
        bool is_over = since_usec > 0 && now_usec - since_usec >= REMOVAL_USEC;
        bool was_lacking = controller->lacks_policies, is_missing;
        bool makes_it = is_over || was_lacking;
        int r;

        if (now_usec < controller->look_usec)
                return 0;
        r = bind_policy(controller, /* is_look= */ !makes_it, &is_missing, &error);
        if (r < 0)
                return error.kind == ERROR_NONE ? r : 0; /* it is looked for again */
        controller->unbound_usec = !is_missing || makes_it ? 0 : since_usec ?: now_usec;
        if (is_missing && was_lacking)
                log_write(controller->log, LOG_INFO, NULL,
                          "The binding of the policy \"%s\" was made, since the API server has "
                          "MutatingAdmissionPolicy now",
                          controller->flags->policy);
        else if (is_missing && is_over)
                log_write(controller->log, LOG_INFO, NULL,
                          "The binding of the policy \"%s\" was made anew",
                          controller->flags->policy);
        else if (is_missing && since_usec == 0)
                log_write(controller->log, LOG_WARNING, NULL,
                          "The binding of the policy \"%s\" was deleted: Kubernetes replaces the "
                          "pods of declared updates. It is made anew in 5 minutes",
                          controller->flags->policy);
        return 0;
}

/* No workload is held from now on. */
static int unbind_policy(Controller *controller, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        KubePath path = bindings;
        int r;

        path.name = controller->flags->policy;
        if (!path.name)
                return 0;
        r = session_delete(controller->session, &path, /* options= */ NULL, &error);
        if (error.kind == ERROR_NONE)
                controller->unbound_usec = clock_monotonic_usec();
        return error.kind == ERROR_NONE        ? r
               : error.kind == ERROR_NOT_FOUND ? 0
                                               : error_copy(reterr, &error);
}

/* Without a binding, manifests hold the workloads, and a controller would begin anew what is let go. One that has a binding
 * would make it again as soon as it has the Lease again, and keeps it. */
static int lead_removal(Controller *controller, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r = controller->is_ready ? 0 : unbind_policy(controller, reterr);

        controller->is_ready = true;
        if (controller->unbound_usec > 0)
                controller->leader.due_usec = UINT64_MAX;
        if (r < 0 || !leader_is_due(&controller->leader))
                return r;
        r = leader_oust(&controller->leader, &error);
        /* Without an answer another one may have it still: the next attempt comes before that time has passed. */
        if (r > 0 || error_is_unanswered(&error))
                controller->ousted_usec = clock_monotonic_usec();
        if (error.kind == ERROR_NONE)
                return r < 0 ? r : 0;
        return error_is_unanswered(&error) && !session_is_ended(controller->session)
                       ? 0
                       : error_copy(reterr, &error);
}

static int lead(Controller *controller, Error *reterr) {
        bool was_missing;
        int r;

        if (controller->flags->release_all)
                return lead_removal(controller, reterr);
        r = leader_is_due(&controller->leader) ? leader_step(&controller->leader, reterr) : 0;

        if (r < 0 || !controller->leader.is_leading)
                return r;
        if (controller->is_ready)
                return look_at_binding(controller);
        r = bind_policy(controller, /* is_look= */ false, &was_missing, reterr);
        if (r < 0)
                return r;
        controller->is_ready = true;
        log_write(controller->log, LOG_INFO, NULL, "Carrying out declared updates of %zu workloads",
                  controller->n_declared);
        return 0;
}

static int act_as_leader(Declared *declared, Error *reterr) {
        Controller *controller = declared->controller;
        int r = act(declared);

        return r >= 0 && leader_is_due(&controller->leader) ? lead(controller, reterr) : r;
}

/* NULL: none, or there is no place for a run. */
static Declared *find_next_run(const Controller *controller) {
        Declared *next = NULL;

        for (size_t i = 0; i < controller->n_declared; i++) {
                Declared *declared = controller->declared[i];

                if (may_run(declared) &&
                    (!next || update_run_is_before(&declared->last, &next->last)))
                        next = declared;
        }
        return next;
}

/* Others may be added meanwhile, and are due in the next turn; none is removed. */
static int act_all(Controller *controller, Error *reterr) {
        Declared *next;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < controller->n_declared; i++)
                if (has_news(controller->declared[i]) && !may_run(controller->declared[i]))
                        r = act_as_leader(controller->declared[i], reterr);
        while (r >= 0 && (next = find_next_run(controller)))
                r = act_as_leader(next, reterr);
        return r;
}

static size_t list_runs(void *userdata, OwnRun ret[static OWN_RUNS_MAX]) {
        const Controller *controller = userdata;

        static_assert(RUNS_MAX + CONFIG_RUNS_MAX <= OWN_RUNS_MAX, "the runs have no room");
        for (size_t i = 0; i < controller->n_running; i++)
                ret[i] = (OwnRun){ controller->running[i]->program,
                                   controller->running[i]->namespace };
        return controller->n_running +
               config_restarts_runs(controller->config, ret + controller->n_running);
}

/* For restarts for changed configuration. */
static int is_updated(const char *workload, const char *namespace, void *userdata) {
        Declared *declared;
        const char *name;
        WorkloadKind kind;
        size_t at;
        int r;

        if (workload_name_parse(workload, &kind, &name, /* reterr= */ NULL) < 0)
                return 0;
        r = find(userdata, kind, namespace, name, &at, &declared);
        if (r < 0 || !declared)
                return r;
        return declared->program ||
               update_comes_first(&declared->facts, &declared->last, clock_monotonic_sec());
}

static int turn(Controller *controller, Error *reterr) {
        int r = lead(controller, reterr);

        if (r >= 0 && controller->is_ready)
                r = act_all(controller, reterr);
        if (r >= 0)
                forget_gone(controller);
        if (r < 0 || !controller->is_ready || !config_restarts_is_due(controller->config))
                return r;
        r = config_restarts_turn(controller->config, reterr);
        return r < 0 ? r : own_run_guard(&controller->guard, controller->session);
}

static int follow(Controller *controller) {
        const char *namespace =
                controller->flags->all_namespaces ? NULL : session_namespace(controller->session);
        SessionWatch watches[N_KINDS + CONFIG_WATCHES] = {
                { .on_object = on_deployment, .on_gone = on_deployment_gone },
                { .on_object = on_stateful_set, .on_gone = on_stateful_set_gone },
                { .on_object = on_daemon_set, .on_gone = on_daemon_set_gone },
        };

        for (size_t i = 0; i < N_KINDS; i++)
                watches[i].path = workload_path(watched_kinds[i], namespace, NULL);
        if (controller->config)
                config_restarts_watches(controller->config, namespace, &watches[N_KINDS]);
        return session_follow_new(controller->session, watches,
                                  N_KINDS + (controller->config ? CONFIG_WATCHES : 0), controller,
                                  &controller->follow);
}

static void controller_done(Controller *controller) {
        timer_done(&controller->guard.timer);
        session_follow_free(controller->follow);
        config_restarts_free(controller->config);
        for (size_t i = 0; i < controller->n_declared; i++)
                declared_free(controller->declared[i]);
        free(controller->declared);
        kube_events_free(controller->events);
        leader_resign(&controller->leader);
        leader_done(&controller->leader);
        log_free(controller->log);
}

static int init(Controller *controller, Session *session, const Flags *flags) {
        int r;

        *controller = (Controller){ .session = session,
                                    .flags = flags,
                                    .guard = { .list = list_runs, .userdata = controller } };
        r = leader_init(&controller->leader, session, LEASE);
        if (r >= 0)
                r = log_new(LOG_FORMAT_AUTO, LOG_INFO, &controller->log);
        if (r >= 0)
                r = kube_events_new(&(KubeEventsOptions){ .client = session_client(session),
                                                          .log = controller->log,
                                                          .component = COMPONENT,
                                                          .node_name = "" },
                                    &controller->events);
        if (r >= 0 && flags->restart_on_config_change && !flags->release_all)
                r = config_restarts_new(&(ConfigRestartsOptions){ .session = session,
                                                                  .flags = flags,
                                                                  .log = controller->log,
                                                                  .events = controller->events,
                                                                  .is_updated = is_updated,
                                                                  .userdata = controller },
                                        &controller->config);
        return r < 0 ? r : follow(controller);
}

int kubectl_controller(Session *session, const Flags *flags) {
        cleanup(controller_done) Controller controller;
        cleanup(error_done) Error error = ERROR_INIT;
        int r = init(&controller, session, flags);

        while (r >= 0) {
                r = session_follow_wait(controller.follow, is_due, /* is_away= */ NULL, &controller,
                                        &error);
                if (r >= 0)
                        r = turn(&controller, &error);
                if (r >= 0 && flags->release_all && is_released(&controller))
                        return EXIT_STATUS_DONE;
        }
        if (session_end_status(session) > EXIT_STATUS_SIGNAL && !flags->release_all)
                return EXIT_STATUS_DONE; /* a signal is how it ends */
        return session_fail(session, r, &error);
}
