/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/progress-view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/ctl/message-json.h"
#include "agent/view/failure.h"
#include "agent/view/format.h"
#include "agent/view/live.h"
#include "agent/view/pulls-view.h"
#include "agent/view/terminal.h"

#define IDLE_SEC_MIN 5
#define HINT_ROWS_MIN 4 /* no hint on a screen of this height or less */

/* A step of a newer agent is none that this program knows. */
static const char *step_to_string(Inplaced__V1__Step step) {
        const ProtobufCEnumDescriptor *type = &inplaced__v1__step__descriptor;
        bool is_known = step != INPLACED__V1__STEP__STEP_UNSPECIFIED &&
                        protobuf_c_enum_descriptor_get_value(type, step);

        return pull_step_word(is_known ? enum_to_text(type, step, FORMAT_BUFFER) : "");
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

/* Numbers of the disk, and a pod's name, are worth more than advice about them. */
static char *note_of(const PullItem *item, uint64_t now_usec) {
        cleanup(free_p) char *summary = failure_summary(item->message);
        uint64_t rest_usec = item->retry_usec > now_usec ? item->retry_usec - now_usec : 0;
        char *note;

        if (item->step == INPLACED__V1__STEP__STEP_WAITING_FOR_DISK ||
            item->step == INPLACED__V1__STEP__STEP_WAITING_FOR_POD)
                return strdup(item->message);
        if (!summary || item->step != INPLACED__V1__STEP__STEP_BACKING_OFF)
                return take_ptr(summary);

        (void) text_format(&note, "next attempt in %s; %s",
                           format_age((rest_usec + USEC_PER_SEC - 1) / USEC_PER_SEC, FORMAT_BUFFER),
                           summary);
        return note;
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
        Live live;
        bool has_full_ids;
        const char *retry_hint;
        unsigned tick;
};

int progress_view_new(FILE *file, size_t rows, size_t columns, bool has_full_ids,
                      const char *retry_hint, ProgressView **ret) {

        ProgressView *view = malloc(sizeof(*view));

        if (!view)
                return -ENOMEM;

        *view = (ProgressView){ .has_full_ids = has_full_ids, .retry_hint = retry_hint };
        live_init(&view->live, file);
        live_resize(&view->live, rows, columns);

        *ret = view;
        return 0;
}

ProgressView *progress_view_free(ProgressView *view) {
        if (!view)
                return NULL;

        live_done(&view->live);
        free(view);
        return NULL;
}

void progress_view_resize(ProgressView *view, size_t rows, size_t columns) {
        live_resize(&view->live, rows, columns);
}

/* Takes the line over; NULL: no memory. */
static int put_line(FILE *frame, char *line) {
        cleanup(free_p) char *owned = line;

        if (!owned)
                return -ENOMEM;

        fprintf(frame, "%s\n", owned);
        return 0;
}

static int put_finished(ProgressView *view, PullList *list, size_t name_width) {
        const PullReportStyle style = {
                .name_width = name_width,
                .has_full_id = view->has_full_ids,
        };

        for (size_t i = 0; i < list->n_items; i++) {
                PullItem *item = &list->items[i];
                int r;

                if (item->is_printed || !pull_item_is_finished(item))
                        continue;

                r = put_line(view->live.file, pull_report_line(item, &style));
                if (r < 0)
                        return r;

                item->is_printed = true;
        }

        return 0;
}

/* Leaves one column free: a terminal that has written into the last one may be on the next line. */
static int put_item(const ProgressView *view, FILE *frame, const PullItem *item, bool is_agent_away,
                    size_t name_width, uint64_t now_usec) {

        cleanup(free_p) char *note = NULL;
        Bar bar;
        int r;

        r = pull_report_bar(item, is_agent_away, view->tick, now_usec, &bar, &note);
        return r < 0 ? r : put_line(frame, bar_draw(&bar, name_width, view->live.columns - 1));
}

static int put_text(const ProgressView *view, FILE *frame, const char *text) {
        return put_line(frame, terminal_text_fit_end(text, view->live.columns - 1));
}

static bool is_moving(const PullItem *item) {
        return item->phase == INPLACED__V1__PHASE__PHASE_PULLING;
}

/* Returns the number of lines for images: the cursor needs one, and so do the hint and the number
 * of the rest, if present. */
static size_t n_lines_for(const ProgressView *view, size_t n_unfinished, bool has_hint) {
        size_t available = view->live.rows - 1 - has_hint;

        return n_unfinished <= available ? n_unfinished : available - 1;
}

static int put_items(const ProgressView *view, FILE *frame, const PullList *list,
                     bool is_agent_away, size_t name_width, uint64_t now_usec, size_t n_lines) {

        for (int turn = 0; turn < 2; turn++)
                for (size_t i = 0; n_lines > 0 && i < list->n_items; i++) {
                        const PullItem *item = &list->items[i];
                        int r;

                        if (pull_item_is_finished(item) || is_moving(item) != (turn == 0))
                                continue;

                        r = put_item(view, frame, item, is_agent_away, name_width, now_usec);
                        if (r < 0)
                                return r;
                        n_lines--;
                }

        return 0;
}

static int put_unfinished(const ProgressView *view, FILE *frame, const PullList *list,
                          bool is_agent_away, size_t name_width, uint64_t now_usec) {

        bool has_hint = view->retry_hint && view->live.rows > HINT_ROWS_MIN && !is_agent_away &&
                        pull_list_count_step(list, INPLACED__V1__STEP__STEP_BACKING_OFF) > 0;
        size_t n_unfinished = 0, n_lines;
        int r;

        for (size_t i = 0; i < list->n_items; i++)
                n_unfinished += !pull_item_is_finished(&list->items[i]);

        n_lines = n_lines_for(view, n_unfinished, has_hint);
        r = put_items(view, frame, list, is_agent_away, name_width, now_usec, n_lines);
        if (r >= 0 && n_lines < n_unfinished) {
                char more[40];

                (void) snprintf(more, sizeof(more), "and %zu more", n_unfinished - n_lines);
                r = put_text(view, frame, more);
        }
        return r >= 0 && has_hint ? put_text(view, frame, view->retry_hint) : r;
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
        size_t name_width = bar_name_width(longest_label(list), view->live.columns - 1);
        FILE *frame;
        int r;

        update_rates(list, now_usec);
        view->tick++;

        live_clear(&view->live);
        r = put_finished(view, list, name_width);
        if (r >= 0)
                r = live_begin(&view->live, 0, &frame);
        if (r >= 0)
                r = put_unfinished(view, frame, list, is_agent_away, name_width, now_usec);
        return r < 0 ? r : live_end(&view->live);
}

void progress_view_clear(ProgressView *view) {
        live_clear(&view->live);
}
