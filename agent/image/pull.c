/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/pull.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "cri/client.h"

#define LAYERS_POLL_USEC USEC_PER_SEC

/* Time for which an image counts as absent: the kubelet hardly pulls any within it. */
#define ABSENT_USEC USEC_PER_SEC

/* Only the registry knows whether a tag has moved to a smaller image, or other pulls have brought
 * layers. Asking it may fetch some bytes of a layer as well. */
#define NEED_EXPIRES_USEC (3600 * USEC_PER_SEC)

struct Pull {
        Ticket ticket; /* first, see serve() */
        const PullContext *context;
        PullChanged on_changed;
        void *userdata;

        DesiredImage desired;
        ImageRef ref;
        char *reference; /* canonical reference, for the runtime */
        char *shown;     /* reference in familiar form, for the log */
        char *owner;

        PullState state;
        ImageStatus status;
        bool is_again;         /* pull of an image that was removed */
        uint64_t entered_usec; /* time of the last change of state; 0: none since the pull began */
        uint64_t absent_usec;  /* time at which the runtime did not have the image; 0: not known */
        PullFailures failures;
        unsigned n_losses;      /* how often the runtime went away while it pulled this */
        char *answered_id;      /* ID in PullImage's answer */
        char *doubtful;         /* words of a failure, while the runtime is asked for its version */
        bool was_denied;        /* the last failure may be due to stale credentials */
        PullReason logged;      /* reason of the previous pause */
        uint64_t bytes_before;  /* bytes fetched by earlier attempts */
        uint64_t bytes_missing; /* most bytes that this attempt found missing at its start */
        uint64_t bytes_needed;  /* the same of the last attempt, if the disk had no room; or 0 */
        bool has_fetched;       /* the last attempt got beyond the registry's first answer */
        bool is_held;           /* the runtime has the image, though not yet all of its layers */
        uint64_t arrived_usec;  /* time at which bytes of its layers last arrived */

        /* Resources, see PullResource in pull-plan.h; the ticket is one as well. */
        PullCredentialsAsk *ask;
        RpcCall *call;
        PullRequest request;
        Progress *progress;
        Lease *lease;      /* lease of the last attempt, */
        Lease *kept;       /* and of the last attempt before that fetched something; or NULL */
        bool awaits_lease; /* the lease is not there yet */
        DiskTicket disk;
        OnDemandAsk *layers;
        Retry retry; /* counts every pause, whatever its reason */
        Timer deadline;
        uint64_t timed_usec; /* time from which its clock runs; 0: it does not run */
};

DEFINE_CLEANUP(Pull *, pull_free)

/* Feeds the plan with an event and carries out its actions. For handlers only: an action returns an
 * event that follows at once. */
static int pull_handle(Pull *pull, PullEvent event);

/* The monotonic clock, as of this turn of the loop. */
static uint64_t pull_now(const Pull *pull) {
        return loop_now_usec(pull->context->event);
}

/* Whether the runtime cannot be asked now. */
static bool pull_runtime_is_away(const Pull *pull) {
        return !runtimes_are_alive(pull->context->runtimes);
}

/* Lets the runtime remove the content that was fetched so far. */
static void pull_end_leases(Pull *pull) {
        pull->lease = lease_end(pull->lease);
        pull->kept = lease_end(pull->kept);
}

/* Whether an attempt failed for its credentials, or without any. */
static bool keys_may_be_stale(PullReason reason) {
        return pull_reason_remedy(reason) == PULL_REMEDY_CREDENTIALS &&
               reason != PULL_REASON_RATE_LIMITED;
}

/* Records the failure and finds out whether it was the last attempt. */
static int pull_refused(Pull *pull, PullReason reason, const char *text) {
        bool is_refusal = pull_reason_is_refusal(reason, text);
        int r;

        /* Content that is wrong or too large must not be kept. */
        if (pull_reason_remedy(reason) != PULL_REMEDY_NETWORK)
                pull_end_leases(pull);

        pull->was_denied = keys_may_be_stale(reason);
        pull->failures.n_refusals += is_refusal;
        pull->status.attempt = ++pull->failures.n;
        r = image_status_set_failure(&pull->status, reason, text, pull->failures.n,
                                     pull_plan_n_attempts(reason, is_refusal, pull->failures,
                                                          &pull->desired));
        return r < 0 ? r
                     : pull_handle(pull, pull_plan_judge(reason, pull->failures, &pull->desired));
}

/* Pauses after an attempt that does not count: the one that could not be asked has not refused anything. */
static int pull_postpone(Pull *pull, PullReason reason, const char *text) {
        int r;

        r = image_status_set_failure(&pull->status, reason, text, pull->failures.n + 1,
                                     pull_plan_n_attempts(reason, /* is_refusal= */ false,
                                                          pull->failures, &pull->desired));
        return r < 0 ? r : pull_handle(pull, PULL_ON_REFUSED);
}

/* A runtime that gives its version has failed over this image alone. */
static int on_version(const void *reply, const Error *error, void *userdata) {
        Pull *pull = userdata;
        cleanup(free_p) char *text = take_ptr(pull->doubtful);

        pull->call = rpc_call_unref(pull->call);
        if (error && error->kind == ERROR_UNAVAILABLE && pull_runtime_is_away(pull))
                return pull_handle(pull, PULL_ON_RUNTIME_AWAY);

        return error && error_is_unanswered(error)
                       ? pull_postpone(pull, PULL_REASON_RUNTIME_UNAVAILABLE, text)
                       : pull_refused(pull, PULL_REASON_RUNTIME_UNAVAILABLE, text);
}

