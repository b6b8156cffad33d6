/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl inplace set image, refresh and rollout
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
#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"
#include "agent/kubectl/admission-plan.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/controller-plan.h"
#include "agent/kubectl/kruise-plan.h"
#include "agent/kubectl/refresh.h"
#include "agent/kubectl/rights.h"
#include "agent/kubectl/rollout-advice.h"
#include "agent/kubectl/rollout-plan.h"
#include "agent/kubectl/rollout-preload.h"
#include "agent/kubectl/rollout-report.h"
#include "agent/kubectl/rollout-show.h"
#include "agent/kubectl/rollout-text.h"
#include "agent/kubectl/rollout-watch.h"
#include "agent/kubectl/rollout-write.h"
#include "agent/kubectl/run-result.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"

#define CONFLICT_PAUSE_USEC (USEC_PER_SEC / 5)
#define PAUSE_MAX_USEC (16 * USEC_PER_SEC)
#define ATTEMPTS_MAX 10
#define SETTLE_SEC 2 /* a request of another run arrives, and its watch shows the record */
#define HUNG_SEC 20  /* the terminal has suspended it, or its machine was asleep */
#define CARRIED_OUT_PROGRESS_SEC 3600 /* other workloads wait for the place of this run */

typedef struct Rollout {
        Session *session;
        const Flags *flags;
        RolloutWatch watch;
        RolloutLimits limits;
        json_object *record;
        json_object *template; /* template that the patch which takes over was made for */
        Census census;         /* taken in the last turn */
        RolloutShow show;
        RolloutStep step;
        RolloutWriter writer;
        char *rest;            /* the pods that were given up, or got other images; NULL: none */
        bool has_late;         /* they got other images after the end */
        char *trouble;         /* reason to wait before the next write; NULL: none */
        uint64_t pause_usec;   /* the last one before a write was tried again; 0: none */
        Error refusal;         /* why the update cannot go on */
        char *reason;          /* reason why it ended before all was done; NULL: none is known */
        const Flags *way_back; /* flags of the way back that replaces a release; NULL: none does */
        ErrorKind refused;     /* kind of what kept it from beginning */
        bool has_listed;       /* all was read anew since the last write */
        int64_t turn_sec;      /* time of the last turn; 0: there was none */
        bool has_hung;         /* it did nothing for long, and has read nothing anew since */
        bool is_unsure;        /* the server has not said whether the update has begun */
        bool has_ended;        /* this run has ended the update, not another one */
        bool has_read_end;     /* another one has, and all was read anew since */
        bool has_left;         /* this run has sent the write that leaves it to its controller */
        char *farewell;        /* message of that write; NULL: it was released */
        bool refreshes; /* the images are those of the template, whose tags are resolved again */
        bool is_carried_out; /* for the controller of declared updates */
        const char *outcome; /* for -o json; NULL: it has not begun */
} Rollout;

static void rollout_done(Rollout *rollout) {
        rollout_step_done(&rollout->step);
        rollout_watch_done(&rollout->watch);
        census_done(&rollout->census);
        rollout_show_done(&rollout->show);
        json_object_put(rollout->record);
        json_object_put(rollout->template);
        json_object_put(rollout->writer.written);
        free(rollout->rest);
        free(rollout->farewell);
        free(rollout->trouble);
        free(rollout->reason);
        error_done(&rollout->refusal);
}

/* "deployment.apps/web" */
static const char *kind_of(const Rollout *rollout) {
        return workload_kind_to_string(rollout->watch.view.kind);
}

static bool is_of_kruise(const Rollout *rollout) {
        return workload_is_of_kruise(rollout->watch.view.kind);
}

/* Says why it ends before all is done. */
static void give_reason(Rollout *rollout, const char *reason) {
        rollout_explain(&rollout->watch, "%s", reason);
        (void) text_set(&rollout->reason, reason);
}

/* Progress */

static bool is_late(const Rollout *rollout) {
        return rollout_show_still_sec(&rollout->show) >
               rollout_patience_sec(&rollout->watch.view, &rollout->limits);
}

static int refuse_late(const Rollout *rollout, const char *awaited, Error *reterr) {
        return error_set(reterr, ERROR_TIMEOUT, "nothing has changed for %lld s; it was waiting %s",
                         (long long) rollout_show_still_sec(&rollout->show), awaited);
}

/* Name of this user in records. The controller has one of its own, so that it goes on with what it has begun in another
 * namespace or with another account. */
static const char *name_of(const Rollout *rollout) {
        return rollout->is_carried_out ? UPDATE_CONTROLLER : session_user(rollout->session);
}

static bool is_same_user(const Rollout *rollout) {
        return json_is(rollout->record, "by", name_of(rollout));
}

/* Another run of the same user wants something else: this one has not done what it was for. */
static int plan_turned(Rollout *rollout, json_object *record) {
        const char *by = json_get_text(record, "by");
        long long first = record_first(record);
        cleanup(free_p) char *images = NULL;

        if (json_is(record, "state", "abandoned"))
                return 0;
        if (!json_object_equal(record_target(record), record_target(rollout->record)))
                return rollout_text_images(record_target(record), &images) < 0
                               ? -ENOMEM
                               : rollout_step_set(&rollout->step, ROLLOUT_STOP,
                                                  "another run of \"%s\" brings the pods to %s", by,
                                                  images);
        if (first == record_first(rollout->record))
                return 0;
        if (first > 0)
                return rollout_step_set(
                        &rollout->step, ROLLOUT_STOP,
                        "another run of \"%s\" lets the update wait after the first "
                        "%lld",
                        by, first);
        return rollout_step_set(&rollout->step, ROLLOUT_STOP,
                                "another run of \"%s\" lets the update go on with all pods", by);
}

/* The record belongs to the workload, and another run may have changed it: then there is a step already. */
static int follow_record(Rollout *rollout, Error *reterr) {
        cleanup(json_object_put_p) json_object *record = NULL;
        int r = rollout_watch_record(&rollout->watch, &record, reterr);

        if (r < 0)
                return r;
        /* An update that has ended holds nothing any more: a hold that is there now is of another one. */
        if (!record && !rollout_record_is_open(rollout->record))
                return 0;
        if (!record)
                return rollout_plan_lost(&rollout->watch.view, rollout->record, &rollout->step);

        if (json_is(record, "by", name_of(rollout)))
                r = plan_turned(rollout, record);
        json_object_put(rollout->record);
        rollout->record = take_ptr(record);
        if (r < 0 || rollout->step.action != ROLLOUT_WAIT || is_same_user(rollout))
                return r;
        return rollout_step_set(&rollout->step, ROLLOUT_STOP, "\"%s\" has taken the update over",
                                json_get_text(rollout->record, "by"));
}

static int take_census(Rollout *rollout) {
        return census_take(&rollout->watch.view, rollout->record, &rollout->census);
}

