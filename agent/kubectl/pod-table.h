/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A table of pods on a terminal, with a line below it, which is drawn again in place
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/view/live.h"
#include "agent/view/table.h"

typedef struct PodTable {
        Live live;
        Table *rows; /* rows of the next drawing; NULL: it has not begun */
        size_t n_rows, n_rows_max;
} PodTable;

/* Whether stdout is a terminal on which this works. */
bool pod_table_is_possible(void);

PodTable pod_table_init(void);

/* Begins a drawing, which has as many rows as the terminal has room for. */
int pod_table_begin(PodTable *table);
size_t pod_table_room(const PodTable *table);
/* Ignored where there is no room. image: "-": it is not shown, if no pod has another. Copied. */
int pod_table_add(PodTable *table, const char *pod, const char *node, const char *phase,
                  const char *image, int64_t since_sec);
/* Replaces the last drawing. */
int pod_table_draw(PodTable *table, const char *line);

/* Whether there is a drawing, which the next one replaces. */
bool pod_table_is_drawn(const PodTable *table);

/* Replaces only the line, if there is a drawing. */
int pod_table_draw_line(PodTable *table, const char *line);

/* Leaves it as it is: the next output stands below. */
void pod_table_leave(PodTable *table);

void pod_table_done(PodTable *table);