/* Finds out whether the runtime takes no call at all. text: words of the failure. */
static int pull_ask_version(Pull *pull, const char *text) {
        if (pull_runtime_is_away(pull))
                return pull_handle(pull, PULL_ON_RUNTIME_AWAY);
        if (text_set(&pull->doubtful, text) < 0)
                return -ENOMEM;

        return cri_version(runtimes_client(pull->context->runtimes), on_version, pull, &pull->call);
}

/* A runtime that went away during a call has not refused anything, nor has one that ends: CRI-O
 * keeps the connection as long as pulls run, and refuses all other calls. */
static int pull_failed(Pull *pull, const Error *error) {
        PullReason reason = pull_reason_from_error(error);
        bool is_denied = pull_reason_remedy(reason) == PULL_REMEDY_CREDENTIALS;
        const char *lacking = pull->request.keys.lacking;
        cleanup(free_p) char *text = NULL;
        int r = 0;

        if (error->kind == ERROR_UNAVAILABLE && pull_runtime_is_away(pull))
                return pull_handle(pull, PULL_ON_RUNTIME_AWAY);
        if (reason == PULL_REASON_RUNTIME_UNAVAILABLE && pull->state != PULL_ASSESSING)
                return pull_ask_version(pull, error_message(error));
        if (reason == PULL_REASON_NO_PROGRESS)
                r = text_format(&text, "the runtime timed out: %s", error_message(error));
        else if (image_ref_is_searched(&pull->ref) && is_denied)
                r = text_format(&text,
                                "%s; the agent sends no credentials for a name without a registry, "
                                "because the runtime searches several registries: name one, as in "
                                "docker.io/%s",
                                error_message(error), pull->shown);
        else if (lacking && is_denied)
                r = text_format(&text, "%s; %s", error_message(error), lacking);

        return r < 0 ? r : pull_refused(pull, reason, text ?: error_message(error));
}

/* An ID that differs from what the pull answered is rare and worth a line: the tag was moved
 * meanwhile, or the runtime is not honest. */
static void pull_compare_answer(const Pull *pull) {
        if (!pull->answered_id || !image_id_is_valid(pull->answered_id) ||
            image_id_equal(pull->answered_id, pull->status.image_id))
                return;

        log_warning(pull->context->log, LOG_FIELDS({ "IMAGE", pull->shown }),
                    "The runtime pulled \"%s\" as %s but holds %s under that name, reporting the "
                    "latter.",
                    pull->shown, pull->answered_id, pull->status.image_id);
}

/* Asks for the image before the pull, rather than after it. */
static bool pull_is_inspecting(const Pull *pull) {
        return pull->state == PULL_INSPECTING || pull->state == PULL_CHECKING;
}

static int pull_found_nothing(Pull *pull) {
        if (pull_is_inspecting(pull)) {
                pull->absent_usec = pull_now(pull);
                return pull_handle(pull, PULL_ON_ABSENT);
        }

        return pull_refused(pull, PULL_REASON_WRONG_CONTENT,
                            "the runtime reported success but does not hold the image");
}

/* Handles the image that the runtime holds under the reference: before the pull, and after it. */
static int on_image_status(const void *reply, const Error *error, void *userdata) {
        const CriImageStatus *found = reply;
        cleanup(error_done) Error refusal = ERROR_INIT;
        Pull *pull = userdata;
        int r;

        pull->call = rpc_call_unref(pull->call);
        if (error && error->kind == ERROR_TIMEOUT)
                return pull_ask_version(pull, "the runtime did not answer within 10 seconds");
        if (error)
                return pull_failed(pull, error);
        if (!found->image)
                return pull_found_nothing(pull);

        r = pull_verify_take(found->image, &pull->ref, pull->desired.is_resolved, pull->answered_id,
                             &pull->status, &refusal);
        if (refusal.kind != ERROR_NONE)
                return pull_refused(pull, PULL_REASON_WRONG_CONTENT, error_message(&refusal));
        if (r < 0)
                return r;

        pull_compare_answer(pull);
        pull->status.was_present = pull_is_inspecting(pull);
        return pull_handle(pull, pull->status.was_present ? PULL_ON_PRESENT : PULL_ON_IDENTIFIED);
}

static int pull_ask_status(Pull *pull) {
        return cri_image_status(runtimes_client(pull->context->runtimes), pull->reference,
                                on_image_status, pull, &pull->call);
}

/* Asks for the image before the pull. */
static int pull_inspect(Pull *pull, PullEvent *ret_event) {
        if (!pull_runtime_is_away(pull) && pull->desired.policy != PULL_POLICY_ALWAYS)
                return pull_ask_status(pull);

        *ret_event = pull_runtime_is_away(pull) ? PULL_ON_RUNTIME_AWAY : PULL_ON_ABSENT;
        return 0;
}

/* Asks for the image after the pull. */
static int pull_identify(Pull *pull, PullEvent *ret_event) {
        pull_end_leases(pull); /* the image refers to the content now */
        if (!pull_runtime_is_away(pull))
                return pull_ask_status(pull);

        *ret_event = PULL_ON_RUNTIME_AWAY;
        return 0;
}

/* Records the layers that the snapshotter has fetched since the last answer. If layers that the pull
 * waits for are no longer visible, nothing has arrived. */
static void pull_take_layers(Pull *pull, const ImageOnDemand *found) {
        ImageStatus *status = &pull->status;

        if (pull->is_held && on_demand_is_hidden(found))
                return;

        if (!pull->is_held || found->bytes_present != status->on_demand.bytes_present)
                pull->arrived_usec = pull_now(pull);
        status->on_demand = *found;
        if (!pull->desired.is_complete || on_demand_is_complete(found))
                return;

        pull->is_held = true;
        status->bytes_done = found->bytes_present;
        status->bytes_total = found->bytes_total;
}

