/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/pulls-view.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/document/json-reader.h"
#include "agent/view/changes.h"
#include "agent/view/format.h"
#include "agent/view/live.h"
#include "agent/view/table.h"
#include "agent/view/terminal.h"

#define DIGEST_WIDTH 19 /* "sha256:" and 12 digits */

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "POD",      .may_be_cut = true, .keeps_tail = true  },
        { .title = "IMAGE",    .may_be_cut = true, .keeps_tail = true, .width_min = DIGEST_WIDTH },
        { .title = "DIGEST",   .is_wide = true                         },
        { .title = "STATE"                                             },
        { .title = "PROGRESS", .is_right = true                        },
        { .title = "RATE",     .is_right = true                        },
        { .title = "LEFT",     .is_right = true                        },
        { .title = "NODE",     .may_be_cut = true, .keeps_tail = true  },
};

static const struct {
        const char *step, *word;
} words[] = {
        { "Queued",            "queued"      },
        { "WaitingForRuntime", "waiting"     },
        { "Inspecting",        "inspecting"  },
        { "Resolving",         "resolving"   },
        { "Downloading",       "downloading" },
        { "Unpacking",         "unpacking"   },
        { "BackingOff",        "retrying"    },
        { "WaitingForDisk",    "disk full"   },
        { "WaitingForPod",     "paused"      },
        { "WaitingForKubelet", "waiting"     },
};
/* clang-format on */

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

struct PullsView {
        bool is_wide;
        bool is_followed;
        bool is_drawn; /* in place; else lines are appended */
        size_t n_columns;
        Table *table; /* columns of the appended lines */
        Live live;
        Changes changes; /* last appended line of each pull */
};

const char *pull_step_word(const char *step) {
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                if (strcmp(words[i].step, step) == 0)
                        return words[i].word;

        return "asking";
}

static const char *word_of(json_object *pull) {
        return pull_step_word(json_get_text(pull, "step") ?: "");
}

/* Nothing counts as less than zero. */
static uint64_t number_of(json_object *pull, const char *key) {
        int64_t number = json_get_integer(pull, key);

        return number > 0 ? (uint64_t) number : 0;
}

static size_t count(json_object *list) {
        return list ? json_object_array_length(list) : 0;
}

/* Writes the first pod that waits, or else the first that requests the image, and the number of the others. */
static int owner_text(json_object *pull, char **ret) {
        json_object *pods = json_get(pull, "pods", json_type_array);
        json_object *owners =
                count(pods) > 0 ? pods : json_get(pull, "requestedBy", json_type_array);
        size_t n = count(owners);
        const char *first =
                n > 0 ? json_object_get_string(json_object_array_get_idx(owners, 0)) : NULL;

        return n <= 1 ? text_copy(first ?: "-", ret)
                      : text_format(ret, "%s (+%zu)", first ?: "-", n - 1);
}

static const char *rate_text(json_object *pull, FormatBuffer *buffer) {
        uint64_t rate = number_of(pull, "bytesPerSecond");
        FormatBuffer size;

        if (rate == 0)
                return "-";

        snprintf(buffer->text, sizeof(buffer->text), "%s/s", format_size(rate, &size));
        return buffer->text;
}

int pull_summary(json_object *pull, char **ret) {
        const uint64_t total = number_of(pull, "bytesTotal");
        const bool has_rate = number_of(pull, "bytesPerSecond") > 0;
        FormatBuffer share, rate;

        return text_format(ret, "%s%s%s%s%s", word_of(pull), total > 0 ? " " : "",
                           total > 0 ? format_share(number_of(pull, "bytesDone"), total, &share)
                                     : "",
                           has_rate ? ", " : "", has_rate ? rate_text(pull, &rate) : "");
}

