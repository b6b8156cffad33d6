/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The message of a failed attempt, for people
 *
 * The agent writes one line: "NotFound: <what the runtime said>; check the name and the tag (attempt 2 of
 * 5)". The runtime says much.
 */

#include <stdbool.h>

/* The message in few words, without those of the runtime: "NotFound (attempt 2 of 5): check the name and the
 * tag". One that begins with no reason is left as it is. NULL if there is no memory. */
char *failure_summary(const char *message);

/* The registry itself says no: a pull without a limit of its own ends after a few of these. */
bool failure_is_refusal(const char *message);
