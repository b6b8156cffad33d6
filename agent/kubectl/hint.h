/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Commands to copy
 *
 * A message that says how to go on is followed by the command, on a line of its own. It has the flags that
 * lead to the same server, user and namespace, and its words are quoted for a shell. A token is left out.
 */

#include "agent/kubectl/session.h"

/* command: "kubectl inplace rollout". words are ended by NULL. The caller owns *ret. */
int hint_format(const SessionOptions *options, const char *command, const char *const *words,
                char **ret);

/* Prints it to stderr. namespace: NULL: that of the session. */
void hint(const Session *session, const char *namespace, const char *command,
          const char *const *words);

#define HINT_WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
