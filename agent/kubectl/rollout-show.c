/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-show.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/text.h"
#include "agent/ctl/format.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-pod-plan.h"

#define QUIET_SEC 5 /* before it is said what is awaited */
#define SAY_AGAIN_SEC 30
#define LINES_AROUND 4u /* the title, the sum, the cursor, and the command above */
#define ROWS_MIN 3u

static int64_t clock_sec(void) {
        return (int64_t) (clock_monotonic_usec() / 1000000);
}

int rollout_show_init(RolloutShow *ret) {
        *ret = (RolloutShow){ .pods = json_object_new_object(), .progress_sec = clock_sec() };
        return ret->pods ? 0 : -ENOMEM;
}

int64_t rollout_show_still_sec(const RolloutShow *show) {
        return clock_sec() - show->progress_sec;
}

void rollout_show_done(RolloutShow *show) {
        json_object_put(show->pods);
}

/* Changes, and their times */

static int note_phase(RolloutShow *show, const RolloutView *view, json_object *record,
                      json_object *pod, RolloutPhase phase) {
        cleanup(json_object_put_p) json_object *entry =
                patch_wrap("phase", json_object_new_string(rollout_phase_to_string(phase)));
        int64_t restarts = pod_restarts(pod, record_target(record));
        json_object *before = json_get(show->pods, object_name(pod), json_type_object), *first;

        if (!json_object_object_get_ex(before, "first", &first))
                first = NULL;
        first = first ? json_object_get(first) : json_object_new_int64(restarts);
        show->progress_sec = clock_sec();
        if (!entry || patch_add(entry, "first", first) < 0 ||
            patch_add(entry, "since", json_object_new_int64(view->now_sec)) < 0 ||
            (phase == ROLLOUT_UPDATED &&
             patch_add(entry, "restarts", json_object_new_int64(restarts)) < 0))
                return -ENOMEM;
        return patch_add(show->pods, object_name(pod), take_ptr(entry));
}

/* Whether a line is worth it; without a terminal there is one for each change. */
static bool is_news(RolloutPhase phase, const char *before) {
        return phase != ROLLOUT_LEFT && phase != ROLLOUT_OLD &&
               (before || phase != ROLLOUT_UPDATED);
}

