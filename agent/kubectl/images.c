/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl inplace images
 *
 * What the status of each NodeImage says, one line for each image of a node. A table is printed as it comes,
 * so that a large cluster takes no more memory than a page of its objects.
 */

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/rfc3339.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/sets-plan.h"
#include "agent/kubectl/workload.h"
#include "agent/view/failure.h"
#include "agent/view/format.h"
#include "agent/view/output.h"
#include "agent/view/status-rows.h"
#include "agent/view/status-select.h"
#include "agent/view/table.h"
#include "agent/view/terminal.h"

#define ROWS_MAX 1000 /* before they are printed */

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "NODE" },
        { .title = "IMAGE", .may_be_cut = true, .keeps_tail = true },
        { .title = "PHASE" },
        { .title = "PROGRESS", .is_right = true },
        { .title = "SINCE", .is_right = true },
        { .title = "IMAGE ID", .is_wide = true },
        { .title = "MESSAGE", .may_be_cut = true },
};
/* clang-format on */

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

typedef struct Images {
        Session *session;
        const Flags *flags;
        Table *table;      /* NULL: -o json, yaml or name */
        json_object *list; /* NULL: a table, or names */
        size_t n_rows;     /* in the table */
        size_t n_images;
        size_t n_missing; /* nodes that were named and have no NodeImage */
} Images;

static void images_done(Images *images) {
        table_free(images->table);
        json_object_put(images->list);
}

static char *reference_of(const StatusRow *row) {
        char *text;

        return status_row_reference(row, &text) < 0 ? NULL : text;
}

/* Without the name: with it, the digest of the image's configuration looks like one to pull by. */
static const char *id_of(const StatusRow *row) {
        const char *at = strchr(row->image_id, '@');

        return at ? at + 1 : row->image_id[0] ? row->image_id : "-";
}

static int add_row(Images *images, const char *node, const StatusRow *row) {
        const bool is_wide = images->flags->format == OUTPUT_WIDE;
        cleanup(free_p) char *reference = reference_of(row);
        cleanup(free_p) char *message = failure_summary(row->message);
        const int64_t since = status_row_since(row);
        const int64_t age = session_server_sec(images->session) - since;
        FormatBuffer age_buffer;
        char progress[16];
        const char *cells[N_COLUMNS] = {
                node,
                reference,
                row->phase,
                progress,
                since > 0 ? format_age(age > 0 ? (uint64_t) age : 0, &age_buffer) : "-",
                id_of(row),
                is_wide ? row->message : message,
        };

        if (!reference || !message)
                return -ENOMEM;

        (void) snprintf(progress, sizeof(progress), "%d%%", row->progress);
        images->n_rows++;
        return table_add_row(images->table, cells);
}

static int add_item(Images *images, const char *node, const StatusRow *row) {
        cleanup(json_object_put_p) json_object *item = json_object_new_object();
        cleanup(free_p) char *reference = reference_of(row);
        const int64_t since = status_row_since(row);
        char text[RFC3339_SIZE];

        if (!item || !reference || patch_add_text(item, "node", node) < 0 ||
            patch_add_text(item, "image", reference) < 0 ||
            patch_add_text(item, "phase", row->phase) < 0 ||
            patch_add_number(item, "progress", row->progress > 0 ? (uint64_t) row->progress : 0) <
                    0 ||
            (row->image_id[0] && patch_add_text(item, "imageID", row->image_id) < 0) ||
            (row->message[0] && patch_add_text(item, "message", row->message) < 0) ||
            (since > 0 && patch_add_text(item, "since", rfc3339_format(since, text)) < 0))
                return -ENOMEM;

        return patch_append(images->list, take_ptr(item));
}

static int show_rows(Images *images, const char *node, const StatusRows *rows) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < rows->n_items; i++)
                r = images->table ? add_row(images, node, &rows->items[i])
                                  : add_item(images, node, &rows->items[i]);
        if (r >= 0 && images->n_rows >= ROWS_MAX) {
                r = table_print_more(images->table);
                images->n_rows = 0;
        }

        return r;
}

