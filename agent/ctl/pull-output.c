/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/pull-output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/progress-view.h"
#include "agent/ctl/pull-report.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "agent/image/pull-reason.h"

#define REDRAW_USEC 125000

struct PullOutput {
        const Options *options;
        PullList *list;
        ProgressView *view; /* NULL unless progress is shown */
        sd_event_source *redraw;
        sd_event_source *resize;
        bool is_away;
};

static int draw(PullOutput *output) {
        return progress_view_draw(output->view, output->list, output->is_away,
                                  clock_monotonic_usec());
}

static int on_redraw(sd_event_source *source, uint64_t usec, void *userdata) {
        int r;

        r = draw(userdata);
        if (r < 0)
                return r;

        r = sd_event_source_set_time_relative(source, REDRAW_USEC);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int on_resize(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {

        PullOutput *output = userdata;
        size_t rows, columns;

        terminal_get_size(STDOUT_FILENO, &rows, &columns);
        progress_view_resize(output->view, rows, columns);
        return draw(output);
}

static int show_progress(PullOutput *output, sd_event *event) {
        size_t rows, columns;
        int r;

        terminal_get_size(STDOUT_FILENO, &rows, &columns);
        r = progress_view_new(stdout, rows, columns, output->options->format == OUTPUT_WIDE,
                              &output->view);
        if (r < 0)
                return r;

        r = loop_add_time_relative(event, &output->redraw, CLOCK_MONOTONIC, REDRAW_USEC, 0,
                                   on_redraw, output);
        if (r < 0)
                return r;

        return loop_add_signal(event, &output->resize, SIGWINCH, on_resize, output);
}

static bool wants_progress(const Options *options) {
        return options_wants_table(options) && !options->quiet && !options->no_wait &&
               terminal_is_capable(STDOUT_FILENO);
}

int pull_output_new(sd_event *event, const Options *options, PullList *list, PullOutput **ret) {
        cleanup(pull_output_free_p) PullOutput *output = NULL;
        int r;

        output = malloc(sizeof(*output));
        if (!output)
                return -ENOMEM;

        *output = (PullOutput){ .options = options, .list = list };
        if (wants_progress(options)) {
                r = show_progress(output, event);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(output);
        return 0;
}

PullOutput *pull_output_free(PullOutput *output) {
        if (!output)
                return NULL;

        sd_event_source_disable_unref(output->resize);
        sd_event_source_disable_unref(output->redraw);
        progress_view_free(output->view);
        free(output);
        return NULL;
}

void pull_output_set_away(PullOutput *output, bool is_away) {
        if (is_away && !output->is_away && !output->view)
                complain("inplaced went away, connecting again");
        output->is_away = is_away;
}

static int print_id(const PullItem *item) {
        cleanup(free_p) char *id = terminal_text_escape(item->image_id);

        if (!id)
                return -ENOMEM;

        if (item->phase == INPLACED__V1__PHASE__PHASE_SUCCEEDED)
                printf("%s\n", id);
        else if (item->phase == INPLACED__V1__PHASE__PHASE_FAILED)
                complain("%s: %s: %s", item->image, item->reason, item->message);
        return 0;
}

static int print_line(const PullItem *item) {
        cleanup(free_p) char *line = NULL;

        line = pull_report_line(item, &(PullReportStyle){ .has_full_id = true });
        if (!line)
                return -ENOMEM;

        puts(line);
        return 0;
}

static int print_items(PullOutput *output, bool with_unfinished) {
        for (size_t i = 0; i < output->list->n_items; i++) {
                PullItem *item = &output->list->items[i];
                int r;

                if (item->is_printed || !(with_unfinished || pull_item_is_finished(item)))
                        continue;

                r = output->options->quiet ? print_id(item) : print_line(item);
                if (r < 0)
                        return r;

                item->is_printed = true;
        }

        (void) fflush(stdout); /* whoever reads it wants the line now */
        return 0;
}

int pull_output_update(PullOutput *output) {
        if (output->view)
                return draw(output);

        return options_wants_table(output->options) ? print_items(output, false) : 0;
}

int pull_output_finish(PullOutput *output) {
        cleanup(json_put_p) json_object *tree = NULL;

        if (output->view)
                return draw(output);
        if (options_wants_table(output->options))
                return print_items(output, true);

        tree = pull_report_json(output->list);
        return tree ? output_tree(output->options->format, tree) : -ENOMEM;
}

int pull_output_abandon(PullOutput *output) {
        if (!options_wants_table(output->options))
                return pull_output_finish(output);

        if (output->view)
                progress_view_clear(output->view);
        return 0;
}

/* The first one that failed, and whether all of them failed for the same reason. */
static const PullItem *failed_item(const PullList *list, bool *ret_is_same) {
        const PullItem *first = NULL;

        *ret_is_same = true;
        for (size_t i = 0; i < list->n_items; i++) {
                const PullItem *item = &list->items[i];

                if (item->phase != INPLACED__V1__PHASE__PHASE_FAILED)
                        continue;
                if (!first)
                        first = item;
                else if (strcmp(first->reason, item->reason) != 0)
                        *ret_is_same = false;
        }

        return first;
}

void pull_output_print_summary(const PullList *list) {
        size_t n_failed = pull_list_count(list, INPLACED__V1__PHASE__PHASE_FAILED);
        const PullItem *failed;
        const char *advice;
        bool is_same;

        failed = failed_item(list, &is_same);
        if (!failed)
                return;

        advice = is_same ? pull_reason_advice(pull_reason_from_string(failed->reason))
                         : "see the reason of each";
        if (n_failed == 1)
                complain("cannot pull %s: %s; %s", failed->image, failed->reason, advice);
        else
                complain("%zu of %zu images failed; %s", n_failed, list->n_items, advice);
}
