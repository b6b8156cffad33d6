/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl inplace set image, and kubectl inplace rollout
 *
 * Watches the workload, its pods and what is between them until the plan has something to write, writes
 * it, and plans again; what is written next is decided in rollout-plan.c.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/hint.h"
#include "agent/kubectl/kruise-plan.h"
#include "agent/kubectl/rights.h"
#include "agent/kubectl/rollout-plan.h"
#include "agent/kubectl/rollout-preload.h"
#include "agent/kubectl/rollout-report.h"
#include "agent/kubectl/rollout-show.h"
#include "agent/kubectl/rollout-text.h"
#include "agent/kubectl/rollout-watch.h"
#include "agent/kubectl/workload.h"
#include "agent/pod/gate-spec.h"

#define USEC_PER_SEC ((uint64_t) 1000000)
#define CONFLICT_PAUSE_USEC (USEC_PER_SEC / 5)
#define PAUSE_MAX_USEC (16 * USEC_PER_SEC)
#define ATTEMPTS 10

typedef struct Rollout {
        Session *session;
        const Flags *flags;
        RolloutWatch watch;
        RolloutLimits limits;
        json_object *record;
        RolloutShow show;
        RolloutStep step;
        json_object *written; /* {rollout_step_key(): true} of what the server has taken */
        char *rest;           /* the pods that were given up; NULL: none */
        char *trouble;        /* reason to wait before the next write; NULL: none */
        uint64_t pause_usec;  /* the last one before a write was tried again; 0: none */
        Error refusal;        /* why the update cannot go on */
        const char *outcome;  /* for -o json; NULL: it has not begun */
} Rollout;

static void rollout_done(Rollout *rollout) {
        rollout_step_done(&rollout->step);
        rollout_watch_done(&rollout->watch);
        rollout_show_done(&rollout->show);
        json_object_put(rollout->record);
        json_object_put(rollout->written);
        free(rollout->rest);
        free(rollout->trouble);
        error_done(&rollout->refusal);
}

static KubePath path_of(const Rollout *rollout) {
        return rollout->watch.path;
}

/* "deployment.apps/web" */
static const char *kind_of(const Rollout *rollout) {
        return workload_kind_to_string(rollout->watch.view.kind);
}

static bool is_of_kruise(const Rollout *rollout) {
        return workload_is_of_kruise(rollout->watch.view.kind);
}

/* Progress */

/* Nothing has changed for as long as Kubernetes gives a Deployment, and a pod by its own spec. */
static bool is_late(const Rollout *rollout) {
        json_object *workload = rollout->watch.view.workload;

        return rollout_show_still_sec(&rollout->show) >
               ROLLOUT_PROGRESS_SEC + rollout->limits.grace_sec +
                       object_integer(workload, "spec.minReadySeconds") +
                       object_integer(object_template(workload),
                                      "spec.terminationGracePeriodSeconds");
}

static int refuse_late(const Rollout *rollout, const char *awaited, Error *reterr) {
        return error_set(reterr, ERROR_TIMEOUT, "nothing has changed for %lld s; it was waiting %s",
                         (long long) rollout_show_still_sec(&rollout->show), awaited);
}

static bool is_same_user(const Rollout *rollout) {
        return json_is(rollout->record, "by", session_user(rollout->session));
}

/* The record belongs to the workload, and another run may have changed it. */
static int plan_by_record(Rollout *rollout, Error *reterr) {
        const RolloutView *view = &rollout->watch.view;
        cleanup(json_object_put_p) json_object *record = NULL;
        int r = rollout_record_read(view->workload, &record, reterr);

        if (r < 0)
                return r;
        if (!record)
                return rollout_plan_lost(view, rollout->record, &rollout->step);

        json_object_put(rollout->record);
        rollout->record = take_ptr(record);
        if (!is_same_user(rollout))
                return rollout_step_set(&rollout->step, ROLLOUT_STOP,
                                        "\"%s\" has taken the update over",
                                        json_get_text(rollout->record, "by"));
        if (rollout->flags->release && rollout_record_is_open(rollout->record))
                return rollout_plan_release(view, rollout->record, &rollout->step);
        return rollout_plan(view, rollout->record, &rollout->limits, &rollout->step, reterr);
}

static const char *awaited(const Rollout *rollout) {
        return rollout->step.action == ROLLOUT_WAIT ? rollout->step.message : rollout->trouble;
}

/* Plans the next write. */
static int plan(Rollout *rollout, Error *reterr) {
        const RolloutView *view = &rollout->watch.view;
        RolloutStep *step = &rollout->step;
        int r, shown;

        rollout_step_done(step);
        r = is_of_kruise(rollout) ? kruise_plan(view, rollout->record, step)
                                  : plan_by_record(rollout, reterr);
        shown = rollout_show(&rollout->show, view, rollout->record, awaited(rollout));
        return r < 0 ? r : shown;
}

static int set_trouble(Rollout *rollout, const Error *error) {
        char *text;

        if (text_format(&text, "for the API server: %s",
                        error->kind == ERROR_NONE ? "no answer yet" : error_message(error)) < 0)
                return -ENOMEM;
        free(rollout->trouble);
        rollout->trouble = text;
        return 0;
}

