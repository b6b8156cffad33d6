/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/loop.h"
#include "agent/base/sorted.h"
#include "agent/ctl/follow.h"
#include "agent/ctl/terminal.h"

#define PROGRESS_STEP 10 /* percent, for a line of its own */
#define ROWS_MIN 3
#define SCREEN_SIZE 65536 /* bytes */

typedef Inplaced__V1__WatchEvent Event;

/* The last line about an image. */
typedef struct Line {
        char *key;  /* name, blank, tag */
        char *text; /* what it said, but for progress and times */
        int progress;
} Line;

typedef struct StatusWatch {
        const Options *options;
        NodeClient *client;
        Follower *follower;
        bool is_drawn; /* on a terminal, anew from its first line; else lines are appended */
        bool is_wide;
        bool has_begun;
        Table *table; /* of the lines that are appended */
        Line **lines; /* sorted by key */
        size_t n_lines;
        size_t n_allocated;
        bool is_over;
        int result;
} StatusWatch;

static Line *line_free(Line *line) {
        if (!line)
                return NULL;

        free(line->key);
        free(line->text);
        free(line);
        return NULL;
}

static int compare_key(const void *item, const void *key) {
        return strcmp(((const Line *) item)->key, key);
}

/* Takes the key over. */
static int add_line(StatusWatch *watch, char *key, size_t at, Line **ret) {
        Line *line;

        if (watch->n_lines == watch->n_allocated) {
                size_t n = 2 * watch->n_allocated + 16;
                Line **lines = reallocarray(watch->lines, n, sizeof(lines[0]));

                if (!lines) {
                        free(key);
                        return -ENOMEM;
                }
                watch->lines = lines;
                watch->n_allocated = n;
        }

        line = calloc(1, sizeof(*line));
        if (!line) {
                free(key);
                return -ENOMEM;
        }

        line->key = key;
        sorted_insert(watch->lines, &watch->n_lines, at, line);
        *ret = line;
        return 0;
}

static int find_or_add(StatusWatch *watch, const StatusRow *row, Line **ret) {
        char *key;
        size_t at;

        if (asprintf(&key, "%s %s", row->image, row->tag) < 0)
                return -ENOMEM;
        if (!sorted_find(watch->lines, watch->n_lines, compare_key, key, &at))
                return add_line(watch, key, at, ret);

        free(key);
        *ret = watch->lines[at];
        return 0;
}

/* Appends a line about it if it says something new. */
static int append_row(StatusWatch *watch, const StatusRow *row) {
        cleanup(free_p) char *requested_by = status_row_requested_by(row);
        char *text;
        Line *line;
        int r;

        if (!requested_by)
                return -ENOMEM;

        r = find_or_add(watch, row, &line);
        if (r < 0)
                return r;

        if (asprintf(&text, "%s\n%s\n%s\n%s\n%s", row->phase, row->policy, row->image_id,
                     row->message, requested_by) < 0)
                return -ENOMEM;
        if (line->text && strcmp(line->text, text) == 0 &&
            abs(row->progress - line->progress) < PROGRESS_STEP) {
                free(text);
                return 0;
        }

        free(line->text);
        line->text = text;
        line->progress = row->progress;
        return status_table_add(watch->table, row, watch->is_wide);
}

/* "nginx:1.25" is desired no longer. One of which no line was printed is not mentioned. */
static int append_removed(StatusWatch *watch, const char *reference) {
        cleanup(free_p) char *key = strdup(reference);
        StatusRow row = {
                .image = key, .policy = "", .phase = "Removed", .image_id = "", .message = ""
        };
        char *end;
        size_t at;

        if (!key)
                return -ENOMEM;

        end = strchr(key, '@') ?: strrchr(key, ':');
        if (!end)
                return 0;

        *end = ' ';
        if (!sorted_find(watch->lines, watch->n_lines, compare_key, key, &at))
                return 0;

        line_free(watch->lines[at]);
        sorted_remove(watch->lines, &watch->n_lines, at);
        *end = '\0';
        row.tag = end + 1;
        return status_table_add(watch->table, &row, watch->is_wide);
}

static int append(StatusWatch *watch, json_object *selected, const Event *event) {
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        int r;

        r = status_rows_read(selected, &rows);
        for (size_t i = 0; r >= 0 && i < event->n_removed; i++)
                r = append_removed(watch, event->removed[i]);
        for (size_t i = 0; r >= 0 && i < rows.n_items; i++)
                r = append_row(watch, &rows.items[i]);
        return r < 0 ? r : table_print_more(watch->table);
}

