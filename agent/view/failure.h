/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The message of a failed attempt, for people
 *
 * The agent writes one line: "NotFound: <what the runtime said>; check the name and the tag (attempt 2 of
 * 5)". The runtime's part may be long.
 */

#include <stdbool.h>

/* Shortens the message by the runtime's words: "NotFound (attempt 2 of 5): check the name and the
 * tag". A message without a reason stays as it is. NULL if there is no memory. */
char *failure_summary(const char *message);

/* The registry refused the pull; without a limit of its own, a pull ends after a few of these. */
bool failure_is_refusal(const char *message);
