/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/text.h"
#include "agent/ctl/commands.h"
#include "agent/ctl/message-json.h"
#include "agent/ctl/progress-view.h"
#include "agent/ctl/stream.h"
#include "agent/document/json-cleanup.h"
#include "agent/view/changes.h"
#include "agent/view/format.h"
#include "agent/view/live.h"
#include "agent/view/output.h"
#include "agent/view/table.h"
#include "agent/view/terminal.h"
#include "proto/inplaced/v1/node.pb-c.h"

#define DIGEST_WIDTH 19 /* "sha256:" and 12 digits */

typedef Inplaced__V1__PullsEvent Event;
typedef Inplaced__V1__Pull PullMessage;

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "POD",      .may_be_cut = true, .keeps_tail = true  },
        { .title = "IMAGE",    .may_be_cut = true, .keeps_tail = true, .width_min = DIGEST_WIDTH },
        { .title = "DIGEST",   .is_wide = true                         },
        { .title = "STATE"                                             },
        { .title = "PROGRESS", .is_right = true                        },
        { .title = "RATE",     .is_right = true                        },
        { .title = "LEFT",     .is_right = true                        },
};
/* clang-format on */

typedef struct PullsView {
        const Options *options;
        NodeClient *client;
        Inplaced__V1__WatchPullsRequest request;
        Stream *stream;
        bool is_drawn; /* draws in place; else appends lines */
        bool has_begun;
        Table *table; /* columns of the appended lines */
        Live live;
        Changes changes; /* last appended line of each pull */
        bool is_over;    /* the loop ends */
} PullsView;

static const RpcMethod method = {
        .path = "/inplaced.v1.Node/WatchPulls",
        .reply = &inplaced__v1__pulls_event__descriptor,
};

/* Writes the first pod that waits, or else the first that requests the image, and the number of the others. */
static int owner_text(const PullMessage *pull, char **ret) {
        char *const *texts = pull->n_pods > 0 ? pull->pods : pull->requested_by;
        size_t n = pull->n_pods > 0 ? pull->n_pods : pull->n_requested_by;

        return n == 0   ? text_copy("-", ret)
               : n == 1 ? text_copy(texts[0], ret)
                        : text_format(ret, "%s (+%zu)", texts[0], n - 1);
}

static const char *rate_text(const PullMessage *pull, FormatBuffer *buffer) {
        FormatBuffer size;

        if (pull->bytes_per_second == 0)
                return "-";

        snprintf(buffer->text, sizeof(buffer->text), "%s/s",
                 format_size(pull->bytes_per_second, &size));
        return buffer->text;
}

static int add_row(Table *table, const void *item, bool is_wide) {
        const PullMessage *pull = item;
        cleanup(free_p) char *owner = NULL;
        cleanup(free_p) char *image =
                is_wide ? strdup(pull->image) : format_short_digest(pull->image);
        FormatBuffer share, rate, left;

        if (!image || owner_text(pull, &owner) < 0)
                return -ENOMEM;

        return table_add_row(
                table,
                (const char *const[]){
                        owner,
                        image,
                        pull->digest[0] ? pull->digest : "-",
                        step_to_string(pull->step),
                        pull->bytes_total > 0
                                ? format_share(pull->bytes_done, pull->bytes_total, &share)
                                : "-",
                        rate_text(pull, &rate),
                        pull->seconds_left > 0 ? format_duration(pull->seconds_left, &left) : "-",
                });
}

static int print_table(const PullsView *view, const Event *event, size_t n, FILE *file) {
        bool is_wide = view->options->format == OUTPUT_WIDE;
        cleanup(table_free_p) Table *table = NULL;
        int r;

        r = table_new(columns, sizeof(columns) / sizeof(columns[0]), is_wide, &table);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_row(table, event->pulls[i], is_wide);
        if (r >= 0)
                r = table_print_to(table, file);
        return r >= 0 && n == 0 ? print_safe_to(file, "No image is being pulled.") : r;
}

