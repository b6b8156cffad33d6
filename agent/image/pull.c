/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/pull.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/image/merge.h"
#include "agent/image/pull-failure.h"
#include "agent/image/pull-plan.h"
#include "agent/image/pull-verify.h"
#include "cri/client.h"

#define USEC_PER_SEC ((uint64_t) 1000000)

struct Pull {
        Ticket ticket; /* first, see pull_on_slot() */
        const PullContext *context;
        PullChanged on_changed;
        void *userdata;

        DesiredImage desired;
        ImageRef ref;
        char *reference; /* what the runtime is asked for */
        char *owner;

        PullState state;
        ImageStatus status;
        uint64_t looked_usec; /* when it had its first turn */
        unsigned n_failures;
        unsigned n_losses;   /* how often the runtime went away while it pulled this */
        unsigned n_keyless;  /* how often nobody answered who has the credentials */
        PullRequest request; /* of the attempt that runs */
        char *answered_id;   /* what PullImage answered */

        PullKeysAsk *ask; /* for credentials, if it runs */
        RpcCall *call;    /* the one in flight, if any */
        Progress *progress;
        sd_event_source *retry;
        sd_event_source *deadline;
};

DEFINE_CLEANUP(Pull *, pull_free)

/* Feeds the plan with what happened, and does what it answers. */
static int pull_handle(Pull *pull, PullEvent event);

/* The monotonic clock, as of this turn of the loop. */
static uint64_t pull_now(const Pull *pull) {
        uint64_t usec = 0;

        (void) sd_event_now(pull->context->event, CLOCK_MONOTONIC, &usec);
        return usec;
}

/* The runtime cannot be asked now. */
static bool pull_runtime_is_away(const Pull *pull) {
        return !runtimes_are_alive(pull->context->runtimes);
}

/* Remembers why it failed and finds out whether that was the last time. */
static int pull_refused(Pull *pull, PullReason reason, const char *text) {
        int r;

        pull->n_failures++;
        r = pull_failure_describe(&pull->status, reason, text, pull->n_failures,
                                  (uint64_t) pull->desired.backoff_limit + 1);
        if (r < 0)
                return r;

        return pull_handle(pull, (int64_t) pull->n_failures > pull->desired.backoff_limit
                                         ? PULL_ON_EXHAUSTED
                                         : PULL_ON_REFUSED);
}

/* A runtime that went away while it was asked has not refused anything. */
static int pull_failed(Pull *pull, const Error *error) {
        if (error->kind == ERROR_UNAVAILABLE && pull_runtime_is_away(pull))
                return pull_handle(pull, PULL_ON_RUNTIME_AWAY);

        return pull_refused(pull, pull_reason_from_error(error), error_message(error));
}

/* An ID that differs from what the pull answered is rare and worth a line: somebody else has moved
 * the tag meanwhile, or the runtime is not honest. */
static void pull_compare_answer(const Pull *pull) {
        if (!pull->answered_id || !pull_verify_is_image_id(pull->answered_id) ||
            strcmp(pull->answered_id, pull->status.image_id) == 0)
                return;

        log_warning(pull->context->log, LOG_FIELDS({ "IMAGE", pull->reference }),
                    "The runtime pulled `%s` as %s but holds %s under that name, reporting the "
                    "latter.",
                    pull->reference, pull->answered_id, pull->status.image_id);
}

static int pull_found_nothing(Pull *pull) {
        if (pull->state == PULL_LOOKING)
                return pull_handle(pull, PULL_ON_ABSENT);

        return pull_refused(pull, PULL_REASON_WRONG_CONTENT,
                            "the runtime reported success but does not hold the image");
}

/* What the runtime holds under the reference: before the pull, and after it. */
static int on_image_status(const void *reply, const Error *error, void *userdata) {
        const CriImageStatus *found = reply;
        cleanup(error_done) Error doubt = ERROR_INIT;
        Pull *pull = userdata;
        int r;

        pull->call = rpc_call_unref(pull->call);
        if (error && error->kind == ERROR_TIMEOUT)
                return pull_refused(pull, PULL_REASON_RUNTIME_UNAVAILABLE,
                                    "the runtime did not answer within 10 seconds");
        if (error)
                return pull_failed(pull, error);
        if (!found->image)
                return pull_found_nothing(pull);

        r = pull_verify_take(found->image, pull->ref.digest, &pull->status, &doubt);
        if (doubt.kind != ERROR_NONE)
                return pull_refused(pull, PULL_REASON_WRONG_CONTENT, error_message(&doubt));
        if (r < 0)
                return r;

        pull_compare_answer(pull);
        pull->status.was_present = pull->state == PULL_LOOKING;
        return pull_handle(pull,
                           pull->state == PULL_LOOKING ? PULL_ON_PRESENT : PULL_ON_IDENTIFIED);
}