/* As many images as the screen has lines for. */
static int draw_rows(const StatusWatch *watch, json_object *selected, size_t n_max) {
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        cleanup(table_free_p) Table *table = NULL;
        size_t n;
        int r;

        r = status_rows_read(selected, &rows);
        if (r < 0)
                return r;

        r = status_table_new(watch->is_wide, &table);
        if (r < 0)
                return r;

        n = rows.n_items > n_max ? n_max - 1 : rows.n_items;
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = status_table_add(table, &rows.items[i], watch->is_wide);
        if (r >= 0)
                r = table_print(table);
        if (r >= 0 && n < rows.n_items)
                r = print_safe("%zu more", rows.n_items - n);
        return r;
}

/* What was on the screen is drawn over. */
static int draw(const StatusWatch *watch, json_object *selected, const Event *event) {
        size_t n_used = event->api_server[0] ? 5 : 4, rows, columns; /* and the cursor's line */
        int r;

        terminal_get_size(STDOUT_FILENO, &rows, &columns);
        fputs("\x1b[H\x1b[J", stdout);
        r = status_print_header(selected, event->runtime, event->api_server);
        if (r < 0)
                return r;

        return draw_rows(watch, selected, rows > n_used + ROWS_MIN ? rows - n_used : ROWS_MIN);
}

static int print_document(const StatusWatch *watch, json_object *selected) {
        if (watch->has_begun && watch->options->format == OUTPUT_YAML)
                puts("---");
        return output_tree(watch->options->format, selected);
}

static int watch_end(StatusWatch *watch, int result) {
        watch->is_over = true;
        watch->result = result;
        return sd_event_exit(node_client_event(watch->client), 0);
}

static int on_changed(json_object *node_image, json_object *changes, const Event *event,
                      void *userdata) {

        cleanup(json_put_p) json_object *selected = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        StatusWatch *watch = userdata;
        int r;

        if (watch->is_over)
                return 0;
        if (json_object_deep_copy(watch->is_drawn ? node_image : changes, &selected, NULL) < 0)
                return -ENOMEM;

        /* What was named has to be there at first; it may be withdrawn later. */
        r = status_select_for(selected, watch->options, watch->has_begun, &error);
        if (error.kind != ERROR_NONE) {
                complain("%s", error_message(&error));
                return watch_end(watch, error.kind == ERROR_INVALID ? EXIT_STATUS_USAGE
                                                                    : EXIT_STATUS_FAILED);
        }
        if (r < 0)
                return r;

        r = watch->is_drawn                       ? draw(watch, selected, event)
            : options_wants_table(watch->options) ? append(watch, selected, event)
                                                  : print_document(watch, selected);
        watch->has_begun = true;
        return r < 0 ? r : fflush(stdout) == 0 ? 0 : -errno;
}

static int on_refused(const Error *error, void *userdata) {
        complain("%s", error_message(error));
        return watch_end(userdata, EXIT_STATUS_FAILED);
}

static int on_interrupt(sd_event_source *source, const struct signalfd_siginfo *info,
                        void *userdata) {

        return watch_end(userdata, EXIT_STATUS_SIGNAL + (int) info->ssi_signo);
}

static void watch_done(StatusWatch *watch) {
        follower_free(watch->follower);
        node_client_free(watch->client);
        table_free(watch->table);
        for (size_t i = 0; i < watch->n_lines; i++)
                line_free(watch->lines[i]);
        free(watch->lines);
}

int status_watch(const Options *options) {
        cleanup(watch_done) StatusWatch watch = {
                .options = options,
                .is_drawn = options_wants_table(options) && terminal_is_capable(STDOUT_FILENO),
                .is_wide = options->format == OUTPUT_WIDE,
        };
        int r;

        r = node_client_new(options->socket_path, on_interrupt, &watch, &watch.client);
        if (r < 0)
                return r;

        r = status_table_new(watch.is_wide, &watch.table);
        if (r < 0)
                return r;

        /* One write for the whole screen does not flicker. */
        if (watch.is_drawn)
                (void) setvbuf(stdout, NULL, _IOFBF, SCREEN_SIZE);

        r = follower_new(
                &(FollowerOptions){
                        .client = watch.client,
                        .on_changed = on_changed,
                        .on_refused = on_refused,
                        .userdata = &watch,
                },
                &watch.follower);
        if (r < 0)
                return r;
        if (watch.is_over)
                return watch.result;

        r = sd_event_loop(node_client_event(watch.client));
        return r < 0 ? r : watch.result;
}
