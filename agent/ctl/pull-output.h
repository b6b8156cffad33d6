/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What "inplacectl pull" prints
 *
 * On a terminal progress in place; elsewhere one line for each image when it has finished; with
 * --quiet nothing but image IDs; with -o json or yaml one document at the end.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "agent/base/cleanup.h"
#include "agent/ctl/options.h"
#include "agent/ctl/pull-list.h"

typedef struct PullOutput PullOutput;

/* The options and the list are borrowed. */
int pull_output_new(sd_event *event, const Options *options, PullList *list, PullOutput **ret);
PullOutput *pull_output_free(PullOutput *output);

/* The agent has gone away or is there again. */
void pull_output_set_away(PullOutput *output, bool is_away);

/* To be called when an image has finished. */
int pull_output_update(PullOutput *output);

/* One of them is to be called once, when nothing will change any more. If nothing was begun, a
 * person is told nothing about each image. */
int pull_output_finish(PullOutput *output);
int pull_output_abandon(PullOutput *output);

/* Says on stderr in one line that images failed, if some did. */
void pull_output_print_summary(const PullList *list);

DEFINE_CLEANUP(PullOutput *, pull_output_free)
