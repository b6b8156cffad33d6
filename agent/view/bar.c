/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/bar.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/view/format.h"
#include "agent/view/terminal.h"

#define GAP 2
#define STEP_WIDTH 11  /* "downloading" */
#define SHARE_WIDTH 14 /* "999.9/999.9 MB" */
#define RATE_WIDTH 10  /* "999.9 MB/s" */
#define LEFT_WIDTH 6   /* "59m59s" */
#define BAR_WIDTH_MIN 10
#define BAR_WIDTH_MAX 42
#define LEFT_SEC_MAX (24 * 3600) /* a longer estimate says nothing */
#define NAME_WIDTH_MIN 16
#define BLOCK "<=>"

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
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): cells are no string */
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

/* Stands in place of rate and time left, or of the rate alone. */
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

        line = text_open(&text, &size);
        if (!line)
                return NULL;

        r = write_line(line, bar, name_width < width ? name_width : width, width);
        if (text_close(line, &text) < 0 || r < 0)
                return NULL;

        while (size > 0 && text[size - 1] == ' ')
                text[--size] = '\0';
        return terminal_text_fit_end(text, width);
}