static int is_away(const Error *error, void *userdata) {
        Rollout *rollout = userdata;

        if (set_trouble(rollout, error) < 0 ||
            rollout_show_away(&rollout->show, rollout->trouble) < 0)
                return -ENOMEM;
        if (!is_late(rollout))
                return 0;
        (void) refuse_late(rollout, rollout->trouble, &rollout->refusal);
        return 1;
}

/* Whether there is something to write, or to say. */
static int check(Rollout *rollout, Error *reterr) {
        int r;

        if (!rollout->watch.view.workload)
                return error_set(reterr, ERROR_NOT_FOUND, "it is gone");
        r = plan(rollout, reterr);
        if (r < 0 || rollout->step.action != ROLLOUT_WAIT)
                return r < 0 ? r : 1;
        return is_late(rollout) ? refuse_late(rollout, rollout->step.message, reterr) : 0;
}

/* Ends the wait also when the update cannot go on, for `refusal`. */
static int is_due(void *userdata) {
        Rollout *rollout = userdata;
        const Error *trouble = kube_client_trouble(session_client(rollout->session));
        int r;

        if (trouble && trouble->kind != ERROR_NONE)
                return is_away(trouble, rollout);
        r = check(rollout, &rollout->refusal);
        return r < 0 && rollout->refusal.kind != ERROR_NONE ? 1 : r;
}

/* Writing */

static KubePath path_of_step(const Rollout *rollout, const RolloutStep *step) {
        KubePath path = path_of(rollout);

        if (step->action == ROLLOUT_PATCH_REPLICA_SET)
                return workload_path(WORKLOAD_REPLICA_SET, path.namespace, step->name);
        if (step->action != ROLLOUT_PATCH_POD && step->action != ROLLOUT_CLOSE_GATE)
                return path;

        path = workload_path(WORKLOAD_POD, path.namespace, step->name);
        if (step->action == ROLLOUT_CLOSE_GATE)
                path.subresource = "status";
        return path;
}

static int write_step(Rollout *rollout, Error *reterr) {
        const RolloutStep *step = &rollout->step;
        KubePath path = path_of_step(rollout, step);
        cleanup(json_object_put_p) json_object *object = NULL;
        int r;

        r = session_patch(rollout->session, &path, KUBE_STRATEGIC_MERGE_PATCH, step->patch, &object,
                          reterr);
        if (r >= 0)
                r = rollout_watch_note(&rollout->watch, object);
        return r < 0 ? r : rollout_check_answer(step->patch, object, reterr);
}

/* Wanted again though the server has taken it, it would change nothing the next time either. */
static int write_once(Rollout *rollout, Error *reterr) {
        cleanup(free_p) char *key = NULL;
        int r = rollout_step_key(&rollout->step, rollout->record, &key);

        if (r < 0)
                return r;
        if (json_object_object_get_ex(rollout->written, key, NULL))
                return error_set(reterr, ERROR_INVALID,
                                 "\"%s\" does not stay as it was written: another client or an "
                                 "admission webhook changes it back",
                                 rollout->step.name ?: rollout->watch.path.name);
        r = write_step(rollout, reterr);
        return r < 0 ? r : patch_add(rollout->written, key, json_object_new_boolean(true));
}

/* It may have been done or not: no answer came. */
static bool is_lost(const Rollout *rollout, const Error *error) {
        return !session_is_ended(rollout->session) &&
               (error->kind == ERROR_UNAVAILABLE || error->kind == ERROR_TIMEOUT);
}

/* OpenKruise's webhook lets no further pod go now. Its budget is known to it alone. */
static bool is_held_by_budget(const Rollout *rollout, const Error *error) {
        return !session_is_ended(rollout->session) && error->kind == ERROR_DENIED &&
               rollout->step.action == ROLLOUT_PATCH_POD &&
               strstr(error_message(error), "podunavailablebudget.policy.kruise.io");
}

/* The refusal may be over at the next attempt. */
static bool is_temporary(const Rollout *rollout, const Error *error) {
        return !is_late(rollout) && !session_is_ended(rollout->session) &&
               (is_lost(rollout, error) || is_held_by_budget(rollout, error) ||
                error->kind == ERROR_CONFLICT || error->kind == ERROR_NOT_FOUND);
}

static void explain(const Rollout *rollout, const char *reason) {
        complain("%s/%s: %s", kind_of(rollout), rollout->watch.path.name, reason);
}

/* A command for this workload. The word may be NULL. */
static void offer(const Rollout *rollout, const char *command, const char *word) {
        cleanup(free_p) char *name = NULL;

        if (text_format(&name, "%s/%s", kind_of(rollout), rollout->watch.path.name) >= 0)
                hint(rollout->session, command, HINT_WORDS(name, word));
}

static void offer_images_before(const Rollout *rollout, const char *command) {
        json_object_object_foreach(record_images(rollout->record, true), container, image) {
                cleanup(free_p) char *word = NULL;

                if (text_format(&word, "%s=%s", container, json_object_get_string(image)) >= 0)
                        offer(rollout, command, word);
        }
}

static void offer_ways(const Rollout *rollout) {
        if (is_of_kruise(rollout)) {
                explain(rollout,
                        "its controller goes on; to follow it, or to set the images before:");
                offer(rollout, "kubectl inplace rollout", NULL);
                offer_images_before(rollout, "kubectl inplace set image");
        } else {
                explain(rollout, "the update has not ended; to go on, or to go back:");
                offer(rollout, "kubectl inplace rollout", NULL);
                offer(rollout, "kubectl inplace rollout", "--undo");
        }
}

