/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pulls as people see them, of one node or of several
 *
 * A pull is an object as `inplacectl pulls -o json` has it; of several nodes, it has a member "node" as well. They are a
 * table, which is drawn again in place on a terminal while they are followed, and appended elsewhere.
 */

#include <json-c/json_types.h>
#include <stdbool.h>

#include "agent/base/cleanup.h"
#include "agent/view/output.h"

typedef struct PullsView PullsView;

int pulls_view_new(OutputFormat format, bool is_followed, bool has_nodes, PullsView **ret);
PullsView *pulls_view_free(PullsView *view);

/* Shows all pulls of this moment, an array, and flushes stdout. */
int pulls_view_show(PullsView *view, json_object *pulls);

/* Other output follows: what is drawn next stands below it. */
void pulls_view_leave(PullsView *view);

/* "downloading" for the step "Downloading": in lower case, and short. */
const char *pull_step_word(const char *step);

/* Writes "downloading 12.3/300.0 MB, 20.1 MB/s". The caller owns *ret. */
int pull_summary(json_object *pull, char **ret);

DEFINE_CLEANUP(PullsView *, pulls_view_free)
