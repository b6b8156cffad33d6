/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/fleet/kruise.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <time.h>

#include "agent/base/text.h"
#include "agent/ctl/terminal.h"
#include "agent/document/json-cleanup.h"
#include "agent/fleet/kruise-plan.h"
#include "agent/fleet/rollout-preload.h"
#include "agent/fleet/rollout-show.h"

#define CONFLICT_PAUSE_USEC ((uint64_t) 200 * 1000)
#define ATTEMPTS 10 /* its controller writes to it as well */

typedef struct Kruise {
        RolloutWatch *watch;
        json_object *record;
        RolloutShow show;
        KruiseState state;
        char *message;
        Error refusal; /* why it cannot be followed any more */
} Kruise;

static void kruise_done(Kruise *kruise) {
        json_object_put(kruise->record);
        rollout_show_done(&kruise->show);
        free(kruise->message);
        error_done(&kruise->refusal);
}

static int64_t now_sec(void) {
        return (int64_t) time(NULL);
}

static const char *kind_of(const RolloutWatch *watch) {
        return workload_kind_to_string(watch->view.kind);
}

static void explain(const RolloutWatch *watch, const char *reason) {
        complain("%s/%s: %s", kind_of(watch), watch->path.name, reason);
}

/* Following */

static int check(Kruise *kruise, Error *reterr) {
        const RolloutView *view = &kruise->watch->view;
        int r;

        if (!view->workload)
                return error_set(reterr, ERROR_NOT_FOUND, "it is gone");
        free(kruise->message);
        r = kruise_state(view, kruise->record, &kruise->state, &kruise->message);
        if (r >= 0)
                r = rollout_show(&kruise->show, view, kruise->record,
                                 kruise->state == KRUISE_WAITS ? kruise->message : NULL, now_sec());
        if (r < 0 || kruise->state != KRUISE_WAITS)
                return r < 0 ? r : 1;
        if (now_sec() - kruise->show.progress_sec > ROLLOUT_PROGRESS_SEC)
                return error_set(reterr, ERROR_TIMEOUT, "waited %d s %s", ROLLOUT_PROGRESS_SEC,
                                 kruise->message);
        return 0;
}

static int is_over(void *userdata) {
        Kruise *kruise = userdata;
        int r = check(kruise, &kruise->refusal);

        return r < 0 && kruise->refusal.kind != ERROR_NONE ? 1 : r;
}

static void offer_ways(const Kruise *kruise) {
        const RolloutWatch *watch = kruise->watch;
        const char *kind = kind_of(watch), *name = watch->path.name;

        complain(
                "the controller of %s/%s goes on: follow it with \"kubectl inplace rollout %s/%s\", or "
                "set the images before",
                kind, name, kind, name);
        json_object_object_foreach(record_images(kruise->record, true), container, image) {
                complain("  kubectl inplace set image %s/%s %s=%s", kind, name, container,
                         json_object_get_string(image));
        }
}

static int follow(Kruise *kruise) {
        const RolloutWatch *watch = kruise->watch;
        const Error *refusal = &kruise->refusal;
        cleanup(error_done) Error error = ERROR_INIT;
        int r = rollout_watch_wait(kruise->watch, is_over, kruise, &error);
        int shown = rollout_show_end(&kruise->show, &watch->view, kruise->record, now_sec());
        int status = session_end_status(watch->session);

        if (shown < 0 || (r < 0 && error.kind == ERROR_NONE))
                return r < 0 ? r : shown;
        if (r >= 0 && refusal->kind == ERROR_NONE && kruise->state == KRUISE_DONE) {
                (void) print_safe("%s/%s image updated", kind_of(watch), watch->path.name);
                return EXIT_STATUS_DONE;
        }
        if (status == 0)
                explain(watch, refusal->kind != ERROR_NONE ? error_message(refusal)
                               : r < 0                     ? error_message(&error)
                                                           : kruise->message);
        offer_ways(kruise);
        return status == 0 ? EXIT_STATUS_PARTLY : status;
}

/* The beginning */

static int write_template(const RolloutWatch *watch, json_object *patch, bool is_rehearsal,
                          Error *reterr) {
        KubePath path = watch->path;

        if (is_rehearsal && !session_is_dry_run(watch->session))
                path.query = "dryRun=All";
        return session_patch(watch->session, &path, KUBE_MERGE_PATCH, patch, NULL, reterr);
}

