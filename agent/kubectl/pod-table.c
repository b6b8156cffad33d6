/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/pod-table.h"

#include <stdio.h>

#include "agent/view/format.h"
#include "agent/view/terminal.h"

#define LINES_AROUND 4u /* the title, the line below, the cursor, and the command above */
#define ROWS_MIN 3u

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "POD", .may_be_cut = true, .keeps_tail = true },
        { .title = "NODE", .may_be_cut = true },
        { .title = "PHASE" },
        { .title = "IMAGE", .may_be_cut = true, .keeps_tail = true, .is_optional = true },
        { .title = "SINCE", .is_right = true },
};
/* clang-format on */

bool pod_table_is_possible(void) {
        return terminal_is_capable();
}

PodTable pod_table_init(void) {
        PodTable table = { .rows = NULL };

        live_init(&table.live, stdout);
        return table;
}

int pod_table_begin(PodTable *table) {
        size_t n_lines;

        live_measure(&table->live);
        n_lines = table->live.rows;
        table->n_rows = 0;
        table->n_rows_max = n_lines > LINES_AROUND + ROWS_MIN ? n_lines - LINES_AROUND : ROWS_MIN;
        table->rows = table_free(table->rows);
        return table_new(columns, sizeof(columns) / sizeof(columns[0]), /* is_wide= */ false,
                         &table->rows);
}

size_t pod_table_room(const PodTable *table) {
        return table->n_rows_max - table->n_rows;
}

int pod_table_add(PodTable *table, const char *pod, const char *node, const char *phase,
                  const char *image, int64_t since_sec) {
        FormatBuffer since;

        if (pod_table_room(table) == 0)
                return 0;

        table->n_rows++;
        return table_add_row(table->rows,
                             (const char *[]){ pod, node, phase, image,
                                               format_age(since_sec > 0 ? (uint64_t) since_sec : 0,
                                                          &since) });
}

int pod_table_draw(PodTable *table, const char *line) {
        FILE *frame;
        int r;

        r = live_begin(&table->live, 0, &frame);
        if (r >= 0)
                r = table_print_to(table->rows, frame);
        if (r >= 0)
                r = print_cut_to(frame, line);
        return r < 0 ? r : live_end(&table->live);
}

bool pod_table_is_drawn(const PodTable *table) {
        return table->live.n_lines > 0;
}

int pod_table_draw_line(PodTable *table, const char *line) {
        FILE *frame;
        int r;

        if (!pod_table_is_drawn(table))
                return 0;

        r = live_begin(&table->live, table->live.n_lines - 1, &frame);
        if (r >= 0)
                r = print_cut_to(frame, line);
        return r < 0 ? r : live_end(&table->live);
}

void pod_table_leave(PodTable *table) {
        live_leave(&table->live);
        (void) fflush(stdout);
}

void pod_table_done(PodTable *table) {
        table->rows = table_free(table->rows);
        live_done(&table->live);
}
