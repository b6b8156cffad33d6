/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Progress on a terminal
 *
 * Each image that is being pulled has a line at the bottom of the screen, which the view draws again in
 * place. It writes the line of a finished image above them, once, where it scrolls away like any other
 * output. If there are more images than lines, those with progress come first and the rest is a number.
 *
 * The view changes no mode of the terminal, so nothing is broken when the program is killed.
 * A line never takes more columns than the screen has, or redrawing it in place would fail.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/ctl/pull-list.h"
#include "agent/view/bar.h"

/* Makes the bar of an unfinished image. The texts are borrowed from the item, and from *note, which
 * the caller frees. */
int pull_report_bar(const PullItem *item, bool is_agent_away, unsigned tick, uint64_t now_usec,
                    Bar *ret, char **ret_note);

typedef struct ProgressView ProgressView;

/* Writes to the file, which is borrowed, and flushes it. retry_hint: the line below the images while one of
 * them waits for its next attempt; borrowed; NULL: there is none. */
int progress_view_new(FILE *file, size_t rows, size_t columns, bool has_full_ids,
                      const char *retry_hint, ProgressView **ret);
ProgressView *progress_view_free(ProgressView *view);

void progress_view_resize(ProgressView *view, size_t rows, size_t columns);

/* Writes the lines of images that have finished since the last call, and redraws the others. */
int progress_view_draw(ProgressView *view, PullList *list, bool is_agent_away, uint64_t now_usec);

/* Clears the lines that are drawn in place. */
void progress_view_clear(ProgressView *view);
