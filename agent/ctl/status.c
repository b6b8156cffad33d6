/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/ctl/ask.h"
#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/follow.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/view/changes.h"
#include "agent/view/failure.h"
#include "agent/view/format.h"
#include "agent/view/live.h"
#include "agent/view/output.h"
#include "agent/view/status-rows.h"
#include "agent/view/status-select.h"
#include "agent/view/table.h"
#include "agent/view/terminal.h"
#include "proto/inplaced/v1/node.pb-c.h"

#define ROWS_MIN 3
#define SCREEN_SIZE 65536 /* bytes */
#define DIGEST_WIDTH 19   /* "sha256:" and 12 digits */

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "IMAGE",    .may_be_cut = true, .keeps_tail = true  },
        { .title = "TAG",      .may_be_cut = true, .keeps_tail = true, .width_min = DIGEST_WIDTH },
        { .title = "POLICY",   .is_wide = true                         },
        { .title = "PHASE"                                             },
        { .title = "PROGRESS", .is_right = true, .is_optional = true   },
        { .title = "IMAGE ID"                                          },
        { .title = "TIME",     .is_right = true, .is_wide = true       },
        { .title = "AGE",      .is_right = true                        },
        { .title = "REQUESTED BY", .is_wide = true                     },
        { .title = "MESSAGE",  .may_be_cut = true                      },
};
/* clang-format on */

static int64_t between(int64_t from, int64_t to) {
        return to > from ? to - from : 0;
}

/* The progress of a finished image adds nothing to its phase. */
static const char *progress_text(const StatusRow *row, bool is_wide, FormatBuffer *buffer) {
        if (row->progress == 0 || (row->completed_at > 0 && !is_wide))
                return "-";

        snprintf(buffer->text, sizeof(buffer->text), "%d%%", row->progress);
        return buffer->text;
}

/* Makes the message, with the time of the next attempt before it. NULL if there is no memory. */
static char *message_of(const StatusRow *row, bool is_wide, int64_t now) {
        cleanup(free_p) char *message =
                is_wide ? strdup(row->message) : failure_summary(row->message);
        FormatBuffer wait;
        char *text;

        if (!message || row->next_attempt_at == 0)
                return take_ptr(message);

        (void) text_format(&text, "next attempt in %s; %s",
                           format_age((uint64_t) between(now, row->next_attempt_at), &wait),
                           message);
        return text;
}

static int status_table_add(Table *table, const StatusRow *row, bool is_wide) {
        int64_t now = time(NULL);
        cleanup(free_p) char *tag = is_wide ? strdup(row->tag) : format_short_digest(row->tag);
        cleanup(free_p) char *requested_by = status_row_requested_by(row);
        cleanup(free_p) char *message = message_of(row, is_wide, now);
        FormatBuffer progress, id, age, took;
        int64_t since = status_row_since(row);

        if (!tag || !message || !requested_by)
                return -ENOMEM;

        return table_add_row(
                table, (const char *const[]){
                               row->image,
                               tag,
                               row->policy[0] ? row->policy : "-",
                               row->phase,
                               progress_text(row, is_wide, &progress),
                               !row->image_id[0] ? "-"
                               : is_wide         ? row->image_id
                                                 : format_short_id(row->image_id, &id),
                               row->completed_at > 0 && row->started_at > 0
                                       ? format_duration((uint64_t) between(row->started_at,
                                                                            row->completed_at),
                                                         &took)
                                       : "-",
                               since > 0 ? format_age((uint64_t) between(since, now), &age) : "-",
                               requested_by[0] ? requested_by : "-",
                               message,
                       });
}

static int status_table_new(bool is_wide, Table **ret) {
        return table_new(columns, sizeof(columns) / sizeof(columns[0]), is_wide, ret);
}

static int print_table(const StatusRows *rows, size_t n, bool is_wide, FILE *file) {
        cleanup(table_free_p) Table *table = NULL;
        int r;

        r = status_table_new(is_wide, &table);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = status_table_add(table, &rows->items[i], is_wide);
        return r < 0 ? r : table_print_to(table, file);
}

