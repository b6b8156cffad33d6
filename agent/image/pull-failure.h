/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a failed pull is put into words
 *
 * One line that begins with the class of the failure, since a NodeImage has no other place for it:
 * "NotFound: <what the runtime said>; <what to do> (attempt 2 of 4)". Pure.
 */

#include <stdint.h>

#include "agent/image/image-status.h"

/* Replaces reason and message. The text may be anything, it is cleaned and shortened. */
int pull_failure_describe(ImageStatus *status, PullReason reason, const char *text,
                          unsigned attempt, uint64_t n_attempts);

/* The deadline of all attempts has passed; an earlier failure is kept behind that. */
int pull_failure_add_deadline(ImageStatus *status, int64_t deadline_sec);

void pull_failure_clear(ImageStatus *status);