/* Asks whether the image is there already. */
static int pull_look(Pull *pull) {
        if (pull->looked_usec == 0)
                pull->looked_usec = pull_now(pull);
        if (pull_runtime_is_away(pull))
                return pull_handle(pull, PULL_ON_RUNTIME_AWAY);
        if (pull->desired.policy == PULL_POLICY_ALWAYS)
                return pull_handle(pull, PULL_ON_ABSENT);

        return cri_image_status(runtimes_client(pull->context->runtimes), pull->reference,
                                on_image_status, pull, &pull->call);
}

/* Asks what is there after the pull. */
static int pull_identify(Pull *pull) {
        pull->progress = progress_end(pull->progress);
        if (pull_runtime_is_away(pull))
                return pull_handle(pull, PULL_ON_RUNTIME_AWAY);

        return cri_image_status(runtimes_client(pull->context->runtimes), pull->reference,
                                on_image_status, pull, &pull->call);
}

static int on_pulled(const void *reply, const Error *error, void *userdata) {
        const CriPullReply *answer = reply;
        Pull *pull = userdata;

        pull->call = rpc_call_unref(pull->call);
        if (error && error->kind == ERROR_TIMEOUT)
                return pull_refused(pull, PULL_REASON_DEADLINE,
                                    "the attempt took longer than its timeoutSeconds");
        if (error && pull_reason_is_denial(pull_reason_from_error(error)) &&
            pull_request_next_credential(&pull->request))
                return pull_handle(pull, PULL_ON_DENIED);
        if (error)
                return pull_failed(pull, error);

        free(pull->answered_id);
        pull->answered_id = strdup(answer->image_ref);
        if (!pull->answered_id)
                return -ENOMEM;

        return pull_handle(pull, PULL_ON_PULLED);
}

static int on_progress(const ProgressReport *report, void *userdata) {
        Pull *pull = userdata;

        pull->status.step = report->step;
        pull->status.bytes_done = report->bytes_done;
        pull->status.bytes_total = report->bytes_total;
        pull->on_changed(pull, pull->userdata);
        return 0;
}

static int on_stalled(void *userdata) {
        Pull *pull = userdata;

        pull->call = rpc_call_unref(pull->call);
        return pull_refused(pull, PULL_REASON_NO_PROGRESS,
                            "no byte arrived for the stall time-out");
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        Pull *pull = userdata;
        int r;

        r = pull_failure_add_deadline(&pull->status, pull->desired.active_deadline_sec);
        if (r < 0)
                return r;

        return pull_handle(pull, PULL_ON_DEADLINE);
}

/* The clock of activeDeadlineSeconds runs from the moment the pull has its turn. */
static int pull_begin(Pull *pull) {
        int64_t limit = pull->desired.active_deadline_sec;

        if (pull->status.started_at > 0)
                return 0;

        pull->status.started_at = time(NULL);
        if (limit == DESIRED_IMAGE_NO_LIMIT)
                return 0;

        return loop_add_time_relative(pull->context->event, &pull->deadline, CLOCK_MONOTONIC,
                                      (uint64_t) limit * USEC_PER_SEC, 0, on_deadline, pull);
}

/* Who cannot be asked has not refused anything: that is no attempt, but a pause all the same. */
static int pull_keys_failed(Pull *pull, const Error *error) {
        int r;

        if (error->kind != ERROR_UNAVAILABLE && error->kind != ERROR_TIMEOUT)
                return pull_refused(pull, PULL_REASON_INVALID_CREDENTIALS, error_message(error));

        r = pull_failure_describe(&pull->status, PULL_REASON_INVALID_CREDENTIALS,
                                  error_message(error), pull->n_failures + 1,
                                  (uint64_t) pull->desired.backoff_limit + 1);
        if (r < 0)
                return r;

        pull->n_keyless++;
        return pull_handle(pull, PULL_ON_REFUSED);
}

static int on_keys(PullKeys *keys, const Error *error, void *userdata) {
        Pull *pull = userdata;
        int r;

        pull->ask = pull->context->keys.drop(pull->ask);
        if (error)
                return pull_keys_failed(pull, error);

        r = pull_request_init(&pull->request, &pull->desired, &pull->ref, pull->reference, keys);
        if (r < 0)
                return r;

        pull->status.attempt = pull->n_failures + 1;
        return pull_handle(pull, PULL_ON_KEYS);
}

/* Those of the last attempt did not do, or there were none. */
static bool keys_may_be_stale(PullReason reason) {
        return pull_reason_is_denial(reason) && reason != PULL_REASON_RATE_LIMITED;
}