/* Two or three lines about the node, and how many images follow. Without a runtime none is chosen; the address of the API server
 * may be "". */
static int status_print_header(json_object *node_image, const StatusRows *rows,
                               const Inplaced__V1__Runtime *runtime, const char *api_server,
                               FILE *file) {
        cleanup(free_p) char *counts = status_rows_count(rows);
        int r;

        if (!counts)
                return -ENOMEM;

        r = print_safe_to(file, "Node %s, %s%s%s%s%s%s",
                          json_get_text(json_get(node_image, "metadata", json_type_object), "name")
                                  ?: "",
                          !runtime           ? "no container runtime"
                          : runtime->name[0] ? runtime->name
                                             : "an unknown runtime",
                          runtime && runtime->version[0] ? " " : "",
                          runtime ? runtime->version : "",
                          runtime && runtime->endpoint[0] ? " at " : "",
                          runtime ? runtime->endpoint : "",
                          runtime && !runtime->ready ? ", not ready" : "");
        if (r < 0)
                return r;

        if (api_server[0]) {
                r = print_safe_to(file, "API server %s", api_server);
                if (r < 0)
                        return r;
        }

        return print_safe_to(file, "Images: %s", counts);
}

static int print_for_person(const Inplaced__V1__GetStatusResponse *reply, json_object *node_image,
                            bool is_wide) {

        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        int r;

        r = status_rows_read(node_image, &rows);
        if (r >= 0)
                r = status_print_header(node_image, &rows, reply->runtime, reply->api_server,
                                        stdout);
        if (r >= 0)
                r = print_table(&rows, rows.n_items, is_wide, stdout);
        if (r < 0)
                return r;

        return problems_print(reply->problems, reply->n_problems);
}

static bool selects(const Options *options) {
        return options->n_arguments > 0 || options->failed;
}

/* Keeps the images that the options name. A missing one is refused, unless the object has only some
 * of the images. */
static int status_select_for(json_object *node_image, const Options *options, bool is_partial,
                             Error *reterr) {
        const StatusSelection selection = {
                .images = options->arguments,
                .n_images = (size_t) options->n_arguments,
                .only_failed = options->failed,
                .is_partial = is_partial,
        };

        return selects(options) ? status_select(node_image, &selection, reterr) : 0;
}

static int print_status(const void *message, const Options *options) {
        const Inplaced__V1__GetStatusResponse *reply = message;
        cleanup(json_object_put_p) json_object *node_image = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = output_parse(reply->node_image_json, &node_image, &error);
        if (error.kind != ERROR_NONE) {
                complain("%s; are both of the same version? try: inplacectl version",
                         error_message(&error));
                return EXIT_STATUS_FAILED;
        }
        if (r < 0)
                return r;

        r = status_select_for(node_image, options, /* is_partial= */ false, &error);
        if (error.kind != ERROR_NONE) {
                complain("%s", error_message(&error));
                return error.kind == ERROR_INVALID ? EXIT_STATUS_USAGE : EXIT_STATUS_FAILED;
        }
        if (r < 0)
                return r;

        r = options_wants_table(options)
                    ? print_for_person(reply, node_image, options->format == OUTPUT_WIDE)
                    : output_tree(options->format, node_image);
        return r < 0 ? r : EXIT_STATUS_DONE;
}

/* Following: --watch */

typedef Inplaced__V1__WatchEvent Event;

typedef struct StatusWatch {
        const Options *options;
        NodeClient *client;
        Follower *follower;
        bool is_drawn; /* draws in place; else appends lines */
        bool is_wide;
        bool has_begun;
        Table *table; /* columns of the appended lines */
        Live live;
        Changes changes; /* last appended line of each image */
        bool is_over;    /* the loop ends */
} StatusWatch;

/* Appends a line about the image if that changed. */
static int append_row(StatusWatch *watch, const StatusRow *row) {
        cleanup(free_p) char *requested_by = status_row_requested_by(row);
        cleanup(free_p) char *key = NULL, *text = NULL;
        int r;

        if (!requested_by || text_format(&key, "%s %s", row->image, row->tag) < 0 ||
            text_format(&text, "%s\n%s\n%s\n%s\n%s", row->phase, row->policy, row->image_id,
                        row->message, requested_by) < 0)
                return -ENOMEM;

        r = changes_note(&watch->changes, key, text, row->progress);
        return r > 0 ? status_table_add(watch->table, row, watch->is_wide) : r;
}