/* Ends the wait for layers that are complete, do not grow, or cannot be counted. */
static int pull_judge_layers(Pull *pull) {
        cleanup(free_p) char *text = NULL;
        uint64_t stall_usec = pull->context->on_demand->stall_usec;

        if (!pull->desired.is_complete || on_demand_is_complete(&pull->status.on_demand))
                return pull_handle(pull, PULL_ON_ENOUGH);
        if (pull->status.on_demand.is_counted &&
            (stall_usec == 0 || pull_now(pull) < pull->arrived_usec + stall_usec))
                return pull_handle(pull, PULL_ON_INCOMPLETE);

        text = on_demand_describe(&pull->status.on_demand);
        if (!text)
                return -ENOMEM;

        return pull_refused(pull,
                            pull->status.on_demand.is_counted ? PULL_REASON_NO_PROGRESS
                                                              : PULL_REASON_INCOMPLETE,
                            text);
}

/* A runtime that does not answer has failed only a desired image that needs all layers. */
static int on_layers(const ImageOnDemand *found, const Error *error, void *userdata) {
        Pull *pull = userdata;

        pull_take_layers(pull, found);
        pull->layers = on_demand_drop(pull->layers);
        if (error && pull->desired.is_complete)
                return pull_failed(pull, error);

        return pull_judge_layers(pull);
}

/* A runtime without a content store is asked once for that, not for snapshots as well. */
static int pull_assess(Pull *pull, PullEvent *ret_event) {
        bool is_supported =
                progress_tracker_support(pull->context->progress) != PROGRESS_UNSUPPORTED;
        int r;

        if (pull_runtime_is_away(pull) || !is_supported) {
                *ret_event = is_supported ? PULL_ON_RUNTIME_AWAY : PULL_ON_ENOUGH;
                return 0;
        }

        r = on_demand_ask(pull->context->on_demand, pull->status.image_id, on_layers, pull,
                          &pull->layers);
        if (r == 0)
                *ret_event = PULL_ON_ENOUGH;
        return r < 0 ? r : 0;
}

/* A registry that answers again ends the pauses of other pulls. */
static void pull_note_answer(const Pull *pull) {
        bool is_back = pull_reason_remedy(pull->status.reason) == PULL_REMEDY_NETWORK;

        if (pull->context->on_answered)
                pull->context->on_answered(is_back ? NULL : pull->ref.registry,
                                           pull->context->userdata);
}

static int on_pulled(const void *reply, const Error *error, void *userdata) {
        PullReason reason = error ? pull_reason_from_error(error) : PULL_REASON_NONE;
        const CriPullReply *answer = reply;
        Pull *pull = userdata;

        pull->call = rpc_call_unref(pull->call);
        if (!error || pull_reason_remedy(reason) == PULL_REMEDY_CREDENTIALS)
                pull_note_answer(pull);
        /* containerd gives the same status to a connection to the registry that timed out. */
        if (error && error->kind == ERROR_TIMEOUT && reason == PULL_REASON_DEADLINE)
                return pull_refused(pull, PULL_REASON_DEADLINE,
                                    "the attempt took longer than its timeoutSeconds");
        if (pull_reason_remedy(reason) == PULL_REMEDY_CREDENTIALS &&
            pull_request_next_credential(&pull->request))
                return pull_handle(pull, PULL_ON_DENIED);
        if (error)
                return pull_failed(pull, error);

        if (text_set(&pull->answered_id, answer->image_ref) < 0)
                return -ENOMEM;

        return pull_handle(pull, PULL_ON_PULLED);
}

static void pull_take_bytes(Pull *pull, const ProgressReport *report) {
        pull->status.bytes_done = report->bytes_done;
        pull->status.bytes_total = report->bytes_total;
        pull->status.bytes_fetched = pull->bytes_before + report->bytes_fetched;
        pull->status.is_counted = true;
}

/* Warns about each new reason; a repeated reason goes to the debug log. */
static void pull_log_delay(Pull *pull, const char *when) {
        const ImageStatus *status = &pull->status;
        int level = status->reason == pull->logged ? LOG_DEBUG : LOG_WARNING;
        char attempt[16];

        pull->logged = status->reason;
        if (status->reason == PULL_REASON_NONE)
                return;

        (void) snprintf(attempt, sizeof(attempt), "%u", status->attempt);
        log_write(pull->context->log, level,
                  LOG_FIELDS({ "MESSAGE_ID", MESSAGE_IMAGE_DELAYED }, { "IMAGE", pull->shown },
                             { "REASON", pull_reason_to_string(status->reason) },
                             { "ATTEMPT", attempt }),
                  "Cannot pull \"%s\" yet: %s%s.", pull->shown, status->message, when);
}

/* Checks the disk when the missing bytes become known, and when they grow. Bytes that have arrived
 * are missing again if the pull has to wait. */
static int pull_weigh(Pull *pull, const ProgressReport *report, bool *ret_is_too_large) {
        uint64_t bytes_missing = report->bytes_needed + report->bytes_done;
        cleanup(free_p) char *why = NULL;
        DiskRoom room;
        int r;

        disk_guard_need(&pull->disk, report->bytes_needed);
        if (report->bytes_needed == 0 || bytes_missing <= pull->bytes_missing)
                return 0;

        pull->bytes_missing = bytes_missing;
        r = disk_guard_room(pull->context->disk, &pull->disk, report->bytes_needed, &room, &why);
        if (r < 0 || room != DISK_ROOM_SCARCE)
                return r;

        r = image_status_set_pause(&pull->status, PULL_REASON_DISK_PRESSURE, why);
        if (r < 0)
                return r;

        pull_log_delay(pull, "");
        pull->bytes_needed = bytes_missing;
        *ret_is_too_large = true;
        return 0;
}