static int add_row(const PullsView *view, Table *table, json_object *pull) {
        const char *reference = json_get_text(pull, "image") ?: "-";
        const uint64_t total = number_of(pull, "bytesTotal"), left = number_of(pull, "secondsLeft");
        cleanup(free_p) char *owner = NULL;
        cleanup(free_p) char *image =
                view->is_wide ? strdup(reference) : format_short_digest(reference);
        FormatBuffer share, rate, duration;

        if (!image || owner_text(pull, &owner) < 0)
                return -ENOMEM;

        return table_add_row(table, (const char *const[N_COLUMNS]){
                                            owner,
                                            image,
                                            json_get_filled(pull, "digest") ?: "-",
                                            word_of(pull),
                                            total > 0 ? format_share(number_of(pull, "bytesDone"),
                                                                     total, &share)
                                                      : "-",
                                            rate_text(pull, &rate),
                                            left > 0 ? format_duration(left, &duration) : "-",
                                            json_get_filled(pull, "node") ?: "-",
                                    });
}

static int print_table(const PullsView *view, json_object *pulls, size_t n, FILE *file) {
        cleanup(table_free_p) Table *table = NULL;
        int r;

        r = table_new(columns, view->n_columns, view->is_wide, &table);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_row(view, table, json_object_array_get_idx(pulls, i));
        if (r >= 0)
                r = table_print_to(table, file);
        return r >= 0 && n == 0 ? print_safe_to(file, "No image is being pulled.") : r;
}

/* Draws again, with as many pulls as the screen has room for. */
static int draw(PullsView *view, json_object *pulls) {
        size_t n_pulls = json_object_array_length(pulls);
        size_t room, n;
        FILE *frame;
        int r;

        live_measure(&view->live);
        room = view->live.rows > 4 ? view->live.rows - 2 : 2; /* heading and cursor */
        n = n_pulls > room ? room - 1 : n_pulls;
        r = live_begin(&view->live, 0, &frame);
        if (r >= 0)
                r = print_table(view, pulls, n, frame);
        if (r >= 0 && n < n_pulls)
                r = print_safe_to(frame, "%zu more", n_pulls - n);
        return r < 0 ? r : live_end(&view->live);
}

static int append_row(PullsView *view, json_object *pull) {
        const uint64_t total = number_of(pull, "bytesTotal");
        const double done = (double) number_of(pull, "bytesDone");
        int percent = total > 0 ? (int) (100.0 * done / (double) total) : 0;
        cleanup(free_p) char *owner = NULL, *key = NULL, *text = NULL;
        int r;

        if (owner_text(pull, &owner) < 0 ||
            text_format(&key, "%s %s %s", json_get_text(pull, "node") ?: "",
                        json_get_text(pull, "image") ?: "",
                        json_get_text(pull, "digest") ?: "") < 0 ||
            text_format(&text, "%s\n%s", word_of(pull), owner) < 0)
                return -ENOMEM;

        r = changes_note(&view->changes, key, text, percent);
        return r > 0 ? add_row(view, view->table, pull) : r;
}

/* A pull that has ended is forgotten: the next one of the same image has its own lines. */
static int append(PullsView *view, json_object *pulls) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(pulls); i++)
                r = append_row(view, json_object_array_get_idx(pulls, i));
        if (r < 0)
                return r;

        changes_forget_others(&view->changes);
        return table_print_more(view->table);
}

int pulls_view_show(PullsView *view, json_object *pulls) {
        int r = view->is_drawn ? draw(view, pulls)
                : view->is_followed
                        ? append(view, pulls)
                        : print_table(view, pulls, json_object_array_length(pulls), stdout);

        return r < 0 ? r : fflush(stdout) != 0 ? -errno : 0;
}

void pulls_view_leave(PullsView *view) {
        live_leave(&view->live);
}

int pulls_view_new(OutputFormat format, bool is_followed, bool has_nodes, PullsView **ret) {
        cleanup(pulls_view_free_p) PullsView *view = calloc(1, sizeof(*view));
        int r;

        if (!view)
                return -ENOMEM;

        view->is_wide = format == OUTPUT_WIDE;
        view->is_followed = is_followed;
        view->is_drawn = is_followed && terminal_is_capable();
        view->n_columns = has_nodes ? N_COLUMNS : N_COLUMNS - 1;
        live_init(&view->live, stdout);
        r = table_new(columns, view->n_columns, view->is_wide, &view->table);
        if (r < 0)
                return r;

        *ret = take_ptr(view);
        return 0;
}

PullsView *pulls_view_free(PullsView *view) {
        if (!view)
                return NULL;

        table_free(view->table);
        live_done(&view->live);
        changes_done(&view->changes);
        free(view);
        return NULL;
}