/* Each attempt asks for the credentials anew: they may have been mended. */
static int pull_authenticate(Pull *pull) {
        const PullKeysQuestion question = {
                .desired = &pull->desired,
                .ref = &pull->ref,
                .was_denied = pull->n_failures > 0 && keys_may_be_stale(pull->status.reason),
        };
        int r;

        if (pull_runtime_is_away(pull))
                return pull_handle(pull, PULL_ON_RUNTIME_AWAY);

        r = pull_begin(pull);
        if (r < 0)
                return r;

        return pull->context->keys.ask(pull->context->keys.source, &question, on_keys, pull,
                                       &pull->ask);
}

static int pull_pull(Pull *pull) {
        int r;

        if (pull_runtime_is_away(pull))
                return pull_handle(pull, PULL_ON_RUNTIME_AWAY);

        if (!pull->progress) {
                r = progress_begin(pull->context->progress, &pull->ref, on_progress, on_stalled,
                                   pull, &pull->progress);
                if (r < 0)
                        return r;
        }

        return cri_pull_image(runtimes_client(pull->context->runtimes),
                              pull_request_message(&pull->request),
                              (uint64_t) pull->desired.timeout_sec * USEC_PER_SEC, on_pulled, pull,
                              &pull->call);
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata) {
        return pull_handle(userdata, PULL_ON_TIMER);
}

static int pull_back_off(Pull *pull) {
        unsigned n = pull->n_losses > pull->n_keyless ? pull->n_losses : pull->n_keyless;
        uint32_t random = 0;

        n = pull->n_failures > n ? pull->n_failures : n;
        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        return loop_add_time_relative(pull->context->event, &pull->retry, CLOCK_MONOTONIC,
                                      backoff_usec(n, random), 0, on_retry, pull);
}

/* Once may be a restart. */
static PullEvent event_of_return(const Pull *pull) {
        return pull->n_losses > 1 ? PULL_ON_RUNTIME_SICK : PULL_ON_RUNTIME_BACK;
}

/* A runtime that came back between the call's failure and now will not announce itself again. */
static int pull_park(Pull *pull, PullState left) {
        if (left == PULL_PULLING)
                pull->n_losses++;

        return pull_runtime_is_away(pull) ? 0 : pull_handle(pull, event_of_return(pull));
}

/* The last bytes of a pull, and all of a quick one, arrive between two looks. */
static void pull_count_bytes(Pull *pull) {
        ImageStatus *status = &pull->status;

        if (status->was_present)
                return;

        if (status->bytes_total == 0)
                status->bytes_total = status->size;
        if (status->bytes_done < status->bytes_total)
                progress_tracker_add_bytes(pull->context->progress,
                                           status->bytes_total - status->bytes_done);
        status->bytes_done = status->bytes_total;
}

static int pull_claim(Pull *pull) {
        int r = 0;

        for (char **digest = pull->status.repo_digests; r >= 0 && digest && *digest; digest++)
                r = progress_tracker_claim(pull->context->progress, &pull->ref,
                                           strrchr(*digest, '@') ? strrchr(*digest, '@') + 1
                                                                 : *digest);
        return r;
}

static int pull_report(Pull *pull) {
        pull->status.phase = pull->state == PULL_SUCCEEDED ? IMAGE_SUCCEEDED : IMAGE_FAILED;
        pull->status.completed_at = time(NULL);
        if (pull->looked_usec > 0)
                pull->status.duration_usec = pull_now(pull) - pull->looked_usec;
        if (pull->status.started_at == 0)
                pull->status.started_at = pull->status.completed_at;
        if (pull->state != PULL_SUCCEEDED)
                return 0;

        pull_count_bytes(pull);
        pull_failure_clear(&pull->status);
        return pull->status.was_present ? 0 : pull_claim(pull);
}

/* Whatever belonged to the state that was left ends with it. */
static void pull_leave(Pull *pull, PullState left) {
        bool keeps_slot = pull->state == PULL_AUTHENTICATING || pull->state == PULL_PULLING ||
                          pull->state == PULL_IDENTIFYING;

        if (left == pull->state)
                return;

        pull->retry = sd_event_source_disable_unref(pull->retry);
        pull->ask = pull->context->keys.drop(pull->ask);
        pull->call = rpc_call_unref(pull->call);
        if (pull->state != PULL_PULLING) {
                pull->progress = progress_end(pull->progress);
                pull_request_done(&pull->request);
        }
        if (!keeps_slot && pull->state != PULL_LOOKING)
                queue_leave(&pull->ticket);
        if (pull_state_is_final(pull->state))
                pull->deadline = sd_event_source_disable_unref(pull->deadline);
        if (pull->state == PULL_PULLING)
                pull->status.step = IMAGE_STEP_RESOLVING;
}