/* Prints that the image is no longer desired, unless no line about it was printed. */
static int append_removed(StatusWatch *watch, const char *image, const char *tag) {
        const StatusRow row = { .image = image,
                                .tag = tag,
                                .policy = "",
                                .phase = "Removed",
                                .image_id = "",
                                .message = "" };
        cleanup(free_p) char *key = NULL;

        if (text_format(&key, "%s %s", image, tag) < 0)
                return -ENOMEM;

        return changes_forget(&watch->changes, key)
                       ? status_table_add(watch->table, &row, watch->is_wide)
                       : 0;
}

/* The same of "nginx:1.25". */
static int append_removed_reference(StatusWatch *watch, const char *reference) {
        cleanup(free_p) char *image = strdup(reference);
        char *end = image ? strchr(image, '@') ?: strrchr(image, ':') : NULL;

        if (!end)
                return image ? 0 : -ENOMEM;

        *end = '\0';
        return append_removed(watch, image, end + 1);
}

/* The same of all images that the agent shows no more after it was away, as it does not say what was removed meanwhile. */
static int append_missing(StatusWatch *watch, json_object *node_image) {
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        int r = status_rows_read(node_image, &rows);

        for (size_t i = watch->changes.n_lines; r >= 0 && i > 0; i--) {
                cleanup(free_p) char *image = strdup(changes_key(&watch->changes, i - 1));
                char *end = image ? strrchr(image, ' ') : NULL;

                if (!end)
                        return -ENOMEM;

                *end = '\0';
                if (!status_rows_have(&rows, image, end + 1))
                        r = append_removed(watch, image, end + 1);
        }
        return r;
}

/* Forgets the lines of images that --failed does not show any more: the same failure is news again. */
static int forget_others(StatusWatch *watch, json_object *changes, const StatusRows *shown) {
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        int r;

        r = status_rows_read(changes, &rows);
        for (size_t i = 0; r >= 0 && i < rows.n_items; i++) {
                const StatusRow *row = &rows.items[i];
                cleanup(free_p) char *key = NULL;

                if (status_rows_have(shown, row->image, row->tag))
                        continue;
                r = text_format(&key, "%s %s", row->image, row->tag);
                if (r >= 0)
                        (void) changes_forget(&watch->changes, key);
        }
        return r;
}

static int append(StatusWatch *watch, json_object *selected, json_object *changes,
                  const Event *event) {
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        int r;

        r = status_rows_read(selected, &rows);
        if (r >= 0 && watch->options->failed)
                r = forget_others(watch, changes, &rows);
        for (size_t i = 0; r >= 0 && i < event->n_removed; i++)
                r = append_removed_reference(watch, event->removed[i]);
        for (size_t i = 0; r >= 0 && i < rows.n_items; i++)
                r = append_row(watch, &rows.items[i]);
        return r < 0 ? r : table_print_more(watch->table);
}

/* Draws again, with as many images as the screen has room for. */
static int draw(StatusWatch *watch, json_object *selected, const Event *event) {
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        size_t n_used, n_max, n;
        FILE *frame;
        int r;

        r = status_rows_read(selected, &rows);
        if (r < 0)
                return r;

        status_rows_sort_by_urgency(&rows);
        live_measure(&watch->live);
        r = live_begin(&watch->live, 0, &frame);
        if (r >= 0)
                r = status_print_header(selected, &rows, event->runtime, event->api_server, frame);
        if (r < 0)
                return r;

        /* With the table's heading and the cursor's line. */
        n_used = live_count_rows(&watch->live) + 2;
        n_max = watch->live.rows > n_used + ROWS_MIN ? watch->live.rows - n_used : ROWS_MIN;
        n = rows.n_items > n_max ? n_max - 1 : rows.n_items;
        r = print_table(&rows, n, watch->is_wide, frame);
        if (r >= 0 && n < rows.n_items)
                r = print_safe_to(frame, "%zu more", rows.n_items - n);
        return r < 0 ? r : live_end(&watch->live);
}