static int plan_by_census(Rollout *rollout, Error *reterr) {
        const RolloutView *view = &rollout->watch.view;

        if (is_of_kruise(rollout))
                return kruise_plan(view, rollout->record, &rollout->census, &rollout->step);
        if (rollout->flags->release && rollout_record_is_open(rollout->record))
                return rollout_plan_release(view, rollout->record, &rollout->limits,
                                            &rollout->step);
        return rollout_plan(view, rollout->record, &rollout->limits, &rollout->census,
                            &rollout->step, reterr);
}

/* The time has gone on, but not what the watches have shown: a pod seems to have waited for long that was updated meanwhile. */
static void note_turn(Rollout *rollout, int64_t now_sec) {
        if (rollout->turn_sec > 0 && now_sec - rollout->turn_sec > HUNG_SEC)
                rollout->has_hung = true;
        rollout->turn_sec = now_sec;
}

static const char *awaited(const Rollout *rollout) {
        return rollout->step.action == ROLLOUT_WAIT ? rollout->step.message : rollout->trouble;
}

/* Plans the next write. */
static int plan(Rollout *rollout, Error *reterr) {
        RolloutStep *step = &rollout->step;
        int r, shown;

        rollout_step_done(step);
        note_turn(rollout, rollout->watch.view.now_sec);
        r = is_of_kruise(rollout) ? 0 : follow_record(rollout, reterr);
        if (take_census(rollout) < 0)
                return -ENOMEM;
        if (r >= 0 && step->action == ROLLOUT_WAIT)
                r = plan_by_census(rollout, reterr);
        if (r >= 0)
                r = rollout_plan_return(&rollout->watch.view, rollout->record, step);
        shown = rollout_show(&rollout->show, rollout->watch.view.now_sec, rollout->record,
                             &rollout->census, awaited(rollout), step->name);
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

/* A list that takes long is no sign that this run has hung: it would be read again and again. */
static int is_unlisted(const Error *error, void *userdata) {
        Rollout *rollout = userdata;

        note_turn(rollout, session_server_sec(rollout->session));
        return is_away(error, rollout);
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

/* OpenKruise's webhook lets no further pod go now. Its budget is known to it alone. */
static bool is_held_by_budget(const Rollout *rollout, const Error *error) {
        return !session_is_ended(rollout->session) && error->kind == ERROR_DENIED &&
               rollout->step.action == ROLLOUT_PATCH_POD &&
               strstr(error_message(error), "podunavailablebudget.policy.kruise.io");
}

/* The refusal may be over at the next attempt. */
static bool is_temporary(const Rollout *rollout, const Error *error) {
        return !is_late(rollout) && !session_is_ended(rollout->session) &&
               (session_is_lost(rollout->session, error) || is_held_by_budget(rollout, error) ||
                error->kind == ERROR_CONFLICT || error->kind == ERROR_NOT_FOUND);
}

/* The update stays open, or its workload is gone, whose ReplicaSets and pods may be there still. Returns the status, or a local
 * failure. */
static int leave_open(Rollout *rollout, int status) {
        json_object *workload = rollout->watch.view.workload;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (workload && !object_is_deleted(workload))
                rollout_offer_ways(&rollout->watch, rollout->record);
        else
                rollout_write_clean(&rollout->writer);
        r = rollout_write_return(&rollout->writer, &rollout->census, rollout->record, &error);
        if (error.kind != ERROR_NONE)
                rollout_explain(&rollout->watch,
                                "pods that were to be the next stay out of service until then: %s",
                                error_message(&error));
        else if (r < 0)
                return r;
        return rollout->watch.view.workload && take_census(rollout) < 0 ? -ENOMEM : status;
}

static int end_early(Rollout *rollout, int r, const Error *error) {
        cleanup(free_p) char *text = NULL;
        int status;

        if (error->kind == ERROR_NONE)
                return r;
        status = session_end_status(rollout->session);
        if (status == EXIT_STATUS_TIMEOUT) {
                if (text_format(&text, "timed out%s%s", awaited(rollout) ? " waiting " : "",
                                awaited(rollout) ?: "") < 0)
                        return -ENOMEM;
                give_reason(rollout, text);
        }
        if (status == 0) {
                give_reason(rollout, error_message(error));
                status = EXIT_STATUS_PARTLY;
        }
        return leave_open(rollout, status);
}

static int conclude(Rollout *rollout, const char *outcome, const char *sentence) {
        rollout->outcome = outcome;
        if (!rollout->show.is_quiet)
                (void) print_safe("%s/%s %s", kind_of(rollout), rollout->watch.path.name, sentence);
        return EXIT_STATUS_DONE;
}

/* Replaces the record, which may be of an earlier update, where there is none of its own. images: NULL: the template's. */
static int set_plain_record(Rollout *rollout, json_object *images) {
        json_object *record = kruise_record(&rollout->watch.view, images);

        json_object_put(rollout->record);
        rollout->record = record;
        return record ? 0 : -ENOMEM;
}

/* The pods that were given up, if there are any. */
static int end_with_rest(Rollout *rollout, int status) {
        if (status != EXIT_STATUS_DONE || !rollout->rest)
                return status;
        if (text_format(&rollout->reason, "not all pods run the images: %s", rollout->rest) < 0)
                return -ENOMEM;
        rollout_explain(&rollout->watch, "not all pods run the images:");
        complain("%s", rollout->rest);
        if (rollout->has_late) {
                complain("another client has changed them since; to bring them to the template:");
                rollout_offer_images(&rollout->watch, record_target(rollout->record),
                                     "kubectl inplace set image");
                return EXIT_STATUS_PARTLY;
        }
        complain("%sto see how far they are:",
                 rollout->census.n_given_up + rollout->census.n_stuck > 0
                         ? "the kubelet of each node starts them when it can; "
                         : "");
        rollout_offer(&rollout->watch, "kubectl inplace status", NULL);
        return EXIT_STATUS_PARTLY;
}

/* The template leads forward. A repository may have it, and put it back whatever is written here. */
static int explain_template(const Rollout *rollout) {
        const RolloutWatch *watch = &rollout->watch;
        cleanup(free_p) char *images = NULL;

        if (rollout_text_images(record_images(rollout->record, /* is_before= */ false), &images) <
            0)
                return -ENOMEM;
        rollout_explain(watch,
                        "its template has %s, and this command leaves it as it is: put the images "
                        "before back where the template comes from, or by",
                        images);
        rollout_offer_images(watch, record_images(rollout->record, /* is_before= */ true),
                             "kubectl set image");
        if (workload_is_declared(watch->view.workload)) {
                complain("the controller of declared updates then brings the pods there");
                return 0;
        }
        complain("and then bring the pods there:");
        rollout_offer(watch, "kubectl inplace rollout", NULL);
        return 0;
}

/* The controller of declared updates would bring the pods forward again. */
static bool leads_forward_again(const Rollout *rollout) {
        return !rollout->is_carried_out && !record_sets_images(rollout->record) &&
               workload_is_declared(rollout->watch.view.workload);
}

static int end_well(Rollout *rollout) {
        int status = json_is(rollout->record, "state", "undone") || record_undoes(rollout->record)
                             ? conclude(rollout, "undone", "image update undone")
                             : conclude(rollout, "updated", "image updated");

        rollout_explain_manifest(&rollout->watch, rollout->record);
        if (json_is(rollout->record, "state", "undone") && leads_forward_again(rollout) &&
            explain_template(rollout) < 0)
                return -ENOMEM;
        return end_with_rest(rollout, status);
}

static int end_first(Rollout *rollout) {
        const Census *census = &rollout->census;
        cleanup(free_p) char *sentence = NULL;
        int status;

        if (text_format(&sentence, "image updated in %zu of %zu pods; the others wait",
                        census->n_by_phase[ROLLOUT_UPDATED], census->n_concerned) < 0)
                return -ENOMEM;
        status = conclude(rollout, "paused", sentence);
        rollout_offer_ways(&rollout->watch, rollout->record);
        return end_with_rest(rollout, status);
}

static int end_before(Rollout *rollout, json_object *images) {
        const RolloutView *view = &rollout->watch.view;
        cleanup(free_p) char *sentence = NULL;
        bool is_kept = false;

        if (set_plain_record(rollout, images) < 0 || take_census(rollout) < 0)
                return -ENOMEM;
        json_object_object_foreach(view->pods, name, pod) {
                (void) name;
                is_kept = is_kept ||
                          (pod_ordinal(pod) < view_kept_below(view) &&
                           !template_has_images(pod, record_images(rollout->record, false)));
        }
        if (!is_kept)
                return conclude(rollout, "unchanged",
                                rollout->refreshes ? "already up to date"
                                                   : "has these images already");

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

/* The controller goes on, and replaces the pods that were not updated by those of its template. */
static int brings_to_template(const Rollout *rollout, bool *ret) {
        const RolloutView *view = &rollout->watch.view;
        json_object *replica_set = view_replica_set(view, rollout->record);
        cleanup(json_object_put_p) json_object *images =
                template_images(object_template(view->workload), record_target(rollout->record));

        if (!images)
                return -ENOMEM;
        *ret = !view_is_held(view) &&
               (view_kind(view)->has_revisions ||
                (replica_set && !template_has_images(object_template(replica_set), images)));
        return 0;
}

static int end_released(Rollout *rollout) {
        size_t n_updated = rollout->census.n_by_phase[ROLLOUT_UPDATED];
        size_t n_pods = rollout->census.n_concerned;
        cleanup(free_p) char *sentence = NULL;
        bool is_replaced;

        if (brings_to_template(rollout, &is_replaced) < 0)
                return -ENOMEM;
        if (text_format(&sentence, "handed back: %zu of %zu pods updated%s", n_updated, n_pods,
                        n_updated == n_pods ? ""
                        : is_replaced       ? "; its controller brings the others to its template"
                                            : "; the others stay as they are") < 0)
                return -ENOMEM;
        return conclude(rollout, "released", sentence);
}

/* This run may have hung while another one ended the update, and have written a pod even then. */
static int stop_late(Rollout *rollout) {
        int r = rollout_name_late(&rollout->watch.view, rollout->record, &rollout->census,
                                  &rollout->rest);

        if (r < 0 || !rollout->rest)
                return r < 0 ? r : EXIT_STATUS_PARTLY;
        rollout->has_late = true;
        free(take_ptr(rollout->reason));
        return end_with_rest(rollout, EXIT_STATUS_DONE);
}

/* This run has taken a pod out of service, and another one has ended the update just then: nothing else would return it. */
static int return_late(Rollout *rollout) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r = rollout_write_return(&rollout->writer, &rollout->census, rollout->record, &error);

        if (error.kind != ERROR_NONE)
                rollout_explain(&rollout->watch,
                                "pods that were to be the next stay out of service: %s",
                                error_message(&error));
        return error.kind != ERROR_NONE ? 0 : r;
}

static int stop(Rollout *rollout) {
        if (!rollout->step.message)
                return end_released(rollout);
        give_reason(rollout, rollout->step.message);
        if (rollout_record_is_open(rollout->record) && rollout->step.action == ROLLOUT_STOP &&
            (is_of_kruise(rollout) || is_same_user(rollout)))
                return leave_open(rollout, EXIT_STATUS_PARTLY);
        if (rollout->step.action == ROLLOUT_STOP && !rollout_record_is_open(rollout->record) &&
            return_late(rollout) < 0)
                return -ENOMEM;
        if (!is_same_user(rollout))
                rollout_offer(&rollout->watch, "kubectl inplace status", NULL);
        return rollout->is_carried_out || rollout->rest ? EXIT_STATUS_PARTLY : stop_late(rollout);
}

/* The write that left it to its controller was done though its answer was lost. */
static int end_as_left(Rollout *rollout) {
        if (rollout->step.action != ROLLOUT_STOP || !rollout->has_left ||
            !json_is(rollout->record, "state", "abandoned") || !is_same_user(rollout))
                return 0;
        rollout_write_clean(&rollout->writer);
        return text_set(&rollout->step.message, rollout->farewell);
}

/* Another run may have ended it, and what that one has said of the pods is not known here. */
static int note_rest(Rollout *rollout) {
        if (!rollout->is_carried_out) {
                rollout->rest = take_ptr(rollout->step.message);
                rollout->has_late = rollout->rest != NULL;
        }
        return rollout->rest || rollout->has_ended
                       ? 0
                       : rollout_name_unfinished(&rollout->watch.view, rollout->record,
                                                 &rollout->census, &rollout->rest);
}

/* Makes one write; sets *ret_is_over when it was the last. */
static int act(Rollout *rollout, bool *ret_is_over, Error *reterr) {
        RolloutAction action = rollout->step.action;
        int r;

        if (action == ROLLOUT_PAUSE || action == ROLLOUT_HAND_BACK) {
                free(rollout->rest);
                rollout->rest = take_ptr(rollout->step.message);
        }
        if (action == ROLLOUT_DONE && !rollout->rest && note_rest(rollout) < 0)
                return -ENOMEM;
        *ret_is_over = action == ROLLOUT_DONE || action == ROLLOUT_STOP ||
                       action == ROLLOUT_PAUSE || action == ROLLOUT_RETARGET;
        if (*ret_is_over)
                return end_as_left(rollout);
        if (action == ROLLOUT_ABANDON) {
                rollout->has_left = true;
                if (text_set(&rollout->farewell, rollout->step.message) < 0)
                        return -ENOMEM;
        }
        r = rollout_write(&rollout->writer, &rollout->step, rollout->record, reterr);
        if (r < 0)
                return r;

        rollout->has_ended = rollout->has_ended || action == ROLLOUT_HAND_BACK;
        free(take_ptr(rollout->trouble));
        rollout->pause_usec = 0;
        rollout->has_listed = false;
        *ret_is_over = action == ROLLOUT_ABANDON;
        if (*ret_is_over)
                rollout_write_clean(&rollout->writer);
        return 0;
}

/* Another run has gone back with the pod: the watch of the workload may show its record later than that of pods shows the pod. */
static bool is_turned(const Rollout *rollout) {
        const RolloutStep *step = &rollout->step;

        return (step->action == ROLLOUT_PATCH_POD || step->action == ROLLOUT_CLOSE_GATE) &&
               pod_has_gone_back(json_object_object_get(rollout->watch.view.pods, step->name),
                                 rollout->record);
}

/* Another run has ended the update, and the watch of pods may not show yet what that one has seen. */
static bool is_ended_by_another(const Rollout *rollout) {
        return rollout->step.action == ROLLOUT_DONE && !rollout->has_ended &&
               !rollout->has_read_end && !is_of_kruise(rollout);
}

/* Until the controller of a ReplicaSet sees the new template, it makes pods by the one before. The watch of pods may show such a
 * pod later than the other watches show that the template was seen; a new list has it. */
static bool must_list(const Rollout *rollout) {
        return rollout->has_hung || is_ended_by_another(rollout) ||
               (!rollout->has_listed && ((rollout->step.action == ROLLOUT_HAND_BACK &&
                                          view_template_follows(&rollout->watch.view)) ||
                                         is_turned(rollout)));
}

/* Writes until there is something to wait for or to read, or nothing any more. */
static int write_all(Rollout *rollout, bool *ret_is_over, Error *reterr) {
        int r = 1;

        while (r > 0 && !*ret_is_over && rollout->refusal.kind == ERROR_NONE) {
                if (must_list(rollout)) {
                        rollout->has_read_end =
                                rollout->has_read_end || is_ended_by_another(rollout);
                        rollout->has_listed = true;
                        rollout->has_hung = false;
                        rollout_watch_stop(&rollout->watch);
                        return 0;
                }
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
            (session_is_lost(rollout->session, error) && session_code(rollout->session) == 0))
                rollout_watch_stop(&rollout->watch);
        rollout->pause_usec = pause_usec < PAUSE_MAX_USEC ? pause_usec : PAUSE_MAX_USEC;
        if (set_trouble(rollout, error) < 0)
                return -ENOMEM;
        (void) session_pause(rollout->session, rollout->pause_usec, NULL);
        return 0;
}

static int go_on_to_template(Rollout *rollout);

static int go_on(Rollout *rollout) {
        rollout->outcome = "unfinished";
        for (;;) {
                cleanup(error_done) Error error = ERROR_INIT;
                bool is_over = false, is_again;
                int r = rollout_watch_wait(&rollout->watch, is_due, is_unlisted, rollout, &error);
                bool is_followed = r >= 0;

                if (is_followed)
                        r = write_all(rollout, &is_over, &error);
                is_again = is_followed && !is_over && rollout->refusal.kind == ERROR_NONE &&
                           (r >= 0 || is_temporary(rollout, &error));
                if (!is_again && rollout_show_end(&rollout->show, rollout->watch.view.now_sec,
                                                  rollout->record, &rollout->census) < 0)
                        return -ENOMEM;
                if (rollout->refusal.kind != ERROR_NONE)
                        return end_early(rollout, r, &rollout->refusal);
                if (is_over && r >= 0)
                        return rollout->step.action == ROLLOUT_DONE    ? end_well(rollout)
                               : rollout->step.action == ROLLOUT_PAUSE ? end_first(rollout)
                               : rollout->step.action == ROLLOUT_RETARGET
                                       ? go_on_to_template(rollout)
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

static int refuse(Rollout *rollout, int r, const Error *error) {
        int status = EXIT_STATUS_FAILED;

        if (error->kind == ERROR_NONE || session_is_ended(rollout->session)) {
                status = session_fail(rollout->session, r, error);
        } else {
                give_reason(rollout, error_message(error));
                rollout->refused = error->kind;
        }
        if (rollout->is_unsure)
                rollout_offer_unsure(&rollout->watch, rollout->record);
        return status;
}

/* By the objects alone, without a request. What admission has made of newer pods bars neither the way back nor the
 * one out of an update that is open, whose pods have images of their own. */
static int check_view(const Rollout *rollout, const RolloutRequest *request, json_object *record,
                      const Census *census, Error *reterr) {
        int r = rollout_check_budgets(&rollout->watch.view, census, reterr);

        return r < 0 || request->undone || rollout_record_is_open(rollout->record)
                       ? r
                       : admission_check(&rollout->watch.view, record, reterr);
}

typedef int (*MakePatch)(const RolloutView *view, const RolloutRequest *request, json_object **ret,
                         Error *reterr);

/* The record that a patch writes. OpenKruise's workloads have none. */
static int read_record(const Rollout *rollout, json_object *patch, json_object **ret,
                       Error *reterr) {
        *ret = is_of_kruise(rollout) ? json_object_get(rollout->record) : NULL;
        return *ret ? 0 : rollout_record_read(patch, ret, reterr);
}

/* The images of one are among those of the other. */
static bool are_among(json_object *images, json_object *others) {
        json_object_object_foreach(images, container, image) {
                if (!json_is(others, container, json_object_get_string(image)))
                        return false;
        }
        return true;
}

/* The way back, and the one out of an update that is open, is not barred; other images are for pods that may be lost, also those
 * that another client has written into the template meanwhile. */
static bool must_check_returns(const Rollout *rollout, const RolloutRequest *request,
                               json_object *record) {
        json_object *images = record_images(record, /* is_before= */ false);
        bool is_known = rollout_record_is_open(rollout->record) &&
                        (are_among(images, record_images(rollout->record, true)) ||
                         are_among(images, record_images(rollout->record, false)));

        return !request->undone && (request->images || !is_known);
}

/* Makes a patch that takes the workload over, for the template that the view has now. */
static int make_patch(Rollout *rollout, const RolloutRequest *request, MakePatch make,
                      json_object **ret, Error *reterr) {
        const RolloutView *view = &rollout->watch.view;

        json_object_put(rollout->template);
        rollout->template = json_object_get(object_template(view->workload));
        return make(view, request, ret, reterr);
}

/* Checks everything that can be checked, and has the images pulled. The view has the template that the patch is for. */
static int check_patch(Rollout *rollout, const RolloutRequest *request, json_object *patch,
                       RolloutPreloaded *ret_preloaded, Error *reterr) {
        const Flags *flags = rollout->flags;
        const RolloutPreload preload = { .is_required = flags->require_preload,
                                         .is_shown = !rollout->show.is_quiet,
                                         .keeps_apart = rollout->is_carried_out,
                                         .without = rollout->is_carried_out
                                                            ? "kubectl inplace rollout --no-preload"
                                                            : "--no-preload",
                                         .template = rollout->template };
        cleanup(json_object_put_p) json_object *record = NULL;
        cleanup(census_done) Census census = CENSUS_INIT;
        int r = read_record(rollout, patch, &record, reterr);

        if (r >= 0)
                r = census_take(&rollout->watch.view, record, &census);
        if (r >= 0)
                r = check_view(rollout, request, record, &census, reterr);
        if (r >= 0)
                r = rollout_write_rehearse(&rollout->writer, patch, record, &census, reterr);
        if (r < 0 || session_is_dry_run(rollout->session))
                return r;
        if (!flags->no_preload)
                r = rollout_preload(&rollout->watch, record, &census, &preload, ret_preloaded,
                                    reterr);
        return r < 0 || ret_preloaded->is_outdated || !must_check_returns(rollout, request, record)
                       ? r
                       : rollout_check_returns(&census, record, ret_preloaded->is_everywhere,
                                               reterr);
}

/* Where another client changes the template meanwhile, the images of that one are pulled before the first container ends. */
static int prepare(Rollout *rollout, const RolloutRequest *request, MakePatch make,
                   json_object **ret, Error *reterr) {
        RolloutPreloaded preloaded;

        do {
                cleanup(json_object_put_p) json_object *patch = NULL;
                int r = make_patch(rollout, request, make, &patch, reterr);

                preloaded = (RolloutPreloaded){ .is_done = false };
                if (r >= 0 && patch)
                        r = check_patch(rollout, request, patch, &preloaded, reterr);
                if (r < 0)
                        return r;
                if (!preloaded.is_done) {
                        *ret = take_ptr(patch);
                        return 0;
                }
                /* The preload may have taken long. */
                if (!rollout->watch.view.workload)
                        return error_set(reterr, ERROR_NOT_FOUND, "it is gone");
        } while (preloaded.is_outdated);
        return make_patch(rollout, request, make, ret, reterr);
}

/* Whether the workload has the record, or the images where it gets none: a write may have been done though its answer was
 * lost. */
static int has_record(Rollout *rollout, bool *ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *found = NULL;
        int r = rollout_watch_list(&rollout->watch, reterr);

        if (r >= 0)
                r = rollout_watch_record(&rollout->watch, &found, reterr);
        *ret = r >= 0 &&
               (is_of_kruise(rollout)
                        ? template_has_images(object_template(rollout->watch.view.workload),
                                              record_images(rollout->record, false))
                        : json_object_equal(rollout->record, found));
        return r;
}

/* Writes the record that the patch has, and what else it has. */
static int write_record(Rollout *rollout, json_object *patch, Error *reterr) {
        cleanup(json_object_put_p) json_object *record = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        bool is_written;
        int r = read_record(rollout, patch, &record, reterr);

        if (r < 0)
                return r;
        json_object_put(rollout->record);
        rollout->record = take_ptr(record);
        r = rollout_write_workload(&rollout->writer, patch, &error);
        if (r >= 0)
                return r;
        rollout->is_unsure = session_code(rollout->session) == 0;
        /* A conflict may be with that very write, which was sent again below. */
        if (!session_is_lost(rollout->session, &error) &&
            (error.kind != ERROR_CONFLICT || session_is_ended(rollout->session)))
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);

        r = has_record(rollout, &is_written, reterr);
        rollout->is_unsure = r < 0;
        return r < 0 || is_written ? r : error_copy(reterr, &error);
}

/* The controller writes to the workload as well: a conflict with it is no refusal. Pauses before the next attempt. */
static int pause_after_conflict(Rollout *rollout, int n_attempts, const Error *error,
                                Error *reterr) {
        return error->kind == ERROR_CONFLICT && n_attempts < ATTEMPTS_MAX
                       ? session_pause(rollout->session, CONFLICT_PAUSE_USEC, reterr)
                       : error_copy(reterr, error);
}

/* Makes the patch anew after a conflict. Where another client has changed the template, the images of that one are checked and
 * pulled as well; the record that was not written counts no more. */
static int remake(Rollout *rollout, const RolloutRequest *request, MakePatch make,
                  json_object **ret, Error *reterr) {
        const RolloutView *view = &rollout->watch.view;
        cleanup(json_object_put_p) json_object *record = NULL;
        int r;

        if (!view->workload)
                return error_set(reterr, ERROR_NOT_FOUND, "it is gone");
        if (rollout->flags->release || view_has_template(view, rollout->template))
                return make_patch(rollout, request, make, ret, reterr);
        if (!is_of_kruise(rollout)) {
                r = rollout_watch_record(&rollout->watch, &record, reterr);
                if (r < 0)
                        return r;
                json_object_put(rollout->record);
                rollout->record = take_ptr(record);
        }
        return prepare(rollout, request, make, ret, reterr);
}

/* The patch may be NULL. 1: it is written; 0: there is nothing to write, or no more. */
static int take_over(Rollout *rollout, const RolloutRequest *request, json_object *patch,
                     MakePatch make, Error *reterr) {
        int r = 0;

        json_object_get(patch);
        for (int i = 0; patch; i++) {
                cleanup(error_done) Error error = ERROR_INIT;

                r = write_record(rollout, patch, &error);
                json_object_put(patch);
                patch = NULL;
                if (r >= 0)
                        return 1;
                if (error.kind == ERROR_NONE)
                        return r;
                r = pause_after_conflict(rollout, i, &error, reterr);
                if (r >= 0)
                        r = remake(rollout, request, make, &patch, reterr);
        }
        return r;
}

/* After an attempt that was refused or interrupted, --undo does not mean the update before it, unless it is repeated. A user
 * who may not write it is warned of nothing. */
static void note_refused(Rollout *rollout, const char *time) {
        const RolloutView *view = &rollout->watch.view;
        cleanup(json_object_put_p) json_object *record = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL;

        if (!view->workload ||
            rollout_watch_record(&rollout->watch, &record, /* reterr= */ NULL) < 0 ||
            rollout_record_undo(view, record) != ROLLOUT_UNDO_SET_IMAGE ||
            takeover_patch_refused(view->workload, record, time, &patch) < 0)
                return;
        (void) session_patch_at_end(rollout->session, &rollout->watch.path,
                                    KUBE_STRATEGIC_MERGE_PATCH, patch, /* reterr= */ NULL);
}

/* The update that is open keeps this user, or what this user asked for, from being done. */
static int refuse_open(Rollout *rollout, const char *why) {
        const char *word = is_same_user(rollout) ? NULL : "--take-over";
        cleanup(free_p) char *text = NULL;

        if (take_census(rollout) < 0 ||
            rollout_text_open(rollout->record, &rollout->watch.view, &rollout->census,
                              session_server_sec(rollout->session), &text) < 0)
                return -ENOMEM;
        rollout_explain(&rollout->watch,
                        "the %s%s; to go on, to go back, or to hand it back as it is:", text, why);
        rollout_offer(&rollout->watch, "kubectl inplace rollout", word);
        rollout_offer(&rollout->watch, "kubectl inplace rollout --undo", word);
        rollout_offer(&rollout->watch, "kubectl inplace rollout --release", word);
        return EXIT_STATUS_FAILED;
}

/* An update that another run has begun meanwhile is named, with the ways out of it. */
static int refuse_begun(Rollout *rollout, int r, const Error *error) {
        const RolloutView *view = &rollout->watch.view;
        cleanup(json_object_put_p) json_object *record = NULL;

        if (error->kind != ERROR_CONFLICT || !view->workload ||
            rollout_record_read(view->workload, &record, NULL) < 0 ||
            !rollout_record_is_open(record) || session_is_ended(rollout->session))
                return refuse(rollout, r, error);
        json_object_put(rollout->record);
        rollout->record = take_ptr(record);
        return refuse_open(rollout, "");
}

/* Refuses before the workload was taken over. */
static int refuse_unchanged(Rollout *rollout, const RolloutRequest *request, int r,
                            const Error *error) {
        cleanup(free_p) char *text = NULL;
        char now[RFC3339_SIZE];
        int status = refuse_begun(rollout, r, error);

        if (!rollout->watch.view.workload || session_is_dry_run(rollout->session))
                return status;
        if (request->images &&
            takeover_check_containers(object_template(rollout->watch.view.workload),
                                      request->images, /* reterr= */ NULL) < 0)
                return status; /* there is no such container, as the refusal says */
        if (request->images && rollout_text_kept(&rollout->watch.view, request->images, &text) >= 0)
                complain("nothing has changed%s%s", text[0] ? "; the pods keep " : "", text);
        if (!rollout->flags->undo && request->mode == ROLLOUT_SET_IMAGE)
                note_refused(rollout, rfc3339_format(session_server_sec(rollout->session), now));
        return status;
}

/* The first pod changes, after what is known of how that goes on. */
static int start(Rollout *rollout) {
        cleanup(free_p) char *text = NULL;

        if (take_census(rollout) < 0 ||
            (!rollout->flags->release &&
             rollout_text_delay(&rollout->census, rollout->record,
                                session_server_sec(rollout->session), &text) < 0))
                return -ENOMEM;
        if (text)
                rollout_explain(&rollout->watch, "%s", text);
        return session_is_dry_run(rollout->session) ? end_dry_run(rollout) : go_on(rollout);
}

/* A run of the update that this one turns, or undoes, may not have seen that yet. */
static void await_others(Rollout *rollout) {
        rollout->limits.settled_sec = session_server_sec(rollout->session) + SETTLE_SEC;
}

static int begin(Rollout *rollout, const RolloutRequest *request) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(json_object_put_p) json_object *patch = NULL;
        int r = prepare(rollout, request, rollout_begin, &patch, &error);

        if (r < 0)
                return refuse_unchanged(rollout, request, r, &error);
        if (!patch)
                return end_before(rollout, request->images);
        rollout_explain_limits(&rollout->watch, &rollout->limits);
        r = take_over(rollout, request, patch, rollout_begin, &error);
        if (r < 0)
                return rollout->is_unsure || error_is_unanswered(&error)
                               ? refuse_begun(rollout, r, &error)
                               : refuse_unchanged(rollout, request, r, &error);
        if (r == 0)
                return end_before(rollout, request->images);
        rollout_explain_init_containers(&rollout->watch, rollout->record);
        if (request->undone)
                await_others(rollout);
        return start(rollout);
}

/* To other images it is like a new update. If another client has changed the images of the template, the update goes on to
 * those and not to the images that were asked for. A release goes on to none. */
static int resume(Rollout *rollout, const RolloutRequest *request, TemplateChange change,
                  bool has_others) {
        static const char turned[] = "another client has changed the images of its template";
        bool is_retargeted = change == TEMPLATE_RETARGETED && !rollout->flags->release;
        bool is_turned = is_retargeted && (record_sets_images(rollout->record) ||
                                           request->goes_back || record_is_undo(rollout->record));
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(json_object_put_p) json_object *patch = NULL;
        int r = is_retargeted || has_others
                        ? prepare(rollout, request, rollout_resume, &patch, &error)
                        : make_patch(rollout, request, rollout_resume, &patch, &error);

        if (r >= 0)
                r = take_over(rollout, request, patch, rollout_resume, &error);
        if (r < 0)
                return refuse(rollout, r, &error);
        if (is_turned)
                rollout_explain(&rollout->watch, "%s: the update goes on to those", turned);
        await_others(rollout);
        r = start(rollout);
        if (!is_turned || rollout->is_carried_out || r != EXIT_STATUS_DONE)
                return r;
        return text_set(&rollout->reason, turned) < 0 ? -ENOMEM : EXIT_STATUS_PARTLY;
}

/* The template of a workload that declares its updates has changed meanwhile. A pod that drains is in service while the other
 * images are pulled, and if they cannot be; a gate that could not be opened is at the end of the update. What was written for
 * images before is due once more when these come back. */
static int go_on_to_template(Rollout *rollout) {
        const RolloutRequest request = { .mode = ROLLOUT_FOLLOW,
                                         .by = name_of(rollout),
                                         .partition = -1,
                                         .first = record_first(rollout->record),
                                         .now_sec = session_server_sec(rollout->session) };
        cleanup(error_done) Error error = ERROR_INIT;
        int r = rollout_write_return(&rollout->writer, &rollout->census, rollout->record, &error);

        if (r >= 0 || error.kind != ERROR_NONE)
                r = rollout_write_forget(&rollout->writer);
        return r < 0 ? r : resume(rollout, &request, TEMPLATE_RETARGETED, /* has_others= */ false);
}

/* Announces what --undo will do. */
static int announce_undo(const Rollout *rollout) {
        cleanup(free_p) char *text = NULL;

        if (rollout_text_undo(rollout->record, session_server_sec(rollout->session), &text) < 0)
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
                r = rollout_watch_record(&rollout->watch, &rollout->record, reterr);
        return r;
}

static int init(Rollout *rollout, Session *session, const Flags *flags) {
        int r;

        *rollout = (Rollout){
                .session = session,
                .flags = flags,
                .limits = { .max_unavailable = flags->max_unavailable,
                            .grace_sec = flags->grace_sec },
        };
        rollout->writer = (RolloutWriter){ .watch = &rollout->watch,
                                           .limits = &rollout->limits,
                                           .written = json_object_new_object() };
        r = rollout_show_init(&rollout->show);
        rollout->show.is_quiet = flags->wants_names || output_is_document(flags->format);
        return rollout->writer.written ? r : -ENOMEM;
}

/* A release would leave a pod with an image that does not start, and its controller might never replace it. */
static int prefer_way_back(Rollout *rollout) {
        if (!rollout->way_back || record_is_undo(rollout->record))
                return 0;
        if (take_census(rollout) < 0)
                return -ENOMEM;
        if (rollout->census.n_by_phase[ROLLOUT_FAILED] > (size_t) rollout->census.n_spoiled)
                rollout->flags = rollout->way_back;
        return 0;
}

static int go_on_with(Rollout *rollout, RolloutRequest *request) {
        const Flags *flags = rollout->flags;
        json_object *images = request->images, *before = record_images(rollout->record, true);
        bool has_others = images && !are_among(images, record_images(rollout->record, false));
        /* Where an update that had ended is being undone, that goes on. */
        bool goes_back = (flags->undo && !record_undoes(rollout->record)) ||
                         (has_others && json_object_equal(images, before));
        cleanup(free_p) char *difference = NULL;
        TemplateChange change;
        int r = view_find_change(&rollout->watch.view, rollout->record, &change, &difference);

        if (r < 0)
                return r;
        if (!is_same_user(rollout) && !flags->take_over)
                return refuse_open(rollout, "");
        if (session_is_dry_run(rollout->session) && !goes_back && !has_others)
                return refuse_open(rollout, ", and there is no dry run of the rest");
        if (images && record_is_undo(rollout->record))
                return refuse_open(rollout, "");
        if (has_others && !record_sets_images(rollout->record))
                return refuse_open(rollout, ", and has other images");
        if (request->partition >= 0 &&
            request->partition != view_record_partition(&rollout->watch.view, rollout->record))
                return refuse_open(rollout, ", and has another partition");

        if (goes_back && !is_same_user(rollout) && !record_is_undo(rollout->record) &&
            leads_forward_again(rollout))
                return explain_template(rollout) < 0 ? -ENOMEM : EXIT_STATUS_FAILED;

        /* A dry run writes nothing, and so cannot leave it to its controller. */
        if (session_is_dry_run(rollout->session) && change != TEMPLATE_UNCHANGED)
                return refuse_open(rollout, ", and another client has changed its template");

        request->takes_over = flags->take_over;
        request->goes_back = goes_back;
        if (goes_back) {
                request->images = NULL;
                r = change == TEMPLATE_RETARGETED ? 0 : announce_undo(rollout);
        }
        return r < 0 ? r : resume(rollout, request, change, has_others && !goes_back);
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

/* The last attempt was refused or interrupted, and changed nothing: the update before it is undone when that is asked for
 * again. */
static int refuse_undo(Rollout *rollout) {
        int64_t now_sec = session_server_sec(rollout->session);
        cleanup(free_p) char *text = NULL;
        cleanup(free_p) char *refused = NULL;

        if (rollout_text_undo(rollout->record, now_sec, &text) < 0 ||
            rollout_text_time(json_get_text(rollout->record, "refused"), now_sec, &refused) < 0)
                return -ENOMEM;
        rollout_explain(&rollout->watch,
                        "nothing to undo: the last attempt, at %s, ended before it changed "
                        "anything; to undo %s, repeat:",
                        refused, text);
        rollout_offer(&rollout->watch, "kubectl inplace rollout", "--undo");
        if (!session_is_dry_run(rollout->session))
                note_refused(rollout, NULL);
        return EXIT_STATUS_FAILED;
}

static int undo(Rollout *rollout, RolloutRequest *request) {
        /* Each attempt to take over replaces the rollout's own. */
        cleanup(json_object_put_p) json_object *record = json_object_get(rollout->record);
        RolloutUndo way = rollout_record_undo(&rollout->watch.view, record);
        int r = 0;

        if (way == ROLLOUT_UNDO_SET_IMAGE && json_get_text(record, "refused"))
                return refuse_undo(rollout);
        if (way == ROLLOUT_UNDO_SET_IMAGE || way == ROLLOUT_UNDO_FOLLOW)
                r = announce_undo(rollout);
        if (r < 0)
                return r;
        switch (way) {
        case ROLLOUT_UNDO_SET_IMAGE:
                request->mode = ROLLOUT_SET_IMAGE;
                request->images = record_images(record, /* is_before= */ true);
                request->undone = record;
                return begin(rollout, request);
        case ROLLOUT_UNDO_FOLLOW: request->undone = record; return begin(rollout, request);
        case ROLLOUT_UNDO_TEMPLATE:
                return explain_template(rollout) < 0 ? -ENOMEM : EXIT_STATUS_FAILED;
        case ROLLOUT_UNDO_NOTHING:
        case _ROLLOUT_UNDO_MAX: break;
        }
        rollout_explain(&rollout->watch,
                        "there is no update in place to undo; to set the images instead:");
        rollout_offer(&rollout->watch, "kubectl inplace set image", "CONTAINER=IMAGE");
        return EXIT_STATUS_FAILED;
}

/* OpenKruise's workloads: their controller updates the pods, and there is no record. */
static int run_kruise(Rollout *rollout, const RolloutRequest *request) {
        const RolloutView *view = &rollout->watch.view;
        bool is_dry_run = session_is_dry_run(rollout->session);
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(json_object_put_p) json_object *patch = NULL;
        int r = flags_check_kruise(rollout->flags, &error);

        if (r >= 0)
                r = set_plain_record(rollout, request->images);
        if (r >= 0 && request->images)
                r = prepare(rollout, request, kruise_begin, &patch, &error);
        if (r >= 0 && !is_dry_run)
                r = take_over(rollout, request, patch, kruise_begin, &error);
        if (r >= 0)
                r = take_census(rollout);
        if (r >= 0 && !patch)
                r = kruise_plan(view, rollout->record, &rollout->census, &rollout->step);
        if (r < 0)
                return refuse(rollout, r, &error);
        if (is_dry_run)
                return end_dry_run(rollout);
        return !patch && rollout->step.action == ROLLOUT_DONE ? end_before(rollout, request->images)
                                                              : go_on(rollout);
}

/* Makes the patch anew for each attempt: the controller writes to the workload as well. It takes one write or two. */
static int end_hold(Rollout *rollout, Error *reterr) {
        RolloutWatch *watch = &rollout->watch;

        for (int i = 0; watch->view.workload; i++) {
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(error_done) Error error = ERROR_INIT;
                int r = update_give_back_patch(watch->view.kind, watch->view.workload,
                                               /* forgets= */ false, &patch);

                if (r >= 0)
                        r = rollout_write_workload(&rollout->writer, patch, &error);
                if (session_is_lost(rollout->session, &error) && i < ATTEMPTS_MAX)
                        r = rollout_watch_list(watch, reterr);
                else if (error.kind != ERROR_NONE)
                        r = pause_after_conflict(rollout, i, &error, reterr);
                else if (r < 0 || session_is_dry_run(rollout->session) ||
                         !update_is_let_go(watch->view.workload))
                        return r;
                if (r < 0)
                        return r;
        }
        return error_set(reterr, ERROR_NOT_FOUND, "it is gone");
}

/* Admission holds the workload for an update that has not begun. */
static int release_held(Rollout *rollout) {
        bool is_dry_run = session_is_dry_run(rollout->session);
        cleanup(error_done) Error error = ERROR_INIT;
        int r = end_hold(rollout, &error);

        if (r < 0)
                return refuse(rollout, r, &error);
        if (set_plain_record(rollout, NULL) < 0 || take_census(rollout) < 0)
                return -ENOMEM;
        return is_dry_run ? conclude(rollout, "checked", "handed back (server dry run)")
                          : conclude(rollout, "released",
                                     "handed back: its controller brings its pods to its template");
}

/* Says what the tags are now. */
static int show_refreshed(const Rollout *rollout, json_object *images) {
        int r = 0;

        json_object_object_foreach(images, container, image) {
                if (r >= 0 && !rollout->show.is_quiet)
                        r = print_safe("%s: %s", container, json_object_get_string(image));
        }
        return r;
}

/* Pods of the open update, or of the one that this run would begin, have at least this ordinal. */
static int64_t find_partition(const Rollout *rollout, const RolloutRequest *request) {
        const RolloutView *view = &rollout->watch.view;

        return request->partition < 0 && rollout_record_is_open(rollout->record)
                       ? view_partition(view, rollout->record)
                       : takeover_partition(view, request);
}

/* images: NULL: those of the template. *ret, and *ret_before of a refresh, belong to the caller. */
static int find_images(Rollout *rollout, const RolloutRequest *request, json_object *images,
                       json_object **ret, json_object **ret_before, Error *reterr) {
        int r = 0;

        if (rollout->refreshes) {
                r = refresh_resolve(&rollout->watch, find_partition(rollout, request),
                                    !rollout->show.is_quiet, ret, ret_before, reterr);
                if (r >= 0)
                        r = show_refreshed(rollout, *ret);
        } else if (images) {
                r = template_expand_images(object_template(rollout->watch.view.workload), images,
                                           ret);
        }
        return r;
}

static int run(Rollout *rollout, json_object *images) {
        const Flags *flags = rollout->flags;
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(json_object_put_p) json_object *expanded = NULL;
        cleanup(json_object_put_p) json_object *before = NULL;
        bool sets_images = images || rollout->refreshes;
        RolloutRequest request = { .mode = sets_images ? ROLLOUT_SET_IMAGE : ROLLOUT_FOLLOW,
                                   .now_sec = session_server_sec(rollout->session) };
        int r = parse_partition(flags->partition, &request.partition, &error);

        if (r >= 0 && flags->first)
                r = share_parse(flags->first, 0, SHARE_ROUNDED_UP, &request.first, &error);
        if (r >= 0)
                r = load(rollout, flags->arguments[0], &error);
        if (r >= 0)
                r = find_images(rollout, &request, images, &expanded, &before, &error);
        if (r < 0) {
                (void) text_set(&rollout->reason, error_message(&error));
                rollout->refused = error.kind;
                return session_fail(rollout->session, r, &error);
        }
        request.images = expanded;
        request.before = before;
        if (rollout->refreshes && json_object_object_length(expanded) == 0 &&
            !rollout_record_is_open(rollout->record))
                return end_before(rollout,
                                  view_kept_below(&rollout->watch.view) > 0 ? NULL : expanded);
        if (is_of_kruise(rollout))
                return run_kruise(rollout, &request);

        r = rollout->is_carried_out ? 0 : session_ask_user(rollout->session, &error);
        if (r < 0)
                return session_fail(rollout->session, r, &error);
        request.by = name_of(rollout);
        if (rollout_record_is_open(rollout->record))
                return prefer_way_back(rollout) < 0 ? -ENOMEM : go_on_with(rollout, &request);
        if (flags->release && workload_held(rollout->watch.view.workload))
                return release_held(rollout);
        if (flags->release) {
                rollout_explain(&rollout->watch,
                                "no update in place is under way: there is nothing to hand back; "
                                "to see its pods:");
                rollout_offer(&rollout->watch, "kubectl inplace status", NULL);
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
        if (!output_is_document(rollout->flags->format))
                return status;

        tree = rollout_report(&rollout->watch.view, rollout->record, &rollout->census,
                              rollout->outcome, rollout->reason);
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

int kubectl_refresh(Session *session, const Flags *flags) {
        cleanup(rollout_done) Rollout rollout;
        int r = init(&rollout, session, flags);

        rollout.refreshes = true;
        return r < 0 ? r : report(&rollout, run(&rollout, NULL));
}

int kubectl_rollout(Session *session, const Flags *flags) {
        cleanup(rollout_done) Rollout rollout;
        int r = init(&rollout, session, flags);

        if (r >= 0 && (flags->undo != 0) + (flags->release != 0) + (flags->first != NULL) > 1) {
                complain("--undo, --release and --first exclude each other");
                return EXIT_STATUS_USAGE;
        }
        return r < 0 ? r : report(&rollout, run(&rollout, NULL));
}

/* Admission makes other images of the template's, for new pods as well: its own controller can bring pods there. Where it may
 * not, this is tried again. */
static bool is_for_its_controller(const Rollout *rollout, json_object *record) {
        json_object *workload = rollout->watch.view.workload;

        return rollout->refused == ERROR_UNSUPPORTED && !rollout_record_is_open(record) &&
               workload_held(workload) &&
               json_is(object_at(workload, "metadata.annotations"), UPDATE_ANNOTATION,
                       UPDATE_IF_POSSIBLE);
}

/* The template differs from the pods in more than images, or a rollout of its controller is under way. Without the lists of a
 * server that refuses, does not answer or does not find them, nothing says so. */
static bool is_impossible(const Rollout *rollout) {
        const RolloutView *view = &rollout->watch.view;
        const RolloutRequest request = { .mode = ROLLOUT_FOLLOW, .by = "", .partition = -1 };
        cleanup(json_object_put_p) json_object *record = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(error_done) Error error = ERROR_INIT;

        if (!view->workload || rollout->refused == ERROR_TIMEOUT ||
            rollout->refused == ERROR_UNAVAILABLE || rollout->refused == ERROR_DENIED ||
            rollout->refused == ERROR_NOT_FOUND ||
            rollout_record_read(view->workload, &record, NULL) < 0)
                return false;
        return is_for_its_controller(rollout, record) ||
               (rollout_begin(view, &request, &patch, &error) < 0 && error.kind == ERROR_INVALID);
}

int kubectl_carry_out(Session *session, const Flags *flags) {
        cleanup(rollout_done) Rollout rollout;
        cleanup(json_object_put_p) json_object *result = NULL;
        const char *outcome;
        Flags way_back = *flags;
        int r = init(&rollout, session, flags);

        way_back.undo = flags->release;
        way_back.release = false;
        rollout.way_back = flags->release ? &way_back : NULL;
        rollout.show.is_quiet = true;
        rollout.is_carried_out = rollout.limits.leaves_hold = true;
        rollout.limits.progress_sec = CARRIED_OUT_PROGRESS_SEC;
        if (r >= 0)
                r = run(&rollout, NULL);
        if (r < 0)
                return r;
        outcome = rollout.outcome ?: "failed";
        if (r == EXIT_STATUS_FAILED && is_impossible(&rollout))
                outcome = "impossible";
        r = run_result(outcome, rollout.reason, &result);
        return r < 0 ? r : output_tree(OUTPUT_JSON, result);
}