static int on_progress(const ProgressReport *report, void *userdata) {
        bool is_too_large = false;
        Pull *pull = userdata;
        int r = 0;

        pull->status.step = report ? report->step : IMAGE_STEP_DOWNLOADING;
        if (report)
                pull_take_bytes(pull, report);
        pull->has_fetched |= report && report->step != IMAGE_STEP_RESOLVING;
        if (report && (report->bytes_needed > 0 || report->step == IMAGE_STEP_UNPACKING))
                r = pull_weigh(pull, report, &is_too_large);
        if (r < 0 || is_too_large)
                return r < 0 ? r : pull_handle(pull, PULL_ON_TOO_LARGE);

        pull->on_changed(pull, pull->userdata);
        return 0;
}

static int on_counted(const ProgressReport *report, void *userdata) {
        Pull *pull = userdata;

        pull->status.is_counted = false;
        if (report)
                pull_take_bytes(pull, report);
        return pull_handle(pull, PULL_ON_COUNTED);
}

static int on_stalled(void *userdata) {
        Pull *pull = userdata;

        pull->call = rpc_call_unref(pull->call);
        return pull_refused(pull, PULL_REASON_NO_PROGRESS,
                            "no data arrived within the stall timeout");
}

static int on_deadline(void *userdata) {
        Pull *pull = userdata;
        int r = 0;

        if (pull->state == PULL_WAITING_FOR_RUNTIME)
                r = image_status_set_pause(&pull->status, PULL_REASON_RUNTIME_UNAVAILABLE,
                                           "no container runtime answers");
        if (r >= 0)
                r = image_status_set_past_deadline(&pull->status,
                                                   pull->desired.active_deadline_sec);
        return r < 0 ? r : pull_handle(pull, PULL_ON_DEADLINE);
}

/* The clock of activeDeadlineSeconds runs from the moment the pull has its turn, or would have if
 * the runtime were there. */
static int pull_start_deadline(Pull *pull) {
        int64_t limit = pull->desired.active_deadline_sec;

        if (pull->timed_usec == 0)
                pull->timed_usec = pull_now(pull);
        if (limit == DESIRED_IMAGE_NO_LIMIT || timer_is_running(&pull->deadline))
                return 0;

        return timer_start_at(&pull->deadline, pull->timed_usec + (uint64_t) limit * USEC_PER_SEC);
}

bool pull_is_timed(const Pull *pull) {
        return pull->timed_usec > 0;
}

int pull_narrow(Pull *pull, const DesiredImage *merged) {
        DesiredImage *desired = &pull->desired;
        int64_t limit = merged->active_deadline_sec;

        if (merged->timeout_sec < desired->timeout_sec)
                desired->timeout_sec = merged->timeout_sec;
        if (limit == DESIRED_IMAGE_NO_LIMIT ||
            (desired->active_deadline_sec != DESIRED_IMAGE_NO_LIMIT &&
             limit >= desired->active_deadline_sec))
                return 0;

        desired->active_deadline_sec = limit;
        timer_stop(&pull->deadline);
        return pull_is_timed(pull) ? pull_start_deadline(pull) : 0;
}

static int pull_begin(Pull *pull) {
        if (pull->status.started_at > 0)
                return 0;

        pull->status.started_at = time(NULL);
        return pull_start_deadline(pull);
}

static int pull_keys_failed(Pull *pull, const Error *error) {
        const PullReason reason = PULL_REASON_INVALID_CREDENTIALS;

        return error_is_unanswered(error) ? pull_postpone(pull, reason, error_message(error))
                                          : pull_refused(pull, reason, error_message(error));
}

static int on_keys(PullCredentials *keys, const Error *error, void *userdata) {
        Pull *pull = userdata;
        int r;

        pull->ask = pull->context->keys.drop(pull->ask);
        if (error)
                return pull_keys_failed(pull, error);

        r = pull_request_init(&pull->request, &pull->desired, &pull->ref, pull->reference, keys);
        if (r < 0)
                return r;

        pull->status.attempt = pull->failures.n + 1;
        return pull_handle(pull, PULL_ON_CREDENTIALS);
}

static void pull_end_pause(Pull *pull, PullReason reason) {
        if (pull->status.reason == reason)
                image_status_clear_failure(&pull->status);
}

/* Pulls leave room on the disk for everything else. */
static int pull_check_disk(Pull *pull, uint64_t bytes_needed, bool *ret_is_low) {
        cleanup(free_p) char *why = NULL;
        DiskRoom room;
        int r;

        r = disk_guard_room(pull->context->disk, &pull->disk, bytes_needed, &room, &why);
        if (r < 0)
                return r;

        *ret_is_low = room != DISK_ROOM_ENOUGH;
        if (*ret_is_low)
                return image_status_set_pause(&pull->status, PULL_REASON_DISK_PRESSURE, why);

        pull_end_pause(pull, PULL_REASON_DISK_PRESSURE);
        return 0;
}

/* Returns NULL if the pull may begin. */
static const char *pull_why_shut(const Pull *pull) {
        const PullGate *gate = &pull->context->gate;

        return gate->why_shut ? gate->why_shut(pull->reference, gate->userdata) : NULL;
}