/* Changes of other images than those that the options select are none. */
static int print_document(const StatusWatch *watch, json_object *selected) {
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        int r = status_rows_read(selected, &rows);

        if (r < 0 || (watch->has_begun && rows.n_items == 0 && selects(watch->options)))
                return r;
        if (watch->has_begun && watch->options->format == OUTPUT_YAML)
                puts("---");
        return output_tree(watch->options->format, selected);
}

static int watch_end(StatusWatch *watch, int status) {
        watch->is_over = true;
        return sd_event_exit(node_client_event(watch->client), status);
}

static int on_changed(json_object *node_image, json_object *changes, const Event *event,
                      void *userdata) {

        cleanup(json_object_put_p) json_object *selected = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        StatusWatch *watch = userdata;
        int r;

        if (watch->is_over)
                return 0;
        selected = json_copy(watch->is_drawn ? node_image : changes);
        if (!selected)
                return -ENOMEM;

        /* A named image has to exist at first; its request may be withdrawn later. */
        r = status_select_for(selected, watch->options, watch->has_begun, &error);
        if (error.kind != ERROR_NONE) {
                complain("%s", error_message(&error));
                return watch_end(watch, error.kind == ERROR_INVALID ? EXIT_STATUS_USAGE
                                                                    : EXIT_STATUS_FAILED);
        }
        if (r < 0)
                return r;

        r = changes == node_image ? append_missing(watch, node_image) : 0;
        if (r < 0)
                return r;
        r = watch->is_drawn                       ? draw(watch, selected, event)
            : options_wants_table(watch->options) ? append(watch, selected, changes, event)
                                                  : print_document(watch, selected);
        watch->has_begun = true;
        return r < 0 ? r : fflush(stdout) == 0 ? 0 : -errno;
}

/* The next frame stands below the lines on stderr, where the cursor is then. */
static void on_away(void *userdata) {
        StatusWatch *watch = userdata;

        live_leave(&watch->live);
}

static int on_refused(const Error *error, void *userdata) {
        complain("%s", error_message(error));
        return watch_end(userdata, EXIT_STATUS_FAILED);
}

static void watch_done(StatusWatch *watch) {
        follower_free(watch->follower);
        node_client_free(watch->client);
        table_free(watch->table);
        live_done(&watch->live);
        changes_done(&watch->changes);
}

/* Prints the status, then its changes, until a signal ends it. */
static int status_watch(const Options *options) {
        cleanup(watch_done) StatusWatch watch = {
                .options = options,
                .is_drawn = options_wants_table(options) && terminal_is_capable(),
                .is_wide = options->format == OUTPUT_WIDE,
        };
        int r;

        r = node_client_new(options->socket_path, /* on_interrupt= */ NULL, NULL, &watch.client);
        if (r < 0)
                return r;

        r = status_table_new(watch.is_wide, &watch.table);
        if (r < 0)
                return r;

        /* Writes the whole screen at once, so that it does not flicker. */
        if (watch.is_drawn)
                (void) setvbuf(stdout, NULL, _IOFBF, SCREEN_SIZE);

        live_init(&watch.live, stdout);
        r = follower_new(
                &(FollowerOptions){
                        .client = watch.client,
                        .on_changed = on_changed,
                        .on_away = on_away,
                        .on_refused = on_refused,
                        .userdata = &watch,
                },
                &watch.follower);
        if (r < 0)
                return r;

        return sd_event_loop(node_client_event(watch.client));
}

static const Question question = {
        .method = { .path = "/inplaced.v1.Node/GetStatus",
                    .reply = &inplaced__v1__get_status_response__descriptor },
        .take = print_status,
};

int command_status(const Options *options) {
        Inplaced__V1__GetStatusRequest request = INPLACED__V1__GET_STATUS_REQUEST__INIT;

        if (options->watch)
                return status_watch(options);

        return node_ask(&question, options, &request.base);
}
