/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of the cluster, for a shell that completes a word
 *
 * Printed one a line, as kubectl takes them from a plugin. A server that does not answer soon, or refuses, is no
 * error: then there are no names.
 */

#include "agent/kubectl/flags.h"
#include "agent/kubectl/session.h"

/* The line behind the last name: cobra, and so kubectl, calls it a directive. */
#define COMPLETE_FILES ":0"
#define COMPLETE_NO_FILES ":4"
#define COMPLETE_NO_SPACE ":6" /* nor files */

typedef struct CompleteRequest {
        SessionOptions options;
        CommandId command;
        const FlagSpec *flag; /* flag whose value is completed; NULL: an argument of the command */
        char *const *arguments; /* arguments of the command before the word */
        size_t n_arguments;
        const char *current; /* beginning of the word */
} CompleteRequest;

/* The directive in *ret. */
int complete_from_cluster(const CompleteRequest *request, const char **ret);
