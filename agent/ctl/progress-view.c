/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/progress-view.h"

#include <errno.h>

#include "agent/ctl/bar.h"
#include "agent/ctl/pull-report.h"
#include "agent/ctl/terminal.h"

struct ProgressView {
        FILE *file;
        size_t rows;
        size_t columns;
        bool has_full_ids;
        unsigned tick;
        size_t *widths; /* of the lines that were drawn and can be drawn over */
        size_t n_lines;
        size_t n_lines_max;
};

int progress_view_new(FILE *file, size_t rows, size_t columns, bool has_full_ids,
                      ProgressView **ret) {

        ProgressView *view = malloc(sizeof(*view));

        if (!view)
                return -ENOMEM;

        *view = (ProgressView){ .file = file, .has_full_ids = has_full_ids };
        progress_view_resize(view, rows, columns);

        *ret = view;
        return 0;
}

ProgressView *progress_view_free(ProgressView *view) {
        if (!view)
                return NULL;

        free(view->widths);
        free(view);
        return NULL;
}

void progress_view_resize(ProgressView *view, size_t rows, size_t columns) {
        view->rows = rows > 2 ? rows : 2;
        view->columns = columns > 2 ? columns : 2;
}

/* Back to the first of the lines. A terminal that has become narrower has broken them in several,
 * and the screen may have become too low for all of them. */
static void go_back(ProgressView *view) {
        size_t n = 0;

        if (view->n_lines == 0)
                return;

        for (size_t i = 0; i < view->n_lines; i++)
                n += view->widths[i] > 0 ? (view->widths[i] - 1) / view->columns + 1 : 1;

        if (n > view->rows - 1)
                n = view->rows - 1;
        if (n > 0)
                fprintf(view->file, "\x1b[%zuA", n);
        fputs("\r\x1b[J", view->file);
        view->n_lines = 0;
}

static int put_line(ProgressView *view, const char *line) {
        if (view->n_lines == view->n_lines_max) {
                size_t n = 2 * view->n_lines_max + 8;
                size_t *widths = reallocarray(view->widths, n, sizeof(*widths));

                if (!widths)
                        return -ENOMEM;
                view->widths = widths;
                view->n_lines_max = n;
        }

        view->widths[view->n_lines++] = terminal_text_width(line);
        fprintf(view->file, "%s\n", line);
        return 0;
}

static int put_finished(ProgressView *view, PullList *list, size_t name_width) {
        const PullReportStyle style = {
                .name_width = name_width,
                .has_full_id = view->has_full_ids,
        };

        for (size_t i = 0; i < list->n_items; i++) {
                cleanup(free_p) char *line = NULL;
                PullItem *item = &list->items[i];

                if (item->is_printed || !pull_item_is_finished(item))
                        continue;

                line = pull_report_line(item, &style);
                if (!line)
                        return -ENOMEM;

                fprintf(view->file, "%s\n", line);
                item->is_printed = true;
        }

        return 0;
}

/* One column stays free: a terminal that has written into the last one may be on the next line. */
static int put_item(ProgressView *view, const PullItem *item, bool is_agent_away,
                    size_t name_width) {

        cleanup(free_p) char *note = NULL, *line = NULL;
        Bar bar;
        int r;

        r = pull_report_bar(item, is_agent_away, view->tick, &bar, &note);
        if (r < 0)
                return r;

        line = bar_draw(&bar, name_width, view->columns - 1);
        if (!line)
                return -ENOMEM;

        return put_line(view, line);
}

static int put_rest(ProgressView *view, size_t n) {
        cleanup(free_p) char *text = NULL, *line = NULL;

        if (asprintf(&text, "and %zu more", n) < 0)
                return -ENOMEM;

        line = terminal_text_fit_end(text, view->columns - 1);
        return line ? put_line(view, line) : -ENOMEM;
}

static bool is_moving(const PullItem *item) {
        return item->phase == INPLACED__V1__PHASE__PHASE_PULLING;
}

/* How many lines there may be: the cursor needs one, and the number of the rest, if there is one. */
static size_t n_lines_for(const ProgressView *view, size_t n_unfinished) {
        size_t available = view->rows - 1;

        return n_unfinished <= available ? n_unfinished : available - 1;
}

static int put_unfinished(ProgressView *view, const PullList *list, bool is_agent_away,
                          size_t name_width) {

        size_t n_unfinished = 0, n_lines;

        for (size_t i = 0; i < list->n_items; i++)
                n_unfinished += !pull_item_is_finished(&list->items[i]);

        n_lines = n_lines_for(view, n_unfinished);
        for (int turn = 0; turn < 2; turn++)
                for (size_t i = 0; i < list->n_items && view->n_lines < n_lines; i++) {
                        const PullItem *item = &list->items[i];
                        int r;

                        if (pull_item_is_finished(item) || is_moving(item) != (turn == 0))
                                continue;

                        r = put_item(view, item, is_agent_away, name_width);
                        if (r < 0)
                                return r;
                }

        return n_lines < n_unfinished ? put_rest(view, n_unfinished - n_lines) : 0;
}

static size_t longest_label(const PullList *list) {
        size_t longest = 0;

        for (size_t i = 0; i < list->n_items; i++) {
                size_t width = terminal_text_width(list->items[i].label);

                if (width > longest)
                        longest = width;
        }

        return longest;
}

static void update_rates(PullList *list, uint64_t now_usec) {
        for (size_t i = 0; i < list->n_items; i++)
                if (!pull_item_is_finished(&list->items[i]))
                        rate_update(&list->items[i].rate, now_usec, list->items[i].bytes_done);
}

int progress_view_draw(ProgressView *view, PullList *list, bool is_agent_away, uint64_t now_usec) {
        size_t name_width = bar_name_width(longest_label(list), view->columns - 1);
        int r;

        update_rates(list, now_usec);
        view->tick++;

        go_back(view);
        r = put_finished(view, list, name_width);
        if (r < 0)
                return r;

        r = put_unfinished(view, list, is_agent_away, name_width);
        if (r < 0)
                return r;

        (void) fflush(view->file);
        return 0;
}

void progress_view_clear(ProgressView *view) {
        go_back(view);
        (void) fflush(view->file);
}