static int pull_hold(Pull *pull) {
        return image_status_set_pause(&pull->status, PULL_REASON_NODES_FIRST, pull_why_shut(pull));
}

/* Each attempt asks for the credentials anew: they may have been corrected. */
static int pull_authenticate(Pull *pull, PullEvent *ret_event) {
        const PullCredentialsQuestion question = {
                .desired = &pull->desired,
                .ref = &pull->ref,
                .was_denied = pull->was_denied,
        };
        bool is_low;
        int r;

        if (pull_runtime_is_away(pull)) {
                *ret_event = PULL_ON_RUNTIME_AWAY;
                return 0;
        }

        r = pull_check_disk(pull, pull->bytes_needed, &is_low);
        if (r >= 0 && is_low)
                *ret_event = PULL_ON_DISK_LOW;
        else if (r >= 0 && pull_why_shut(pull))
                *ret_event = PULL_ON_GATE_SHUT;
        if (r < 0 || *ret_event != PULL_ON_NOTHING)
                return r;

        r = pull_begin(pull);
        if (r < 0)
                return r;

        return pull->context->keys.ask(pull->context->keys.source, &question, on_keys, pull,
                                       &pull->ask);
}

/* Returns to its place in the queue. The lease keeps what the attempt has fetched. */
static int pull_pause(Pull *pull) {
        queue_return(&pull->ticket);
        pull->absent_usec = 0;
        return image_status_set_pause(&pull->status, PULL_REASON_POD_WAITS, pull->context->pause);
}

/* A pull that was paused has its place in the queue. */
static int pull_wait(Pull *pull, PullState left, PullEvent *ret_event) {
        pull_end_pause(pull, PULL_REASON_POD_WAITS);
        if (left == PULL_PAUSED)
                return 0;
        if (pull->context->pause)
                *ret_event = PULL_ON_PAUSE;

        return queue_enter(pull->context->pulls, &pull->ticket, pull->owner);
}

static int on_room(void *userdata) {
        return pull_handle(userdata, PULL_ON_ROOM);
}

static int pull_wait_for_room(Pull *pull) {
        int r;

        pull_end_leases(pull);
        r = disk_guard_wait(pull->context->disk, &pull->disk, pull->bytes_needed,
                            pull->status.message, on_room, pull);
        if (r < 0 || pull->bytes_needed == 0)
                return r;

        return timer_start(&pull->retry.timer, NEED_EXPIRES_USEC);
}

static int on_disk_critical(void *userdata) {
        Pull *pull = userdata;
        bool is_low;
        int r;

        r = pull_check_disk(pull, 0, &is_low);
        if (r < 0)
                return r;

        pull->bytes_needed = pull->bytes_missing;
        r = pull_handle(pull, PULL_ON_DISK_CRITICAL);
        pull_end_leases(pull);
        return r;
}

/* Later attempts log at debug level: the end of the previous attempt announced them. */
static void pull_log_start(const Pull *pull) {
        log_write(pull->context->log, pull->failures.n > 0 ? LOG_DEBUG : LOG_INFO,
                  LOG_FIELDS({ "MESSAGE_ID", MESSAGE_IMAGE_STARTED }, { "IMAGE", pull->shown }),
                  "Pulling \"%s\".", pull->shown);
}

static int pull_call(Pull *pull) {
        int r;

        r = pull->progress ? 0
                           : progress_begin(pull->context->progress, lease_id(pull->lease),
                                            on_progress, on_stalled, pull, &pull->progress);
        if (r >= 0)
                r = disk_guard_run(pull->context->disk, &pull->disk, pull->bytes_needed,
                                   on_disk_critical, pull);
        if (r < 0)
                return r;

        pull->bytes_needed = 0;
        return cri_pull_image(runtimes_client(pull->context->runtimes),
                              pull_request_message(&pull->request), lease_id(pull->lease),
                              (uint64_t) pull->desired.timeout_sec * USEC_PER_SEC, on_pulled, pull,
                              &pull->call);
}

static int on_lease(void *userdata) {
        Pull *pull = userdata;

        pull->awaits_lease = false;
        return pull_runtime_is_away(pull) ? pull_handle(pull, PULL_ON_RUNTIME_AWAY)
                                          : pull_call(pull);
}

/* Keeps one lease with content: an attempt that could not reach the registry fetched nothing, so
 * the lease of an earlier attempt stays. */
static int pull_lease(Pull *pull) {
        if (pull->has_fetched) {
                lease_end(pull->kept);
                pull->kept = pull->lease;
        } else {
                lease_end(pull->lease);
        }

        pull->lease = NULL;
        pull->has_fetched = false;
        if (progress_tracker_support(pull->context->progress) == PROGRESS_UNSUPPORTED)
                return pull_call(pull);

        pull->awaits_lease = true;
        return lease_begin(pull->context->leases, on_lease, pull, &pull->lease);
}

static int pull_pull(Pull *pull, PullEvent *ret_event) {
        if (pull_runtime_is_away(pull)) {
                *ret_event = PULL_ON_RUNTIME_AWAY;
                return 0;
        }

        /* The download takes the longest part of PullImage. */
        if (progress_tracker_support(pull->context->progress) == PROGRESS_UNSUPPORTED)
                pull->status.step = IMAGE_STEP_DOWNLOADING;
        if (pull->progress)
                return pull_call(pull);

        pull_log_start(pull);
        pull->status.bytes_done = pull->status.bytes_total = 0;
        pull->bytes_missing = 0;
        return pull_lease(pull);
}

/* The last bytes of a pull, and all of a quick one, arrive between two measurements. */
static int pull_count(Pull *pull, PullEvent *ret_event) {
        int r;

        r = progress_count(pull->progress, on_counted);
        if (r == 0)
                *ret_event = PULL_ON_COUNTED;
        return r < 0 ? r : 0;
}