/* Draws again, with as many pulls as the screen has room for. */
static int draw(PullsView *view, const Event *event) {
        size_t room, n;
        FILE *frame;
        int r;

        live_measure(&view->live);
        room = view->live.rows > 4 ? view->live.rows - 2 : 2; /* heading and cursor */
        n = event->n_pulls > room ? room - 1 : event->n_pulls;
        r = live_begin(&view->live, 0, &frame);
        if (r >= 0)
                r = print_table(view, event, n, frame);
        if (r >= 0 && n < event->n_pulls)
                r = print_safe_to(frame, "%zu more", event->n_pulls - n);
        return r < 0 ? r : live_end(&view->live);
}

static int append_row(PullsView *view, const PullMessage *pull) {
        int percent =
                pull->bytes_total > 0
                        ? (int) (100.0 * (double) pull->bytes_done / (double) pull->bytes_total)
                        : 0;
        cleanup(free_p) char *owner = NULL, *key = NULL, *text = NULL;
        int r;

        if (owner_text(pull, &owner) < 0 ||
            text_format(&key, "%s %s", pull->image, pull->digest) < 0 ||
            text_format(&text, "%s\n%s", step_to_string(pull->step), owner) < 0)
                return -ENOMEM;

        r = changes_note(&view->changes, key, text, percent);
        return r > 0 ? add_row(view->table, pull, view->options->format == OUTPUT_WIDE) : r;
}

static int append(PullsView *view, const Event *event) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < event->n_pulls; i++)
                r = append_row(view, event->pulls[i]);
        return r < 0 ? r : table_print_more(view->table);
}

static int print_document(const PullsView *view, const Event *event) {
        cleanup(json_object_put_p) json_object *document = json_from_message(event);

        if (!document)
                return -ENOMEM;

        if (view->has_begun && view->options->format == OUTPUT_YAML)
                puts("---");
        return output_tree(view->options->format, document);
}

static int view_end(PullsView *view, int status) {
        view->is_over = true;
        return sd_event_exit(node_client_event(view->client), status);
}

static int on_message(const void *message, void *userdata) {
        const Event *event = message;
        PullsView *view = userdata;
        int r;

        if (view->is_over)
                return 0;

        r = !options_wants_table(view->options) ? print_document(view, event)
            : view->is_drawn                    ? draw(view, event)
            : view->options->watch              ? append(view, event)
                                                : print_table(view, event, event->n_pulls, stdout);
        if (r < 0)
                return r;
        if (fflush(stdout) != 0)
                return -errno;

        view->has_begun = true;
        if (!view->options->watch && (!event->runtime || !event->runtime->ready))
                complain("no container runtime is ready; try: inplacectl doctor");
        return view->options->watch ? 0 : view_end(view, EXIT_STATUS_DONE);
}

/* The next frame stands below the lines on stderr, where the cursor is then. */
static void on_away(void *userdata) {
        PullsView *view = userdata;

        live_leave(&view->live);
}

static int on_refused(const Error *error, void *userdata) {
        complain("%s", error_message(error));
        return view_end(userdata, EXIT_STATUS_FAILED);
}

static void view_done(PullsView *view) {
        stream_free(view->stream);
        node_client_free(view->client);
        table_free(view->table);
        live_done(&view->live);
        changes_done(&view->changes);
}

int command_pulls(const Options *options) {
        cleanup(view_done) PullsView view = {
                .options = options,
                .is_drawn = options->watch && options_wants_table(options) &&
                            terminal_is_capable(STDOUT_FILENO),
        };
        int r;

        r = node_client_new(options->socket_path, /* on_interrupt= */ NULL, NULL, &view.client);
        if (r >= 0)
                r = table_new(columns, sizeof(columns) / sizeof(columns[0]),
                              options->format == OUTPUT_WIDE, &view.table);
        if (r < 0)
                return r;

        live_init(&view.live, stdout);
        inplaced__v1__watch_pulls_request__init(&view.request);
        r = stream_new(
                &(StreamOptions){
                        .client = view.client,
                        .method = &method,
                        .request = &view.request.base,
                        .on_message = on_message,
                        .on_away = on_away,
                        .on_refused = on_refused,
                        .userdata = &view,
                },
                &view.stream);
        if (r < 0)
                return r;

        return sd_event_loop(node_client_event(view.client));
}
