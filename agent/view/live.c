/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/view/terminal.h"

#define ROWS_MIN 2
#define COLUMNS_MIN 2

void live_init(Live *live, FILE *file) {
        *live = (Live){ .file = file, .rows = ROWS_MIN, .columns = COLUMNS_MIN };
}

void live_done(Live *live) {
        if (live->frame)
                (void) fclose(live->frame);
        free(live->text);
        free(live->widths);
        *live = (Live){ .file = NULL };
}

void live_resize(Live *live, size_t rows, size_t columns) {
        live->rows = rows > ROWS_MIN ? rows : ROWS_MIN;
        live->columns = columns > COLUMNS_MIN ? columns : COLUMNS_MIN;
}

void live_measure(Live *live) {
        size_t rows, columns;

        terminal_get_size(&rows, &columns);
        live_resize(live, rows, columns);
}

/* An empty line takes a row as well. */
static size_t rows_of(const Live *live, size_t width) {
        return width > 0 ? (width - 1) / live->columns + 1 : 1;
}

/* Moves to the first of the lines that do not stay, and clears from there. */
static void go_back(Live *live, size_t n_kept) {
        size_t n = 0;

        if (live->n_lines <= n_kept)
                return;

        for (size_t i = n_kept; i < live->n_lines; i++)
                n += rows_of(live, live->widths[i]);

        if (n > live->rows - 1)
                n = live->rows - 1;
        fprintf(live->file, "\r\x1b[%zuA\x1b[J", n);
        live->n_lines = n_kept;
}

int live_begin(Live *live, size_t n_kept, FILE **ret) {
        live->n_kept = n_kept;
        live->frame = text_open(&live->text, &live->size);
        if (!live->frame)
                return -ENOMEM;

        *ret = live->frame;
        return 0;
}

/* Notes the widths of the frame's lines, which it cuts apart. */
static int note_widths(Live *live, char *text) {
        size_t n = live->n_kept;
        size_t *widths;

        for (const char *p = text; (p = strchr(p, '\n')); p++)
                n++;

        widths = reallocarray(live->widths, n + 1, sizeof(*widths));
        if (!widths)
                return -ENOMEM;

        live->widths = widths;
        for (char *line; live->n_lines < n && (line = strsep(&text, "\n"));)
                live->widths[live->n_lines++] = terminal_text_width(line);
        return 0;
}

int live_end(Live *live) {
        cleanup(free_p) char *text = NULL;
        int r;

        r = text_close(take_ptr(live->frame), &live->text);
        if (r < 0)
                return r;

        text = take_ptr(live->text);
        go_back(live, live->n_kept);
        (void) fputs(text, live->file);
        (void) fflush(live->file);
        return note_widths(live, text);
}

size_t live_count_rows(Live *live) {
        size_t n = 0;

        (void) fflush(live->frame);
        for (char *line = live->text, *end; (end = strchr(line, '\n')); line = end + 1) {
                *end = '\0';
                n += rows_of(live, terminal_text_width(line));
                *end = '\n';
        }
        return n;
}

void live_clear(Live *live) {
        go_back(live, 0);
        (void) fflush(live->file);
}

void live_leave(Live *live) {
        live->n_lines = 0;
}