static int on_retry(void *userdata) {
        Pull *pull = userdata;

        if (pull->state == PULL_WAITING_FOR_DISK)
                pull->bytes_needed = 0;
        if (pull->state == PULL_BACKING_OFF)
                pull->is_held = false; /* until the runtime shows the image again */
        return pull_handle(pull, PULL_ON_TIMER);
}

/* Rounded up: at the time that is shown the attempt has begun. */
static int64_t pull_next_attempt_at(const Pull *pull) {
        uint64_t rest = retry_rest_usec(&pull->retry);

        return time(NULL) + (int64_t) ((rest + USEC_PER_SEC - 1) / USEC_PER_SEC);
}

static int pull_back_off(Pull *pull) {
        char when[48];
        int r;

        r = retry_later(&pull->retry, 0);
        if (r < 0)
                return r;

        pull->status.next_attempt_at = pull_next_attempt_at(pull);
        (void) snprintf(when, sizeof(when), ", trying again in %" PRIu64 " s",
                        retry_rest_usec(&pull->retry) / USEC_PER_SEC);
        pull_log_delay(pull, when);
        return 0;
}

/* The first loss may be a restart of the runtime. */
static PullEvent event_of_return(const Pull *pull) {
        return pull->n_losses > 1 ? PULL_ON_RUNTIME_FLAPPING : PULL_ON_RUNTIME_BACK;
}

/* A runtime that came back between the call's failure and now will not announce itself again. */
static int pull_wait_for_runtime(Pull *pull, PullState left, PullEvent *ret_event) {
        if (left == PULL_PULLING)
                pull->n_losses++;
        pull->is_held = false;
        if (!pull_runtime_is_away(pull))
                *ret_event = event_of_return(pull);
        return pull_start_deadline(pull);
}

/* Waiting for layers has the deadline of a pull. */
static int pull_wait_for_layers(Pull *pull) {
        int r;

        r = pull_begin(pull);
        return r < 0 ? r : timer_start(&pull->retry.timer, LAYERS_POLL_USEC);
}

static int pull_report(Pull *pull) {
        int r;

        pull_end_leases(pull);
        pull->status.phase = pull->state == PULL_SUCCEEDED ? IMAGE_SUCCEEDED : IMAGE_FAILED;
        pull->status.completed_at = time(NULL);
        if (pull->status.started_at == 0)
                pull->status.started_at = pull->status.completed_at;
        if (pull->state != PULL_SUCCEEDED)
                return 0;

        r = image_status_set_success(&pull->status);
        if (r < 0)
                return r;

        pull->status.is_counted |= pull->status.was_present;
        return 0;
}

static void pull_release(Pull *pull, unsigned resources) {
        if (resources & (PULL_RESOURCE_INSPECTION | PULL_RESOURCE_SLOT))
                queue_leave(&pull->ticket);
        if (resources & PULL_RESOURCE_CREDENTIALS)
                pull->ask = pull->context->keys.drop(pull->ask);
        if (resources & PULL_RESOURCE_CALL) {
                pull->call = rpc_call_unref(pull->call);
                if (pull->awaits_lease)
                        pull->lease = lease_end(pull->lease);
                pull->awaits_lease = false;
        }
        if (resources & PULL_RESOURCE_LAYERS)
                pull->layers = on_demand_drop(pull->layers);
        if (resources & PULL_RESOURCE_REQUEST)
                pull_request_done(&pull->request);
        if (resources & PULL_RESOURCE_PROGRESS) {
                pull->progress = progress_end(pull->progress);
                pull->bytes_before = pull->status.bytes_fetched;
        }
        if (resources & PULL_RESOURCE_DISK)
                disk_guard_leave(&pull->disk);
        if (resources & PULL_RESOURCE_RETRY) {
                timer_stop(&pull->retry.timer); /* the number of pauses so far still counts */
                pull->status.next_attempt_at = 0;
        }
        if (resources & PULL_RESOURCE_DEADLINE)
                timer_stop(&pull->deadline);
}

/* *ret_event is the event that follows at once; untouched if it comes later. */
static int pull_act(Pull *pull, PullAction action, PullState left, PullEvent *ret_event) {
        const PullContext *context = pull->context;

        switch (action) {
        case PULL_DO_NOTHING: return 0;
        case PULL_DO_QUEUE:
                pull_end_pause(pull, PULL_REASON_NODES_FIRST);
                return queue_enter(context->inspections, &pull->ticket, pull->owner);
        case PULL_DO_INSPECT: return pull_inspect(pull, ret_event);
        case PULL_DO_WAIT: return pull_wait(pull, left, ret_event);
        case PULL_DO_PAUSE: return pull_pause(pull);
        case PULL_DO_AUTHENTICATE: return pull_authenticate(pull, ret_event);
        case PULL_DO_PULL: return pull_pull(pull, ret_event);
        case PULL_DO_COUNT: return pull_count(pull, ret_event);
        case PULL_DO_IDENTIFY: return pull_identify(pull, ret_event);
        case PULL_DO_ASSESS: return pull_assess(pull, ret_event);
        case PULL_DO_WAIT_FOR_LAYERS: return pull_wait_for_layers(pull);
        case PULL_DO_HOLD: return pull_hold(pull);
        case PULL_DO_WAIT_FOR_ROOM: return pull_wait_for_room(pull);
        case PULL_DO_BACK_OFF: return pull_back_off(pull);
        case PULL_DO_WAIT_FOR_RUNTIME: return pull_wait_for_runtime(pull, left, ret_event);
        case PULL_DO_REPORT: return pull_report(pull);
        }

        abort();
}

