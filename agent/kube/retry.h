/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When to ask the API server again
 */

#include "agent/kube/client.h"

#define KUBE_RETRY_MIN_USEC ((uint64_t) 250000)
#define KUBE_RETRY_MAX_USEC ((uint64_t) 15000000)

/* Whether the same request may succeed later: no answer came, or 408, 429 or 5xx. */
bool kube_is_retriable(const KubeReply *reply, const Error *error);

/* Returns the pause that the server requested, at most 60 s; 0: none. reply may be NULL. */
uint64_t kube_requested_usec(const KubeReply *reply);

/* Returns the pause after the n-th failure in a row (from 1): 0.25, 0.5, 1 … 15 s, ± 20 %, and
 * never less than the server requested. random is any number. A Retry with these limits does the
 * same. */
uint64_t kube_retry_usec(unsigned n_failures, const KubeReply *reply, uint32_t random);
