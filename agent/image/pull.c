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
#include "agent/image/pull-internal.h"

DEFINE_CLEANUP(Pull *, pull_free)

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

int pull_handle(Pull *pull, PullEvent event) {
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

int pull_new(const PullContext *context, const ImageWish *wish, const ImageRef *ref,
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
                            .version = wish->version },
        };
        if (!pull->owner)
                return -ENOMEM;

        r = image_wish_copy(wish, &pull->wish);
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
        image_wish_done(&pull->wish);
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

bool pull_covers(const Pull *pull, const ImageWish *wish) {
        return wish->version <= pull->wish.version &&
               (pull->wish.policy == PULL_POLICY_ALWAYS || wish->policy == pull->wish.policy);
}

bool pull_fails_for(const Pull *pull, const ImageWish *wish, bool is_late) {
        bool is_short = is_late && pull->status.reason == PULL_REASON_DEADLINE;

        return merge_is_within(wish, &pull->wish) && !is_short;
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
