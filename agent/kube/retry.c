/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/retry.h"

#include "agent/base/backoff.h"

#define RETRY_AFTER_MAX_USEC ((uint64_t) 60000000)

bool kube_is_retriable(const KubeReply *reply, const Error *error) {
        if (!error || error->kind == ERROR_CANCELED)
                return false;

        /* Covers 408, 429 and 5xx, and a connection that was cut in the middle of an answer. */
        if (error_is_unanswered(error))
                return true;

        return !reply || reply->code == 0;
}

uint64_t kube_requested_usec(const KubeReply *reply) {
        uint64_t usec = reply ? reply->retry_after_usec : 0;

        return usec < RETRY_AFTER_MAX_USEC ? usec : RETRY_AFTER_MAX_USEC;
}

uint64_t kube_retry_usec(unsigned n_failures, const KubeReply *reply, uint32_t random) {
        uint64_t requested = kube_requested_usec(reply);
        uint64_t usec =
                backoff_between_usec(KUBE_RETRY_MIN_USEC, KUBE_RETRY_MAX_USEC, n_failures, random);

        return usec > requested ? usec : requested;
}