/* *ret_is_written: it did not have these images. */
static int set_images(RolloutWatch *watch, json_object *images, bool is_rehearsal,
                      bool *ret_is_written, Error *reterr) {
        for (int i = 0;; i++) {
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(error_done) Error error = ERROR_INIT;
                int r = kruise_begin(&watch->view, images, &patch, &error);

                *ret_is_written = r >= 0 && patch;
                if (*ret_is_written)
                        r = write_template(watch, patch, is_rehearsal, &error);
                if (r >= 0 || error.kind == ERROR_NONE)
                        return r;
                if (!*ret_is_written || error.kind != ERROR_CONFLICT || i == ATTEMPTS)
                        return error_copy(reterr, &error);
                r = session_pause(watch->session, CONFLICT_PAUSE_USEC, reterr);
                if (r >= 0)
                        r = rollout_watch_list(watch, reterr);
                if (r >= 0 && !watch->view.workload)
                        return error_set(reterr, ERROR_NOT_FOUND, "it is gone");
                if (r < 0)
                        return r;
        }
}

static int prepare(Kruise *kruise, const Flags *flags, json_object *images, bool *ret_is_written,
                   Error *reterr) {
        RolloutWatch *watch = kruise->watch;
        bool is_dry_run = session_is_dry_run(watch->session), has_preloaded;
        int r = set_images(watch, images, /* is_rehearsal= */ true, ret_is_written, reterr);

        if (r < 0 || !*ret_is_written || is_dry_run)
                return r;
        if (!flags->no_preload)
                r = rollout_preload(watch, kruise->record, &has_preloaded, reterr);
        if (r >= 0)
                r = rollout_watch_list(watch, reterr); /* that may have taken long */
        if (r >= 0 && !watch->view.workload)
                return error_set(reterr, ERROR_NOT_FOUND, "it is gone");
        return r < 0 ? r : set_images(watch, images, false, ret_is_written, reterr);
}

static const char *find_refused_flag(const Flags *flags) {
        if (flags->partition)
                return "--partition";
        if (flags->max_unavailable)
                return "--max-unavailable";
        return flags->grace_sec > 0 ? "--grace" : NULL;
}

static int refuse(const RolloutWatch *watch, const Flags *flags) {
        cleanup(error_done) Error error = ERROR_INIT;
        const char *flag = find_refused_flag(flags);

        if (flag)
                (void) error_set(&error, ERROR_INVALID,
                                 "%s has no effect on OpenKruise's controller, which follows the "
                                 "workload's spec.updateStrategy",
                                 flag);
        else
                (void) error_set(&error, ERROR_INVALID,
                                 "there is no record of what its images were: set them with \"set "
                                 "image\" instead");
        explain(watch, error_message(&error));
        return EXIT_STATUS_FAILED;
}

int kruise_run(RolloutWatch *watch, const Flags *flags, json_object *images) {
        cleanup(kruise_done) Kruise kruise = { .watch = watch };
        cleanup(error_done) Error error = ERROR_INIT;
        bool is_written = false;
        int r = rollout_show_init(&kruise.show, now_sec());

        if (r < 0)
                return r;
        if (flags->undo || find_refused_flag(flags))
                return refuse(watch, flags);
        kruise.record = kruise_record(&watch->view, images);
        if (!kruise.record)
                return -ENOMEM;
        if (images)
                r = prepare(&kruise, flags, images, &is_written, &error);
        if (r < 0 && (error.kind == ERROR_NONE || session_is_ended(watch->session)))
                return session_fail(watch->session, r, &error);
        if (r < 0) {
                explain(watch, error_message(&error));
                return EXIT_STATUS_FAILED;
        }
        if (session_is_dry_run(watch->session)) {
                (void) print_safe("%s/%s image updated (server dry run)", kind_of(watch),
                                  watch->path.name);
                return EXIT_STATUS_DONE;
        }
        if (!is_written) {
                r = kruise_state(&watch->view, kruise.record, &kruise.state, &kruise.message);
                if (r < 0)
                        return r;
        }
        if (!is_written && kruise.state == KRUISE_DONE) {
                (void) print_safe("%s/%s has these images already", kind_of(watch),
                                  watch->path.name);
                return EXIT_STATUS_DONE;
        }
        return follow(&kruise);
}
