/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/progress-view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/ctl/failure.h"
#include "agent/ctl/format.h"
#include "agent/ctl/terminal.h"

#define GAP 2
#define STEP_WIDTH 11  /* "downloading" */
#define SHARE_WIDTH 14 /* "999.9/999.9 MB" */
#define RATE_WIDTH 10  /* "999.9 MB/s" */
#define LEFT_WIDTH 6   /* "59m59s" */
#define BAR_WIDTH_MIN 10
#define BAR_WIDTH_MAX 42
#define IDLE_SEC_MIN 5
#define LEFT_SEC_MAX (24 * 3600) /* a longer estimate says nothing */
#define NAME_WIDTH_MIN 16
#define BLOCK "<=>"
#define HINT_ROWS_MIN 4 /* no hint on a screen of this height or less */
#define USEC_PER_SEC ((uint64_t) 1000000)

/* The parts of a line, and the columns of the bar with its brackets. */
typedef struct Layout {
        bool has_step, has_share, has_rate, has_left;
        size_t bar_width;
} Layout;

size_t bar_name_width(size_t longest, size_t width) {
        size_t others = GAP + STEP_WIDTH + GAP + BAR_WIDTH_MIN + GAP + SHARE_WIDTH + GAP +
                        RATE_WIDTH + GAP + LEFT_WIDTH;
        size_t available = width > others + NAME_WIDTH_MIN ? width - others : NAME_WIDTH_MIN;

        if (available > width)
                available = width;
        return longest < available ? longest : available;
}

/* Takes the part's columns from the rest, if there are enough. */
static bool take(size_t *left, size_t width) {
        if (*left < GAP + width)
                return false;

        *left -= GAP + width;
        return true;
}

static Layout layout_bar(size_t name_width, size_t width) {
        size_t left = width > name_width ? width - name_width : 0;
        Layout layout = { .has_step = take(&left, STEP_WIDTH) };

        /* In the order of importance for a person. */
        layout.has_share = layout.has_step && take(&left, SHARE_WIDTH);
        if (layout.has_share && take(&left, BAR_WIDTH_MIN))
                layout.bar_width = BAR_WIDTH_MIN;
        layout.has_rate = layout.bar_width > 0 && take(&left, RATE_WIDTH);
        layout.has_left = layout.has_rate && take(&left, LEFT_WIDTH);

        if (layout.bar_width > 0)
                layout.bar_width += left;
        if (layout.bar_width > BAR_WIDTH_MAX)
                layout.bar_width = BAR_WIDTH_MAX;
        return layout;
}

static void fill_bytes(char *cells, size_t n, const Bar *bar) {
        double share =
                bar->bytes_total > 0 ? (double) bar->bytes_done / (double) bar->bytes_total : 0;
        size_t full = share >= 1 ? n : (size_t) (share * (double) n);

        memset(cells, ' ', n);
        memset(cells, '=', full);
        if (full > 0 && full < n)
                cells[full - 1] = '>';
}

/* Draws a block that moves to and fro. */
static void fill_moving(char *cells, size_t n, unsigned tick, char background) {
        size_t way = n - strlen(BLOCK);
        size_t at = tick % (2 * way);

        memset(cells, background, n);
        memcpy(cells + (at < way ? at : 2 * way - at), BLOCK, strlen(BLOCK));
}

static void put_bar(FILE *line, const Bar *bar, size_t width) {
        char cells[BAR_WIDTH_MAX];
        size_t n = width - 2;

        switch (bar->kind) {
        case BAR_NONE: memset(cells, ' ', n); break;
        case BAR_BYTES: fill_bytes(cells, n, bar); break;
        case BAR_MOVING:
        case BAR_SIZE_UNKNOWN: fill_moving(cells, n, bar->tick, ' '); break;
        case BAR_UNPACKING: fill_moving(cells, n, bar->tick, '='); break;
        case _BAR_KIND_MAX: break;
        }

        fprintf(line, "  [%.*s]", (int) n, cells);
}

static void put_share(FILE *line, const Bar *bar) {
        const char *text = "";
        FormatBuffer buffer;

        if (bar->kind == BAR_BYTES && bar->bytes_total > 0)
                text = format_share(bar->bytes_done, bar->bytes_total, &buffer);
        else if (bar->kind == BAR_UNPACKING && bar->bytes_done > 0)
                text = format_size(bar->bytes_done, &buffer);
        else if (bar->kind == BAR_SIZE_UNKNOWN)
                text = "size unknown";

        fprintf(line, "  %*s", SHARE_WIDTH, text);
}

static void put_rate(FILE *line, const Bar *bar) {
        FormatBuffer size, text = { "" };

        if (bar->bytes_per_sec > 0 && bar->kind == BAR_BYTES)
                snprintf(text.text, sizeof(text.text), "%s/s",
                         format_size(bar->bytes_per_sec, &size));

        fprintf(line, "  %*s", RATE_WIDTH, text.text);
}