static int end_early(const Rollout *rollout, int r, const Error *error) {
        int status;

        if (error->kind == ERROR_NONE)
                return r;
        status = session_end_status(rollout->session);
        if (status == EXIT_STATUS_TIMEOUT)
                complain("%s/%s: timed out%s%s", kind_of(rollout), rollout->watch.path.name,
                         awaited(rollout) ? " waiting " : "", awaited(rollout) ?: "");
        if (status == 0) {
                explain(rollout, error_message(error));
                status = EXIT_STATUS_PARTLY;
        }
        if (rollout->watch.view.workload)
                offer_ways(rollout);
        return status;
}

static int conclude(Rollout *rollout, const char *outcome, const char *sentence) {
        rollout->outcome = outcome;
        if (!rollout->show.is_quiet)
                (void) print_safe("%s/%s %s", kind_of(rollout), rollout->watch.path.name, sentence);
        return EXIT_STATUS_DONE;
}

/* All images of the update are in that text. */
static bool has_images(const Rollout *rollout, const char *manifest) {
        json_object *template = object_template(rollout->watch.view.workload);

        json_object_object_foreach(record_images(rollout->record, false), container, ignored) {
                const char *image = template_image(template, container);

                (void) ignored;
                if (image && !strstr(manifest, image))
                        return false;
        }
        return true;
}

/* A user who applies a manifest with other images gets other pods. */
static void warn_of_manifest(const Rollout *rollout) {
        json_object *metadata = object_at(rollout->watch.view.workload, "metadata");
        const char *applied = json_get_text(json_get(metadata, "annotations", json_type_object),
                                            "kubectl.kubernetes.io/last-applied-configuration");

        if (applied && !has_images(rollout, applied))
                explain(rollout, "its manifest has other images: correct them, or the next kubectl "
                                 "apply replaces the pods");
        else if (json_is(json_get(metadata, "labels", json_type_object),
                         "app.kubernetes.io/managed-by", "Helm"))
                explain(rollout, "Helm made it: set the images in its values as well, or the next "
                                 "helm upgrade replaces the pods");
}

static int end_well(Rollout *rollout) {
        int status = rollout->flags->undo || json_is(rollout->record, "state", "undone")
                             ? conclude(rollout, "undone", "image update undone")
                             : conclude(rollout, "updated", "image updated");

        warn_of_manifest(rollout);
        if (status != EXIT_STATUS_DONE || !rollout->rest)
                return status;
        explain(rollout,
                "pods that were not ready before have the images, but do not run them yet");
        complain("%s", rollout->rest);
        return EXIT_STATUS_PARTLY;
}

static int end_before(Rollout *rollout, json_object *images) {
        const RolloutView *view = &rollout->watch.view;
        json_object *record = kruise_record(view, images);
        cleanup(free_p) char *sentence = NULL;
        bool is_kept = false;

        if (!record)
                return -ENOMEM;
        json_object_object_foreach(view->pods, name, pod) {
                (void) name;
                is_kept = is_kept || (pod_ordinal(pod) < view_kept_below(view) &&
                                      !template_has_images(pod, record_images(record, false)));
        }

        json_object_put(rollout->record); /* record of an earlier update */
        rollout->record = record;
        if (!is_kept)
                return conclude(rollout, "unchanged", "has these images already");

        if (text_format(&sentence,
                        "has these images already; pods with ordinals below %lld keep theirs, "
                        "--partition=0 updates them",
                        (long long) view_kept_below(view)) < 0)
                return -ENOMEM;
        return conclude(rollout, "unchanged", sentence);
}

static int end_dry_run(Rollout *rollout) {
        return conclude(rollout, "checked",
                        rollout->flags->undo ? "image update undone (server dry run)"
                                             : "image updated (server dry run)");
}

static int end_released(Rollout *rollout) {
        const RolloutView *view = &rollout->watch.view;
        RolloutSum sum = rollout_count(view, rollout->record);
        bool is_replaced = workload_has_revisions(view->kind);
        cleanup(free_p) char *sentence = NULL;

        if (text_format(&sentence, "handed back: %zu of %zu pods updated%s", sum.n_updated,
                        sum.n_pods,
                        sum.n_updated == sum.n_pods ? ""
                        : is_replaced ? "; its controller brings the others to its template"
                                      : "; the others stay as they are") < 0)
                return -ENOMEM;
        return conclude(rollout, "released", sentence);
}

static int stop(Rollout *rollout) {
        if (!rollout->step.message)
                return end_released(rollout);
        explain(rollout, rollout->step.message);
        if (rollout_record_is_open(rollout->record) && rollout->step.action == ROLLOUT_STOP &&
            (is_of_kruise(rollout) || is_same_user(rollout)))
                offer_ways(rollout);
        return EXIT_STATUS_PARTLY;
}

/* Makes one write; sets *ret_is_over when it was the last. */
static int act(Rollout *rollout, bool *ret_is_over, Error *reterr) {
        RolloutAction action = rollout->step.action;
        int r;

        *ret_is_over = action == ROLLOUT_DONE || action == ROLLOUT_STOP;
        if (*ret_is_over)
                return 0;
        r = write_once(rollout, reterr);
        if (r < 0)
                return r;

        if (action == ROLLOUT_HAND_BACK) {
                free(rollout->rest);
                rollout->rest = take_ptr(rollout->step.message);
        }
        free(rollout->trouble);
        rollout->trouble = NULL;
        rollout->pause_usec = 0;
        *ret_is_over = action == ROLLOUT_ABANDON;
        return 0;
}

