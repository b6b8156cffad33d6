/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/format.h"
#include "agent/ctl/status.h"
#include "agent/ctl/status-select.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "agent/document/json-reader.h"
#include "proto/inplaced/v1/node.pb-c.h"

static const RpcMethod status_method = {
        .path = "/inplaced.v1.Node/GetStatus",
        .reply = &inplaced__v1__get_status_response__descriptor,
};

#define DIGEST_WIDTH 19 /* "sha256:" and 12 digits */

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

/* Of what is finished it says nothing that the phase does not say. */
static const char *progress_text(const StatusRow *row, bool is_wide, FormatBuffer *buffer) {
        if (row->progress == 0 || (row->completed_at > 0 && !is_wide))
                return "-";

        snprintf(buffer->text, sizeof(buffer->text), "%d%%", row->progress);
        return buffer->text;
}

/* The message, and before it when the next attempt is. NULL if there is no memory. */
static char *message_of(const StatusRow *row, bool is_wide, int64_t now) {
        cleanup(free_p) char *message = is_wide ? strdup(row->message) : status_row_summary(row);
        FormatBuffer wait;
        char *text;

        if (!message || row->next_attempt_at == 0)
                return take_ptr(message);

        return asprintf(&text, "next attempt in %s; %s",
                        format_age((uint64_t) between(now, row->next_attempt_at), &wait),
                        message) < 0
                       ? NULL
                       : text;
}

int status_table_add(Table *table, const StatusRow *row, bool is_wide) {
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

int status_table_new(bool is_wide, Table **ret) {
        return table_new(columns, sizeof(columns) / sizeof(columns[0]), is_wide, ret);
}

static int print_table(json_object *node_image, bool is_wide) {
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        cleanup(table_free_p) Table *table = NULL;
        int r;

        r = status_rows_read(node_image, &rows);
        if (r < 0)
                return r;

        r = status_table_new(is_wide, &table);
        if (r < 0)
                return r;

        for (size_t i = 0; i < rows.n_items; i++) {
                r = status_table_add(table, &rows.items[i], is_wide);
                if (r < 0)
                        return r;
        }

        return table_print(table);
}

int status_print_header(json_object *node_image, const Inplaced__V1__Runtime *runtime,
                        const char *api_server) {
        json_object *status = json_get(node_image, "status", json_type_object);
        int r;

        r = print_safe("Node %s, %s%s%s%s%s%s",
                       json_get_text(json_get(node_image, "metadata", json_type_object), "name")
                               ?: "",
                       !runtime           ? "no container runtime"
                       : runtime->name[0] ? runtime->name
                                          : "an unknown runtime",
                       runtime && runtime->version[0] ? " " : "", runtime ? runtime->version : "",
                       runtime && runtime->endpoint[0] ? " at " : "",
                       runtime ? runtime->endpoint : "",
                       runtime && !runtime->ready ? ", not ready" : "");
        if (r < 0)
                return r;

        if (api_server[0]) {
                r = print_safe("API server %s", api_server);
                if (r < 0)
                        return r;
        }

        return print_safe("Images: %lld desired, %lld succeeded, %lld failed, %lld pulling, "
                          "%lld waiting",
                          (long long) json_get_integer(status, "desired"),
                          (long long) json_get_integer(status, "succeeded"),
                          (long long) json_get_integer(status, "failed"),
                          (long long) json_get_integer(status, "pulling"),
                          (long long) json_get_integer(status, "waiting"));
}

static int print_for_person(const Inplaced__V1__GetStatusResponse *reply, json_object *node_image,
                            bool is_wide) {

        int r;

        r = status_print_header(node_image, reply->runtime, reply->api_server);
        if (r < 0)
                return r;

        r = print_table(node_image, is_wide);
        if (r < 0)
                return r;

        return problems_print(reply->problems, reply->n_problems);
}

int status_select_for(json_object *node_image, const Options *options, bool is_partial,
                      Error *reterr) {
        const StatusSelection selection = {
                .images = options->arguments,
                .n_images = (size_t) options->n_arguments,
                .only_failed = options->failed,
                .is_partial = is_partial,
        };

        return selection.n_images > 0 || selection.only_failed
                       ? status_select(node_image, &selection, reterr)
                       : 0;
}

static int print_status(const void *message, const Options *options) {
        const Inplaced__V1__GetStatusResponse *reply = message;
        cleanup(json_put_p) json_object *node_image = NULL;
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

int command_status(const Options *options) {
        Inplaced__V1__GetStatusRequest request = INPLACED__V1__GET_STATUS_REQUEST__INIT;

        if (options->watch)
                return status_watch(options);

        return node_ask(options, &status_method, &request.base, print_status, NULL);
}