static int on_node_image(json_object *object, void *userdata) {
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        Images *images = userdata;
        const StatusSelection selection = {
                .images = images->flags->arguments,
                .n_images = (size_t) images->flags->n_arguments,
                .is_partial = true,
        };
        int r;

        if (set_is_set(object))
                return 0;

        r = status_select(object, &selection, NULL);
        if (r >= 0)
                r = status_rows_read(object, &rows);
        if (r < 0)
                return r;

        images->n_images += rows.n_items;
        if (!images->table && !images->list)
                return rows.n_items > 0 ? print_safe("nodeimage/%s", object_name(object)) : 0;

        return show_rows(images, object_name(object), &rows);
}

static int show_node(Images *images, const KubePath *all, const char *node, Error *reterr) {
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        KubePath path = *all;
        int r;

        path.name = node;
        r = session_get(images->session, &path, &object, &error);
        if (error.kind == ERROR_NOT_FOUND) {
                complain("%s", error_message(&error));
                images->n_missing++;
                return 0;
        }
        if (error.kind != ERROR_NONE)
                return error_copy(reterr, &error);

        return r < 0 ? r : on_node_image(object, images);
}

static int show_nodes(Images *images, const KubePath *all, Error *reterr) {
        cleanup(free_p) char *names = strdup(images->flags->nodes);
        char *rest = names;

        if (!names)
                return -ENOMEM;

        for (char *node; (node = strsep(&rest, ","));) {
                int r = 0;

                if (node[0])
                        r = show_node(images, all, node, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int show(Images *images, Error *reterr) {
        KubePath path = { .group = "apps.kruise.io",
                          .resource = "nodeimages",
                          .labels = images->flags->selector };
        int r;

        r = session_find_kruise(images->session, path.resource, &path.version, reterr);
        if (r < 0)
                return r;
        if (!path.version)
                return error_set(reterr, ERROR_NOT_FOUND,
                                 "%s serves no NodeImages; apply the definitions of inplaced, or "
                                 "install OpenKruise",
                                 session_target(images->session));

        return images->flags->nodes
                       ? show_nodes(images, &path, reterr)
                       : session_list(images->session, &path, on_node_image, images, reterr);
}

static int print_rest(Images *images) {
        if (images->list) {
                cleanup(json_object_put_p) json_object *tree = json_object_new_object();

                if (patch_add(tree, "items", take_ptr(images->list)) < 0)
                        return -ENOMEM;
                return output_tree(images->flags->format, tree);
        }
        if (images->n_images == 0 && images->n_missing == 0)
                complain("no images found");

        return images->table && images->n_rows > 0 ? table_print_more(images->table) : 0;
}

/* A malformed name is refused before the server is asked. */
static int check_images(const Flags *flags, Error *reterr) {
        const StatusSelection selection = { .images = flags->arguments,
                                            .n_images = (size_t) flags->n_arguments,
                                            .is_partial = true };
        cleanup(json_object_put_p) json_object *nothing = json_object_new_object();

        return nothing ? status_select(nothing, &selection, reterr) : -ENOMEM;
}

static int images_init(Images *images) {
        const OutputFormat format = images->flags->format;

        if (images->flags->wants_names)
                return 0;
        if (!output_is_document(format))
                return table_new(columns, N_COLUMNS, format == OUTPUT_WIDE, &images->table);

        images->list = json_object_new_array();
        return images->list ? 0 : -ENOMEM;
}

int kubectl_images(Session *session, const Flags *flags) {
        cleanup(images_done) Images images = { .session = session, .flags = flags };
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (flags->nodes && flags->selector) {
                complain("--nodes and a selector exclude each other");
                return EXIT_STATUS_USAGE;
        }

        r = images_init(&images);
        if (r < 0)
                return r;
        r = check_images(flags, &error);
        if (r >= 0)
                r = show(&images, &error);
        if (r < 0)
                return session_fail(session, r, &error);

        r = print_rest(&images);
        if (r < 0)
                return r;
        return exit_status_of(images.n_missing > 0, images.n_images > 0);
}