/* Writes until there is something to wait for, or nothing any more. */
static int write_all(Rollout *rollout, bool *ret_is_over, Error *reterr) {
        int r = 1;

        while (r > 0 && !*ret_is_over && rollout->refusal.kind == ERROR_NONE) {
                r = act(rollout, ret_is_over, reterr);
                if (r >= 0 && !*ret_is_over)
                        r = is_due(rollout);
        }
        return r;
}

/* Tries again with the watched objects when the server refuses for the moment. All is read anew where the watch
 * may have missed something: after a lost connection, and when an object is gone that it still shows. */
static int pause_before_next(Rollout *rollout, const Error *error) {
        uint64_t pause_usec =
                rollout->pause_usec > 0 ? 2 * rollout->pause_usec : CONFLICT_PAUSE_USEC;

        if (error->kind == ERROR_NOT_FOUND ||
            (is_lost(rollout, error) && session_code(rollout->session) == 0))
                rollout_watch_stop(&rollout->watch);
        rollout->pause_usec = pause_usec < PAUSE_MAX_USEC ? pause_usec : PAUSE_MAX_USEC;
        if (set_trouble(rollout, error) < 0)
                return -ENOMEM;
        (void) session_pause(rollout->session, rollout->pause_usec, NULL);
        return 0;
}

static int go_on(Rollout *rollout) {
        rollout->outcome = "unfinished";
        for (;;) {
                cleanup(error_done) Error error = ERROR_INIT;
                bool is_over = false, is_again;
                int r = rollout_watch_wait(&rollout->watch, is_due, is_away, rollout, &error);
                bool is_followed = r >= 0;

                if (is_followed)
                        r = write_all(rollout, &is_over, &error);
                is_again = is_followed && !is_over && rollout->refusal.kind == ERROR_NONE &&
                           (r >= 0 || is_temporary(rollout, &error));
                if (!is_again &&
                    rollout_show_end(&rollout->show, &rollout->watch.view, rollout->record) < 0)
                        return -ENOMEM;
                if (rollout->refusal.kind != ERROR_NONE)
                        return end_early(rollout, r, &rollout->refusal);
                if (is_over && r >= 0)
                        return rollout->step.action == ROLLOUT_DONE ? end_well(rollout)
                                                                    : stop(rollout);
                if (!is_again)
                        return end_early(rollout, r, &error);
                if (r >= 0)
                        continue;
                if (pause_before_next(rollout, &error) < 0)
                        return -ENOMEM;
        }
}

/* The beginning */

static int refuse(const Rollout *rollout, int r, const Error *error) {
        if (error->kind == ERROR_NONE || session_is_ended(rollout->session))
                return session_fail(rollout->session, r, error);
        explain(rollout, error_message(error));
        return EXIT_STATUS_FAILED;
}

static int check_budgets(const Rollout *rollout, json_object *take_over, Error *reterr) {
        cleanup(json_object_put_p) json_object *record = NULL;
        int r = rollout_record_read(take_over, &record, reterr);

        return r < 0 ? r : rollout_check_budgets(&rollout->watch.view, record, reterr);
}

static int rehearse_patch(Rollout *rollout, KubePath path, json_object *patch, Error *reterr) {
        cleanup(json_object_put_p) json_object *rehearsed = NULL;
        cleanup(json_object_put_p) json_object *answer = NULL;
        int r;

        path.query = session_is_dry_run(rollout->session) ? NULL : "dryRun=All";
        if (json_object_deep_copy(patch, &rehearsed, NULL) < 0)
                return -ENOMEM;
        /* The controller writes to it as well, and a rehearsal stores nothing. */
        json_object_object_del(object_at(rehearsed, "metadata"), "resourceVersion");
        r = session_patch(rollout->session, &path, KUBE_STRATEGIC_MERGE_PATCH, rehearsed, &answer,
                          reterr);
        return r < 0 ? r : rollout_check_answer(rehearsed, answer, reterr);
}

/* The writes to come, which the server checks and forgets. */
static int rehearse(Rollout *rollout, json_object *take_over, Error *reterr) {
        cleanup(json_object_put_p) json_object *record = NULL;
        int r = rollout_record_read(take_over, &record, reterr);

        if (r >= 0)
                r = rehearse_patch(rollout, path_of(rollout), take_over, reterr);
        for (unsigned n = 0; r >= 0; n++) {
                RolloutStep step = ROLLOUT_STEP_INIT;

                r = rollout_rehearse(&rollout->watch.view, record, n, &step);
                if (r < 0 || step.action == ROLLOUT_DONE)
                        return r;
                r = rehearse_patch(rollout, path_of_step(rollout, &step), step.patch, reterr);
                rollout_step_done(&step);
        }
        return r;
}

static int preload(Rollout *rollout, json_object *take_over, bool *ret_is_done, Error *reterr) {
        cleanup(json_object_put_p) json_object *record = NULL;
        int r = rollout_record_read(take_over, &record, reterr);

        return r < 0 ? r
                     : rollout_preload(&rollout->watch, record, rollout->flags->require_preload,
                                       !rollout->show.is_quiet, ret_is_done, reterr);
}