/* Leaves out time in a queue, which is due to other images. */
static void pull_count_time(Pull *pull, PullState left) {
        uint64_t now = pull_now(pull);

        if (pull->entered_usec > 0 && left != PULL_QUEUED && left != PULL_WAITING &&
            left != PULL_PAUSED && left != PULL_HELD)
                pull->status.duration_usec += now - pull->entered_usec;
        pull->entered_usec = now;
}

/* Takes one step of the plan. Returns whether there was one. */
static int pull_step(Pull *pull, PullEvent event, PullEvent *ret_event) {
        PullState left = pull->state;
        PullAction action = pull_plan_step(&pull->state, event);
        int r;

        if (action == PULL_DO_NOTHING)
                return 0;

        pull_release(pull, pull_plan_release(left, pull->state));
        if (left == PULL_WAITING_FOR_RUNTIME && pull->status.started_at == 0) {
                timer_stop(&pull->deadline); /* it waits for its turn now */
                pull->timed_usec = 0;
        }
        if (pull->state != left) {
                pull_count_time(pull, left);
                pull->status.step = pull_plan_step_shown(pull->state);
                log_debug(pull->context->log, LOG_FIELDS({ "IMAGE", pull->shown }),
                          "The pull of \"%s\" is %s.", pull->shown,
                          pull_state_to_string(pull->state));
        }
        r = pull_act(pull, action, left, ret_event);
        return r < 0 ? r : 1;
}

/* Returns the phase of a pull that has not ended. */
static ImagePhase pull_phase(const Pull *pull) {
        if (pull->is_again && pull->status.started_at == 0)
                return IMAGE_MISSING;
        if (pull->state == PULL_BACKING_OFF)
                return IMAGE_BACKING_OFF;
        if (pull->state == PULL_PAUSED || pull->state == PULL_HELD)
                return IMAGE_WAITING;

        return pull->status.started_at > 0 ? IMAGE_PULLING : IMAGE_WAITING;
}

static int pull_handle(Pull *pull, PullEvent event) {
        bool is_changed = false;
        int r;

        while (event != PULL_ON_NOTHING) {
                PullEvent next = PULL_ON_NOTHING;

                r = pull_step(pull, event, &next);
                if (r < 0)
                        return r;

                is_changed |= r > 0;
                event = next;
        }
        if (!is_changed)
                return 0;

        if (!image_phase_is_final(pull->status.phase))
                pull->status.phase = pull_phase(pull);
        pull->on_changed(pull, pull->userdata);
        return 0;
}

static int show_reference(const ImageRef *ref, ShortNames short_names, char **ret) {
        cleanup(free_p) char *name = NULL;

        return image_ref_shown_name(ref, short_names, &name)
                       ?: image_ref_join(name, image_ref_tag_or_digest(ref), ret);
}

int pull_new(const PullContext *context, const DesiredImage *desired, const ImageRef *ref,
             const char *owner, PullChanged on_changed, void *userdata, Pull **ret) {

        const PullPauses pauses = pull_plan_pauses(desired->backoff_limit);
        cleanup(pull_free_p) Pull *pull = NULL;
        int r;

        pull = malloc(sizeof(*pull));
        if (!pull)
                return -ENOMEM;

        *pull = (Pull){
                .context = context,
                .on_changed = on_changed,
                .userdata = userdata,
                .ref = *ref,
                .state = PULL_QUEUED,
                .status = { .phase = IMAGE_WAITING,
                            .step = IMAGE_STEP_QUEUED,
                            .version = desired->version,
                            .waiting_at = time(NULL) },
        };
        retry_init(&pull->retry, context->event, pauses.min_usec, pauses.max_usec, on_retry, pull);
        timer_init(&pull->deadline, context->event, 0, on_deadline, pull);
        r = text_copy(owner, &pull->owner) ?: desired_image_copy(desired, &pull->desired)
                    ?: image_ref_canonical_reference(ref, &pull->reference)
                    ?: show_reference(ref, context->short_names, &pull->shown);
        if (r < 0)
                return r;

        *ret = take_ptr(pull);
        return 0;
}

Pull *pull_free(Pull *pull) {
        if (!pull)
                return NULL;

        queue_leave(&pull->ticket);
        pull->context->keys.drop(pull->ask);
        rpc_call_unref(pull->call);
        on_demand_drop(pull->layers);
        progress_end(pull->progress);
        pull_end_leases(pull);
        disk_guard_leave(&pull->disk);
        retry_done(&pull->retry);
        timer_done(&pull->deadline);
        pull_request_done(&pull->request);
        image_status_done(&pull->status);
        desired_image_done(&pull->desired);
        free(pull->answered_id);
        free(pull->doubtful);
        free(pull->reference);
        free(pull->shown);
        free(pull->owner);
        free(pull);
        return NULL;
}

int pull_start(Pull *pull) {
        return queue_enter(pull->context->inspections, &pull->ticket, pull->owner);
}

int pull_start_later(Pull *pull, const ImageStatus *missing, uint64_t pause_usec) {
        cleanup(image_status_done) ImageStatus status = { 0 };
        int r;

        r = image_status_copy(missing, &status);
        if (r < 0)
                return r;

        pull->is_again = true;
        pull->state = PULL_BACKING_OFF;
        pull->status.step = pull_plan_step_shown(pull->state);
        pull->status.phase = IMAGE_MISSING;
        pull->status.waiting_at = status.waiting_at;
        pull->status.reason = status.reason;
        pull->status.message = take_ptr(status.message);
        r = timer_start(&pull->retry.timer, pause_usec);
        if (r < 0)
                return r;

        pull->status.next_attempt_at = pull_next_attempt_at(pull);
        return 0;
}

