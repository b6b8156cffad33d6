/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/image/pull-failure.h"
#include "agent/image/pull-internal.h"
#include "agent/image/pull-verify.h"
#include "cri/client.h"

#define USEC_PER_SEC ((uint64_t) 1000000)

bool pull_runtime_is_away(const Pull *pull) {
        return !runtimes_are_alive(pull->context->runtimes);
}

/* Remembers why it failed and finds out whether that was the last time. */
static int pull_refused(Pull *pull, PullReason reason, const char *text) {
        int r;

        pull->n_failures++;
        r = pull_failure_describe(&pull->status, reason, text, pull->n_failures,
                                  (uint64_t) pull->wish.backoff_limit + 1);
        if (r < 0)
                return r;

        return pull_handle(pull, (int64_t) pull->n_failures > pull->wish.backoff_limit
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

uint64_t pull_now(const Pull *pull) {
        uint64_t usec = 0;

        (void) sd_event_now(pull->context->event, CLOCK_MONOTONIC, &usec);
        return usec;
}

int pull_look(Pull *pull) {
        if (pull->looked_usec == 0)
                pull->looked_usec = pull_now(pull);
        if (pull_runtime_is_away(pull))
                return pull_handle(pull, PULL_ON_RUNTIME_AWAY);
        if (pull->wish.policy == PULL_POLICY_ALWAYS)
                return pull_handle(pull, PULL_ON_ABSENT);

        return cri_image_status(runtimes_client(pull->context->runtimes), pull->reference,
                                on_image_status, pull, &pull->call);
}

int pull_identify(Pull *pull) {
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

        r = pull_failure_add_deadline(&pull->status, pull->wish.active_deadline_sec);
        if (r < 0)
                return r;

        return pull_handle(pull, PULL_ON_DEADLINE);
}

/* The clock of activeDeadlineSeconds runs from the moment the pull has its turn. */
static int pull_begin(Pull *pull) {
        int64_t limit = pull->wish.active_deadline_sec;

        if (pull->status.started_at > 0)
                return 0;

        pull->status.started_at = time(NULL);
        if (limit == WISH_NO_LIMIT)
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
                                  (uint64_t) pull->wish.backoff_limit + 1);
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

        r = pull_request_init(&pull->request, &pull->wish, &pull->ref, pull->reference, keys);
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
int pull_authenticate(Pull *pull) {
        const PullKeysQuestion question = {
                .wish = &pull->wish,
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

int pull_pull(Pull *pull) {
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
                              (uint64_t) pull->wish.timeout_sec * USEC_PER_SEC, on_pulled, pull,
                              &pull->call);
}