/* Checks everything that can be checked, and has the images pulled. */
static int prepare(Rollout *rollout, const RolloutRequest *request, json_object **ret,
                   Error *reterr) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        bool has_preloaded = false;
        int r = rollout_begin(&rollout->watch.view, request, &patch, reterr);

        if (r >= 0 && patch)
                r = check_budgets(rollout, patch, reterr);
        if (r >= 0 && patch)
                r = rehearse(rollout, patch, reterr);
        if (r >= 0 && patch && !rollout->flags->no_preload && !session_is_dry_run(rollout->session))
                r = preload(rollout, patch, &has_preloaded, reterr);
        if (r < 0)
                return r;
        if (!has_preloaded) {
                *ret = take_ptr(patch);
                return 0;
        }
        /* The preload may have taken long. */
        if (!rollout->watch.view.workload)
                return error_set(reterr, ERROR_NOT_FOUND, "it is gone");
        return rollout_begin(&rollout->watch.view, request, ret, reterr);
}

/* Whether the workload has the record: a write may have been done though its answer was lost. */
static int has_record(Rollout *rollout, bool *ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *found = NULL;
        int r = rollout_watch_list(&rollout->watch, reterr);

        if (r >= 0)
                r = rollout_record_read(rollout->watch.view.workload, &found, reterr);
        *ret = r >= 0 && json_object_equal(rollout->record, found);
        return r;
}

/* Writes the record that the patch has, and what else it has. */
static int write_record(Rollout *rollout, json_object *patch, Error *reterr) {
        KubePath path = path_of(rollout);
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        bool is_written;
        int r;

        json_object_put(rollout->record);
        rollout->record = NULL;
        r = rollout_record_read(patch, &rollout->record, reterr);
        if (r >= 0)
                r = session_patch(rollout->session, &path, KUBE_STRATEGIC_MERGE_PATCH, patch,
                                  &object, &error);
        if (r >= 0)
                return rollout_watch_note(&rollout->watch, object);
        /* A conflict may be with that very write, which was sent again below. */
        if (!is_lost(rollout, &error) &&
            (error.kind != ERROR_CONFLICT || session_is_ended(rollout->session)))
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);

        r = has_record(rollout, &is_written, reterr);
        return r < 0 || is_written ? r : error_copy(reterr, &error);
}

typedef int (*MakePatch)(const RolloutView *view, const RolloutRequest *request, json_object **ret,
                         Error *reterr);

/* The controller writes to the workload as well: a conflict with it is no refusal. The patch may be NULL. */
static int take_over(Rollout *rollout, const RolloutRequest *request, json_object *patch,
                     MakePatch make, Error *reterr) {
        int r = 0;

        json_object_get(patch);
        for (int i = 0; patch; i++) {
                cleanup(error_done) Error error = ERROR_INIT;

                r = write_record(rollout, patch, &error);
                json_object_put(patch);
                patch = NULL;
                if (r >= 0 || error.kind == ERROR_NONE)
                        break;
                if (error.kind != ERROR_CONFLICT || i == ATTEMPTS)
                        return error_copy(reterr, &error);
                r = session_pause(rollout->session, CONFLICT_PAUSE_USEC, reterr);
                if (r >= 0)
                        r = make(&rollout->watch.view, request, &patch, reterr);
        }
        return r;
}

static bool has_gate(const Rollout *rollout) {
        json_object *gates =
                object_at(object_template(rollout->watch.view.workload), "spec.readinessGates");

        return list_find(gates, "conditionType", GATE_CONDITION);
}

/* Says what the update will do otherwise than the flags or the strategy let one think. */
static void explain_limits(const Rollout *rollout) {
        json_object *own = object_at(rollout->watch.view.workload,
                                     "spec.strategy.rollingUpdate.maxUnavailable");

        /* A strategy that makes a pod more before it ends one cannot be followed in place. */
        if (own && json_object_get_int64(own) == 0 && !rollout->limits.max_unavailable)
                explain(rollout, "its strategy lets no pod be unavailable; in place, one pod at a "
                                 "time is, while its containers are replaced");
        if (rollout->limits.grace_sec > 0 && !has_gate(rollout))
                explain(rollout, "--grace has no effect, since its template lacks the readiness "
                                 "gate " GATE_CONDITION);
}

/* After an attempt that was refused, --undo does not mean the update before it, unless it is repeated. A user
 * who may not write it is warned of nothing. */
static void note_refused(Rollout *rollout, const char *time) {
        const RolloutView *view = &rollout->watch.view;
        const KubePath path = path_of(rollout);
        cleanup(json_object_put_p) json_object *patch = NULL;

        if (!view->workload || session_is_ended(rollout->session) ||
            rollout_record_undo(view, rollout->record) != ROLLOUT_UNDO_SET_IMAGE ||
            takeover_patch_refused(view->workload, rollout->record, time, &patch) < 0)
                return;
        (void) session_patch(rollout->session, &path, KUBE_STRATEGIC_MERGE_PATCH, patch, NULL,
                             &ERROR_INIT);
}

static bool has_all(json_object *images) {
        json_object_object_foreach(images, container, image) {
                (void) container;
                if (json_object_get_string_len(image) == 0)
                        return false;
        }
        return true;
}