static int pull_act(Pull *pull, PullAction action, PullState left) {
        const PullContext *context = pull->context;

        switch (action) {
        case PULL_DO_NOTHING: return 0;
        case PULL_DO_QUEUE: return queue_enter(context->looks, &pull->ticket, pull->owner);
        case PULL_DO_LOOK: return pull_look(pull);
        case PULL_DO_WAIT: return queue_enter(context->pulls, &pull->ticket, pull->owner);
        case PULL_DO_AUTHENTICATE: return pull_authenticate(pull);
        case PULL_DO_PULL: return pull_pull(pull);
        case PULL_DO_IDENTIFY: return pull_identify(pull);
        case PULL_DO_BACK_OFF: return pull_back_off(pull);
        case PULL_DO_PARK: return pull_park(pull, left);
        case PULL_DO_REPORT: return pull_report(pull);
        }

        abort();
}

static int pull_handle(Pull *pull, PullEvent event) {
        PullState left = pull->state;
        PullAction action = pull_plan_step(&pull->state, event);
        int r;

        if (action == PULL_DO_NOTHING)
                return 0;

        pull_leave(pull, left);
        r = pull_act(pull, action, left);
        if (r < 0)
                return r;

        pull->status.step = pull_plan_step_shown(pull->state, pull->status.step);
        if (!image_phase_is_final(pull->status.phase))
                pull->status.phase = pull->status.started_at > 0 ? IMAGE_PULLING : IMAGE_WAITING;
        pull->on_changed(pull, pull->userdata);
        return 0;
}

int pull_new(const PullContext *context, const DesiredImage *desired, const ImageRef *ref,
             const char *owner, PullChanged on_changed, void *userdata, Pull **ret) {

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
                .owner = strdup(owner),
                .state = PULL_QUEUED,
                .status = { .phase = IMAGE_WAITING,
                            .step = IMAGE_STEP_QUEUED,
                            .version = desired->version },
        };
        if (!pull->owner)
                return -ENOMEM;

        r = desired_image_copy(desired, &pull->desired);
        if (r < 0)
                return r;

        r = image_ref_canonical_reference(ref, &pull->reference);
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
        progress_end(pull->progress);
        sd_event_source_disable_unref(pull->retry);
        sd_event_source_disable_unref(pull->deadline);
        pull_request_done(&pull->request);
        image_status_done(&pull->status);
        desired_image_done(&pull->desired);
        free(pull->answered_id);
        free(pull->reference);
        free(pull->owner);
        free(pull);
        return NULL;
}

int pull_start(Pull *pull) {
        return pull_act(pull, PULL_DO_QUEUE, pull->state);
}

/* Where it waits for a turn, or will next; NULL: it has had its last one. */
static Queue *pull_queue(const Pull *pull) {
        switch (pull->state) {
        case PULL_QUEUED:
        case PULL_BACKING_OFF:
        case PULL_PARKED: return pull->context->looks;
        case PULL_LOOKING:
        case PULL_WAITING: return pull->context->pulls;
        case PULL_AUTHENTICATING:
        case PULL_PULLING:
        case PULL_IDENTIFYING:
        case PULL_SUCCEEDED:
        case PULL_FAILED:
        case _PULL_STATE_MAX: break;
        }

        return NULL;
}

int pull_join(Pull *pull, const char *owner) {
        bool is_waiting = pull->state == PULL_QUEUED || pull->state == PULL_WAITING;
        Queue *queue = pull_queue(pull);
        char *copy;

        /* Behind the others of a busy owner it would only wait longer. */
        if (!queue || queue_has_waiting(queue, owner))
                return 0;

        copy = strdup(owner);
        if (!copy)
                return -ENOMEM;

        free(pull->owner);
        pull->owner = copy;
        return is_waiting ? queue_enter(queue, &pull->ticket, owner) : 0;
}

bool pull_covers(const Pull *pull, const DesiredImage *desired) {
        return desired->version <= pull->desired.version &&
               (pull->desired.policy == PULL_POLICY_ALWAYS ||
                desired->policy == pull->desired.policy);
}

bool pull_fails_for(const Pull *pull, const DesiredImage *desired, bool is_late) {
        bool is_short = is_late && pull->status.reason == PULL_REASON_DEADLINE;

        return merge_is_within(desired, &pull->desired) && !is_short;
}

int pull_on_slot(Ticket *ticket) {
        return pull_handle((Pull *) ticket, PULL_ON_SLOT); /* its first member */
}

int pull_on_runtime_changed(Pull *pull) {
        return pull_handle(pull, pull_runtime_is_away(pull) ? PULL_ON_RUNTIME_AWAY
                                                            : event_of_return(pull));
}

const ImageStatus *pull_status(const Pull *pull) {
        return &pull->status;
}