static int note_pods(RolloutShow *show, const RolloutView *view, json_object *record, bool is_live,
                     bool *ret_has_changed) {
        json_object_object_foreach(view->pods, name, pod) {
                RolloutPhase now = rollout_phase(view, record, pod);
                cleanup(free_p) char *reason = NULL;
                const char *phase, *before;

                phase = rollout_phase_to_string(now);
                before = json_get_text(json_get(show->pods, name, json_type_object), "phase");
                if (text_equal(before, phase))
                        continue;
                if (rollout_explain(view, record, pod, &reason) < 0)
                        return -ENOMEM;
                if (!is_live && !show->is_quiet && is_news(now, before))
                        (void) print_safe("pod/%s %s%s%s", name, phase, reason ? ": " : "",
                                          reason ? reason : "");
                *ret_has_changed = true;
                if (note_phase(show, view, record, pod, now) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Explains a long wait, and does so again: the text may count down. */
static void explain_wait(RolloutShow *show, const char *awaited) {
        int64_t now_sec = clock_sec();
        bool was_said = show->said_sec >= show->progress_sec;

        if (!awaited || now_sec - show->progress_sec < QUIET_SEC ||
            (was_said && now_sec - show->said_sec < SAY_AGAIN_SEC))
                return;

        if (show->is_quiet)
                complain("waiting %s", awaited);
        else
                (void) print_safe("waiting %s", awaited);
        show->said_sec = now_sec;
}

/* The table */

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "POD", .may_be_cut = true, .keeps_tail = true },
        { .title = "NODE", .may_be_cut = true },
        { .title = "PHASE" },
        { .title = "IMAGE", .may_be_cut = true, .keeps_tail = true },
        { .title = "SINCE", .is_right = true },
};
/* clang-format on */

/* The short forms of both images are the same. */
static bool needs_whole_images(json_object *record) {
        json_object_object_foreach(record_images(record, true), container, image) {
                const char *before = json_object_get_string(image);
                const char *after = json_get_text(record_images(record, false), container);

                if (before && after && strcmp(image_short(before), image_short(after)) == 0)
                        return true;
        }
        return false;
}

/* Lists the images that the pod requests for the updated containers. */
static int format_images(json_object *pod, json_object *record, char **ret) {
        bool is_whole = needs_whole_images(record);
        size_t size = 0;
        bool is_first = true;
        FILE *stream = open_memstream(ret, &size);

        if (!stream)
                return -ENOMEM;
        json_object_object_foreach(record_target(record), container, ignored) {
                cleanup(free_p) char *image = NULL;

                (void) ignored;
                if (template_written_image(pod, container, &image) < 0)
                        continue;
                (void) fprintf(stream, "%s%s", is_first ? "" : ",",
                               !image     ? "-"
                               : is_whole ? image
                                          : image_short(image));
                is_first = false;
        }
        return fclose(stream) == 0 ? 0 : -ENOMEM;
}

static int add_row(Table *table, const RolloutShow *show, json_object *record, const char *name,
                   json_object *pod, RolloutPhase phase, int64_t now_sec) {
        json_object *noted = json_get(show->pods, name, json_type_object);
        const char *node = object_text(pod, "spec.nodeName");
        cleanup(free_p) char *images = NULL;
        int r = format_images(pod, record, &images);

        if (r < 0)
                return r;
        return table_add_row(
                table, (const char *[]){
                               name, node ? node : "-", rollout_phase_to_string(phase), images,
                               format_age((uint64_t) (now_sec - json_get_integer(noted, "since")),
                                          FORMAT_BUFFER) });
}

RolloutSum rollout_count(const RolloutView *view, json_object *record) {
        RolloutSum sum = { .n_pods = 0 };

        json_object_object_foreach(view->pods, name, pod) {
                RolloutPhase phase = rollout_phase(view, record, pod);

                (void) name;
                sum.n_pods += phase != ROLLOUT_LEFT;
                sum.n_updated += phase == ROLLOUT_UPDATED;
        }
        return sum;
}

/* All pods if there is room, else those that matter most. */
static int add_rows(Table *table, const RolloutShow *show, const RolloutView *view,
                    json_object *record, size_t n_max, size_t *ret_n) {
        static const RolloutPhase by_weight[] = { ROLLOUT_FAILED, ROLLOUT_UPDATING,
                                                  ROLLOUT_DRAINING, ROLLOUT_OLD, ROLLOUT_UPDATED };
        bool has_room = rollout_count(view, record).n_pods <= n_max;
        size_t n_passes = has_room ? 1 : sizeof(by_weight) / sizeof(by_weight[0]), n = 0;

        for (size_t i = 0; i < n_passes; i++) {
                json_object_object_foreach(view->pods, name, pod) {
                        RolloutPhase phase = rollout_phase(view, record, pod);

                        if (phase == ROLLOUT_LEFT || (!has_room && phase != by_weight[i]) ||
                            n == n_max)
                                continue;
                        n++;
                        if (add_row(table, show, record, name, pod, phase, view->now_sec) < 0)
                                return -ENOMEM;
                }
        }
        *ret_n = n;
        return 0;
}

static int print_sum(const RolloutSum *sum, const char *awaited) {
        cleanup(free_p) char *line = NULL;

        if (text_format(&line, "%zu of %zu pods updated%s%s", sum->n_updated, sum->n_pods,
                        awaited ? "; waiting " : "", awaited ? awaited : "") < 0) {
                line = NULL;
                return -ENOMEM;
        }
        return print_cut(line);
}

static int draw(RolloutShow *show, const RolloutView *view, json_object *record,
                const char *awaited) {
        cleanup(table_free_p) Table *table = NULL;
        RolloutSum sum = rollout_count(view, record);
        size_t rows, width, n = 0;
        int r;

        terminal_get_size(STDOUT_FILENO, &rows, &width);
        r = table_new(columns, sizeof(columns) / sizeof(columns[0]), /* is_wide= */ false, &table);
        if (r >= 0)
                r = add_rows(table, show, view, record,
                             rows > LINES_AROUND + ROWS_MIN ? rows - LINES_AROUND : ROWS_MIN, &n);
        if (r < 0)
                return r;

        terminal_rewind(show->n_drawn);
        r = table_print(table);
        if (r >= 0)
                r = print_sum(&sum, awaited);
        show->n_drawn = n + 2;
        show->drawn_sec = view->now_sec;
        return r;
}

static bool shows_table(const RolloutShow *show) {
        return !show->is_quiet && terminal_is_capable(STDOUT_FILENO);
}

int rollout_show(RolloutShow *show, const RolloutView *view, json_object *record,
                 const char *awaited) {
        bool is_live = shows_table(show), has_changed = false;
        int r = note_pods(show, view, record, is_live, &has_changed);

        if (r < 0)
                return r;
        if (!is_live)
                explain_wait(show, awaited);
        else if (has_changed || view->now_sec != show->drawn_sec)
                r = draw(show, view, record, awaited);
        (void) fflush(stdout);
        return r;
}

int rollout_show_away(RolloutShow *show, const char *awaited) {
        cleanup(free_p) char *line = NULL;
        int r = 0;

        if (!shows_table(show)) {
                explain_wait(show, awaited);
        } else if (show->n_drawn > 0) {
                if (text_format(&line, "waiting %s", awaited) < 0) {
                        line = NULL;
                        return -ENOMEM;
                }
                terminal_rewind(1); /* the sum */
                r = print_cut(line);
        }
        (void) fflush(stdout);
        return r;
}

int rollout_show_end(RolloutShow *show, const RolloutView *view, json_object *record) {
        int r = 0;

        if (show->n_drawn > 0 && record)
                r = draw(show, view, record, /* awaited= */ NULL);
        show->n_drawn = 0;
        (void) fflush(stdout);
        return r;
}