/* Before the workload was taken over. */
static int refuse_unchanged(Rollout *rollout, const RolloutRequest *request, int r,
                            const Error *error) {
        cleanup(json_object_put_p) json_object *images = NULL;
        cleanup(free_p) char *text = NULL;
        char now[RFC3339_SIZE];
        int status = refuse(rollout, r, error);

        if (!rollout->watch.view.workload || session_is_dry_run(rollout->session))
                return status;
        images = request->images ? template_images(object_template(rollout->watch.view.workload),
                                                   request->images)
                                 : NULL;
        if (images && !has_all(images)) /* there is no such container, as the refusal says */
                return status;
        if (images && rollout_text_images(images, &text) >= 0)
                complain("nothing has changed; the pods keep %s", text);
        if (!rollout->flags->undo && request->mode == ROLLOUT_SET_IMAGE)
                note_refused(rollout, rfc3339_format((int64_t) time(NULL), now));
        return status;
}

static int begin(Rollout *rollout, const RolloutRequest *request) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(json_object_put_p) json_object *patch = NULL;
        int r = prepare(rollout, request, &patch, &error);

        if (r < 0)
                return refuse_unchanged(rollout, request, r, &error);
        if (!patch)
                return end_before(rollout, request->images);
        explain_limits(rollout);
        r = take_over(rollout, request, patch, rollout_begin, &error);
        if (r < 0)
                return refuse(rollout, r, &error);
        return session_is_dry_run(rollout->session) ? end_dry_run(rollout) : go_on(rollout);
}

/* The update that is open keeps this user, or what this user asked for, from being done. */
static int refuse_open(const Rollout *rollout, const char *why) {
        const char *word = is_same_user(rollout) ? NULL : "--take-over";
        cleanup(free_p) char *text = NULL;

        if (rollout_text_open(rollout->record, &rollout->watch.view, (int64_t) time(NULL), &text) <
            0)
                return -ENOMEM;
        complain("%s/%s: the %s%s; to go on, to go back, or to hand it back as it is:",
                 kind_of(rollout), rollout->watch.path.name, text, why);
        offer(rollout, "kubectl inplace rollout", word);
        offer(rollout, "kubectl inplace rollout --undo", word);
        offer(rollout, "kubectl inplace rollout --release", word);
        return EXIT_STATUS_FAILED;
}

static int resume(Rollout *rollout, const RolloutRequest *request) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(json_object_put_p) json_object *patch = NULL;
        int r = rollout_resume(&rollout->watch.view, request, &patch, &error);

        if (r >= 0)
                r = take_over(rollout, request, patch, rollout_resume, &error);
        if (r < 0)
                return refuse(rollout, r, &error);
        return session_is_dry_run(rollout->session) ? end_dry_run(rollout) : go_on(rollout);
}

/* Announces what --undo will do. */
static int announce_undo(const Rollout *rollout) {
        cleanup(free_p) char *text = NULL;

        if (rollout_text_undo(rollout->record, (int64_t) time(NULL), &text) < 0)
                return -ENOMEM;
        if (!rollout->show.is_quiet)
                return print_safe("undoing %s", text);

        complain("undoing %s", text);
        return 0;
}

static int parse_partition(const char *text, int64_t *ret, Error *reterr) {
        *ret = -1;
        if (!text)
                return 0;
        if (strchr(text, '%'))
                return error_set(reterr, ERROR_INVALID, "--partition: \"%s\": expected a number",
                                 text);
        return share_parse(text, 0, SHARE_ROUNDED_UP, ret, reterr);
}

/* Reads all that there is. */
static int load(Rollout *rollout, const char *workload, Error *reterr) {
        int64_t ignored;
        int r = 0;

        if (rollout->limits.max_unavailable)
                r = share_parse(rollout->limits.max_unavailable, 1, SHARE_ROUNDED_UP, &ignored,
                                reterr);
        if (r >= 0 && rollout->flags->no_preload && rollout->flags->require_preload)
                return error_set(reterr, ERROR_INVALID,
                                 "only one of --no-preload and --require-preload is possible");
        if (r >= 0)
                r = rights_require(rollout->session, workload, reterr);
        if (r >= 0)
                r = rollout_watch_load(rollout->session, workload, &rollout->watch, reterr);
        rollout->watch.view.noted = rollout->show.pods;
        if (r >= 0)
                r = rollout_record_read(rollout->watch.view.workload, &rollout->record, reterr);
        return r;
}

static bool is_document(const Flags *flags) {
        return flags->format == OUTPUT_JSON || flags->format == OUTPUT_YAML;
}

static int init(Rollout *rollout, Session *session, const Flags *flags) {
        int r;

        *rollout = (Rollout){
                .written = json_object_new_object(),
                .session = session,
                .flags = flags,
                .limits = { .max_unavailable = flags->max_unavailable,
                            .grace_sec = flags->grace_sec },
        };
        r = rollout_show_init(&rollout->show);
        rollout->show.is_quiet = flags->wants_names || is_document(flags);
        return rollout->written ? r : -ENOMEM;
}

