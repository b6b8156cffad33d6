/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Progress on a terminal
 *
 * The images that are being pulled have one line each at the bottom of the screen, which is drawn
 * again in place. The line of an image that is finished is written above them, once, and scrolls
 * away like any other output. If there are more images than lines, those that move come first and
 * the rest is a number.
 *
 * The terminal is left in order at any instant: no mode of it is changed, so nothing is broken when
 * the program is killed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/base/cleanup.h"
#include "agent/ctl/pull-list.h"

typedef struct ProgressView ProgressView;

/* Writes to the file, which is borrowed, and flushes it. */
int progress_view_new(FILE *file, size_t rows, size_t columns, bool has_full_ids,
                      ProgressView **ret);
ProgressView *progress_view_free(ProgressView *view);

void progress_view_resize(ProgressView *view, size_t rows, size_t columns);

/* Writes the lines of what has finished since the last time, and those of the others anew. */
int progress_view_draw(ProgressView *view, PullList *list, bool is_agent_away, uint64_t now_usec);

/* Takes away what can be drawn over. */
void progress_view_clear(ProgressView *view);

DEFINE_CLEANUP(ProgressView *, progress_view_free)
