/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-context.h"

#include <errno.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/clock.h"
#include "agent/base/text.h"

#define SCHEMES_MAX 64

uint64_t recreate_now_usec(const Recreate *recreate) {
        return loop_now_usec(recreate->context->event);
}

int64_t recreate_server_usec(const Recreate *recreate) {
        int64_t usec;

        return kube_client_server_usec(recreate->context->client, &usec)
                       ? usec
                       : clock_nsec(CLOCK_REALTIME) / NSEC_PER_USEC;
}

int recreate_reconcile(Recreate *recreate) {
        return deferred_request(&recreate->reconcile);
}

static bool is_known_scheme(const Recreate *recreate, const char *scheme) {
        for (size_t i = 0; i < recreate->n_schemes; i++)
                if (strcmp(recreate->schemes[i], scheme) == 0)
                        return true;

        return false;
}

int recreate_note_runtimes(Recreate *recreate) {
        for (size_t i = 0; i < runtimes_count(recreate->context->runtimes); i++) {
                const char *name = runtime_name(runtimes_get(recreate->context->runtimes, i));

                if (!name[0] || is_known_scheme(recreate, name) ||
                    recreate->n_schemes >= SCHEMES_MAX)
                        continue;
                if (array_grow(&recreate->schemes, recreate->n_schemes, sizeof(char *)) < 0 ||
                    text_copy(name, &recreate->schemes[recreate->n_schemes]) < 0)
                        return -ENOMEM;
                recreate->n_schemes++;
        }

        return 0;
}

Runtime *recreate_find_runtime(const Recreate *recreate, const char *scheme, bool *ret_may_come) {
        const Runtimes *runtimes = recreate->context->runtimes;
        Runtime *runtime = scheme[0] ? runtimes_find(runtimes, scheme) : runtimes_chosen(runtimes);
        bool is_any_ready = false;

        *ret_may_come = true;
        if (runtime || !scheme[0])
                return runtime && runtime_client(runtime) ? runtime : NULL;

        for (size_t i = 0; i < runtimes_count(runtimes); i++)
                is_any_ready = is_any_ready || runtime_client(runtimes_get(runtimes, i));
        *ret_may_come = is_known_scheme(recreate, scheme) || !is_any_ready ||
                        !runtimes_are_settled(runtimes);
        return NULL;
}

static void warn(const Recreate *recreate, const char *what, const Error *reason) {
        const Error *trouble = kube_client_trouble(recreate->context->client);

        if (!trouble || trouble->kind == ERROR_NONE)
                log_warning(recreate->context->log, NULL,
                            "Cannot write for the restart request \"%s\": %s, retrying.", what,
                            error_message(reason));
}

void recreate_note_read(Recreate *recreate, RecreateRight right) {
        bool was_denied = recreate->refusals[right].kind == ERROR_DENIED;

        error_done(&recreate->refusals[right]);
        if (was_denied)
                recreate->context->on_changed(recreate->context->userdata);
}

static void note_refusal(Recreate *recreate, RecreateRight right, const char *what,
                         const Error *error) {
        Error *known = &recreate->refusals[right];
        bool is_known = known->kind == error->kind;

        (void) error_update(known, error);
        if (!is_known)
                warn(recreate, what, error);
        recreate->context->on_changed(recreate->context->userdata);
}

void recreate_note_written(Recreate *recreate, RecreateRight right, const char *what, bool is_first,
                           const Error *error) {
        const Error *known = &recreate->refusals[right];

        metrics_count(recreate->context->metrics, METRIC_RECREATE_WRITES, !error);
        if (!error) {
                recreate_note_read(recreate, right);
                return;
        }

        /* A server that rejects one request still accepts writes to the others: only log it. */
        if (error->kind == ERROR_INVALID) {
                if (is_first)
                        warn(recreate, what, error);
                return;
        }
        /* A busy server does not show that a right is no longer missing. */
        if (known->kind != ERROR_DENIED || !error_is_unanswered(error))
                note_refusal(recreate, right, what, error);
}

const Error *recreate_missing_right(const Recreate *recreate) {
        for (size_t i = 0; i < _RECREATE_RIGHT_MAX; i++)
                if (recreate->refusals[i].kind == ERROR_DENIED)
                        return &recreate->refusals[i];

        return NULL;
}

void recreate_note_overfull(Recreate *recreate, RecreateSelection selection) {
        if (!recreate->is_overfull[selection])
                log_warning(recreate->context->log, NULL,
                            "There are too many or too large %srestart requests: those of the "
                            "namespace with the most have to wait.",
                            selection == RECREATE_UNASSIGNED ? "unprepared " : "");
        recreate->is_overfull[selection] = true;
}