static int go_on_with(Rollout *rollout, RolloutRequest *request) {
        const Flags *flags = rollout->flags;
        json_object *images = request->images;
        int r = 0;

        if (!is_same_user(rollout) && !flags->take_over)
                return refuse_open(rollout, "");
        if (session_is_dry_run(rollout->session) && !flags->undo)
                return refuse_open(rollout, ", and there is no dry run of the rest");
        if (images && record_is_undo(rollout->record))
                return refuse_open(rollout, "");
        if (images && !json_object_equal(images, record_images(rollout->record, false)))
                return refuse_open(rollout, ", and has other images");
        if (request->partition >= 0 && request->partition != record_partition(rollout->record))
                return refuse_open(rollout, ", and has another partition");

        request->takes_over = flags->take_over;
        request->goes_back = flags->undo;
        if (flags->undo)
                r = announce_undo(rollout);
        return r < 0 ? r : resume(rollout, request);
}

/* {container: image} of "container=image" */
static int parse_images(const Flags *flags, json_object **ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *images = json_object_new_object();

        for (int i = 1; i < flags->n_arguments; i++) {
                const char *text = flags->arguments[i], *equal = strchr(text, '=');
                cleanup(free_p) char *name = NULL;
                ImageRef ignored;
                int r;

                if (!equal || equal == text || equal[1] == '\0')
                        return error_set(reterr, ERROR_INVALID, "\"%s\": expected CONTAINER=IMAGE",
                                         text);
                r = image_ref_parse(equal + 1, SHORT_NAMES_HUB, &ignored, reterr);
                if (r < 0)
                        return r;
                name = strndup(text, (size_t) (equal - text));
                if (!name || patch_add_text(images, name, equal + 1) < 0)
                        return -ENOMEM;
        }
        *ret = take_ptr(images);
        return 0;
}

/* The template is another's: a repository may have it, and put it back whatever is written here. */
static int explain_undo(const Rollout *rollout) {
        explain(rollout,
                "its template has these images, and this command leaves it as it is: put the images "
                "before back where the template comes from, or by");
        offer_images_before(rollout, "kubectl set image");
        complain("and then bring the pods there:");
        offer(rollout, "kubectl inplace rollout", NULL);
        return EXIT_STATUS_FAILED;
}

/* The last attempt was refused, and changed nothing: the update before it is undone when that is asked for
 * again. */
static int refuse_undo(Rollout *rollout) {
        cleanup(free_p) char *text = NULL;

        if (rollout_text_undo(rollout->record, (int64_t) time(NULL), &text) < 0)
                return -ENOMEM;
        complain(
                "%s/%s: nothing to undo: the last attempt, at %s, was refused and has changed nothing; "
                "to undo %s, repeat:",
                kind_of(rollout), rollout->watch.path.name,
                json_get_text(rollout->record, "refused"), text);
        offer(rollout, "kubectl inplace rollout", "--undo");
        if (!session_is_dry_run(rollout->session))
                note_refused(rollout, NULL);
        return EXIT_STATUS_FAILED;
}

static int undo(Rollout *rollout, RolloutRequest *request) {
        cleanup(json_object_put_p) json_object *images =
                json_object_get(record_images(rollout->record, true));
        RolloutUndo way = rollout_record_undo(&rollout->watch.view, rollout->record);
        int r = 0;

        if (way == ROLLOUT_UNDO_SET_IMAGE && json_get_text(rollout->record, "refused"))
                return refuse_undo(rollout);
        if (way == ROLLOUT_UNDO_SET_IMAGE || way == ROLLOUT_UNDO_FOLLOW)
                r = announce_undo(rollout);
        if (r < 0)
                return r;
        switch (way) {
        case ROLLOUT_UNDO_SET_IMAGE:
                request->mode = ROLLOUT_SET_IMAGE;
                request->images = images;
                request->undone = rollout->record;
                return begin(rollout, request);
        case ROLLOUT_UNDO_FOLLOW: return begin(rollout, request);
        case ROLLOUT_UNDO_TEMPLATE: return explain_undo(rollout);
        case ROLLOUT_UNDO_NOTHING:
        case _ROLLOUT_UNDO_MAX: break;
        }
        explain(rollout, "there is no update in place to undo: set the images instead");
        return EXIT_STATUS_FAILED;
}

/* OpenKruise's workloads: their controller updates the pods, and there is no record */

static int write_template(Rollout *rollout, json_object *patch, bool is_rehearsal, Error *reterr) {
        KubePath path = path_of(rollout);
        cleanup(json_object_put_p) json_object *object = NULL;
        int r;

        if (is_rehearsal && !session_is_dry_run(rollout->session))
                path.query = "dryRun=All";
        r = session_patch(rollout->session, &path, KUBE_MERGE_PATCH, patch, &object, reterr);
        return r < 0 || is_rehearsal ? r : rollout_watch_note(&rollout->watch, object);
}

/* *ret_is_written: it did not have these images. The controller writes to the workload as well. */
static int set_images(Rollout *rollout, json_object *images, bool is_rehearsal,
                      bool *ret_is_written, Error *reterr) {
        for (int i = 0;; i++) {
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(error_done) Error error = ERROR_INIT;
                int r = kruise_begin(&rollout->watch.view, images, &patch, &error);

                *ret_is_written = r >= 0 && patch;
                if (*ret_is_written)
                        r = write_template(rollout, patch, is_rehearsal, &error);
                if (r >= 0 || error.kind == ERROR_NONE)
                        return r;
                if (!*ret_is_written || error.kind != ERROR_CONFLICT || i == ATTEMPTS)
                        return error_copy(reterr, &error);
                r = session_pause(rollout->session, CONFLICT_PAUSE_USEC, reterr);
                if (r >= 0)
                        r = rollout_watch_list(&rollout->watch, reterr);
                if (r < 0)
                        return r;
        }
}