static void put_left(FILE *line, const Bar *bar) {
        uint64_t left;

        if (bar->kind != BAR_BYTES || bar->bytes_per_sec == 0 ||
            bar->bytes_done >= bar->bytes_total)
                return;

        left = (bar->bytes_total - bar->bytes_done) / bar->bytes_per_sec + 1;
        if (left <= LEFT_SEC_MAX)
                fprintf(line, "  %s", format_duration(left, FORMAT_BUFFER));
}

/* In place of rate and time left, or of the rate alone. */
static void put_idle(FILE *line, const Bar *bar, bool has_left) {
        if (has_left)
                fprintf(line, "  no byte for %s", format_duration(bar->idle_sec, FORMAT_BUFFER));
        else
                fprintf(line, "  %*s", RATE_WIDTH, "0 B/s");
}

static void put_padded(FILE *line, const char *text, size_t width) {
        size_t used = terminal_text_width(text);

        fprintf(line, "%s%*s", text, used < width ? (int) (width - used) : 0, "");
}

static int write_line(FILE *line, const Bar *bar, size_t name_width, size_t width) {
        cleanup(free_p) char *name = terminal_text_fit_middle(bar->name, name_width);
        cleanup(free_p) char *step = terminal_text_fit_end(bar->step, STEP_WIDTH);
        Layout layout = layout_bar(name_width, width);

        if (!name || !step)
                return -1;

        put_padded(line, name, name_width);
        if (layout.has_step) {
                fputs("  ", line);
                put_padded(line, step, STEP_WIDTH);
        }

        if (bar->kind == BAR_NONE) {
                if (layout.has_step && bar->note)
                        fprintf(line, "  %s", bar->note);
                return 0;
        }

        if (layout.bar_width > 0)
                put_bar(line, bar, layout.bar_width);
        if (layout.has_share)
                put_share(line, bar);
        if (layout.has_rate && bar->idle_sec > 0) {
                put_idle(line, bar, layout.has_left);
                return 0;
        }

        if (layout.has_rate)
                put_rate(line, bar);
        if (layout.has_left)
                put_left(line, bar);
        return 0;
}

char *bar_draw(const Bar *bar, size_t name_width, size_t width) {
        cleanup(free_p) char *text = NULL;
        size_t size;
        FILE *line;
        int r;

        line = open_memstream(&text, &size);
        if (!line)
                return NULL;

        r = write_line(line, bar, name_width < width ? name_width : width, width);
        if (fclose(line) != 0 || r < 0)
                return NULL;

        while (size > 0 && text[size - 1] == ' ')
                text[--size] = '\0';
        return terminal_text_fit_end(text, width);
}

static const char *step_to_string(Inplaced__V1__Step step) {
        switch (step) {
        case INPLACED__V1__STEP__STEP_QUEUED: return "queued";
        case INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME: return "waiting";
        case INPLACED__V1__STEP__STEP_INSPECTING: return "inspecting";
        case INPLACED__V1__STEP__STEP_RESOLVING: return "resolving";
        case INPLACED__V1__STEP__STEP_DOWNLOADING: return "downloading";
        case INPLACED__V1__STEP__STEP_UNPACKING: return "unpacking";
        case INPLACED__V1__STEP__STEP_BACKING_OFF: return "retrying";
        case INPLACED__V1__STEP__STEP_WAITING_FOR_DISK: return "disk full";
        default: return "asking";
        }
}

static BarKind bar_kind(const PullItem *item) {
        switch (item->step) {
        case INPLACED__V1__STEP__STEP_DOWNLOADING:
                return item->bytes_total > 0 ? BAR_BYTES : BAR_SIZE_UNKNOWN;
        case INPLACED__V1__STEP__STEP_UNPACKING: return BAR_UNPACKING;
        case INPLACED__V1__STEP__STEP_RESOLVING: return BAR_MOVING;
        default: return BAR_NONE;
        }
}

/* Numbers of the disk are worth more than advice about it. */
static char *note_of(const PullItem *item, uint64_t now_usec) {
        cleanup(free_p) char *summary = failure_summary(item->message);
        uint64_t rest_usec = item->retry_usec > now_usec ? item->retry_usec - now_usec : 0;
        char *note;

        if (item->step == INPLACED__V1__STEP__STEP_WAITING_FOR_DISK)
                return strdup(item->message);
        if (!summary || item->step != INPLACED__V1__STEP__STEP_BACKING_OFF)
                return take_ptr(summary);

        return asprintf(&note, "next attempt in %s; %s",
                        format_age((rest_usec + USEC_PER_SEC - 1) / USEC_PER_SEC, FORMAT_BUFFER),
                        summary) < 0
                       ? NULL
                       : note;
}

/* Only while waiting for bytes. */
static uint64_t idle_sec_of(const PullItem *item, uint64_t now_usec) {
        uint64_t idle_sec = (now_usec - item->moved_usec) / USEC_PER_SEC;

        return bar_kind(item) == BAR_BYTES && item->bytes_done < item->bytes_total &&
                               item->moved_usec > 0 && idle_sec >= IDLE_SEC_MIN
                       ? idle_sec
                       : 0;
}