/* Returns the queue where the pull waits, or will wait next; NULL: it had its last turn. */
static Queue *pull_queue(const Pull *pull) {
        switch (pull->state) {
        case PULL_QUEUED:
        case PULL_HELD:
        case PULL_WAITING_FOR_DISK:
        case PULL_BACKING_OFF:
        case PULL_WAITING_FOR_RUNTIME: return pull->context->inspections;
        case PULL_INSPECTING:
        case PULL_WAITING:
        case PULL_PAUSED: return pull->context->pulls;
        default: return NULL;
        }
}

/* Whether it waits for its turn to pull. */
static bool pull_is_in_line(const Pull *pull) {
        return pull->state == PULL_WAITING || pull->state == PULL_PAUSED;
}

int pull_join(Pull *pull, const char *owner) {
        bool is_waiting = pull->state == PULL_QUEUED || pull_is_in_line(pull);
        Queue *queue = pull_queue(pull);

        /* A ticket behind others of a busy owner would only wait longer. */
        if (!queue || queue_has_waiting(queue, owner))
                return 0;

        if (text_set(&pull->owner, owner) < 0)
                return -ENOMEM;

        return is_waiting ? queue_enter(queue, &pull->ticket, owner) : 0;
}

bool pull_covers(const Pull *pull, const DesiredImage *desired) {
        return desired->version <= pull->desired.version &&
               (pull->desired.is_complete || !desired->is_complete) &&
               (pull->desired.is_resolved || !desired->is_resolved) &&
               (pull->desired.policy == PULL_POLICY_ALWAYS ||
                desired->policy == pull->desired.policy);
}

bool pull_is_backing_off(const Pull *pull) {
        return pull->state == PULL_BACKING_OFF;
}

bool pull_lacks(const Pull *pull, const DesiredImage *merged) {
        return !pull_covers(pull, merged) ||
               !desired_image_shares_attempts(merged, &pull->desired) ||
               !desired_image_equal_sandbox(merged, &pull->desired);
}

PullResult pull_result(const Pull *pull) {
        return (PullResult){
                .phase = pull->status.phase,
                .reason = pull->status.reason,
                .failures = pull->failures,
                .is_held = pull->is_held,
                .is_timed = pull_is_timed(pull),
                .elapsed_usec = pull_is_timed(pull) ? pull_now(pull) - pull->timed_usec : 0,
                .desired = &pull->desired,
        };
}

bool pull_kick(Pull *pull) {
        return pull->state == PULL_BACKING_OFF && retry_kick(&pull->retry) >= 0;
}

bool pull_retry(Pull *pull) {
        pull->retry.n_failures = 0;
        if (pull->state == PULL_WAITING_FOR_DISK && pull->bytes_needed > 0)
                return retry_kick(&pull->retry) >= 0;
        return pull_kick(pull);
}

/* An answer for one image says little of another: attempts that are counted are not spent on it. */
static bool pull_heeds(const Pull *pull, PullRemedy remedy) {
        return remedy != PULL_REMEDY_NETWORK ||
               pull->desired.backoff_limit == DESIRED_IMAGE_NO_LIMIT;
}

bool pull_hint(Pull *pull, PullRemedy remedy, const char *registry) {
        return pull_reason_remedy(pull->status.reason) == remedy && pull_heeds(pull, remedy) &&
               (!registry || strcmp(registry, pull->ref.registry) == 0) && pull_kick(pull);
}

bool pull_hint_runtime(Pull *pull) {
        return pull->n_losses < 2 && pull_kick(pull);
}

static PullEvent event_of_slot(const Pull *pull) {
        bool is_late = pull_now(pull) >= pull->absent_usec + ABSENT_USEC;

        return pull->state == PULL_WAITING && is_late ? PULL_ON_LATE_SLOT : PULL_ON_SLOT;
}

/* Tickets are the first members of pulls. */
static int serve(Queue *queue) {
        Ticket *ticket;
        int r;

        while ((ticket = queue_serve(queue))) {
                Pull *pull = (Pull *) ticket;

                r = pull_handle(pull, event_of_slot(pull));
                if (r < 0)
                        return r;
        }

        return 0;
}

int pulls_serve(const PullContext *context) {
        int r;

        r = serve(context->inspections);
        return r < 0 || context->pause ? r : serve(context->pulls);
}

int pull_on_pause_changed(Pull *pull, bool goes_on) {
        if (goes_on && !pull_is_in_line(pull))
                return 0;

        return pull_handle(pull, pull->context->pause ? PULL_ON_PAUSE : PULL_ON_RESUME);
}

int pull_on_gate_changed(Pull *pull) {
        cleanup(free_p) char *before = NULL;
        int r;

        if (pull->state != PULL_HELD)
                return 0;
        if (!pull_why_shut(pull))
                return pull_handle(pull, PULL_ON_GATE_OPEN);

        r = text_copy(pull->status.message, &before);
        if (r >= 0)
                r = pull_hold(pull);
        if (r >= 0 && !text_equal(before, pull->status.message))
                pull->on_changed(pull, pull->userdata);
        return r;
}

int pull_on_runtime_changed(Pull *pull) {
        return pull_handle(pull, pull_runtime_is_away(pull) ? PULL_ON_RUNTIME_AWAY
                                                            : event_of_return(pull));
}

const ImageStatus *pull_status(const Pull *pull) {
        return &pull->status;
}