static int prepare_kruise(Rollout *rollout, json_object *images, bool *ret_is_written,
                          Error *reterr) {
        bool has_preloaded;
        int r = set_images(rollout, images, /* is_rehearsal= */ true, ret_is_written, reterr);

        if (r < 0 || !*ret_is_written || session_is_dry_run(rollout->session))
                return r;
        if (!rollout->flags->no_preload)
                r = rollout_preload(&rollout->watch, rollout->record,
                                    rollout->flags->require_preload, !rollout->show.is_quiet,
                                    &has_preloaded, reterr);
        if (r >= 0)
                r = rollout_watch_list(&rollout->watch, reterr); /* after a long preload */
        return r < 0 ? r : set_images(rollout, images, false, ret_is_written, reterr);
}

static int check_kruise_flags(const Flags *flags, Error *reterr) {
        const char *flag = flags->partition         ? "--partition"
                           : flags->max_unavailable ? "--max-unavailable"
                           : flags->grace_sec > 0   ? "--grace"
                                                    : NULL;

        if (flag)
                return error_set(reterr, ERROR_INVALID,
                                 "%s has no effect on OpenKruise's controller, which follows the "
                                 "workload's spec.updateStrategy",
                                 flag);
        if (flags->undo)
                return error_set(reterr, ERROR_INVALID,
                                 "there is no record of what its images were: set them with \"set "
                                 "image\" instead");
        return 0;
}

static int run_kruise(Rollout *rollout, json_object *images) {
        const RolloutView *view = &rollout->watch.view;
        cleanup(error_done) Error error = ERROR_INIT;
        bool is_written = false;
        int r = check_kruise_flags(rollout->flags, &error);

        if (r >= 0) {
                rollout->record = kruise_record(view, images);
                r = rollout->record ? 0 : -ENOMEM;
        }
        if (r >= 0 && images)
                r = prepare_kruise(rollout, images, &is_written, &error);
        if (r >= 0 && !is_written)
                r = kruise_plan(view, rollout->record, &rollout->step);
        if (r < 0)
                return refuse(rollout, r, &error);
        if (session_is_dry_run(rollout->session))
                return end_dry_run(rollout);
        return !is_written && rollout->step.action == ROLLOUT_DONE ? end_before(rollout, images)
                                                                   : go_on(rollout);
}

static int run(Rollout *rollout, json_object *images) {
        const Flags *flags = rollout->flags;
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(json_object_put_p) json_object *expanded = NULL;
        RolloutRequest request = { .mode = images ? ROLLOUT_SET_IMAGE : ROLLOUT_FOLLOW,
                                   .now_sec = session_server_sec(rollout->session) };
        int r = parse_partition(flags->partition, &request.partition, &error);

        if (r >= 0)
                r = load(rollout, flags->arguments[0], &error);
        if (r >= 0 && images)
                r = template_expand_images(object_template(rollout->watch.view.workload), images,
                                           &expanded);
        if (r < 0)
                return session_fail(rollout->session, r, &error);
        request.images = images = expanded;
        if (is_of_kruise(rollout))
                return run_kruise(rollout, images);

        request.by = session_user(rollout->session);
        if (rollout_record_is_open(rollout->record))
                return go_on_with(rollout, &request);
        if (flags->release) {
                explain(rollout, "no update in place is under way: there is nothing to hand back");
                return EXIT_STATUS_FAILED;
        }
        return flags->undo ? undo(rollout, &request) : begin(rollout, &request);
}

/* Prints the document that -o asks for, at the end. */
static int report(const Rollout *rollout, int status) {
        cleanup(json_object_put_p) json_object *tree = NULL;
        int r;

        if (status < 0 || !rollout->outcome || !rollout->watch.view.workload)
                return status;
        if (rollout->flags->wants_names && status == EXIT_STATUS_DONE)
                (void) print_safe("%s/%s", kind_of(rollout), rollout->watch.path.name);
        if (!is_document(rollout->flags))
                return status;

        tree = rollout_report(&rollout->watch.view, rollout->record, rollout->outcome);
        r = tree ? output_tree(rollout->flags->format, tree) : -ENOMEM;
        return r < 0 ? r : status;
}

int kubectl_set_image(Session *session, const Flags *flags) {
        cleanup(rollout_done) Rollout rollout;
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(json_object_put_p) json_object *images = NULL;
        int r = init(&rollout, session, flags);

        if (r >= 0)
                r = parse_images(flags, &images, &error);
        if (error.kind != ERROR_NONE) {
                complain("%s; try: kubectl inplace help set image", error_message(&error));
                return EXIT_STATUS_USAGE;
        }
        return r < 0 ? r : report(&rollout, run(&rollout, images));
}

int kubectl_rollout(Session *session, const Flags *flags) {
        cleanup(rollout_done) Rollout rollout;
        int r = init(&rollout, session, flags);

        if (r >= 0 && flags->undo && flags->release) {
                complain("--undo and --release exclude each other");
                return EXIT_STATUS_USAGE;
        }
        return r < 0 ? r : report(&rollout, run(&rollout, NULL));
}