int pull_report_bar(const PullItem *item, bool is_agent_away, unsigned tick, uint64_t now_usec,
                    Bar *ret, char **ret_note) {

        cleanup(free_p) char *text =
                is_agent_away ? strdup("connecting again") : note_of(item, now_usec);
        char *note;

        note = text ? terminal_text_escape(text) : NULL;
        if (!note)
                return -ENOMEM;

        *ret = (Bar){
                .kind = is_agent_away ? BAR_NONE : bar_kind(item),
                .name = item->label,
                .step = is_agent_away ? "agent away" : step_to_string(item->step),
                .note = note,
                .bytes_done = item->bytes_done,
                .bytes_total = item->bytes_total,
                .bytes_per_sec = rate_get(&item->rate),
                .idle_sec = idle_sec_of(item, now_usec),
                .tick = tick,
        };
        *ret_note = note;
        return 0;
}

struct ProgressView {
        FILE *file;
        size_t rows;
        size_t columns;
        bool has_full_ids;
        const char *retry_hint;
        unsigned tick;
        size_t *widths; /* columns of the lines that are drawn in place */
        size_t n_lines;
        size_t n_lines_max;
};

int progress_view_new(FILE *file, size_t rows, size_t columns, bool has_full_ids,
                      const char *retry_hint, ProgressView **ret) {

        ProgressView *view = malloc(sizeof(*view));

        if (!view)
                return -ENOMEM;

        *view = (ProgressView){
                .file = file,
                .has_full_ids = has_full_ids,
                .retry_hint = retry_hint,
        };
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

/* Moves back to the first line. A terminal that became narrower has wrapped lines, and the screen
 * may have become too low for all of them. */
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

/* Leaves one column free: a terminal that has written into the last one may be on the next line. */
static int put_item(ProgressView *view, const PullItem *item, bool is_agent_away, size_t name_width,
                    uint64_t now_usec) {

        cleanup(free_p) char *note = NULL, *line = NULL;
        Bar bar;
        int r;

        r = pull_report_bar(item, is_agent_away, view->tick, now_usec, &bar, &note);
        if (r < 0)
                return r;

        line = bar_draw(&bar, name_width, view->columns - 1);
        if (!line)
                return -ENOMEM;

        return put_line(view, line);
}

static int put_text(ProgressView *view, const char *text) {
        cleanup(free_p) char *line = terminal_text_fit_end(text, view->columns - 1);

        return line ? put_line(view, line) : -ENOMEM;
}

static int put_rest(ProgressView *view, size_t n) {
        char text[40];

        (void) snprintf(text, sizeof(text), "and %zu more", n);
        return put_text(view, text);
}

static bool is_moving(const PullItem *item) {
        return item->phase == INPLACED__V1__PHASE__PHASE_PULLING;
}

/* Returns the number of lines for images: the cursor needs one, and so do the hint and the number
 * of the rest, if present. */
static size_t n_lines_for(const ProgressView *view, size_t n_unfinished, bool has_hint) {
        size_t available = view->rows - 1 - has_hint;

        return n_unfinished <= available ? n_unfinished : available - 1;
}

static int put_items(ProgressView *view, const PullList *list, bool is_agent_away,
                     size_t name_width, uint64_t now_usec, size_t n_lines) {

        for (int turn = 0; turn < 2; turn++)
                for (size_t i = 0; i < list->n_items && view->n_lines < n_lines; i++) {
                        const PullItem *item = &list->items[i];
                        int r;

                        if (pull_item_is_finished(item) || is_moving(item) != (turn == 0))
                                continue;

                        r = put_item(view, item, is_agent_away, name_width, now_usec);
                        if (r < 0)
                                return r;
                }

        return 0;
}

static int put_unfinished(ProgressView *view, const PullList *list, bool is_agent_away,
                          size_t name_width, uint64_t now_usec) {

        bool has_hint = view->retry_hint && view->rows > HINT_ROWS_MIN && !is_agent_away &&
                        pull_list_count_step(list, INPLACED__V1__STEP__STEP_BACKING_OFF) > 0;
        size_t n_unfinished = 0, n_lines;
        int r;

        for (size_t i = 0; i < list->n_items; i++)
                n_unfinished += !pull_item_is_finished(&list->items[i]);

        n_lines = n_lines_for(view, n_unfinished, has_hint);
        r = put_items(view, list, is_agent_away, name_width, now_usec, n_lines);
        if (r >= 0 && n_lines < n_unfinished)
                r = put_rest(view, n_unfinished - n_lines);
        return r >= 0 && has_hint ? put_text(view, view->retry_hint) : r;
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
        for (size_t i = 0; i < list->n_items; i++) {
                PullItem *item = &list->items[i];

                if (bar_kind(item) == BAR_BYTES)
                        rate_update(&item->rate, now_usec, item->bytes_done);
                else
                        item->rate = RATE_INIT;
        }
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

        r = put_unfinished(view, list, is_agent_away, name_width, now_usec);
        if (r < 0)
                return r;

        (void) fflush(view->file);
        return 0;
}

void progress_view_clear(ProgressView *view) {
        go_back(view);
        (void) fflush(view->file);
}
